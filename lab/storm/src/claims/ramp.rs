//! A learned limit on the server that collapses: the ramp of the claim `collapse`.
//!
//! A request takes the server 1 s, and 10 ms more for each request in flight at its start. Each hop
//! takes an exponential 0.1 s. The client waits 3 s, and the server also finishes requests after
//! their timeout. 40 calls a second arrive for two minutes. The arrivals then rise to 80 calls a second
//! within 25 s, and fall to none within 50 s. The best fixed limit shows the capacity.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::classify::Always;
use resile::time::{ManualTimer, Timer};
use resile::{Breaker, Budget, Bulkhead, Never, RetryPolicy, Upstream, retry};

use super::Published::{AtLeast, AtMost};
use super::sim::{Series, drive_arrivals, exponential, mean, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

const TIMEOUT: Duration = Duration::from_secs(3);
const HOP: f64 = 0.1;
const PEAK: f64 = 80.0;
/// The second at which the ramp begins.
const WARM: f64 = 120.0;
const END: u64 = 200;
/// The seconds in which more calls arrive than the server can bear.
const OVERLOAD: Range<usize> = 130..162;

/// Returns the arrivals in a second.
fn rate(at: f64) -> f64 {
    if at < WARM { 40.0 } else { (PEAK - 1.6 * (at - WARM - 25.0).abs()).max(0.0) }
}

/// The parts of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    Fixed(u32),
    Learned,
}

#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    policy: RetryPolicy,
    limit: Limit,
    has_defaults: bool,
}

const ONCE: RetryPolicy = RetryPolicy::none();
const CLIENTS: [Client; 5] = [
    Client { name: "no retry", policy: ONCE, limit: Limit::None, has_defaults: false },
    Client { name: "retry, budget, breaker", policy: RetryPolicy::new(), limit: Limit::None, has_defaults: true },
    Client { name: "no retry, learned", policy: ONCE, limit: Limit::Learned, has_defaults: false },
    Client { name: "retry, learned", policy: RetryPolicy::new(), limit: Limit::Learned, has_defaults: false },
    Client { name: "retry, learned, budget, breaker", policy: RetryPolicy::new(), limit: Limit::Learned, has_defaults: true },
];
/// The fixed limits of which the best one shows the capacity.
const FIXED: [u32; 6] = [60, 80, 100, 120, 140, 160];

/// A server that gets slower with each request in flight.
#[derive(Default)]
struct Server {
    ends: BinaryHeap<Reverse<Duration>>,
}

impl Server {
    /// Begins a request. Returns the time that it takes.
    fn take(&mut self, now: Duration) -> Duration {
        while self.ends.peek().is_some_and(|end| end.0 <= now) {
            self.ends.pop();
        }
        let takes = seconds(1.0 + 0.01 * (self.ends.len() + 1) as f64);
        self.ends.push(Reverse(now + takes));
        takes
    }
}

struct Scene {
    timer: ManualTimer,
    server: RefCell<Server>,
    rng: RefCell<ChaCha8Rng>,
    good: RefCell<Series>,
    limits: RefCell<Vec<u32>>,
}

impl Scene {
    async fn ask(&self) -> Result<(), Infallible> {
        let hop = || exponential(HOP, &mut self.rng.borrow_mut());
        self.timer.sleep(hop()).await;
        let takes = self.server.borrow_mut().take(self.timer.now());
        self.timer.sleep(takes + hop()).await;
        Ok(())
    }

    async fn call(&self, client: &Client, upstream: &Upstream<ManualTimer>) {
        if let Some(bulkhead) = upstream.bulkhead() {
            let second = self.timer.now().as_secs() as usize;
            self.limits.borrow_mut().resize(second + 1, bulkhead.limit());
        }
        let policy = client.policy.with_attempt_timeout(TIMEOUT).with_classifier(Always);
        if retry(|_| self.ask(), &policy, Never).on(upstream).await.is_ok() {
            self.good.borrow_mut().count(self.timer.now());
        }
    }
}

