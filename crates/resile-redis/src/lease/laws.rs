//! Laws of the accounts of several processes with the model of the server.

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::Waiting;
use resile::upstream::Resource;

use super::{Ask, Lease, TTL};
use crate::scale::{Scale, TOKEN};
use crate::scripts::LeaseReply;
use crate::scripts::model::{Account, Model};

const NAMES: [&str; 3] = ["a", "b", "c"];
const CAPACITY: i64 = 1_000;
/// The cost of a retry.
const FLOOR: i64 = 10;

/// A process: its account and what it has.
struct Process {
    lease: Lease,
    balance: i64,
    spent: i64,
}

struct World {
    processes: Vec<Process>,
    server: Account,
    now: Duration,
    /// The units that processes gave themselves.
    shared: i64,
}

#[derive(Clone, Debug)]
enum Step {
    /// Spends units, also beyond the balance: a usage may exceed its reservation.
    Spend(usize, i64),
    /// Gives units of earlier reservations back.
    Refund(usize, i64),
    /// Adds units that nobody had, as a success does to a budget.
    Deposit(usize, i64),
    Exchange(usize),
    /// The server does not get the request.
    LoseRequest(usize),
    /// The process does not get the reply.
    LoseReply(usize),
    /// The process uses its share for a time.
    Share(usize, u64),
    Wait(u64),
    /// The process has no calls, or has some again.
    Rest(usize, bool),
}

/// A step that takes less than `millis`.
fn step(millis: u64) -> impl Strategy<Value = Step> {
    let who = 0..NAMES.len();
    prop_oneof![
        4 => (who.clone(), 0_i64..60).prop_map(|(who, units)| Step::Spend(who, units)),
        1 => (who.clone(), 0_i64..20).prop_map(|(who, units)| Step::Refund(who, units)),
        4 => who.clone().prop_map(Step::Exchange),
        1 => who.clone().prop_map(Step::LoseRequest),
        2 => who.clone().prop_map(Step::LoseReply),
        1 => (who.clone(), 1..millis).prop_map(|(who, millis)| Step::Share(who, millis)),
        2 => (1..millis).prop_map(Step::Wait),
        1 => (who, any::<bool>()).prop_map(|(who, rests)| Step::Rest(who, rests)),
    ]
}

/// A limit without refill: every unit can be counted.
const SCALE: Scale = Scale {
    burst: CAPACITY,
    most: CAPACITY,
    capacity: CAPACITY,
    calm: CAPACITY,
    rate: 0,
    parts: 1,
    per_second: 0.0,
};

/// A limit whose share brings units while the server is away.
const WITH_SHARE: Scale = Scale { per_second: 100.0, ..SCALE };

impl World {
    fn new(scale: Scale) -> Self {
        // One of them wants the cost of its next retries.
        Self::with_floors(scale, [0, FLOOR, 0])
    }

    fn with_floors(scale: Scale, floors: [i64; NAMES.len()]) -> Self {
        let process = |floor| Process {
            lease: Lease::new(Resource::Budget, scale, floor),
            balance: 0,
            spent: 0,
        };
        let processes = floors.into_iter().map(process).collect();
        let (server, now) = (Account::default(), Duration::from_secs(1));
        Self { processes, server, now, shared: 0 }
    }

    fn ask(&mut self, who: usize) -> Ask {
        let process = &mut self.processes[who];
        process.lease.observe(process.balance, Waiting::default(), self.now);
        let (ask, surplus) = process.lease.ask(process.balance, Waiting::default(), 3, self.now);
        process.balance -= surplus;
        ask
    }

    fn serve(&mut self, who: usize, ask: &Ask, ttl: Duration) -> LeaseReply {
        let request = ask.request(NAMES[who], &SCALE, ttl, 1);
        let micros = i128::try_from(self.now.as_micros()).unwrap();
        self.server.step(micros, &request)
    }

