//! A hedge starts a second call beside a slow one and removes the tail of the latency (Dean and
//! Barroso, "The Tail at Scale", 2013).
//!
//! A request asks 1,000 machines and is as slow as the slowest of them. 98 % of the answers of a
//! machine take up to 10 ms, and the rest has a heavy tail.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::time::{ManualTimer, Timer};
use resile::{AdaptiveTimeout, Attempt, Budget, HedgePolicy, Never, Upstream, hedge};

use super::Published::{AtLeast, AtMost, Percent, PlusMinus};
use super::sim::{drive, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

const KEYS: usize = 1_000;
const USUAL: Duration = Duration::from_millis(10);
/// The number of requests that share a budget and an adaptive timeout.
const CHUNK: usize = 250;

const LATE: HedgePolicy = HedgePolicy::new().with_delay(USUAL);

/// The rule for a hedge.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// No hedge.
    Never,
    /// A hedge after 10 ms.
    After10Ms,
    /// A hedge after 10 ms, paid from a budget with a deposit of 0.01 tokens per success.
    Budget,
    /// A hedge after the 98th percentile, learned from the calls.
    Adaptive,
}

const KINDS: [(&str, Kind); 4] = [
    ("no hedge", Kind::Never),
    ("hedge after 10 ms", Kind::After10Ms),
    ("after 10 ms, budget of 1 %", Kind::Budget),
    ("after the 98th percentile, learned", Kind::Adaptive),
];

#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    /// The latency of each request in milliseconds, sorted.
    pub latencies: Vec<f64>,
    /// The additional calls in percent of the first attempts.
    extra: f64,
    /// The number of calls with an error.
    failed: usize,
}

/// Requests that run one after the other.
struct Chunk {
    latencies: Vec<Duration>,
    /// The calls of all requests.
    calls: usize,
    failed: usize,
}

/// Draws the latency of one machine.
fn latency(rng: &mut ChaCha8Rng) -> Duration {
    let slower = 1.0 - rng.random::<f64>();
    if slower > 0.02 {
        seconds(0.01 * (1.0 - slower) / 0.98)
    } else {
        seconds(0.01 * (slower / 0.02).powf(-1.0 / 1.907))
    }
}

fn run(kind: Kind, requests: usize, seed: u64) -> Chunk {
    let timer = ManualTimer::with_seed(seed);
    let policy = match kind {
        Kind::Never => LATE.with_hedges(0),
        Kind::After10Ms | Kind::Budget => LATE,
        Kind::Adaptive => HedgePolicy::new().with_learned_delay(),
    };
    let machines = Upstream::new("machines").with_timer(timer.clone()).with_observer(&());
    let machines = match kind {
        Kind::Never | Kind::After10Ms => machines,
        Kind::Budget => machines.with_budget(Budget::new().with_capacity(20).with_deposit(0.01)),
        Kind::Adaptive => {
            machines.with_adaptive_timeout(AdaptiveTimeout::new().with_quantile(0.98))
        }
    };
    // Starts with an empty budget, so that the deposit is measured.
    while machines.budget().is_some_and(Budget::withdraw) {}
    // First attempts have their own generator, so all kinds meet the same ones.
    let (mut firsts, hedges) = (seeded(seed), RefCell::new(seeded(!seed)));
    let (calls, failed) = (Cell::new(0), Cell::new(0));
    let mut latencies = Vec::with_capacity(requests + 1);
    // The first request only trains the adaptive timeout.
    for _ in 0..=requests {
        let began = timer.now();
        let call = |first: Duration| {
            let (policy, timer, hedges, calls, failed) =
                (&policy, &timer, &hedges, &calls, &failed);
            let machines = &machines;
            let ask = move |attempt: Attempt| {
                calls.set(calls.get() + 1);
                let takes =
                    if attempt.is_first() { first } else { latency(&mut hedges.borrow_mut()) };
                let answer = timer.sleep(takes);
                async {
                    answer.await;
                    Ok::<_, Infallible>(())
                }
            };
            async move {
                let outcome = hedge(ask, policy, Never).on(machines).await;
                failed.set(failed.get() + usize::from(outcome.is_err()));
            }
        };
        drive(&timer, (0..KEYS).map(|_| latency(&mut firsts)).map(call));
        latencies.push(timer.now().saturating_sub(began));
    }
    latencies.remove(0);
    Chunk { latencies, calls: calls.get(), failed: failed.get() }
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let (chunks, requests) = size.pick((2, 30), (80, CHUNK));
    let runs = on_all_cores(KINDS.len() * chunks, progress, |job| {
        run(KINDS[job / chunks].1, requests, (job % chunks) as u64)
    });
    let lines = KINDS.iter().zip(runs.chunks(chunks));
    let line = |(&(name, _), runs): (&(&'static str, Kind), &[Chunk])| {
        let asked = (chunks * (requests + 1) * KEYS) as f64;
        let all = runs.iter().flat_map(|run| &run.latencies);
        let mut latencies: Vec<f64> = all.map(|latency| 1e3 * latency.as_secs_f64()).collect();
        latencies.sort_by(f64::total_cmp);
        Line {
            name,
            latencies,
            extra: 100.0 * (runs.iter().map(|run| run.calls).sum::<usize>() as f64 / asked - 1.0),
            failed: runs.iter().map(|run| run.failed).sum(),
        }
    };
    lines.map(line).collect()
}

impl Line {
    /// Returns the latency that a share `q` of the requests do not exceed.
    pub fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.latencies.len() as f64).ceil() as usize;
        self.latencies[rank.clamp(1, self.latencies.len()) - 1]
    }
}