/// The answers and the limit in each second.
#[derive(Clone, Debug)]
struct Run {
    good: Series,
    limit: Vec<u32>,
}

fn run(client: &Client, seed: u64) -> Run {
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("server").with_timer(timer.clone()).with_observer(&());
    let upstream = match client.limit {
        Limit::None => upstream,
        Limit::Fixed(limit) => upstream.with_bulkhead(Bulkhead::new(limit)),
        Limit::Learned => upstream.with_bulkhead(Bulkhead::learned(1_000)),
    };
    let upstream = if client.has_defaults {
        upstream.with_budget(Budget::new()).with_breaker(Breaker::new())
    } else {
        upstream
    };
    let scene = Scene {
        timer: timer.clone(),
        server: RefCell::default(),
        rng: RefCell::new(seeded(!seed)),
        good: RefCell::new(Series::new(END)),
        limits: RefCell::default(),
    };
    let (mut arrivals, mut at) = (seeded(seed), Duration::ZERO);
    let calls = std::iter::from_fn(|| loop {
        at += exponential(1.0 / PEAK, &mut arrivals);
        if at >= Duration::from_secs(END) {
            return None;
        }
        if arrivals.random::<f64>() * PEAK < rate(at.as_secs_f64()) {
            return Some((at, scene.call(client, &upstream)));
        }
    });
    drive_arrivals(&timer, Duration::from_secs(END), calls);
    Run { good: scene.good.into_inner(), limit: scene.limits.into_inner() }
}

/// The runs of one client.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    /// The mean of all seeds for each second.
    pub good: Vec<f64>,
    limit: Vec<f64>,
}

#[derive(Debug)]
pub struct Measured {
    pub lines: Vec<Line>,
    fixed: Vec<Line>,
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    let seeds = size.pick(2, 20);
    let fixed = FIXED.map(|limit| Client {
        name: "fixed",
        policy: ONCE,
        limit: Limit::Fixed(limit),
        has_defaults: false,
    });
    let clients: Vec<_> = CLIENTS.into_iter().chain(fixed).collect();
    let runs = on_all_cores(clients.len() * seeds, progress, |job| {
        run(&clients[job / seeds], (job % seeds) as u64)
    });
    let line = |(client, runs): (&Client, &[Run])| Line {
        name: match client.limit {
            Limit::Fixed(limit) => format!("fixed {limit}"),
            _ => client.name.to_owned(),
        },
        good: Series::average(runs.iter().map(|run| &run.good)),
        limit: (0..END as usize)
            .map(|at| mean(runs.iter().map(|run| f64::from(run.limit.get(at).copied().unwrap_or(0)))))
            .collect(),
    };
    let mut lines: Vec<_> = clients.iter().zip(runs.chunks(seeds)).map(line).collect();
    let fixed = lines.split_off(CLIENTS.len());
    Measured { lines, fixed }
}

impl Line {
    fn over(&self, over: Range<usize>) -> f64 {
        mean(self.good[over].iter().copied())
    }
}

pub fn table(measured: &Measured) -> String {
    measured
        .lines
        .iter()
        .chain(&measured.fixed)
        .map(|line| {
            let tens: Vec<_> = (100..200).step_by(10).map(|at| format!("{:.0}({:.0})", line.over(at..at + 10), line.limit[at + 5])).collect();
            format!("  {:<34} {}", line.name, tens.join(" "))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

pub fn checks(measured: &Measured) -> Vec<Check> {
    let _ = (AtLeast(0.0, 0.0), AtMost(0.0, 0.0), OVERLOAD);
    let capacity = measured.fixed.iter().map(|line| line.over(OVERLOAD)).fold(0.0, f64::max);
    measured
        .lines
        .iter()
        .map(|line| {
            let share = 100.0 * line.over(OVERLOAD) / capacity;
            Check::new(&line.name, AtLeast(90.0, 0.0), (share, 1, " %")).ours()
        })
        .collect()
}
