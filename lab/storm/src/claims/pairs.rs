//! Pairs of parts are stable too: after a shock the goodput comes back.
//!
//! Two parts that are stable alone can keep each other from recovering ("Ghosted", arXiv 2606.00942). So
//! each pair of nine parts meets two shocks. A server has 10 slots, a call takes it 100 ms, and 70 calls
//! a second come. It queues 200 requests and refuses more. It also works on requests whose client has
//! gone. A client waits 1 s for an answer and 5 s in all, so a full queue answers nobody in time. From 20 s to
//! 30 s the server stands still, or takes ten times as long.
//!
//! A pair has recovered when the goodput of five seconds is 95 % of that before the shock, and stays so.
//!
//! A retry or a hedge alone does not recover: the requests that it adds fill the queue again, and each
//! of them waits longer than its client. What sends less of them is a brake: a budget, a breaker or a
//! learned limit. A quota is one because it learns a lower limit from the refusals. That takes it a
//! minute, and a quota without it that has the rate of the server does not recover with retries. A cooldown delays
//! them, a throttle counts refusals but no timeouts, and an adaptive timeout sends them sooner.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
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
use super::sim::{Series, drive_arrivals, on_all_cores, seconds, seeded};
use super::slots::Service;
use super::{Check, Progress, Size};

/// The parts. `retry` and `hedge` are those of a call, the others those of an upstream.
pub const PARTS: [&str; 9] =
    ["retry", "hedge", "budget", "breaker", "cooldown", "quota", "learned", "throttle", "adaptive"];
const RETRY: usize = 0;
const HEDGE: usize = 1;

const SLOTS: usize = 10;
const QUEUE: usize = 200;
const TAKES: f64 = 0.1;
/// The calls in a second.
const RATE: f64 = 70.0;
const TIMEOUT: Duration = Duration::from_secs(1);
const IN_ALL: Duration = Duration::from_secs(5);
/// The seconds of the shock.
const SHOCK: Range<usize> = 20..30;
/// The seconds within which a pair must recover.
const SOON: f64 = 20.0;
/// The time is longer with a quota, whose line empties slowly.
const IN_LINE: f64 = 60.0;

/// A shock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shock {
    Standstill,
    Slow,
}

const SHOCKS: [Shock; 2] = [Shock::Standstill, Shock::Slow];

/// The failures of an attempt.
#[derive(Debug, thiserror::Error)]
#[error("overloaded")]
struct Overloaded;

/// A server with slots and a bounded queue. It knows only the times at which its slots get free.
struct Server {
    shock: Shock,
    /// The time at which each slot is free, for the requests that it has taken.
    free: Vec<Duration>,
    /// The starts of the requests that wait.
    starts: VecDeque<Duration>,
}

impl Server {
    /// Takes a request. Returns the time until its answer. `None` if the queue is full.
    fn take(&mut self, now: Duration, rng: &mut ChaCha8Rng) -> Option<Duration> {
        while self.starts.front().is_some_and(|&start| start <= now) {
            self.starts.pop_front();
        }
        if self.starts.len() >= QUEUE {
            return None;
        }
        let slot = self.free.iter_mut().min().expect("a server has slots");
        let start = now.max(*slot);
        let shocked = SHOCK.contains(&(start.as_secs() as usize));
        let start = if shocked && self.shock == Shock::Standstill {
            Duration::from_secs(SHOCK.end as u64)
        } else {
            start
        };
        let takes = if shocked && self.shock == Shock::Slow { 10.0 * TAKES } else { TAKES };
        let end = start + Service::Exponential.draw(takes, rng);
        *slot = end;
        if start > now {
            self.starts.push_back(start);
        }
        Some(end.saturating_sub(now))
    }
}

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
        let taken = self.server.borrow_mut().take(self.timer.now(), &mut self.rng.borrow_mut());
        match taken {
            Some(takes) => self.timer.sleep(takes).await,
            None => {
                self.timer.sleep(Duration::from_millis(1)).await;
                return Err(Overloaded);
            }
        }
        Ok(())
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
                Quota::new().with_requests(Rate::per_second((SLOTS as f64 / TAKES) as u32)),
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

fn run(parts: [bool; PARTS.len()], shock: Shock, end: usize, seed: u64) -> Series {
    let timer = ManualTimer::with_seed(seed);
    let scene = Scene {
        parts,
        upstream: upstream(parts, &timer),
        server: RefCell::new(Server {
            shock,
            free: vec![Duration::ZERO; SLOTS],
            starts: VecDeque::new(),
        }),
        rng: RefCell::new(seeded(!seed)),
        good: RefCell::new(Series::new(end as u64)),
        timer,
    };
    // Each call comes at random in a slice of its own, so a second has the same number of calls.
    let mut arrivals = seeded(seed);
    let calls = (0..(end as f64 * RATE) as u32).map(|number| {
        (seconds((f64::from(number) + arrivals.random::<f64>()) / RATE), scene.call())
    });
    drive_arrivals(&scene.timer, Duration::from_secs(end as u64), calls);
    scene.good.into_inner()
}

