//! Congestive collapse: a server that slows down under load, and retries that keep it there (Brooker, "What is
//! Backoff For?", 2022, and its `simple_collapse_sim`).
//!
//! Open Poisson arrivals; a request takes the server 1 s and 10 ms more for each request in flight at its start; each
//! hop takes an exponential 0.1 s; the client waits 3 s, and the server finishes what nobody waits for any more.

use std::time::Duration;

use rand::RngExt;
use resile::{Attempt, Backoff, Budget, Decision, RetryPolicy, Verdict};

use crate::sim::{Agenda, Series, exponential, mean, seconds, seeded};

const TIMEOUT: Duration = Duration::from_secs(3);
const HOP: f64 = 0.1;
const PEAK: f64 = 80.0;

/// Three attempts without a pause.
const AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

enum Event {
    Arrival,
    Send(usize),
    Served { call: usize, attempt: u32 },
    Start { call: usize, attempt: u32 },
    Answer { call: usize, attempt: u32 },
    Timeout { call: usize, attempt: u32 },
}

/// The attempt that the client waits for; none once the call has ended.
struct Call {
    waits: Option<Attempt>,
}

/// Arrivals and successes, per second.
struct Measured {
    arrived: Series,
    good: Series,
}

fn run(rate: fn(f64) -> f64, until: u64, policy: &RetryPolicy, budget: Option<&Budget>, seed: u64) -> Measured {
    // Arrivals are the same whatever the policy draws, so that policies differ by less than seeds do.
    let (mut arrivals, mut rng) = (seeded(seed), seeded(!seed));
    let mut agenda = Agenda::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut in_flight = 0_u32;
    let mut measured = Measured { arrived: Series::new(until), good: Series::new(until) };
    agenda.after(exponential(1.0 / PEAK, &mut arrivals), Event::Arrival);
    while let Some(event) = agenda.next_before(Duration::from_secs(until)) {
        let now = agenda.now();
        match event {
            Event::Arrival => {
                agenda.after(exponential(1.0 / PEAK, &mut arrivals), Event::Arrival);
                // Thinned from the peak to the rate of the moment.
                if arrivals.random::<f64>() * PEAK < rate(now.as_secs_f64()) {
                    measured.arrived.count(now);
                    calls.push(Call { waits: Some(Attempt::new(1)) });
                    agenda.after(Duration::ZERO, Event::Send(calls.len() - 1));
                }
            }
            Event::Send(call) => {
                let attempt = calls[call].waits.expect("a call that goes on").number();
                agenda.after(exponential(HOP, &mut rng), Event::Start { call, attempt });
                agenda.after(TIMEOUT, Event::Timeout { call, attempt });
            }
            Event::Start { call, attempt } => {
                agenda.after(seconds(1.0 + 0.01 * f64::from(in_flight)), Event::Served { call, attempt });
                in_flight += 1;
            }
            Event::Served { call, attempt } => {
                in_flight -= 1;
                agenda.after(exponential(HOP, &mut rng), Event::Answer { call, attempt });
            }
            Event::Answer { call, attempt } => {
                if calls[call].waits.is_some_and(|waits| waits.number() == attempt) {
                    calls[call].waits = None;
                    measured.good.count(now);
                    if let Some(budget) = budget {
                        budget.deposit();
                    }
                }
            }
            Event::Timeout { call, attempt } => {
                let Some(failed) = calls[call].waits.filter(|waits| waits.number() == attempt) else { continue };
                calls[call].waits = None;
                let Decision::Retry(delay) = policy.decide(failed, Verdict::retry(), &mut rng) else { continue };
                if let Some(budget) = budget {
                    let Some(token) = budget.withdraw() else { continue };
                    token.spend();
                }
                // From here on an answer to the attempt before is one to nobody.
                calls[call].waits = Some(Attempt::new(attempt + 1).with_delay(delay));
                agenda.after(delay, Event::Send(call));
            }
        }
    }
    measured
}

/// 40/s, twice that for five seconds.
fn spike(at: f64) -> f64 {
    if (20.0..25.0).contains(&at) { PEAK } else { 40.0 }
}

/// Up to 80/s and down again.
fn ramp(at: f64) -> f64 {
    (PEAK - 1.6 * (at - 25.0).abs()).max(0.0)
}

