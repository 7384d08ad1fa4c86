//! Many processes on one limit, in virtual time: who gets how much of it.

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::{Dimension, Rate, Waiting};
use resile::upstream::Resource;

use super::{Ask, Lease, TTL};
use crate::scale::Scale;
use crate::scripts::LeaseReply;
use crate::scripts::model::{Account, Model};

/// The calls of a process.
#[derive(Clone, Copy, Debug)]
enum Calls {
    /// Callers that each begin the next call this long after an admission.
    Loops { callers: u32, pause: Duration },
    /// Calls at a steady rate, in calls a second. A call waits for at most a second.
    Open(f64),
}

/// A process in virtual time.
struct Process {
    name: String,
    calls: Calls,
    weight: u32,
    lease: Lease,
    balance: i64,
    /// The times at which calls came that wait now, in order.
    waiting: Vec<Duration>,
    /// The times at which callers in loops come back.
    back: Vec<Duration>,
    arrivals: f64,
    admitted: Vec<Duration>,
    /// The exchange that runs: its arrival at the server, the end, and the answer.
    exchange: Option<(Duration, Duration, Ask, Option<LeaseReply>)>,
}

pub(super) struct World {
    scale: Scale,
    processes: Vec<Process>,
    account: Account,
    now: Duration,
    trip: Duration,
}

/// The step of the virtual time.
const TICK: Duration = Duration::from_millis(2);
/// The time that the figures leave out.
const WARM_UP: Duration = Duration::from_secs(3);
const LENGTH: Duration = Duration::from_secs(10);

impl World {
    fn new(rate: Rate, calls: impl IntoIterator<Item = (Calls, u32)>) -> Self {
        let scale = Scale::of_rate(&rate);
        let process = |(number, (calls, weight)): (usize, (Calls, u32))| Process {
            name: format!("p{number}"),
            calls,
            weight,
            lease: Lease::new(Resource::Quota(Dimension::Requests), scale, 0),
            balance: 0,
            waiting: Vec::new(),
            back: match calls {
                Calls::Loops { callers, .. } => vec![Duration::ZERO; callers as usize],
                Calls::Open(_) => Vec::new(),
            },
            // Not all at one time.
            arrivals: number as f64 * 0.37 % 1.0,
            admitted: Vec::new(),
            exchange: None,
        };
        let processes = calls.into_iter().enumerate().map(process).collect();
        let (account, now) = (Account::default(), Duration::from_secs(1));
        Self { scale, processes, account, now, trip: Duration::from_millis(2) }
    }

    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        while self.now < end {
            self.tick();
            self.now += TICK;
        }
    }

    fn tick(&mut self) {
        let (now, members) = (self.now, u32::try_from(self.processes.len()).unwrap());
        for process in &mut self.processes {
            process.call(now);
            process.exchange(now, self.trip, members, &self.scale, &mut self.account);
            process.admit(now);
        }
    }

    /// Returns the admissions of each process in a time after the warm-up.
    fn counts(&self, from: Duration, length: Duration) -> Vec<f64> {
        let from = Duration::from_secs(1) + from;
        let count = |process: &Process| {
            let within = |at: &&Duration| (from..from + length).contains(*at);
            process.admitted.iter().filter(within).count() as f64
        };
        self.processes.iter().map(count).collect()
    }
}

impl Process {
    /// Lets calls come and give up.
    fn call(&mut self, now: Duration) {
        match self.calls {
            Calls::Loops { .. } => {
                let come = self.back.iter().filter(|at| **at <= now).count();
                self.back.retain(|at| *at > now);
                self.waiting.extend(std::iter::repeat_n(now, come));
            }
            Calls::Open(per_second) => {
                self.arrivals += per_second * TICK.as_secs_f64();
                while self.arrivals >= 1.0 {
                    self.arrivals -= 1.0;
                    self.waiting.push(now);
                }
                self.waiting.retain(|at| now - *at < Duration::from_secs(1));
            }
        }
        self.admit(now);
    }

    fn admit(&mut self, now: Duration) {
        let fit = usize::try_from(self.balance.max(0)).unwrap().min(self.waiting.len());
        self.waiting.drain(..fit);
        self.balance -= fit as i64;
        self.admitted.extend(std::iter::repeat_n(now, fit));
        if let Calls::Loops { pause, .. } = self.calls {
            self.back.extend(std::iter::repeat_n(now + pause, fit));
        }
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        waiting.all = self.waiting.len() as u64;
        waiting.first = waiting.all.min(1);
        waiting
    }

