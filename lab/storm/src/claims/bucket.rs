//! A token bucket keeps the benefit of retries without their cost (Brooker, "Fixing retries with
//! token buckets and circuit breakers", 2022).
//!
//! A server fails each request at random with probability `f`. 100 clients make 10 calls a second
//! each and retry at once.

use std::time::Duration;

use rand::RngExt;
use resile::policy::Decision;
use resile::{Attempt, Backoff, Budget, RetryPolicy, Verdict};

use super::Published::{AtMost, PlusMinus};
use super::sim::{Agenda, exponential, on_all_cores, seeded};
use super::{Check, Progress, Size};

const CLIENTS: usize = 100;
const RATE: f64 = 10.0;
const HOP: f64 = 0.01;
const DEPOSIT: f64 = 0.1;
/// The capacity of the bucket in the source.
const SMALL: u32 = 5;
const THREE_MORE: RetryPolicy = RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());

enum Event {
    Arrival(usize),
    /// An answer reaches a client.
    Answer(usize, Attempt),
}

/// The figures of one run, in percent of all calls. The level of the buckets is the mean at the
/// calls of the second half, as a share of the capacity.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub f: f64,
    pub success: f64,
    pub load: f64,
    retries: u32,
    level: f64,
}

#[derive(Debug)]
pub struct Bucket {
    /// The figures by failure rate: without retries, with three, and with three from a bucket.
    pub none: Vec<Measured>,
    pub three: Vec<Measured>,
    pub saved: Vec<Measured>,
    /// The figures of the default budget of the crate at low failure rates.
    default: Vec<Measured>,
    /// The figures at total failure, by the capacity of the buckets.
    spent: Vec<(u32, Measured)>,
    /// The figures around the break-even.
    levels: Vec<Measured>,
}

fn run(f: f64, policy: &RetryPolicy, capacity: Option<u32>, until: u64) -> Measured {
    let mut rng = seeded(3);
    let new = |capacity| Budget::new().with_capacity(capacity).with_deposit(DEPOSIT);
    let budgets: Option<Vec<Budget>> =
        capacity.map(|held| (0..CLIENTS).map(|_| new(held)).collect());
    let mut agenda = Agenda::new();
    let (mut calls, mut sent, mut good) = (0, 0, 0);
    let (mut met, mut held) = (0, 0.0);
    for client in 0..CLIENTS {
        agenda.after(exponential(1.0 / RATE, &mut rng), Event::Arrival(client));
    }
    let end = Duration::from_secs(until);
    // The run waits for all requests in flight at the end.
    while let Some(event) = agenda.next_before(Duration::MAX) {
        let (client, next) = match event {
            Event::Arrival(client) => {
                if agenda.now() >= end {
                    continue;
                }
                // By the second half, the initial level has no effect.
                if let Some(budgets) = budgets.as_ref().filter(|_| agenda.now() >= end / 2) {
                    met += 1;
                    held += f64::from(budgets[client].available());
                }
                calls += 1;
                agenda.after(exponential(1.0 / RATE, &mut rng), Event::Arrival(client));
                (client, Attempt::new(1))
            }
            Event::Answer(client, attempt) => {
                let budget = budgets.as_ref().map(|budgets| &budgets[client]);
                if rng.random::<f64>() >= f {
                    good += 1;
                    if let Some(budget) = budget {
                        budget.deposit();
                    }
                    continue;
                }
                let verdict = Some(Verdict::transient());
                let decision = policy.decide(attempt, verdict, |range| rng.random_range(range));
                let Decision::Retry(_) = decision else { continue };
                if budget.is_some_and(|budget| !budget.withdraw()) {
                    continue;
                }
                (client, Attempt::new(attempt.number() + 1))
            }
        };
        sent += 1;
        let there_and_back = exponential(HOP, &mut rng) + exponential(HOP, &mut rng);
        agenda.after(there_and_back, Event::Answer(client, next));
    }
    let percent = |part: u32| 100.0 * f64::from(part) / f64::from(calls);
    let level = held / f64::from(met) / f64::from(capacity.unwrap_or(1));
    Measured { f, success: percent(good), load: percent(sent), retries: sent - calls, level }
}

/// The published table: the failure rate, then success and load without retries, with three, and
/// with the bucket.
const TABLE: [(f64, [f64; 6]); 5] = [
    (0.01, [99.0, 100.0, 100.0, 101.0, 100.0, 101.0]),
    (0.05, [95.0, 100.0, 100.0, 105.2, 99.97, 105.2]),
    (0.10, [90.0, 100.0, 99.99, 111.1, 98.4, 109.2]),
    (0.50, [50.2, 100.0, 93.7, 187.7, 52.5, 105.7]),
    (1.00, [0.0, 100.0, 0.0, 400.0, 0.0, 100.4]),
];

/// Rates between the published ones, for the picture.
const BETWEEN: [f64; 10] = [0.03, 0.075, 0.15, 0.20, 0.30, 0.40, 0.60, 0.70, 0.80, 0.90];

/// The retries in a full bucket. A retry of an AWS SDK takes 5 of its 500 tokens. A gRPC channel
/// makes 4 retries until half of its 10 tokens are left. The third bucket is the one of the source.
const RESERVES: [(&str, u32); 3] =
    [("500 tokens at 5 (AWS)", 100), ("10 tokens above 5 (gRPC)", 4), ("5 tokens", SMALL)];

