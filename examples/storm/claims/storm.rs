//! A retry storm that outlives its trigger (Bronson et al., "Metastable Failures in Distributed Systems", `HotOS` 2021).
//!
//! A server takes requests in order, 300 a second; the client waits 1 s and tries once more, and the server does what
//! nobody waits for any more. From 30 s to 40 s it stands still.

use std::time::Duration;

use resile::{
    Always, Attempt, Backoff, Breaker, Budget, Decision, Jitter, ManualTimer, Observe, RetryPolicy, Standard, Timer,
    Verdict, breaker,
};

use super::sim::{Agenda, Series, exponential, mean, on_all_cores, seeded};
use super::{Check, Progress, Size};

const TIMEOUT: Duration = Duration::from_secs(1);
const OUTAGE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(40));
const ONCE_MORE: RetryPolicy = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());

/// How calls are retried, and what holds that back.
struct Client {
    name: &'static str,
    policy: RetryPolicy,
    budget: Tokens,
    breaker: Trips,
}

#[derive(Clone, Copy)]
enum Tokens {
    None,
    /// Of 100 tokens, filled by what is asked and not by what succeeds: the usual mistake.
    FilledByRequests,
    /// Of 100 tokens, filled by what succeeds.
    Hundred,
    Default,
}

#[derive(Clone, Copy)]
enum Trips {
    Never,
    /// At half of 100 calls and more in 10 s, for 5 s.
    Rate,
    Default,
}

enum Event<P> {
    Arrival,
    Good(Option<P>),
    Timeout(Attempt, Option<P>),
}

struct Measured {
    good: Series,
    load: Series,
}

/// One server with a queue, as the moment at which it will have done all that it was given.
struct Server {
    free_at: Duration,
}

impl Server {
    /// How long until what comes at `now` and takes `work` is done.
    fn take(&mut self, now: Duration, work: Duration) -> Duration {
        let start = self.free_at.max(now);
        let start = if (OUTAGE.0..OUTAGE.1).contains(&start) { OUTAGE.1 } else { start };
        self.free_at = start + work;
        self.free_at.saturating_sub(now)
    }
}

fn run<C, O: Observe<breaker::Event>>(
    rate: f64,
    until: u64,
    client: &Client,
    breaker: Option<&Breaker<C, O, ManualTimer>>,
    timer: &ManualTimer,
    seed: u64,
) -> Measured {
    let budget = match client.budget {
        Tokens::None => None,
        Tokens::FilledByRequests | Tokens::Hundred => Some(Budget::new().with_capacity(100).with_deposit(0.1)),
        Tokens::Default => Some(Budget::new()),
    };
    let filled_by_requests = matches!(client.budget, Tokens::FilledByRequests);
    let deposit = || budget.as_ref().map(Budget::deposit);
    let (mut arrivals, mut rng) = (seeded(seed), seeded(!seed));
    let mut server = Server { free_at: Duration::ZERO };
    let mut agenda = Agenda::new();
    let mut measured = Measured { good: Series::new(until), load: Series::new(until) };
    agenda.after(exponential(1.0 / rate, &mut arrivals), Event::Arrival);
    while let Some(event) = agenda.next_before(Duration::from_secs(until)) {
        let now = agenda.now();
        timer.advance(now.saturating_sub(timer.now()));
        let next = match event {
            Event::Arrival => {
                agenda.after(exponential(1.0 / rate, &mut arrivals), Event::Arrival);
                if filled_by_requests {
                    deposit();
                }
                Attempt::new(1)
            }
            Event::Good(permit) => {
                measured.good.count(now);
                if let Some(permit) = permit {
                    breaker::Permit::success(permit);
                }
                if !filled_by_requests {
                    deposit();
                }
                continue;
            }
            Event::Timeout(failed, permit) => {
                if let Some(permit) = permit {
                    breaker::Permit::failure(permit, Verdict::retry());
                }
                let Decision::Retry(delay) = client.policy.decide(failed, Verdict::retry(), &mut rng) else { continue };
                assert_eq!(delay, Duration::ZERO, "this model retries at once");
                if let Some(budget) = &budget {
                    let Some(token) = budget.withdraw() else { continue };
                    token.spend();
                }
                Attempt::new(failed.number() + 1)
            }
        };
        // A call that the breaker refuses has failed for good.
        let permit = match breaker.map(Breaker::permit) {
            Some(Err(_)) => continue,
            Some(Ok(permit)) => Some(permit),
            None => None,
        };
        measured.load.count(now);
        let takes = server.take(now, exponential(1.0 / 300.0, &mut rng));
        if takes <= TIMEOUT {
            agenda.after(takes, Event::Good(permit));
        } else {
            agenda.after(TIMEOUT, Event::Timeout(next, permit));
        }
    }
    measured
}

const ALONE: Client =
    Client { name: "no retry", policy: RetryPolicy::none(), budget: Tokens::None, breaker: Trips::Never };
const STORM: Client = Client { name: "one retry", policy: ONCE_MORE, ..ALONE };
const REQUESTS: Client =
    Client { name: "one retry, budget filled by requests", budget: Tokens::FilledByRequests, ..STORM };
const BUDGET: Client = Client { name: "one retry, budget", budget: Tokens::Hundred, ..STORM };
const BREAKER: Client = Client { name: "one retry, breaker", breaker: Trips::Rate, ..STORM };
const BOTH: Client = Client { name: "one retry, breaker and budget", budget: Tokens::Hundred, ..BREAKER };
const DEFAULTS: Client =
    Client { name: "one retry, default breaker and budget", budget: Tokens::Default, breaker: Trips::Default, ..STORM };

/// What a row is to show; of a recovery, the earliest and latest second.
enum Fate {
    Recovers(usize, usize),
    Never,
}

