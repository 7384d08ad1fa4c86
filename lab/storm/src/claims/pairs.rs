//! Pairs of parts are stable too: after a shock the goodput comes back.
//!
//! Two parts that are stable alone can keep each other from recovering ("Ghosted", arXiv 2606.00942). So
//! each pair of nine parts meets two shocks. A server has 10 slots, and a call takes it 100 ms. It gets
//! 70 % or 85 % of the calls that it can do. It queues 200 requests and refuses more, and it also works
//! on requests whose client has gone. A client waits 1 s for an answer and 5 s in all, so a full queue
//! answers nobody in time. From 20 s to 30 s the server stands still, or takes ten times as long.
//!
//! A pair has recovered when the goodput of five seconds is 95 % of that before the shock, and its mean
//! stays so.
//!
//! A retry or a hedge alone does not recover: the requests that it adds fill the queue again, and each
//! of them waits longer than its client. A brake is what makes them fewer: a budget or a learned limit,
//! and for a retry also a breaker. A quota is one because it learns a lower limit from the refusals. That
//! takes a minute, and without it a quota with the rate of the server is no brake. A cooldown delays the
//! requests, a throttle counts refusals but no timeouts, and an adaptive timeout sends them sooner.

use std::cell::RefCell;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::classify::ClassifyExt;
use resile::quota::Rate;
use resile::time::{ManualTimer, Timer};
use resile::{
    AdaptiveTimeout, Breaker, Budget, Bulkhead, Cooldown, GaveUp, HedgePolicy, Never, Quota,
    RetryPolicy, Throttle, Upstream, Verdict, hedge, retry,
};