pub fn measure(size: Size, progress: Progress<'_>) -> Bucket {
    let until = size.pick(20, 100);
    let mut rates: Vec<f64> = TABLE.iter().map(|row| row.0).collect();
    if size == Size::Full {
        rates.extend(BETWEEN);
        rates.sort_by(f64::total_cmp);
    }
    let near: &[f64] =
        size.pick(&[0.06, 0.13], &[0.05, 0.07, 0.08, 0.085, 0.09, 0.095, 0.10, 0.11, 0.13]);
    let mut jobs: Vec<(f64, RetryPolicy, Option<u32>, u64)> = Vec::new();
    jobs.extend(rates.iter().map(|&f| (f, RetryPolicy::none(), None, until)));
    jobs.extend(rates.iter().map(|&f| (f, THREE_MORE, None, until)));
    jobs.extend(rates.iter().map(|&f| (f, THREE_MORE, Some(SMALL), until)));
    let few: Vec<f64> = rates.iter().copied().filter(|&f| f <= 0.05).collect();
    jobs.extend(few.iter().map(|&f| (f, THREE_MORE, Some(Budget::new().capacity()), until)));
    // These runs are long enough to empty the largest bucket.
    jobs.extend(RESERVES.iter().map(|&(_, held)| (1.0, THREE_MORE, Some(held), until.max(30))));
    // A level is in whole tokens, so these runs take larger buckets and more time.
    jobs.extend(
        near.iter().map(|&f| (f, THREE_MORE, Some(size.pick(10, 20)), size.pick(120, 1_000))),
    );
    let mut all = on_all_cores(jobs.len(), progress, |job| {
        let (f, policy, capacity, until) = jobs[job];
        run(f, &policy, capacity, until)
    })
    .into_iter();
    let mut next = |count: usize| all.by_ref().take(count).collect::<Vec<_>>();
    let (none, three, saved) = (next(rates.len()), next(rates.len()), next(rates.len()));
    let default = next(few.len());
    let spent = RESERVES.iter().map(|reserve| reserve.1).zip(next(RESERVES.len())).collect();
    Bucket { none, three, saved, default, spent, levels: next(near.len()) }
}

pub fn checks(measured: &Bucket, size: Size) -> Vec<Check> {
    // The noise in percentage points: failures are random here and in the source, and more failures
    // mean more noise. A fifth of the calls has more than twice the noise and five times the share
    // of the initial reserve.
    let (few_fail, many_fail) = size.pick((0.8, 2.5), (0.3, 0.6));
    let mut checks = Vec::new();
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    let at = |line: &[Measured], f: f64| {
        *line.iter().find(|it| near(it.f, f)).expect("a published rate")
    };
    for (f, published) in TABLE {
        let [none, three, bucket] =
            [&measured.none, &measured.three, &measured.saved].map(|line| at(line, f));
        let noise = if f <= 0.1 { few_fail } else { many_fail };
        let rows = [("no retry", none), ("3 retries", three), ("bucket", bucket)];
        for ((name, got), published) in rows.into_iter().zip(published.chunks(2)) {
            let what = |what| format!("{:.0} % fail, {name}: {what}", 100.0 * f);
            // At total failure, only the load of a bucket depends on chance (the number of calls).
            let all_fail = near(f, 1.0);
            let success = if all_fail { 0.0 } else { noise };
            let load = if name == "no retry" || all_fail && name != "bucket" { 0.0 } else { noise };
            checks.push(Check::new(
                what("success"),
                PlusMinus(published[0], success),
                (got.success, 2, " %"),
            ));
            checks.push(Check::new(
                what("load"),
                PlusMinus(published[1], load),
                (got.load, 2, " %"),
            ));
        }
        if f <= 0.05 {
            let what = |what| format!("{:.0} % fail: success lost to the {what}", 100.0 * f);
            let default = at(&measured.default, f);
            let lost = |to, saved: &Measured| {
                Check::new(what(to), AtMost(0.1, 0.0), (three.success - saved.success, 3, " %"))
            };
            checks.extend([lost("bucket", &bucket), lost("default budget", &default).ours()]);
        }
    }
    for ((name, held), (_, got)) in RESERVES.iter().zip(&measured.spent) {
        let retries = f64::from(got.retries) / CLIENTS as f64;
        let what = format!("all fail, {name}: retries per client");
        checks.push(Check::new(what, PlusMinus(f64::from(*held), 0.0), (retries, 2, "")));
    }
    checks.push(break_even(&measured.levels, size));
    checks
}

/// Returns the row of the failure rate at which the buckets are half full on average. With a
/// deposit of d, failures spend exactly the deposits of successes at f* = d / (1 + d), which is
/// 9.09 %.
fn break_even(levels: &[Measured], size: Size) -> Check {
    let crossing =
        levels.windows(2).find(|pair| pair[0].level >= 0.5 && pair[1].level < 0.5).map(|pair| {
            let share = (pair[0].level - 0.5) / (pair[0].level - pair[1].level);
            100.0 * (pair[0].f + share * (pair[1].f - pair[0].f))
        });
    Check::new(
        "failure rate that drains a bucket",
        PlusMinus(9.09, size.pick(2.0, 0.3)),
        (crossing.unwrap_or(f64::NAN), 2, " %"),
    )
}