    fn exchange(
        &mut self,
        now: Duration,
        trip: Duration,
        members: u32,
        scale: &Scale,
        account: &mut Account,
    ) {
        if let Some((arrives, _, ask, reply)) = &mut self.exchange {
            if reply.is_none() && *arrives <= now {
                let request = ask.request(&self.name, scale, TTL, self.weight);
                *reply = Some(account.step(now.as_micros().try_into().unwrap(), &request));
            }
        }
        if let Some((_, ends, ask, Some(reply))) = self.exchange {
            if ends <= now {
                self.balance += self.lease.answered(&ask, &reply, now);
                self.exchange = None;
                self.admit(now);
            }
        }
        let waiting = self.waiting();
        self.lease.observe(self.balance, waiting, now);
        let due = self.lease.due_at(self.balance, waiting, members);
        if self.exchange.is_none() && due.is_some_and(|at| at <= now) {
            let (ask, surplus) = self.lease.ask(self.balance, waiting, members, now);
            self.balance -= surplus;
            self.exchange = Some((now + trip / 2, now + trip, ask, None));
        }
    }
}

/// Returns Jain's index: 1 if all are equal, and 1/n if one has all.
fn jain(counts: &[f64]) -> f64 {
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|n| n * n).sum::<f64>());
    sum * sum / (counts.len() as f64 * squares)
}

/// Runs the processes. Returns the admissions of each in ten seconds.
fn shares(rate: Rate, calls: impl IntoIterator<Item = (Calls, u32)>) -> Vec<f64> {
    let mut world = World::new(rate, calls);
    world.run(WARM_UP + LENGTH);
    world.counts(WARM_UP, LENGTH)
}

const LOOPS: Calls = Calls::Loops { callers: 20, pause: Duration::ZERO };
/// One caller whose calls take 20 ms, as in the guide.
const GUIDE: Calls = Calls::Loops { callers: 1, pause: Duration::from_millis(20) };
/// One caller whose calls take no time.
const TIGHT: Calls = Calls::Loops { callers: 1, pause: Duration::ZERO };

fn limit(rate: &Rate) -> f64 {
    f64::from(rate.count()) / rate.period().as_secs_f64() * LENGTH.as_secs_f64()
}

/// Checks that the whole limit was used and no more. Two calls may be of the time before.
fn is_exact(counts: &[f64], rate: &Rate) {
    let (used, limit) = (counts.iter().sum::<f64>(), limit(rate));
    assert!(used >= 0.985 * limit && used <= 1.005 * limit + 2.0, "{used}, {rate:?}: {counts:?}");
}

/// Equal processes get equal parts of a limit, however their calls come.
#[test]
fn equals_get_equal_parts() {
    for (per_second, burst) in [(20, 20), (40, 40), (40, 4), (200, 20), (1_000, 1_000)] {
        let rate = Rate::per_second(per_second).with_burst(burst);
        for members in [4_u32, 12] {
            let open = Calls::Open(2.0 * f64::from(per_second) / f64::from(members));
            let guide = (per_second <= 10 * members).then_some(GUIDE);
            for calls in [Some(LOOPS), Some(open), guide].into_iter().flatten() {
                let counts = shares(rate, std::iter::repeat_n((calls, 1), members as usize));
                let jain = jain(&counts);
                assert!(jain >= 0.98, "{jain} {members} members, {calls:?}, {rate:?}: {counts:?}");
                is_exact(&counts, &rate);
            }
        }
    }
}

/// A process that wants less than its part gets what it wants. The others have the rest.
#[test]
fn a_small_demand_is_served_beside_a_large_one() {
    let rate = Rate::per_second(20).with_burst(4);
    for large in [Calls::Open(40.0), LOOPS] {
        let counts = shares(rate, [(Calls::Open(4.0), 1), (large, 1), (large, 1)]);
        is_exact(&counts, &rate);
        assert!((38.0..=42.0).contains(&counts[0]), "{counts:?}");
        assert!((counts[1] - counts[2]).abs() <= 4.0, "{counts:?}");
    }
}

