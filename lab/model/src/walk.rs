//! Random walks through the model, whose exchanges also run on a real server.

use redis::{Connection, RedisError, cmd};
use resile::time::{ManualTimer, Timer as _};

use crate::event::Event;
use crate::scripts::real::Real;
use crate::scripts::{LeaseRequest, Request as _};
use crate::world::{Exchange, Rules, World};

/// The events of one walk, and the faults among them.
const EVENTS: usize = 200;
const FAULTS: u32 = 12;
/// One event in so many is a fault, as long as there are some.
const ONE_IN: u64 = 12;

/// Every kind of fault, because the script must answer as its model does after each.
const KINDS: &[Event] = &[
    Event::Repeat(0),
    Event::Overtake(0),
    Event::LoseRequest(0),
    Event::LoseReply(0),
    Event::Die(0),
    Event::Stop(0),
    Event::Leave(0),
    Event::GoAway,
    Event::Restart,
    Event::FailOver,
    Event::StepBack,
    Event::StepForward,
];

/// The keys of the older copies of the account, as the model has them.
const COPIES: [&str; 2] = ["copy 0", "copy 1"];

/// Changes of the script that a walk must find: what is broken, a part of the text, and the change.
pub(crate) const BROKEN: [(&str, &str, &str); 9] = [
    (
        "what a silent member may have spent comes back",
        "r.granted - r.spent - lost",
        "r.granted - r.spent",
    ),
    (
        "a silent member that returns is charged twice",
        "level = moved(level, held)",
        "level = level",
    ),
    ("a sweep comes too late", "now - swept >= ttl / 2", "now - swept > ttl / 2"),
    ("one member ends the return of all", "math.min(fleet, back + 1)", "fleet"),
    ("nothing is withheld during a return", "* (fleet - back)", "* 0"),
    ("a member that leaves stays", "if leaves then\n    redis", "if false then\n    redis"),
    (
        "a debt is forgiven",
        "level = moved(level, granted - spent + own)",
        "level = moved(level, 0)",
    ),
    ("a turn is free", "math.ceil(given / turn) * step", "0"),
    ("a newcomer restores nothing", "memory or capacity, now, now", "capacity, now, now"),
];

/// A server that takes the exchanges of walks.
pub(crate) struct Walk<'c> {
    connection: &'c mut Connection,
    script: Real,
}

impl<'c> Walk<'c> {
    pub(crate) fn new(connection: &'c mut Connection) -> Self {
        Self { connection, script: Real::new::<LeaseRequest<'_>>() }
    }

    /// Returns walks over a script with one part changed.
    pub(crate) fn broken(connection: &'c mut Connection, part: &str, change: &str) -> Self {
        let text = LeaseRequest::TEXT;
        assert_eq!(text.matches(part).count(), 1, "`{part}` is once in the script");
        let script = Real::with_text::<LeaseRequest<'_>>(&text.replace(part, change));
        Self { connection, script }
    }

    /// Walks once. Returns the number of exchanges, or what differs and the events up to there.
    pub(crate) fn run(&mut self, seed: u64) -> Result<u64, String> {
        let draw = ManualTimer::with_seed(seed);
        let below = |bound: u64| draw.draw_within(0..=bound - 1);
        let members = usize::try_from(below(3)).unwrap_or(0) + 1;
        let is_greedy = below(2) == 0;
        let mut world = World::new(members, FAULTS);
        let (mut exchanges, mut events, mut differs) = (0, Vec::new(), None);
        self.begin().map_err(|error| error.to_string())?;
        for _ in 0..EVENTS {
            let mut next = Vec::new();
            world.events(is_greedy, KINDS, &mut next);
            let is_fault = below(ONE_IN) == 0 && next.iter().any(|event| event.is_fault());
            next.retain(|event| event.is_fault() == is_fault);
            let Some(last) = (next.len() as u64).checked_sub(1) else { break };
            let nth = usize::try_from(draw.draw_within(0..=last)).unwrap_or(0);
            events.push(next[nth]);
            world.happen(next[nth], Rules::Right, &mut |exchange| {
                exchanges += 1;
                let Exchange { now, request, reply, store } = exchange;
                let compared = self.script.compare(self.connection, now, &request, &reply, store);
                differs = differs.take().or(compared.err());
            });
            let followed = self.follow(next[nth]).map_err(|error| error.to_string());
            if let Some(why) = differs.take().or(followed.err()) {
                return Err(format!("{why}\n  after {events:?}"));
            }
        }
        Ok(exchanges)
    }

    /// Empties the server.
    fn begin(&mut self) -> Result<(), RedisError> {
        cmd("DEL").arg(self.script.key).arg(&COPIES).query(self.connection)
    }

    /// Does to the server what an event without an exchange does to the store of the model.
    fn follow(&mut self, event: Event) -> Result<(), RedisError> {
        let key = self.script.key;
        match event {
            Event::Tick => {
                self.copy(COPIES[1], COPIES[0])?;
                self.copy(key, COPIES[1])
            }
            Event::Restart => self.begin(),
            Event::FailOver => {
                self.copy(COPIES[0], key)?;
                self.copy(key, COPIES[1])
            }
            _ => Ok(()),
        }
    }

    /// Copies a key with its life, or its absence.
    fn copy(&mut self, from: &str, to: &str) -> Result<(), RedisError> {
        let () = cmd("DEL").arg(to).query(self.connection)?;
        cmd("COPY").arg(from).arg(to).query(self.connection)
    }
}
