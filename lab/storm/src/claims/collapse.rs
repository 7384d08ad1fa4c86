//! Congestive collapse: a server slows down under load, and retries keep it slow (Brooker, "What is
//! Backoff For?", 2022, and its `simple_collapse_sim`).
//!
//! Arrivals are an open Poisson process. A request takes the server 1 s, and 10 ms more for each
//! request in flight at its start, itself included. Each hop takes an exponential 0.1 s. The client
//! waits 3 s, and the server also finishes requests after their timeout.
//!
//! The published figures are means of ten runs, and ten runs are few. After the spike, a run with
//! three attempts at once is either at the arrivals or at zero. So a mean of ten is a multiple of
//! 4/s: 16.2/s means that four runs of ten recover. The end of the overload of a ramp depends on
//! its arrivals, and the goodput behind its peak varies by 6/s from run to run. Thousands of runs
//! of this model have means of 9.9/s and 22.4/s. 200 runs of the program of the source have 10.6/s
//! and 21.9/s. If such a figure differs, its row says `outcome only`. The row below states the
//! distance in standard errors of ten runs.

use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use resile::policy::Decision;
use resile::{Attempt, Backoff, Budget, RetryPolicy, Verdict};

use super::Published::{AtLeast, AtMost, Percent, PlusMinus};
use super::sim::{Agenda, Series, exponential, mean, on_all_cores, seconds, seeded};
use super::{Check, Progress, Published, Size};

const TIMEOUT: Duration = Duration::from_secs(3);
const HOP: f64 = 0.1;
const PEAK: f64 = 80.0;

/// A policy of three attempts without delays.
const AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

enum Event {
    Arrival,
    Send(usize),
    Served { call: usize, attempt: u32 },
    Start { call: usize, attempt: u32 },
    Answer { call: usize, attempt: u32 },
    Timeout { call: usize, attempt: u32 },
}

/// A call with its attempt in flight. `None` means that the call has ended.
struct Call {
    waits: Option<Attempt>,
}

/// The arrivals and successes of each second.
struct Measured {
    arrived: Series,
    good: Series,
}

fn run(
    rate: fn(f64) -> f64,
    until: u64,
    policy: &RetryPolicy,
    budget: Option<&Budget>,
    seed: u64,
) -> Measured {
    // Arrivals have their own generator. So all policies meet the same arrivals.
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
                // Thins the arrivals from the peak rate to the current rate.
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
                agenda.after(
                    seconds(1.0 + 0.01 * f64::from(in_flight)),
                    Event::Served { call, attempt },
                );
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
                let Some(failed) = calls[call].waits.filter(|waits| waits.number() == attempt)
                else {
                    continue;
                };
                calls[call].waits = None;
                let verdict = Some(Verdict::transient());
                let decision = policy.decide(failed, verdict, |range| rng.random_range(range));
                let Decision::Retry(delay) = decision else { continue };
                if budget.is_some_and(|budget| !budget.withdraw()) {
                    continue;
                }
                // From now on, an answer to the earlier attempt is ignored.
                calls[call].waits = Some(Attempt::new(attempt + 1).with_delay(delay));
                agenda.after(delay, Event::Send(call));
            }
        }
    }
    measured
}

/// Returns the arrivals of the spike: 40/s, and twice that for five seconds.
fn spike(at: f64) -> f64 {
    if (20.0..25.0).contains(&at) { PEAK } else { 40.0 }
}

/// Returns the arrivals of the ramp: up to 80/s and down again.
fn ramp(at: f64) -> f64 {
    (PEAK - 1.6 * (at - 25.0).abs()).max(0.0)
}

type Rate = fn(f64) -> f64;

/// The policy and the budget of the calls.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    policy: RetryPolicy,
    budget: Option<fn() -> Budget>,
}

const NONE: Client = Client { name: "no retry", policy: RetryPolicy::none(), budget: None };
const STORM: Client = Client { name: "3 attempts at once", policy: AT_ONCE, budget: None };
const JITTER: Client =
    Client { name: "3 attempts with jitter", policy: RetryPolicy::new(), budget: None };
const SAVED: Client =
    Client { name: "at once, default budget", policy: AT_ONCE, budget: Some(Budget::new) };
const DEFAULT: Client = Client {
    name: "default policy and budget",
    policy: RetryPolicy::new(),
    budget: Some(Budget::new),
};
/// A budget with the reserve of an AWS client and the deposit of a gRPC channel.
const HOARD: Client = Client {
    name: "default policy, 100 tokens",
    policy: RetryPolicy::new(),
    budget: Some(|| Budget::new().with_capacity(100).with_deposit(0.1)),
};

/// The runs of one client with several seeds.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    /// The mean of all seeds for each second.
    pub arrived: Vec<f64>,
    pub good: Vec<f64>,
    /// The successes of each seed.
    runs: Vec<Series>,
}

#[derive(Debug)]
pub struct Collapse {
    pub spike: Vec<Line>,
    pub ramp: Vec<Line>,
}

/// The number of runs behind each published mean.
const PUBLISHED_RUNS: usize = 10;

impl Line {
    fn goodput(&self, over: Range<usize>) -> f64 {
        mean(self.good[over].iter().copied())
    }

    /// Returns the standard error of a mean of `runs` runs.
    fn error(&self, over: Range<usize>, runs: usize) -> f64 {
        let average = self.goodput(over.clone());
        let variance = mean(self.runs.iter().map(|run| (run.mean(over.clone()) - average).powi(2)));
        (variance / runs as f64).sqrt()
    }

    /// Returns the runs with less than half of the arrivals succeeding.
    fn down(&self, over: Range<usize>) -> impl Iterator<Item = &Series> {
        let half = 0.5 * mean(self.arrived[over.clone()].iter().copied());
        self.runs.iter().filter(move |run| run.mean(over.clone()) < half)
    }
}