/// The goodput of several seeds between two seconds, and that as a share of what arrived.
fn goodput(
    rate: fn(f64) -> f64,
    over: std::ops::Range<usize>,
    policy: &RetryPolicy,
    budget: Option<fn() -> Budget>,
    seeds: u64,
) -> (f64, f64) {
    let runs: Vec<_> = (0..seeds)
        .map(|seed| {
            let budget = budget.map(|new| new());
            run(rate, over.end as u64, policy, budget.as_ref(), seed)
        })
        .collect();
    let good = mean(runs.iter().map(|run| run.good.mean(over.clone())));
    (good, good / mean(runs.iter().map(|run| run.arrived.mean(over.clone()))))
}

fn the_spike_passes(seeds: u64) {
    let measure = |policy: &RetryPolicy, budget| goodput(spike, 60..80, policy, budget, seeds);
    let none = measure(&RetryPolicy::none(), None);
    let storm = measure(&AT_ONCE, None);
    let saved = measure(&AT_ONCE, Some(Budget::new));
    let defaults = measure(&RetryPolicy::new(), Some(Budget::new));
    println!("spike: none {none:?}, at once {storm:?}, with budget {saved:?}, defaults {defaults:?}");
    assert!(none.1 >= 0.95, "without retries: {none:?}");
    assert!(storm.1 <= 0.6, "retries without a budget: {storm:?}");
    assert!(saved.1 >= 0.95, "with a budget: {saved:?}");
    assert!(defaults.1 >= 0.95, "with the defaults: {defaults:?}");
}

fn the_ramp_is_as_without_retries(seeds: u64, tolerance: f64) {
    let measure = |policy: &RetryPolicy, budget| goodput(ramp, 35..50, policy, budget, seeds).0;
    let none = measure(&RetryPolicy::none(), None);
    let storm = measure(&AT_ONCE, None);
    let jitter = measure(&RetryPolicy::new(), None);
    let small: fn() -> Budget = || Budget::new().with_capacity(5);
    let saved = [measure(&AT_ONCE, Some(small)), measure(&RetryPolicy::new(), Some(small))];
    let defaults = [measure(&AT_ONCE, Some(Budget::new)), measure(&RetryPolicy::new(), Some(Budget::new))];
    let late = [(RetryPolicy::none(), None), (RetryPolicy::new(), Some(Budget::new as fn() -> Budget))]
        .map(|(policy, budget)| goodput(ramp, 50..60, &policy, budget, seeds).0);
    println!("ramp: none {none:.1}, at once {storm:.1}, jitter {jitter:.1}");
    println!("ramp: 5 tokens {saved:.1?}, 100 tokens {defaults:.1?}, at 50-60 s: none, 100 tokens {late:.1?}");
    assert!(none > 10.0, "without retries: {none}");
    assert!(storm < 1.0, "retries without a budget: {storm}");
    assert!(jitter < 1.0, "jitter alone: {jitter}");
    for saved in saved {
        assert!(saved >= (1.0 - tolerance) * none, "with a small budget: {saved}, without retries {none}");
    }
    // A reserve can lose what it holds, at the worst moment: about a good call for each of its tokens, so a fourth of
    // this ramp's with 100. It delays the recovery by seconds, and cannot prevent it.
    for defaults in defaults {
        let lost = (none - defaults) * 15.0;
        assert!(lost <= 100.0 * (1.1 + 3.0 * tolerance), "with the defaults: {lost} calls lost");
    }
    assert!(late[1] >= 0.95 * late[0], "with the defaults, after the ramp: {late:?}");
}

#[test]
fn a_budget_ends_the_collapse_after_a_spike() {
    the_spike_passes(2);
}

/// Fewer seeds, so a wider tolerance: when a seed's collapse ends varies by seconds.
#[test]
fn a_budget_keeps_a_ramp_from_collapse() {
    the_ramp_is_as_without_retries(15, 0.15);
}

#[test]
#[ignore = "the claim in full"]
fn a_budget_ends_the_collapse_after_a_spike_in_full() {
    the_spike_passes(10);
}

#[test]
#[ignore = "the claim in full"]
fn a_budget_keeps_a_ramp_from_collapse_in_full() {
    the_ramp_is_as_without_retries(150, 0.05);
}