pub fn checks(lines: &[Line], size: Size) -> Vec<Check> {
    let [none, fixed, budget, adaptive] = lines else { unreachable!("four lines") };
    // Few requests do not show the far tail, so the quick size compares the near tail.
    let (q, name) = size.pick((0.9, "p90"), (0.999, "p99.9"));
    let [slow, quick, learned] = [none, fixed, adaptive].map(|line| line.quantile(q));
    let (gain, other) = (slow / quick, slow / learned);
    // With the distribution of `latency`, the slowest of n machines has S(t)ⁿ without a hedge, and
    // (S(t) S(t − 10 ms))ⁿ with one. 20 of 20,000 requests lie beyond p99.9, so two standard errors
    // are 25 % of the first figure and 12 % of the second.
    let (alone, hedged) = size.pick(
        (Percent(157.0, 25.0), Percent(20.0, 10.0)),
        (Percent(1800.0, 25.0), Percent(53.4, 12.0)),
    );
    let mut checks = vec![
        Check::new(format!("no hedge: {name}"), alone, (slow, 0, " ms")),
        Check::new(format!("hedge after 10 ms: {name}, by arithmetic"), hedged, (quick, 1, " ms")),
    ];
    if size == Size::Full {
        let reason = "The paper measured a service. The model draws each latency independently, so \
                      arithmetic gives 53.4 ms, or 34x.";
        checks.extend([
            Check::new("hedge after 10 ms: p99.9", Percent(74.0, 25.0), (quick, 0, " ms"))
                .or_outcome(AtMost(100.0, 0.0), reason),
            Check::new("hedge after 10 ms: p99.9 better by", Percent(24.0, 25.0), (gain, 1, "x"))
                .or_outcome(AtLeast(20.0, 0.0), reason),
        ]);
    }
    checks.extend([
        // Many calls take about 10 ms, so few requests cannot distinguish 1.9 % from 2.1 %.
        Check::new(
            "hedge after 10 ms: more calls",
            PlusMinus(2.0, size.pick(0.2, 0.1)),
            (fixed.extra, 3, " %"),
        ),
        Check::new(
            "98th percentile, learned: share of that gain",
            AtLeast(80.0, 0.0),
            (100.0 * other / gain, 0, " %"),
        )
        .ours(),
        Check::new(
            "98th percentile, learned: more calls",
            PlusMinus(2.0, 0.3),
            (adaptive.extra, 3, " %"),
        )
        .ours(),
        Check::new("budget of 1 %: more calls", AtMost(1.0, 0.0), (budget.extra, 3, " %")),
        Check::new(
            "budget of 1 %: more calls, lower bound",
            AtLeast(0.9, 0.0),
            (budget.extra, 3, " %"),
        )
        .ours(),
        Check::new(
            "budget of 1 %: calls failed",
            PlusMinus(0.0, 0.0),
            (budget.failed as f64, 0, ""),
        ),
    ]);
    checks
}
