//! The faults that come together, and what must hold in spite of them.

use stateright::{Model, Property};

use crate::event::Event;
use crate::world::{REFILL, Rules, World};

/// The faults of one run, their number and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    pub(crate) members: usize,
    pub(crate) kinds: &'static [Event],
    pub(crate) faults: u32,
    pub(crate) ticks: i64,
    /// True if calls use all units at once. A run may then be longer.
    pub(crate) is_greedy: bool,
    /// True if all members lose the server together. Then their shares are no excess.
    pub(crate) is_outage: bool,
}

/// The property that a run uses the whole limit up to its end, but for the refill of its first tick. The
/// first leases are the whole burst. The account does not know when in that tick they were used: a
/// provider whose burst was full until the end of the tick had no room for the refill either.
pub(crate) const REACHED: &str = "the whole limit is used";

const NETWORK: &[Event] = &[Event::Repeat(0), Event::LoseRequest(0), Event::LoseReply(0)];
const MEMBERS: &[Event] = &[Event::Die(0), Event::Stop(0), Event::Leave(0)];

const OUTAGE: &[Event] = &[Event::GoAway];

const fn right(name: &'static str, kinds: &'static [Event], faults: u32, ticks: i64) -> Scenario {
    let (rules, members) = (Rules::Right, 2);
    Scenario { name, rules, members, kinds, faults, ticks, is_greedy: false, is_outage: false }
}

const fn greedy(scenario: Scenario) -> Scenario {
    Scenario { is_greedy: true, ..scenario }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    right("no fault", &[], 0, 4),
    greedy(Scenario { members: 3, ..right("three members", &[], 0, 3) }),
    right("a network that loses and repeats", NETWORK, 1, 4),
    greedy(right("the same twice, for a longer time", NETWORK, 2, 6)),
    right("requests in the wrong order", &[Event::Overtake(0)], 2, 3),
    right("members that die, stop and leave", MEMBERS, 1, 3),
    greedy(right("the same for a longer time", MEMBERS, 1, 6)),
    right("a server that starts again, empty", &[Event::Restart], 1, 4),
    right("a fail-over to an older copy", &[Event::FailOver], 1, 4),
    right("a clock that steps back", &[Event::StepBack], 1, 4),
    greedy(right("a clock that steps back twice", &[Event::StepBack], 2, 6)),
    right("a clock that steps forward", &[Event::StepForward], 1, 4),
    greedy(Scenario { is_outage: true, ..right("an outage", OUTAGE, 1, 7) }),
];

pub(crate) const TWINS: &[Scenario] = &[
    Scenario { rules: Rules::Deltas, ..right("broken: no sums", NETWORK, 2, 7) },
    Scenario { rules: Rules::LocalClocks, ..right("broken: clocks of members", &[], 0, 5) },
    greedy(Scenario {
        rules: Rules::GrantsFirst,
        is_outage: true,
        ..right("broken: grants before reports", OUTAGE, 1, 7)
    }),
];

impl Scenario {
    pub(crate) fn is_twin(&self) -> bool {
        self.rules != Rules::Right
    }
}

impl Model for Scenario {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.members, self.faults)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        world.events(self.is_greedy, self.kinds, events);
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut next = world.clone();
        next.happen(event, self.rules, &mut |_| {});
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "calls use no more than the limit and its burst",
                |scenario: &Self, world: &World| {
                    if scenario.is_outage {
                        // The leases, and a quarter of a second of the limit.
                        let members = i64::try_from(scenario.members).unwrap_or(i64::MAX);
                        world.excess() <= REFILL / 2 + members
                    } else {
                        world.unexplained() <= 0
                    }
                },
            ),
            Property::sometimes(REACHED, |scenario: &Self, world: &World| {
                // The last unit arrives a little later than at the tick.
                scenario.is_twin()
                    || world.ticks() == scenario.ticks && world.excess() >= -1 - REFILL
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.ticks() <= self.ticks
    }
}