/// A row of the published table.
struct Row {
    /// Arrivals a second.
    rate: f64,
    client: Client,
    /// Goodput at 45-60 s as published, and what is accepted.
    soon: (&'static str, f64, f64),
    fate: Fate,
    recovered: &'static str,
}

const fn row(rate: f64, client: Client, soon: (&'static str, f64, f64), fate: Fate, recovered: &'static str) -> Row {
    Row { rate, client, soon, fate, recovered }
}

const TABLE: [Row; 9] = [
    row(280.0, ALONE, ("0", 0.0, 1.0), Fate::Recovers(110, 250), "145-194 s"),
    row(280.0, STORM, ("0", 0.0, 1.0), Fate::Never, "never"),
    row(140.0, STORM, ("0", 0.0, 1.0), Fate::Recovers(90, 230), "131-179 s"),
    row(160.0, STORM, ("0", 0.0, 1.0), Fate::Never, "never"),
    row(280.0, REQUESTS, ("0", 0.0, 1.0), Fate::Never, "never"),
    row(280.0, BUDGET, ("0", 0.0, 1.0), Fate::Recovers(110, 250), "158-200 s"),
    row(280.0, BREAKER, ("178", 100.0, 280.0), Fate::Recovers(40, 65), "51 s"),
    row(280.0, BOTH, ("251", 200.0, 290.0), Fate::Recovers(40, 55), "46 s"),
    row(280.0, DEFAULTS, ("-", 0.0, 290.0), Fate::Recovers(40, 100), "-"),
];

/// Several seeds of one row.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) rate: f64,
    pub(crate) name: &'static str,
    /// Means, per second.
    pub(crate) good: Vec<f64>,
    pub(crate) load: Vec<f64>,
    /// The first second after the outage from which on five in a row saw nine tenths of the arrivals succeed.
    recovered: Vec<Option<usize>>,
}

fn one(rate: f64, until: u64, client: &Client, seed: u64) -> Measured {
    let timer = ManualTimer::new();
    match client.breaker {
        Trips::Never => run(rate, until, client, None::<&Breaker<Always, Standard, ManualTimer>>, &timer, seed),
        Trips::Rate => {
            let breaker = Breaker::new()
                .without_consecutive()
                .with_failure_rate(0.5, 100)
                .with_window(Duration::from_secs(10))
                .with_open(Backoff::fixed(Duration::from_secs(5)).with_jitter(Jitter::None))
                .with_timer(timer.clone());
            run(rate, until, client, Some(&breaker), &timer, seed)
        }
        Trips::Default => run(rate, until, client, Some(&Breaker::new().with_timer(timer.clone())), &timer, seed),
    }
}

impl Line {
    fn of(rate: f64, name: &'static str, until: u64, runs: &[Measured]) -> Self {
        let recovered =
            |run: &Measured| (40..until as usize - 5).find(|&from| run.good.mean(from..from + 5) >= 0.9 * rate);
        Self {
            rate,
            name,
            good: Series::average(runs.iter().map(|run| &run.good)),
            load: Series::average(runs.iter().map(|run| &run.load)),
            recovered: runs.iter().map(recovered).collect(),
        }
    }

    fn recovery(&self) -> String {
        let (first, last) = (self.recovered.iter().min(), self.recovered.iter().max());
        match (first.copied().flatten(), last.copied().flatten()) {
            (Some(first), Some(last)) if first == last => format!("{first} s"),
            (Some(first), Some(last)) => format!("{first}-{last} s"),
            _ if self.recovered.iter().all(Option::is_none) => "never".to_owned(),
            _ => "not always".to_owned(),
        }
    }
}

/// Near the end; in the last seconds answers may still be under way.
fn late(series: &[f64]) -> f64 {
    mean(series[series.len() - 100..series.len() - 10].iter().copied())
}

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    // Every recovery lies in little more than half of the time.
    let (until, seeds) = size.pick((360, 1), (600, 5));
    let runs = on_all_cores(TABLE.len() * seeds, progress, |job| {
        let Row { rate, client, .. } = &TABLE[job / seeds];
        one(*rate, until, client, (job % seeds) as u64)
    });
    let rows = TABLE.iter().zip(runs.chunks(seeds));
    rows.map(|(row, runs)| Line::of(row.rate, row.client.name, until, runs)).collect()
}

pub(crate) fn checks(lines: &[Line]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (line, Row { rate, client, soon: (soon, low, high), fate, recovered }) in lines.iter().zip(TABLE) {
        let name = format!("{rate}/s, {}", client.name);
        let got = mean(line.good[45..60].iter().copied());
        checks.push(Check::new(format!("{name}: good at 45-60 s"), soon, (got, 0, "/s"), low..=high));
        let end = late(&line.good);
        let (published, accepted, all) = match fate {
            Fate::Never => (0.0, 0.0..=1.0, line.recovered.iter().all(Option::is_none)),
            Fate::Recovers(first, last) => {
                let between = |at: &Option<usize>| at.is_some_and(|at| (first..=last).contains(&at));
                (rate - 1.0, 0.95 * rate..=1.05 * rate, line.recovered.iter().all(between))
            }
        };
        checks.push(Check::new(format!("{name}: good at the end"), published, (end, 0, "/s"), accepted));
        checks.push(Check {
            what: format!("{name}: recovered at"),
            published: recovered.to_owned(),
            measured: line.recovery(),
            holds: all,
        });
    }
    for (row, published, accepted) in [(1, 560, 540.0..=580.0), (4, 308, 300.0..=316.0)] {
        let line = &lines[row];
        let what = format!("{}/s, {}: load at the end", line.rate, line.name);
        checks.push(Check::new(what, published, (late(&line.load), 0, "/s"), accepted));
    }
    checks
}
