//! Congestive collapse: a server that slows down under load, and retries that keep it there (Brooker, "What is
//! Backoff For?", 2022, and its `simple_collapse_sim`).
//!
//! Open Poisson arrivals; a request takes the server 1 s and 10 ms more for each request in flight at its start, itself
//! included; each hop takes an exponential 0.1 s; the client waits 3 s, and the server finishes what nobody waits for any
//! more.

use std::time::Duration;

use rand::RngExt;
use resile::{Attempt, Backoff, Budget, Decision, RetryPolicy, Verdict};

use super::sim::{Agenda, Series, exponential, mean, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

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
                in_flight += 1;
                agenda.after(seconds(1.0 + 0.01 * f64::from(in_flight)), Event::Served { call, attempt });
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

type Rate = fn(f64) -> f64;

/// How calls are retried, and what pays for it.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    policy: RetryPolicy,
    budget: Option<fn() -> Budget>,
}

const NONE: Client = Client { name: "no retry", policy: RetryPolicy::none(), budget: None };
const STORM: Client = Client { name: "3 attempts at once", policy: AT_ONCE, budget: None };
const JITTER: Client = Client { name: "3 attempts with jitter", policy: RetryPolicy::new(), budget: None };
const SAVED: Client = Client { name: "at once, default budget", policy: AT_ONCE, budget: Some(Budget::new) };
const DEFAULT: Client =
    Client { name: "default policy and budget", policy: RetryPolicy::new(), budget: Some(Budget::new) };
/// A reserve of the size of an AWS client's, and the deposit of a gRPC channel.
const HOARD: Client = Client {
    name: "default policy, 100 tokens",
    policy: RetryPolicy::new(),
    budget: Some(|| Budget::new().with_capacity(100).with_deposit(0.1)),
};

/// Means over several seeds, per second.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) arrived: Vec<f64>,
    pub(crate) good: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct Collapse {
    pub(crate) spike: Vec<Line>,
    pub(crate) ramp: Vec<Line>,
}

impl Line {
    fn goodput(&self, over: std::ops::Range<usize>) -> f64 {
        mean(self.good[over].iter().copied())
    }
}

fn lines(rate: Rate, until: u64, clients: &[Client], seeds: usize, progress: Progress<'_>) -> Vec<Line> {
    let runs = on_all_cores(clients.len() * seeds, progress, |job| {
        let Client { policy, budget, .. } = clients[job / seeds];
        let budget = budget.map(|new| new());
        run(rate, until, &policy, budget.as_ref(), (job % seeds) as u64)
    });
    let lines = clients.iter().zip(runs.chunks(seeds));
    let line = |(client, runs): (&Client, &[Measured])| Line {
        name: client.name,
        arrived: Series::average(runs.iter().map(|run| &run.arrived)),
        good: Series::average(runs.iter().map(|run| &run.good)),
    };
    lines.map(line).collect()
}

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Collapse {
    // When a seed's collapse ends varies by seconds, so the ramp needs many.
    let (spikes, ramps) = size.pick((2, 15), (10, 600));
    Collapse {
        spike: lines(spike, 80, &[NONE, STORM, SAVED, DEFAULT], spikes, &|done| progress(0.2 * done)),
        ramp: lines(ramp, 60, &[NONE, STORM, JITTER, SAVED, DEFAULT, HOARD], ramps, &|done| progress(0.2 + 0.8 * done)),
    }
}

pub(crate) fn checks(measured: &Collapse, size: Size) -> Vec<Check> {
    let mut checks = Vec::new();
    let published = ["40.2", "16.2, for good", "39.9", "39.9"];
    for (line, published) in measured.spike.iter().zip(published) {
        let good = line.goodput(60..80);
        let arrived = mean(line.arrived[60..80].iter().copied());
        let accepted = if line.name == STORM.name { 0.0..=0.6 * arrived } else { 0.95 * arrived..=f64::INFINITY };
        checks.push(Check::new(format!("spike, {}: 60-80 s", line.name), published, (good, 1, "/s"), accepted));
    }
    let [none, storm, jitter, saved, default, hoard] = &measured.ramp[..] else { unreachable!("six lines") };
    let peak = |line: &Line| line.goodput(35..50);
    let alone = peak(none);
    let at = |line: &Line| format!("ramp, {}: 35-50 s", line.name);
    checks.push(Check::new(at(none), "18.8", (alone, 1, "/s"), 10.0..));
    checks.push(Check::new(at(storm), "0.0", (peak(storm), 2, "/s"), ..1.0));
    checks.push(Check::new(at(jitter), "0.0", (peak(jitter), 2, "/s"), ..1.0));
    // Fewer seeds, a wider tolerance.
    let least = size.pick(0.85, 0.95);
    for line in [saved, default] {
        let share = 100.0 * peak(line) / alone;
        checks.push(Check::new(
            format!("{}, of no retry", at(line)),
            "at least 95 %",
            (share, 1, " %"),
            100.0 * least..,
        ));
    }
    // A large reserve is spent at the worst moment, about a good call for each token. It delays the recovery and cannot
    // prevent it.
    let lost = (alone - peak(hoard)) * 15.0;
    let most = 100.0 * size.pick(1.55, 1.25);
    checks.push(Check::new("ramp, 100 tokens: good calls lost", "up to 100", (lost, 0, ""), 20.0..=most));
    let late = 100.0 * hoard.goodput(50..60) / none.goodput(50..60);
    checks.push(Check::new("ramp, 100 tokens: 50-60 s, of no retry", "recovers", (late, 1, " %"), 95.0..));
    checks
}
