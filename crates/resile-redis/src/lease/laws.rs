//! Laws of the accounts of several processes with the model of the server.

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::Waiting;
use resile::upstream::Resource;

use super::{Ask, Lease, TTL};
use crate::scale::Scale;
use crate::scripts::LeaseReply;
use crate::scripts::model::{Account, Model};

const NAMES: [&str; 3] = ["a", "b", "c"];
const CAPACITY: i64 = 1_000;

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
}

#[derive(Clone, Debug)]
enum Step {
    /// Spends units, also beyond the balance: a usage may exceed its reservation.
    Spend(usize, i64),
    /// Gives units of earlier reservations back.
    Refund(usize, i64),
    Exchange(usize),
    /// The server does not get the request.
    LoseRequest(usize),
    /// The process does not get the reply.
    LoseReply(usize),
    /// The process uses its share for a time.
    Share(usize, u64),
    Wait(u64),
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
        1 => (who, 1..millis).prop_map(|(who, millis)| Step::Share(who, millis)),
        2 => (1..millis).prop_map(Step::Wait),
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
        let process = |_: &&str| Process {
            lease: Lease::new(Resource::Budget, scale, 0),
            balance: 0,
            spent: 0,
        };
        let processes = NAMES.iter().map(process).collect();
        Self { processes, server: Account::default(), now: Duration::from_secs(1) }
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
                    process.balance += process.lease.share(process.balance, waiting, 0.5, 2, now);
                }
                self.now += Duration::from_millis(millis);
            }
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn spent(&self) -> i64 {
        self.processes.iter().map(|process| process.spent).sum()
    }
}

/// Runs the steps. Then all processes leave. Returns the units of the server.
fn run(scale: Scale, steps: &[Step]) -> Result<(i64, i64), TestCaseError> {
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
    Ok((i64::try_from(world.server.level).unwrap(), world.spent()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// The units spent by the processes and the units left at the server always add up to the
    /// capacity, whatever requests and replies are lost.
    #[test]
    fn nothing_is_lost_and_nothing_is_invented(
        steps in prop::collection::vec(step(30), 1..60),
        scale in prop_oneof![Just(SCALE), Just(WITH_SHARE)],
    ) {
        let (left, spent) = run(scale, &steps)?;
        prop_assert_eq!(left + spent, CAPACITY);
    }

    /// The sum holds for processes that are silent for longer than a lease. The server remembers
    /// them for thirty leases.
    #[test]
    fn a_silence_loses_nothing_and_invents_nothing(
        steps in prop::collection::vec(step(4_000), 1..15),
        scale in prop_oneof![Just(SCALE), Just(WITH_SHARE)],
    ) {
        let (left, spent) = run(scale, &steps)?;
        prop_assert_eq!(left + spent, CAPACITY);
    }
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
    let small = budget.with_capacity(9);
    assert_eq!(Scale::cost_of(&small), 9_000_000, "a full budget pays");
}