use super::Published::{AtLeast, AtMost};
use super::shock::{SHOCK, SHOCKS, SLOTS, Server, Shock, TAKES};
use super::sim::{Series, drive_arrivals, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

/// The parts. `retry` and `hedge` are those of a call, the others those of an upstream.
pub const PARTS: [&str; 9] =
    ["retry", "hedge", "budget", "breaker", "cooldown", "quota", "learned", "throttle", "adaptive"];
const RETRY: usize = 0;
const HEDGE: usize = 1;

/// The calls in a second: 70 % and 85 % of what the server can do.
const RATES: [f64; 2] = [70.0, 85.0];
const TIMEOUT: Duration = Duration::from_secs(1);
const IN_ALL: Duration = Duration::from_secs(5);
/// The time until a refusal arrives.
const REFUSES: Duration = Duration::from_millis(1);
/// The seconds within which a pair must recover.
const SOON: f64 = 30.0;
/// The time is longer with a quota, whose line empties slowly.
const IN_LINE: f64 = 90.0;

/// The failures of an attempt.
#[derive(Debug, thiserror::Error)]
#[error("overloaded")]
struct Overloaded;

struct Scene {
    parts: [bool; PARTS.len()],
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    server: RefCell<Server>,
    rng: RefCell<ChaCha8Rng>,
    good: RefCell<Series>,
}

impl Scene {
    async fn ask(&self) -> Result<(), Overloaded> {
        let until = self.server.borrow_mut().take(self.timer.now(), &mut self.rng.borrow_mut());
        self.timer.sleep(until.unwrap_or(REFUSES)).await;
        until.map(drop).ok_or(Overloaded)
    }

    async fn hedged(&self) -> Result<(), GaveUp<Overloaded>> {
        let policy = HedgePolicy::new()
            .with_delay(TIMEOUT / 3)
            .with_learned_delay()
            .with_classifier(throttled.cut_is(Verdict::transient()));
        hedge(|_| self.ask(), policy, Never).on(&self.upstream).await
    }

    async fn call(&self) {
        let policy = if self.parts[RETRY] { RetryPolicy::new() } else { RetryPolicy::none() };
        let policy = policy
            .with_attempt_timeout(TIMEOUT)
            .with_total_timeout(IN_ALL)
            .with_learned_attempt_timeout();
        let is_good = if self.parts[HEDGE] {
            let policy = policy.with_classifier(passed_on.cut_is(Verdict::transient()));
            retry(|_| self.hedged(), policy, Never).on(&self.upstream).await.is_ok()
        } else {
            let policy = policy.with_classifier(throttled.cut_is(Verdict::transient()));
            retry(|_| self.ask(), policy, Never).on(&self.upstream).await.is_ok()
        };
        if is_good {
            self.good.borrow_mut().count(self.timer.now());
        }
    }
}

fn throttled(_: &Overloaded) -> Verdict {
    Verdict::throttled()
}

fn passed_on(gave_up: &GaveUp<Overloaded>) -> Option<Verdict> {
    gave_up.verdict()
}

/// Returns an upstream with the defaults of the parts. The quota is the limit of the server.
fn upstream(parts: [bool; PARTS.len()], timer: &ManualTimer) -> Upstream<ManualTimer> {
    let mut upstream = Upstream::new("server").with_observer(&()).with_timer(timer.clone());
    for (part, name) in PARTS.iter().enumerate().filter(|&(part, _)| parts[part]) {
        upstream = match *name {
            "budget" => upstream.with_budget(Budget::new()),
            "breaker" => upstream.with_breaker(Breaker::new()),
            "cooldown" => upstream.with_cooldown(Cooldown::new()),
            "quota" => upstream.with_quota(
                Quota::new()
                    .with_requests(Rate::per_second(u64::from((SLOTS as f64 / TAKES) as u32))),
            ),
            "learned" => upstream.with_bulkhead(Bulkhead::learned(1_000)),
            "throttle" => upstream.with_throttle(Throttle::new()),
            "adaptive" => upstream.with_adaptive_timeout(AdaptiveTimeout::new()),
            _ => {
                debug_assert!(part <= HEDGE, "a part of a call");
                upstream
            }
        };
    }
    upstream
}

fn run(parts: [bool; PARTS.len()], rate: f64, shock: Shock, end: usize, seed: u64) -> Series {
    let timer = ManualTimer::with_seed(seed);
    let scene = Scene {
        parts,
        upstream: upstream(parts, &timer),
        server: RefCell::new(Server::new(shock)),
        rng: RefCell::new(seeded(!seed)),
        good: RefCell::new(Series::new(end as u64)),
        timer,
    };
    // Each call comes at random in a slice of its own, so a second has the same number of calls.
    let mut arrivals = seeded(seed);
    let calls = (0..(end as f64 * rate) as u32).map(|number| {
        (seconds((f64::from(number) + arrivals.random::<f64>()) / rate), scene.call())
    });
    drive_arrivals(&scene.timer, Duration::from_secs(end as u64), calls);
    scene.good.into_inner()
}

/// Returns the seconds from the end of the shock to the recovery. `None` if there is none. Beyond the first
/// five seconds the mean counts, because the goodput of a busy server varies by chance.
fn recovery(good: &Series) -> Option<usize> {
    const WINDOW: usize = 5;
    let enough = 0.95 * good.mean(SHOCK.start - 10..SHOCK.start);
    let end = good.len() - 1;
    let recovered = |from: &usize| {
        good.mean(*from..*from + WINDOW) >= enough && good.mean(*from..end) >= enough
    };
    (SHOCK.end..end - 2 * WINDOW).find(recovered).map(|at| at - SHOCK.end)
}

/// A pair of parts, or one part alone.
#[derive(Debug)]
pub struct Pair {
    parts: (usize, usize),
    /// The latest recovery of all runs in seconds, whatever the load and the shock.
    recovers: Option<usize>,
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Pair> {
    let (seeds, end) = size.pick((1, 100), (5, 180));
    let rates: &[f64] = size.pick(&RATES[..1], &RATES);
    let all = PARTS.len();
    let pairs: Vec<_> = (0..all).flat_map(|one| (one..all).map(move |two| (one, two))).collect();
    let each = seeds * SHOCKS.len() * rates.len();
    let runs = on_all_cores(pairs.len() * each, progress, |job| {
        let (one, two) = pairs[job / each];
        let mut parts = [false; PARTS.len()];
        (parts[one], parts[two]) = (true, true);
        let scene = job % each / seeds;
        let (rate, shock) = (rates[scene / SHOCKS.len()], SHOCKS[scene % SHOCKS.len()]);
        recovery(&run(parts, rate, shock, end, (job % seeds) as u64))
    });
    let latest = |runs: &[Option<usize>]| {
        runs.iter().copied().try_fold(0, |latest, run| Some(run?.max(latest)))
    };
    let pair = |(&parts, runs): (&(usize, usize), &[Option<usize>])| Pair {
        parts,
        recovers: latest(runs),
    };
    pairs.iter().zip(runs.chunks(each)).map(pair).collect()
}

/// Returns the recovery of each pair in seconds, whatever the shock. On the diagonal a part is alone.
pub fn table(pairs: &[Pair]) -> String {
    let numbers = (1..=PARTS.len()).map(|number| number.to_string());
    let row = |name: &str, empty: usize, cells: Vec<String>| {
        let cells = cells.into_iter().map(|cell| format!("{cell:>7}"));
        format!("  {name:<12}{}{}", " ".repeat(7 * empty), cells.collect::<Vec<_>>().concat())
    };
    let of = |(one, name): (usize, &&str)| {
        let cell = |pair: &Pair| pair.recovers.map_or("never".to_owned(), |at| at.to_string());
        let cells = pairs.iter().filter(|pair| pair.parts.0 == one).map(cell).collect();
        row(&format!("{} {name}", one + 1), one, cells)
    };
    let head = row("recovery, s", 0, numbers.collect());
    std::iter::once(head).chain(PARTS.iter().enumerate().map(of)).collect::<Vec<_>>().join("\n")
}

/// The promise about a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// It recovers soon.
    Soon,
    /// A quota makes calls wait in line, and learns a lower limit from the refusals of the shock.
    InLine,
    /// A retry or a hedge without a part that brakes it. It may never recover.
    Forbidden,
}

impl Pair {
    fn has(&self, name: &str) -> bool {
        [self.parts.0, self.parts.1].iter().any(|&part| PARTS[part] == name)
    }

    fn promise(&self) -> Promise {
        let adds = self.has("retry") || self.has("hedge");
        // A breaker closes after its pause, and the hedges of the first slow calls open it again.
        let has_brake =
            self.has("budget") || self.has("learned") || self.has("breaker") && !self.has("hedge");
        if self.has("quota") {
            Promise::InLine
        } else if adds && !has_brake {
            Promise::Forbidden
        } else {
            Promise::Soon
        }
    }

    fn name(&self) -> String {
        let (one, two) = self.parts;
        if one == two { PARTS[one].to_owned() } else { format!("{} + {}", PARTS[one], PARTS[two]) }
    }
}

pub fn checks(pairs: &[Pair]) -> Vec<Check> {
    let (forbidden, stable): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|pair| pair.promise() == Promise::Forbidden);
    let mut checks: Vec<_> = stable
        .iter()
        .map(|pair| {
            let within = if pair.promise() == Promise::InLine { IN_LINE } else { SOON };
            let at = pair.recovers.map_or(f64::INFINITY, |at| at as f64);
            Check::new(pair.name(), AtMost(within, 0.0), (at, 0, " s")).ours()
        })
        .collect();
    // Each of them keeps the server busy with requests that nobody waits for. If none did, the shocks
    // would prove nothing.
    let stay = forbidden.iter().filter(|pair| pair.recovers.is_none()).count();
    let named = forbidden.len() as f64;
    checks.push(
        Check::new(
            "retry or hedge without a brake: pairs that stay down",
            AtLeast(named - 3.0, 0.0),
            (stay as f64, 0, &format!(" of {named}")),
        )
        .ours(),
    );
    checks
}
