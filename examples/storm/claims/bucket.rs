//! A token bucket keeps what retries are good for and none of what they cost (Brooker, "Fixing retries with token
//! buckets and circuit breakers", 2022).
//!
//! A server fails each request at random, a share `f` of them; 100 clients of 10 calls a second; retries at once.

use std::time::Duration;

use rand::RngExt;
use resile::{Attempt, Backoff, Budget, Decision, RetryPolicy, Verdict};

use super::Published::{AtMost, PlusMinus};
use super::sim::{Agenda, exponential, on_all_cores, seeded};
use super::{Check, Progress, Size};

const CLIENTS: usize = 100;
const RATE: f64 = 10.0;
const HOP: f64 = 0.01;
const DEPOSIT: f64 = 0.1;
/// What the bucket of the source holds.
const SMALL: u32 = 5;
const THREE_MORE: RetryPolicy = RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());

enum Event {
    Arrival(usize),
    /// The answer to an attempt of a client.
    Answer(usize, Attempt),
}

/// Of all calls, in percent; the level of the buckets is that met by the calls of the second half,
/// as a share of what they hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) f: f64,
    pub(crate) success: f64,
    pub(crate) load: f64,
    retries: u32,
    level: f64,
}

#[derive(Debug)]
pub(crate) struct Bucket {
    /// By failure rate, without retries, with three, and with three from a bucket.
    pub(crate) none: Vec<Measured>,
    pub(crate) three: Vec<Measured>,
    pub(crate) saved: Vec<Measured>,
    /// With the crate's default, where few fail.
    default: Vec<Measured>,
    /// At total failure, by what the bucket of each client holds.
    spent: Vec<(u32, Measured)>,
    /// Around the break-even.
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
    // What is under way at the end is awaited.
    while let Some(event) = agenda.next_before(Duration::MAX) {
        let (client, next) = match event {
            Event::Arrival(client) => {
                if agenda.now() >= end {
                    continue;
                }
                // What it began with is forgotten by then.
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
                if let Some(budget) = budget {
                    let Some(token) = budget.withdraw() else { continue };
                    token.spend();
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

/// Failure rate; then success and load without retries, with three, and with the bucket: the published table.
const TABLE: [(f64, [f64; 6]); 5] = [
    (0.01, [99.0, 100.0, 100.0, 101.0, 100.0, 101.0]),
    (0.05, [95.0, 100.0, 100.0, 105.2, 99.97, 105.2]),
    (0.10, [90.0, 100.0, 99.99, 111.1, 98.4, 109.2]),
    (0.50, [50.2, 100.0, 93.7, 187.7, 52.5, 105.7]),
    (1.00, [0.0, 100.0, 0.0, 400.0, 0.0, 100.4]),
];

/// Between the published rates: for the picture.
const BETWEEN: [f64; 10] = [0.03, 0.075, 0.15, 0.20, 0.30, 0.40, 0.60, 0.70, 0.80, 0.90];

/// A bucket of 500 of which a retry takes 5 (an AWS SDK), the 4 retries that a gRPC channel has until its 10 tokens are
/// no more than half, the source's.
const RESERVES: [(&str, u32); 3] =
    [("500 tokens at 5 (AWS)", 100), ("10 tokens above 5 (gRPC)", 4), ("5 tokens", SMALL)];

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Bucket {
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
    // Long enough for the fullest to be emptied.
    jobs.extend(RESERVES.iter().map(|&(_, held)| (1.0, THREE_MORE, Some(held), until.max(30))));
    // Of larger buckets, as a level is in whole tokens, and so for longer.
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

pub(crate) fn checks(measured: &Bucket, size: Size) -> Vec<Check> {
    // In points of a percent, as what fails is drawn on both sides, and the more of it the more noise. A fifth of the
    // calls has more than twice the noise, and there the reserve weighs five times as much.
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
            // Where all fail, only the load of a bucket depends on chance, through the number of calls.
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
        let what = format!("all fail, {name}: retries each");
        checks.push(Check::new(what, PlusMinus(f64::from(*held), 0.0), (retries, 2, "")));
    }
    checks.push(break_even(&measured.levels, size));
    checks
}

/// Where a bucket is as often empty as full: at f* = d / (1 + d), which is 9.09 %, a failure takes what the successes
/// have brought.
fn break_even(levels: &[Measured], size: Size) -> Check {
    let crossing =
        levels.windows(2).find(|pair| pair[0].level >= 0.5 && pair[1].level < 0.5).map(|pair| {
            let share = (pair[0].level - 0.5) / (pair[0].level - pair[1].level);
            100.0 * (pair[0].f + share * (pair[1].f - pair[0].f))
        });
    Check::new(
        "failures from which a bucket drains",
        PlusMinus(9.09, size.pick(2.0, 0.3)),
        (crossing.unwrap_or(f64::NAN), 2, " %"),
    )
}
