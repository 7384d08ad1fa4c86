//! A fleet at a rate limit. 10,000 agents in 100 processes share one provider, and the provider
//! sends `Retry-After` hints.
//!
//! Each agent makes five calls one after the other and pauses before each. Together, the agents
//! want several times the capacity of the provider. The provider has a bucket with the requests of
//! one second, and fills it evenly. An agent that finds the bucket empty must wait a second, the
//! least that a `Retry-After` header can say.
//!
//! No source has figures for this model. A cooldown must waste at least ten times fewer calls than
//! the hint alone, and must finish no later.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::time::{ManualTimer, Timer};
use resile::{Cooldown, Never, RetryPolicy, Upstream, Verdict, retry};

use super::Published::{AtLeast, AtMost, PlusMinus};
use super::sim::{Series, drive, exponential, mean, on_all_cores, seeded};
use super::{Check, Progress, Size};

/// The number of agents in one process.
const CROWD: usize = 100;
const CALLS: usize = 5;
/// The requests per second that the provider allows for each process.
const RATE: f64 = 5.0;
const THINKS: f64 = 4.0;
const TAKES: f64 = 1.0;
const HOP: f64 = 0.05;
const LONGEST: u64 = 3_600;

/// The reaction of an agent to a refusal.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A loop without the crate that sleeps for the hint.
    Hint,
    /// `retry`, which adds jitter to the hint.
    Retry,
    /// `retry` with a cooldown for each process.
    Cooldown,
}

const KINDS: [(&str, Kind); 3] = [
    ("hint alone, by hand", Kind::Hint),
    ("hint with jitter", Kind::Retry),
    ("cooldown per process", Kind::Cooldown),
];

#[derive(Debug, thiserror::Error)]
#[error("too many requests")]
struct TooMany {
    after: Duration,
}

fn throttled(error: &TooMany) -> Verdict {
    Verdict::throttled().after(error.after)
}

struct Provider {
    rate: f64,
    tokens: Cell<f64>,
    as_of: Cell<Duration>,
    load: RefCell<Series>,
    good: RefCell<Series>,
    refused: Cell<u32>,
}

impl Provider {
    fn new(rate: f64) -> Self {
        let series = || RefCell::new(Series::new(LONGEST));
        Self {
            rate,
            tokens: Cell::new(rate),
            as_of: Cell::default(),
            load: series(),
            good: series(),
            refused: Cell::default(),
        }
    }

    fn admit(&self, now: Duration) -> Result<(), TooMany> {
        let since = now.saturating_sub(self.as_of.replace(now)).as_secs_f64();
        let tokens = (self.tokens.get() + since * self.rate).min(self.rate);
        self.load.borrow_mut().count(now);
        if tokens >= 1.0 {
            self.tokens.set(tokens - 1.0);
            self.good.borrow_mut().count(now);
            return Ok(());
        }
        self.tokens.set(tokens);
        self.refused.set(self.refused.get() + 1);
        Err(TooMany { after: Duration::from_secs(1) })
    }
}

struct Scene {
    timer: ManualTimer,
    provider: Provider,
    rng: RefCell<ChaCha8Rng>,
    /// The upstream of each process.
    processes: Vec<Upstream<ManualTimer>>,
}

impl Scene {
    async fn sleep(&self, mean: f64) {
        let delay = exponential(mean, &mut self.rng.borrow_mut());
        self.timer.sleep(delay).await;
    }

    async fn ask(&self) -> Result<(), TooMany> {
        self.sleep(HOP).await;
        let outcome = self.provider.admit(self.timer.now());
        self.sleep(if outcome.is_ok() { TAKES } else { HOP }).await;
        outcome
    }

    async fn call(&self, kind: Kind, process: usize) {
        let policy = RetryPolicy::new().with_attempts(u32::MAX).with_classifier(throttled);
        let outcome = match kind {
            Kind::Hint => {
                while let Err(told) = self.ask().await {
                    self.timer.sleep(told.after).await;
                }
                Ok(())
            }
            Kind::Retry | Kind::Cooldown => {
                retry(|_| self.ask(), &policy, Never).on(&self.processes[process]).await
            }
        };
        assert!(outcome.is_ok(), "nothing ends a call but its success");
    }

    async fn agent(&self, kind: Kind, process: usize) {
        for _ in 0..CALLS {
            self.sleep(THINKS).await;
            self.call(kind, process).await;
        }
    }
}

#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    /// The requests that reached the provider, and the requests that it served, for each second.
    pub load: Vec<f64>,
    pub good: Vec<f64>,
    /// The refusals per success.
    pub wasted: f64,
    /// The time at which the last agent finished, in seconds.
    pub finished: f64,
}

