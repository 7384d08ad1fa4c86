//! A learned limit on the server that collapses, which is that of the claim `collapse`.
//!
//! A request takes the server 1 s, and 10 ms more for each request in flight at its start. Each hop
//! takes an exponential 0.1 s. The client waits 3 s, and the server also finishes requests after
//! their timeout. 40 calls a second arrive for two minutes. In the ramp the arrivals then rise to 80
//! calls a second within 25 s, and fall to none within 50 s. In the plateau 80 calls a second arrive for
//! ten minutes. The best fixed limit shows the capacity.

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

use super::Published::{AtLeast, Below};
use super::sim::{Series, drive_arrivals, exponential, mean, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

const TIMEOUT: Duration = Duration::from_secs(3);
const HOP: f64 = 0.1;
const PEAK: f64 = 80.0;
/// The second at which the overload begins.
const WARM: f64 = 120.0;

/// An overload.
#[derive(Clone, Copy, Debug)]
struct Overload {
    name: &'static str,
    /// The arrivals in a second.
    rate: fn(f64) -> f64,
    /// The seconds in which more calls arrive than the server can bear.
    lasts: (usize, usize),
}

const RAMP: Overload = Overload {
    name: "ramp",
    rate: |at| if at < WARM { 40.0 } else { (PEAK - 1.6 * (at - WARM - 25.0).abs()).max(0.0) },
    lasts: (130, 162),
};
const PLATEAU: Overload =
    Overload { name: "plateau", rate: |at| if at < WARM { 40.0 } else { PEAK }, lasts: (140, 720) };

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
const DEFAULTS: Client = Client {
    name: "retry, budget, breaker",
    policy: RetryPolicy::new(),
    limit: Limit::None,
    has_defaults: true,
};
const CLIENTS: [Client; 4] = [
    Client { name: "no retry", policy: ONCE, has_defaults: false, ..DEFAULTS },
    DEFAULTS,
    Client { name: "retry, learned", limit: Limit::Learned, has_defaults: false, ..DEFAULTS },
    Client { name: "retry, budget, breaker, learned", limit: Limit::Learned, ..DEFAULTS },
];
/// The fixed limits of which the best one shows the capacity.
const FIXED: [u32; 5] = [120, 140, 150, 160, 170];

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
        let policy = client.policy.with_attempt_timeout(TIMEOUT).with_classifier(Always);
        if retry(|_| self.ask(), &policy, Never).on(upstream).await.is_ok() {
            self.good.borrow_mut().count(self.timer.now());
        }
    }
}

fn run(client: &Client, overload: Overload, end: u64, seed: u64) -> Series {
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
        good: RefCell::new(Series::new(end)),
    };
    let (mut arrivals, mut at) = (seeded(seed), Duration::ZERO);
    let calls = std::iter::from_fn(|| {
        loop {
            at += exponential(1.0 / PEAK, &mut arrivals);
            if at >= Duration::from_secs(end) {
                return None;
            }
            if arrivals.random::<f64>() * PEAK < (overload.rate)(at.as_secs_f64()) {
                return Some((at, scene.call(client, &upstream)));
            }
        }
    });
    drive_arrivals(&timer, Duration::from_secs(end), calls);
    scene.good.into_inner()
}

/// The goodput of one client.
#[derive(Debug)]
pub struct Line {
    name: &'static str,
    limit: Limit,
    /// The mean of all seeds for each second.
    good: Vec<f64>,
}

/// The clients under one overload.
#[derive(Debug)]
pub struct Measured {
    name: &'static str,
    lasts: Range<usize>,
    lines: Vec<Line>,
    /// The goodput under the best fixed limit in a second.
    capacity: f64,
}

fn under(overload: Overload, size: Size, progress: Progress<'_>) -> Measured {
    let seeds = size.pick(1, 10);
    let lasts = overload.lasts.0..overload.lasts.1.min(size.pick(300, usize::MAX));
    let fixed: &[u32] = size.pick(&[160], &FIXED);
    let fixed = fixed.iter().map(|&limit| Client {
        name: "fixed",
        policy: ONCE,
        limit: Limit::Fixed(limit),
        has_defaults: false,
    });
    let clients: Vec<_> = CLIENTS.into_iter().chain(fixed).collect();
    let runs = on_all_cores(clients.len() * seeds, progress, |job| {
        run(&clients[job / seeds], overload, lasts.end as u64, (job % seeds) as u64)
    });
    let line = |(client, runs): (&Client, &[Series])| Line {
        name: client.name,
        limit: client.limit,
        good: Series::average(runs),
    };
    let mut lines: Vec<_> = clients.iter().zip(runs.chunks(seeds)).map(line).collect();
    let fixed = lines.split_off(CLIENTS.len());
    let capacity = fixed.iter().map(|line| line.over(lasts.clone())).fold(0.0, f64::max);
    Measured { name: overload.name, lasts, lines, capacity }
}

pub fn measure(size: Size, progress: Progress<'_>) -> [Measured; 2] {
    [
        under(RAMP, size, &|done| progress(0.3 * done)),
        under(PLATEAU, size, &|done| progress(0.3 + 0.7 * done)),
    ]
}

impl Line {
    fn over(&self, over: Range<usize>) -> f64 {
        mean(self.good[over].iter().copied())
    }

    /// Returns the least mean of ten seconds.
    fn worst(&self, over: Range<usize>) -> f64 {
        self.good[over]
            .chunks_exact(10)
            .map(|ten| mean(ten.iter().copied()))
            .fold(f64::MAX, f64::min)
    }
}

pub fn checks(measured: &[Measured; 2], size: Size) -> Vec<Check> {
    let mut checks = Vec::new();
    for Measured { name, lasts, lines, capacity } in measured {
        for line in lines {
            let share = (100.0 * line.over(lasts.clone()) / capacity, 1, " %");
            let what = format!("{name}, {}: goodput", line.name);
            let bound = if line.limit == Limit::Learned { AtLeast(90.0, 0.0) } else { Below(90.0) };
            checks.push(Check::new(what, bound, share).ours());
            if line.limit == Limit::Learned {
                let worst = (100.0 * line.worst(lasts.clone()) / capacity, 1, " %");
                let bound = AtLeast(size.pick(75.0, 85.0), 0.0);
                checks.push(Check::new("  in its worst ten seconds", bound, worst).ours());
            }
        }
    }
    checks
}