fn lines(
    rate: Rate,
    until: u64,
    clients: &[Client],
    seeds: usize,
    progress: Progress<'_>,
) -> Vec<Line> {
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
        runs: runs.iter().map(|run| run.good.clone()).collect(),
    };
    lines.map(line).collect()
}

pub fn measure(size: Size, progress: Progress<'_>) -> Collapse {
    // A collapse depends on chance, and its end varies by seconds, so many runs are needed.
    let (spikes, ramps) = size.pick((10, 15), (600, 600));
    Collapse {
        spike: lines(spike, 80, &[NONE, STORM, SAVED, DEFAULT], spikes, &|done| {
            progress(0.5 * done);
        }),
        ramp: lines(ramp, 60, &[NONE, STORM, JITTER, SAVED, DEFAULT, HOARD], ramps, &|done| {
            progress(0.5 + 0.5 * done);
        }),
    }
}

pub fn checks(measured: &Collapse, size: Size) -> Vec<Check> {
    let mut checks = spikes(&measured.spike, size);
    checks.extend(ramps(&measured.ramp, size));
    checks
}

/// Returns a row with a published mean of ten runs, and a row with the distance of the two means.
fn with_error(
    when: &str,
    line: &Line,
    over: Range<usize>,
    published: f64,
    outcome: Published,
) -> [Check; 2] {
    let good = line.goodput(over.clone());
    let [few, many] = [PUBLISHED_RUNS, line.runs.len()].map(|runs| line.error(over.clone(), runs));
    let reason = format!(
        "The published figure is a mean of {PUBLISHED_RUNS} runs with a standard error of {few:.1}/s."
    );
    let errors = (good - published).abs() / few.hypot(many);
    [
        Check::new(format!("{when}: {}", line.name), Percent(published, 10.0), (good, 1, "/s"))
            .or_outcome(outcome, reason),
        Check::new("  distance in standard errors", AtMost(3.0, 0.0), (errors, 1, "")).ours(),
    ]
}

fn spikes(lines: &[Line], size: Size) -> Vec<Check> {
    let [none, storm, saved, default] = lines else { unreachable!("four lines") };
    let late = 60..80;
    let good = |line: &Line, published: f64| {
        let figure = (line.goodput(late.clone()), 1, "/s");
        Check::new(format!("spike, 60-80 s: {}", line.name), Percent(published, 5.0), figure)
    };
    let share = |line: &Line| {
        let arrived = mean(line.arrived[late.clone()].iter().copied());
        let figure = (100.0 * line.goodput(late.clone()) / arrived, 1, " %");
        Check::new(format!("spike, share of arrivals: {}", line.name), AtLeast(95.0, 0.0), figure)
    };
    let down = storm.down(40..60).count() as f64;
    let stayed = storm
        .down(40..60)
        .filter(|run| storm.down(late.clone()).any(|other| std::ptr::eq(*run, other)));
    let stayed = 100.0 * stayed.count() as f64 / down;
    let collapsed = 100.0 * down / storm.runs.len() as f64;
    let mut checks = vec![good(none, 40.2)];
    // The bound is far below the arrivals of 40/s.
    checks.extend(with_error("spike, 60-80 s", storm, late.clone(), 16.2, AtMost(24.0, 0.0)));
    checks.extend([
        Check::new(
            format!("spike, runs down at 40 s: {}", storm.name),
            PlusMinus(75.0, size.pick(25.0, 10.0)),
            (collapsed, 0, " %"),
        )
        .ours(),
        Check::new("  of these, still down at 60-80 s", PlusMinus(100.0, 0.0), (stayed, 1, " %")),
        good(saved, 39.9),
        share(saved).ours(),
        share(default).ours(),
    ]);
    checks
}

fn ramps(lines: &[Line], size: Size) -> Vec<Check> {
    let [none, storm, jitter, saved, default, hoard] = lines else { unreachable!("six lines") };
    let peak = 35..50;
    let good = |line: &Line| line.goodput(peak.clone());
    let alone = good(none);
    let mut checks = Vec::new();
    for (line, published) in [(none, 18.8), (saved, 19.2)] {
        // Retries without a budget leave no goodput, so 15/s is far from that.
        checks.extend(with_error(
            "ramp, 35-50 s",
            line,
            peak.clone(),
            published,
            AtLeast(15.0, 0.0),
        ));
    }
    for line in [storm, jitter] {
        checks.push(Check::new(
            format!("ramp, 35-50 s: {}", line.name),
            PlusMinus(0.0, 0.5),
            (good(line), 2, "/s"),
        ));
    }
    // Fewer seeds need a wider tolerance.
    let slack = size.pick(5.0, 0.0);
    for line in [saved, default] {
        let figure = (100.0 * good(line) / alone, 1, " %");
        checks.push(
            Check::new(format!("ramp, vs no retry: {}", line.name), AtLeast(95.0, slack), figure)
                .ours(),
        );
    }
    // A large reserve is spent at the worst moment and loses about one good call per token. It
    // delays the recovery but cannot prevent it.
    let late = 100.0 * hoard.goodput(50..60) / none.goodput(50..60);
    checks.extend([
        Check::new(
            "ramp, good calls lost: 100 tokens",
            Percent(100.0, size.pick(40.0, 20.0)),
            ((alone - good(hoard)) * 15.0, 0, ""),
        )
        .ours(),
        Check::new("ramp, 50-60 s, vs no retry: 100 tokens", AtLeast(95.0, 0.0), (late, 1, " %"))
            .ours(),
    ]);
    checks
}