/// The futures of the agents in a run.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    pub agents: usize,
    /// The size of one future in bytes, with its waits and its attempt in flight.
    pub future: usize,
}

fn run(kind: Kind, processes: usize, seed: u64) -> (Line, Crowd) {
    let timer = ManualTimer::with_seed(seed);
    let process = |_| {
        let upstream = Upstream::new("provider").with_timer(timer.clone()).with_observer(&());
        if kind == Kind::Cooldown { upstream.with_cooldown(Cooldown::new()) } else { upstream }
    };
    let scene = Scene {
        processes: (0..processes).map(process).collect(),
        provider: Provider::new(RATE * processes as f64),
        rng: RefCell::new(seeded(seed)),
        timer,
    };
    let crowd = Crowd { agents: processes * CROWD, future: size_of_val(&scene.agent(kind, 0)) };
    drive(&scene.timer, (0..crowd.agents).map(|number| scene.agent(kind, number % processes)));
    let Scene { timer, provider, .. } = scene;
    let until = timer.now().as_secs() as usize + 1;
    let cut = |series: RefCell<Series>| Series::average([&series.into_inner()])[..until].to_vec();
    let line = Line {
        name: KINDS.iter().find(|(_, it)| *it == kind).map_or("", |(name, _)| name),
        load: cut(provider.load),
        good: cut(provider.good),
        wasted: f64::from(provider.refused.get()) / (crowd.agents * CALLS) as f64,
        finished: timer.now().as_secs_f64(),
    };
    (line, crowd)
}

/// Runs one fleet with its cooldowns on this thread, to measure its time and memory.
pub fn alone(size: Size) -> Crowd {
    run(Kind::Cooldown, size.pick(10, 100), 8).1
}

impl Line {
    /// Returns the series of the first run and the means of all runs.
    fn of(runs: &[Line]) -> Self {
        let average = |of: fn(&Line) -> f64| mean(runs.iter().map(of));
        let Line { name, load, good, .. } = &runs[0];
        Line {
            name,
            load: load.clone(),
            good: good.clone(),
            wasted: average(|line| line.wasted),
            finished: average(|line| line.finished),
        }
    }

    /// Returns the requests served per second, after the start and before the first agents finish.
    fn served(&self) -> f64 {
        mean(self.good[10..60].iter().copied())
    }
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    // The end of the last agent varies by seconds, so the full size takes several seeds.
    let (processes, seeds) = size.pick((10, 2), (100, 32));
    let runs = on_all_cores(KINDS.len() * seeds, progress, |job| {
        run(KINDS[job / seeds].1, processes, (job % seeds) as u64).0
    });
    runs.chunks(seeds).map(Line::of).collect()
}

pub fn checks(lines: &[Line], size: Size) -> Vec<Check> {
    let [hint, jitter, cooldown] = lines else { unreachable!("three lines") };
    let limit = RATE * size.pick(10.0, 100.0);
    let later = |than: &Line| 100.0 * (cooldown.finished / than.finished - 1.0);
    // The end of the last agent depends on chance, and more so in a small fleet. The mean of 32
    // fleets has a deviation of 0.7 %, so the quotient of two means has 1 %. For two small fleets
    // the quotient has 4 %, and the mean of the cooldown is 3 % later.
    let chance = size.pick(25.0, 4.0);
    let checks = [
        Check::new("hint alone: refusals per success", PlusMinus(9.8, 0.5), (hint.wasted, 2, "")),
        Check::new(
            "hint with jitter: refusals per success",
            PlusMinus(2.0, 0.3),
            (jitter.wasted, 2, ""),
        ),
        Check::new("cooldown: refusals per success", AtMost(0.25, 0.0), (cooldown.wasted, 2, "")),
        Check::new(
            "cooldown: fewer refusals than hint alone",
            AtLeast(10.0, 0.0),
            (hint.wasted / cooldown.wasted, 1, "x"),
        ),
        Check::new(
            "hint alone: share of the limit used",
            AtLeast(95.0, 0.0),
            (100.0 * hint.served() / limit, 1, " %"),
        ),
        Check::new(
            "cooldown: share of the limit used",
            AtLeast(size.pick(95.0, 98.0), 0.0),
            (100.0 * cooldown.served() / limit, 1, " %"),
        ),
        // 100 agents with 5 calls each take 100 s at 5 calls a second.
        Check::new(
            "hint alone: end of the last agent",
            AtLeast(100.0, 0.0),
            (hint.finished, 0, " s"),
        ),
        Check::new(
            "cooldown: later than hint with jitter",
            AtMost(0.0, chance),
            (later(jitter), 1, " %"),
        ),
        Check::new("cooldown: later than hint alone", AtMost(0.0, chance), (later(hint), 1, " %")),
    ];
    checks.map(Check::ours).into()
}
