//! A fleet at a rate limit: 10,000 agents in 100 processes share one provider, which says when to come back.
//!
//! Each agent makes its calls one after the other and thinks before each. Together they want several times what the
//! provider gives. It has a bucket that holds one second's worth of requests and is filled evenly; whoever finds it empty
//! is told to come back in a second, the least that a `Retry-After` header can say.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::{Cooldown, ManualTimer, Never, RetryPolicy, Timer, Verdict, retry};

use super::sim::{Series, drive, exponential, on_all_cores, seeded};
use super::{Check, Progress, Size};

/// Agents of one process.
const CROWD: usize = 100;
const CALLS: usize = 5;
/// Requests a second and process.
const RATE: f64 = 5.0;
const THINKS: f64 = 4.0;
const TAKES: f64 = 1.0;
const HOP: f64 = 0.05;
const LONGEST: u64 = 3_600;

/// What an agent does when it is refused.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Not the crate: a loop by hand that sleeps as long as it was told.
    Hint,
    /// `retry`, which spreads what was asked for.
    Retry,
    /// `retry` with a cooldown that the agents of a process share.
    Cooldown,
}

const KINDS: [(&str, Kind); 3] =
    [("hint alone, by hand", Kind::Hint), ("hint with jitter", Kind::Retry), ("cooldown per process", Kind::Cooldown)];

struct TooMany {
    after: Duration,
}

fn throttled(error: &TooMany) -> Verdict {
    Verdict::throttled(Some(error.after))
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
        let since = (now - self.as_of.replace(now)).as_secs_f64();
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
    cooldowns: Vec<Cooldown>,
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
        let policy = RetryPolicy::new().with_attempts(u32::MAX).with_classify(throttled);
        let call = || retry(|_| self.ask(), &policy, Never).with_timer(&self.timer).with_observer(());
        let outcome = match kind {
            Kind::Hint => {
                while let Err(told) = self.ask().await {
                    self.timer.sleep(told.after).await;
                }
                Ok(())
            }
            Kind::Retry => call().await,
            Kind::Cooldown => call().with_cooldown(&self.cooldowns[process]).await,
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
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Requests that reached the provider, and those of them that it served, per second.
    pub(crate) load: Vec<f64>,
    pub(crate) good: Vec<f64>,
    pub(crate) wasted: f64,
    pub(crate) finished: Duration,
}

fn run(name: &'static str, kind: Kind, processes: usize, seed: u64) -> Line {
    let scene = Scene {
        timer: ManualTimer::new(),
        provider: Provider::new(RATE * processes as f64),
        rng: RefCell::new(seeded(seed)),
        cooldowns: (0..processes).map(|_| Cooldown::new()).collect(),
    };
    drive(&scene.timer, (0..processes * CROWD).map(|number| scene.agent(kind, number % processes)));
    let calls = (processes * CROWD * CALLS) as f64;
    let Scene { timer, provider, .. } = scene;
    let finished = timer.now();
    let until = finished.as_secs() as usize + 1;
    let cut = |series: RefCell<Series>| Series::average([&series.into_inner()])[..until].to_vec();
    Line {
        name,
        load: cut(provider.load),
        good: cut(provider.good),
        wasted: f64::from(provider.refused.get()) / calls,
        finished,
    }
}

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let processes = size.pick(10, 100);
    on_all_cores(KINDS.len(), progress, |job| run(KINDS[job].0, KINDS[job].1, processes, 8))
}

pub(crate) fn checks(lines: &[Line]) -> Vec<Check> {
    let [hint, jitter, cooldown] = lines else { unreachable!("three lines") };
    for line in lines {
        let by = |v: &[f64]| v.chunks(10).map(|c| (c.iter().sum::<f64>() / c.len() as f64) as u32).collect::<Vec<_>>();
        println!("load {:?}\ngood {:?}", by(&line.load), by(&line.good));
        println!("{}: wasted {:.3} finished {:?}", line.name, line.wasted, line.finished);
    }
    let _ = jitter;
    vec![Check::new("x", "", (hint.wasted / cooldown.wasted, 1, "x"), 10.0..)]
}