/// Returns the seconds from the end of the shock to the recovery. `None` if there is none.
fn recovery(good: &Series) -> Option<usize> {
    const WINDOW: usize = 5;
    let before = good.mean(SHOCK.start - 10..SHOCK.start);
    let last = good.len() - WINDOW - 1;
    let is_good = |from: &usize| good.mean(*from..*from + WINDOW) >= 0.95 * before;
    let bad = (SHOCK.end..=last).rev().find(|from| !is_good(from));
    match bad {
        None => Some(0),
        Some(from) if from == last => None,
        Some(from) => Some(from + 1 - SHOCK.end),
    }
}

/// A pair of parts, or one part alone.
#[derive(Debug)]
pub struct Pair {
    parts: (usize, usize),
    /// The latest recovery of all seeds after each shock, in seconds.
    recovers: [Option<usize>; SHOCKS.len()],
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Pair> {
    let (seeds, end) = size.pick((1, 80), (5, 180));
    let all = PARTS.len();
    let pairs: Vec<_> = (0..all).flat_map(|one| (one..all).map(move |two| (one, two))).collect();
    let runs = on_all_cores(pairs.len() * SHOCKS.len() * seeds, progress, |job| {
        let (one, two) = pairs[job / seeds / SHOCKS.len()];
        let mut parts = [false; PARTS.len()];
        (parts[one], parts[two]) = (true, true);
        recovery(&run(parts, SHOCKS[job / seeds % SHOCKS.len()], end, (job % seeds) as u64))
    });
    let latest = |runs: &[Option<usize>]| {
        runs.iter().copied().try_fold(0, |latest, run| Some(run?.max(latest)))
    };
    let of_pair = |(&parts, runs): (&(usize, usize), &[Option<usize>])| Pair {
        parts,
        recovers: [latest(&runs[..seeds]), latest(&runs[seeds..])],
    };
    pairs.iter().zip(runs.chunks(seeds * SHOCKS.len())).map(of_pair).collect()
}

impl Pair {
    fn recovers(&self) -> Option<usize> {
        Some(self.recovers[0]?.max(self.recovers[1]?))
    }
}

/// Returns the recovery of each pair in seconds, whatever the shock. On the diagonal a part is alone.
pub fn table(pairs: &[Pair]) -> String {
    let numbers: String = (1..=PARTS.len()).map(|number| format!("{number:>7}")).collect();
    let mut lines = vec![format!("  {:<12}{numbers}", "recovery, s")];
    for (one, name) in PARTS.iter().enumerate() {
        let mut line = format!("  {} {name:<10}{}", one + 1, " ".repeat(7 * one));
        for pair in pairs.iter().filter(|pair| pair.parts.0 == one) {
            let cell = pair.recovers().map_or("never".to_owned(), |at| at.to_string());
            line += &format!("{cell:>7}");
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// The promise about a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// It recovers soon.
    Soon,
    /// A quota makes calls wait in line, and learns a lower limit from the refusals of the shock.
    InLine,
    /// A retry or a hedge without a part that limits it. It may never recover.
    Forbidden,
}

impl Pair {
    fn has(&self, name: &str) -> bool {
        [self.parts.0, self.parts.1].iter().any(|&part| PARTS[part] == name)
    }

    fn promise(&self) -> Promise {
        let any = |names: &[&str]| names.iter().any(|name| self.has(name));
        if any(&["budget", "breaker", "learned"]) && !self.has("quota") {
            Promise::Soon
        } else if self.has("quota") {
            Promise::InLine
        } else if any(&["retry", "hedge"]) {
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
            let at = pair.recovers().map_or(f64::INFINITY, |at| at as f64);
            Check::new(pair.name(), AtMost(within, 0.0), (at, 0, " s")).ours()
        })
        .collect();
    // Each of them keeps the server busy with requests that nobody waits for. If none did, the shocks
    // would prove nothing.
    let stay = forbidden.iter().filter(|pair| pair.recovers().is_none()).count();
    let named = forbidden.len() as f64;
    checks.push(
        Check::new(
            "retry or hedge without a brake: pairs that stay down",
            AtLeast(named - 2.0, 0.0),
            (stay as f64, 0, &format!(" of {named}")),
        )
        .ours(),
    );
    checks
}