    fn accept(&mut self, who: usize, ask: &Ask, reply: &LeaseReply) {
        let process = &mut self.processes[who];
        process.balance += process.lease.answered(ask, reply, self.now);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Spend(who, units) => {
                self.processes[who].balance -= units;
                self.processes[who].spent += units;
            }
            Step::Refund(who, units) => {
                let units = units.min(self.processes[who].spent);
                self.processes[who].balance += units;
                self.processes[who].spent -= units;
            }
            Step::Deposit(who, units) => {
                self.processes[who].balance += units;
                self.processes[who].spent -= units;
            }
            Step::Exchange(who) => {
                let ask = self.ask(who);
                let reply = self.serve(who, &ask, TTL);
                self.accept(who, &ask, &reply);
            }
            Step::LoseRequest(who) => {
                self.ask(who);
            }
            Step::LoseReply(who) => {
                let ask = self.ask(who);
                self.serve(who, &ask, TTL);
            }
            Step::Share(who, millis) => {
                let process = &mut self.processes[who];
                for now in [self.now, self.now + Duration::from_millis(millis)] {
                    let waiting = Waiting::default();
                    let change = process.lease.share(process.balance, waiting, 0.5, 2, now);
                    process.balance += change;
                    self.shared += change.max(0);
                }
                self.now += Duration::from_millis(millis);
            }
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
            Step::Rest(who, rests) => self.processes[who].lease.rest(rests),
        }
    }

    fn spent(&self) -> i64 {
        self.processes.iter().map(|process| process.spent).sum()
    }
}