#[test]
fn parts_follow_the_weights() {
    let rate = Rate::per_second(70).with_burst(7);
    let counts = shares(rate, [(LOOPS, 1), (LOOPS, 2), (LOOPS, 4)]);
    is_exact(&counts, &rate);
    for (count, expected) in counts.iter().zip([100.0, 200.0, 400.0]) {
        assert!((count - expected).abs() <= 0.04 * expected, "{counts:?}");
    }
}

/// The others make room within a second for a process whose calls begin.
#[test]
fn a_newcomer_has_its_part_within_a_second() {
    let rate = Rate::per_second(40).with_burst(4);
    let mut world = World::new(rate, [(LOOPS, 1), (LOOPS, 1), (LOOPS, 1), (LOOPS, 1)]);
    let late = std::mem::take(&mut world.processes[3].back);
    world.run(WARM_UP);
    world.processes[3].back = late;
    world.run(WARM_UP);
    let counts = world.counts(WARM_UP + Duration::from_secs(1), Duration::from_secs(2));
    assert!(counts.iter().all(|count| (count - 20.0).abs() <= 2.0), "{counts:?}");
    let first = world.counts(WARM_UP, Duration::from_secs(1));
    assert!(first[3] >= 7.0, "{first:?}");
}

/// A lease covers the time until the next exchange, so a small burst wastes nothing.
#[test]
fn a_small_burst_wastes_nothing() {
    for members in [1, 4] {
        for calls in [TIGHT, LOOPS] {
            let rate = Rate::per_second(200).with_burst(2);
            is_exact(&shares(rate, std::iter::repeat_n((calls, 1), members)), &rate);
        }
    }
    let counts = shares(Rate::per_second(200).with_burst(2), [(GUIDE, 1)]);
    assert!(counts[0] >= 490.0, "{counts:?} of 500: a call takes 20 ms");
}

/// A hundred members that all want more: each asks at most ten times a second.
#[test]
fn a_hundred_members_share_equally() {
    let rate = Rate::per_second(200).with_burst(20);
    let counts = shares(rate, std::iter::repeat_n((LOOPS, 1), 100));
    is_exact(&counts, &rate);
    assert!(jain(&counts) >= 0.99, "{counts:?}");
}

/// Returns the parts of a limit so that no demand gets more than another one of the same weight that
/// lacks something.
fn max_min(limit: f64, demands: &[(f64, f64)]) -> Vec<f64> {
    let (mut low, mut high) = (0.0, limit);
    for _ in 0..60 {
        let level = f64::midpoint(low, high);
        let sum: f64 = demands.iter().map(|(demand, weight)| demand.min(level * weight)).sum();
        if sum < limit { low = level } else { high = level }
    }
    demands.iter().map(|(demand, weight)| demand.min(low * weight)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// All processes get their max-min fair parts, whatever they want.
    #[test]
    fn parts_are_fair_by_demand(
        per_second in 20_u32..300,
        burst in 1_u32..60,
        open in prop::collection::vec((1.0_f64..200.0, 1_u32..5), 1..6),
        loops in prop::collection::vec(1_u32..5, 0..4),
    ) {
        let rate = Rate::per_second(per_second).with_burst(burst);
        let calls = open.iter().map(|(rate, weight)| (Calls::Open(*rate), *weight));
        let calls: Vec<_> = calls.chain(loops.iter().map(|weight| (LOOPS, *weight))).collect();
        let demands: Vec<_> = open.iter().map(|(rate, weight)| (*rate, f64::from(*weight)))
            .chain(loops.iter().map(|weight| (1e6, f64::from(*weight)))).collect();
        let counts = shares(rate, calls);
        let fair = max_min(f64::from(per_second), &demands);
        for (count, fair) in counts.iter().zip(&fair) {
            let fair = fair * LENGTH.as_secs_f64();
            prop_assert!((count - fair).abs() <= 0.07 * fair + 8.0, "{:?} of {:?}", counts, fair);
        }
        let (used, most) = (counts.iter().sum::<f64>(), fair.iter().sum::<f64>() * 10.0);
        prop_assert!(used >= 0.975 * most - 2.0 && used <= 1.005 * limit(&rate) + 2.0);
    }
}