/// Runs the steps. Then all processes leave. The units of the server and those that were spent add
/// up to the capacity, and the sum is returned. Own units only empty the account, so it may be larger by
/// some of them.
fn run(scale: Scale, steps: &[Step]) -> Result<i64, TestCaseError> {
    let mut world = World::new(scale);
    for who in 0..NAMES.len() {
        world.take(&Step::Exchange(who));
    }
    for step in steps {
        world.take(step);
        // A level at a bound forgets units, which is right but cannot be counted.
        prop_assume!(world.spent().abs() < CAPACITY);
        for process in &world.processes {
            prop_assert_eq!(process.lease.spent(process.balance), process.spent);
        }
    }
    for who in 0..NAMES.len() {
        world.take(&Step::Exchange(who));
    }
    for who in 0..NAMES.len() {
        let ask = world.processes[who].lease.leave(world.processes[who].balance);
        world.serve(who, &ask, Duration::ZERO);
    }
    let sum = i64::try_from(world.server.level).unwrap() + world.spent();
    prop_assert!((CAPACITY..=CAPACITY + world.shared).contains(&sum), "{sum} {}", world.shared);
    Ok(sum)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// The units add up whatever requests and replies are lost.
    #[test]
    fn nothing_is_lost_and_nothing_is_invented(
        steps in prop::collection::vec(step(30), 1..60),
        scale in prop_oneof![Just(SCALE), Just(WITH_SHARE)],
    ) {
        run(scale, &steps)?;
    }

    /// The units add up for processes that are silent for longer than a lease. The server remembers
    /// them for thirty leases.
    #[test]
    fn a_silence_loses_nothing_and_invents_nothing(
        steps in prop::collection::vec(step(4_000), 1..15),
        scale in prop_oneof![Just(SCALE), Just(WITH_SHARE)],
    ) {
        run(scale, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Without a refill the level and all leases together are at most the capacity, whatever successes
    /// add. Beyond it a process keeps only the cost of a retry that its own successes have paid for, and
    /// nobody does so while the others leave room.
    #[test]
    fn the_level_and_the_leases_are_at_most_the_capacity(
        steps in prop::collection::vec(
            prop_oneof![
                2 => step(3_000),
                1 => (0..NAMES.len(), 0..CAPACITY).prop_map(|(who, units)| Step::Deposit(who, units)),
            ],
            1..60,
        ),
        floor in prop_oneof![Just(0), Just(FLOOR), Just(CAPACITY / 2)],
    ) {
        let mut world = World::with_floors(SCALE, [floor; NAMES.len()]);
        for step in steps {
            world.take(&step);
            let all = world.server.level.max(0) + world.server.held();
            let members = i64::try_from(NAMES.len()).unwrap();
            let most = CAPACITY + if floor == 0 { 0 } else { floor * (members - 1) };
            prop_assert!(all <= most.into(), "{all} after {step:?}");
        }
        // A process gives back what it no longer needs, so at most the costs of the next retries are left.
        for _ in 0..100 {
            for who in 0..NAMES.len() {
                world.take(&Step::Wait(100));
                world.take(&Step::Exchange(who));
            }
        }
        let all = world.server.level.max(0) + world.server.held();
        let most = CAPACITY.max(floor * 3) + 3; // each demand is rounded up
        prop_assert!(all <= most.into(), "{all} at the end");
    }
}

/// A process gives itself a unit while the account is empty. It is the case that an earlier form of the
/// law, without own units, did not allow.
#[test]
fn own_units_only_empty_the_account() {
    use Step::{Exchange, LoseReply, LoseRequest, Share, Spend};
    let steps = [
        Spend(0, 15),
        Spend(1, 98),
        Spend(0, 42),
        Spend(2, 67),
        Share(0, 1),
        Spend(1, 49),
        LoseReply(2),
        Spend(0, 51),
        Spend(1, 22),
        Spend(0, 101),
        Exchange(0),
        Exchange(0),
        Spend(0, 56),
        Share(0, 20),
        Spend(0, 56),
        Spend(1, 22),
        Exchange(1),
        Spend(0, 38),
        LoseRequest(0),
    ];
    assert_eq!(run(WITH_SHARE, &steps).unwrap(), CAPACITY + 1);
}

/// A process that rests holds no more than its floor, says what it has used, and is silent then. Its
/// first use after the rest is charged, also if it was of units that the server took back.
#[test]
fn a_process_at_rest_is_silent_and_owes_nothing() {
    let mut world = World::new(SCALE);
    world.processes[0].lease = Lease::new(Resource::Budget, SCALE, FLOOR);
    for step in [Step::Exchange(0), Step::Spend(0, 7), Step::Rest(0, true)] {
        world.take(&step);
    }
    let due = |world: &World| {
        let process = &world.processes[0];
        process.lease.due_at(process.balance, Waiting::default(), 3)
    };
    let mut exchanges = 0;
    while let Some(at) = due(&world) {
        world.now = at;
        world.take(&Step::Exchange(0));
        exchanges += 1;
        assert!(exchanges < 4, "{:?}", world.processes[0].lease);
    }
    assert_eq!(world.processes[0].balance, FLOOR);

    // The lease ends, and another process may have all that is left.
    world.take(&Step::Wait(5_000));
    world.take(&Step::Exchange(1));
    let level = i64::try_from(world.server.level).unwrap();
    assert_eq!(level + world.processes[1].balance, CAPACITY - 7);

    world.take(&Step::Spend(0, FLOOR));
    world.take(&Step::Rest(0, false));
    assert!(due(&world).is_some_and(|at| at <= world.now));
    let ask = world.ask(0);
    world.serve(0, &ask, TTL);
    let level = i64::try_from(world.server.level).unwrap();
    let held = world.processes[1].balance + ask.want;
    assert_eq!(level + held, CAPACITY - 7 - FLOOR);
}

/// A process always wants the cost of its dearest retry, and asks as soon as it has less. Otherwise
/// it would never retry, never spend and so never want more.
#[test]
fn a_process_asks_for_the_cost_of_a_retry() {
    let budget = resile::Budget::aws();
    let (scale, cost) = (Scale::of_budget(&budget), Scale::cost_of(&budget));
    assert_eq!(cost, 14_000_000);
    let lease = Lease::new(Resource::Budget, scale, cost);
    let nobody = Waiting::default();
    for members in [1, 50, 1_000] {
        assert!(lease.want(nobody, members) >= cost);
        assert!(lease.low(nobody, members) >= cost);
        let share = 1.0 / f64::from(members);
        assert!(i64::try_from(lease.ceiling(share)).unwrap() >= cost);
    }
    let mut lease = lease;
    lease.mode.answered(Duration::ZERO, false, TTL);
    let mut wanted = |tokens, members| {
        lease.level = Some(tokens * TOKEN);
        (lease.want(nobody, members), lease.low(nobody, members))
    };
    // While the fleet has plenty, the next failures of the same exchange can be retried too.
    assert_eq!(wanted(500, 4), (4 * cost, 2 * cost));
    assert_eq!(wanted(500, 20), (2 * cost, cost), "a part of the level, in whole retries");
    assert_eq!(wanted(69, 4), (cost, cost));
    assert_eq!(wanted(-500, 4), (cost, cost));
    let small = budget.with_capacity(9);
    assert_eq!(Scale::cost_of(&small), 9_000_000, "a full budget pays");
}
