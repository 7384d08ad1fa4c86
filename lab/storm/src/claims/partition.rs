//! Priorities in a learned bulkhead, after the load shedding of Netflix ("Enhancing Netflix Reliability with
//! Service-Level Prioritized Load Shedding", 2024).
//!
//! A server has 20 slots, and a call takes it 50 ms. 50 calls a second of high priority come, and 146
//! of low priority. The low ones then rise to twelve times that. In the source the availability of high
//! ones stayed above 99.4 %, and that of low ones fell to about 20 %. The server of this model has room
//! for a fifth of the low calls.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Never, RetryPolicy, Upstream, retry};

use super::Published::{AtLeast, Below, PlusMinus};
use super::sim::{drive_arrivals, exponential, mean, on_all_cores, seconds, seeded};
use super::slots::Service;
use super::{Check, Progress, Size};

const SLOTS: usize = 20;
const TAKES: f64 = 0.05;
const HIGH: f64 = 50.0;
const LOW: f64 = 146.0;
const SPIKE: f64 = 12.0;
/// The second at which the spike begins.
const BEGINS: usize = 30;
/// The seconds of the spike that do not count: the limit begins at 20 and doubles until a queue shows.
const SETTLES: usize = 10;
const PATIENCE: Duration = Duration::from_secs(2);

struct Scene {
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    has_priorities: bool,
    /// The time at which each slot of the server is free.
    free: RefCell<Vec<Duration>>,
    rng: RefCell<ChaCha8Rng>,
    counts: Range<Duration>,
    /// The calls of low and of high priority, and those of them that succeeded.
    calls: RefCell<[(u32, u32); 2]>,
}

impl Scene {
    async fn ask(&self) -> Result<(), Infallible> {
        let now = self.timer.now();
        let end = {
            let mut free = self.free.borrow_mut();
            let slot = free.iter_mut().min().expect("a server has slots");
            *slot = now.max(*slot) + Service::Exponential.draw(TAKES, &mut self.rng.borrow_mut());
            *slot
        };
        self.timer.sleep(end.saturating_sub(now)).await;
        Ok(())
    }

    async fn call(&self, is_high: bool) {
        let policy = RetryPolicy::none().with_total_timeout(PATIENCE);
        let priority = if is_high && self.has_priorities { 9 } else { 0 };
        let counts = self.counts.contains(&self.timer.now());
        let target = self.upstream.at_priority(priority);
        let is_good = retry(|_| self.ask(), policy, Never).on(target).await.is_ok();
        if counts {
            let (all, good) = &mut self.calls.borrow_mut()[usize::from(is_high)];
            *all += 1;
            *good += u32::from(is_good);
        }
    }
}

/// Returns the share of low and of high calls that succeed during the spike, in percent.
fn run(has_priorities: bool, lasts: usize, seed: u64) -> [f64; 2] {
    let timer = ManualTimer::with_seed(seed);
    let end = BEGINS + lasts;
    let at = |second: usize| Duration::from_secs(second as u64);
    let scene = Scene {
        upstream: Upstream::new("server")
            .with_bulkhead(Bulkhead::learned(1_000))
            .with_observer(&())
            .with_timer(timer.clone()),
        has_priorities,
        free: RefCell::new(vec![Duration::ZERO; SLOTS]),
        rng: RefCell::new(seeded(!seed)),
        counts: at(BEGINS + SETTLES)..at(end - 3),
        calls: RefCell::default(),
        timer,
    };
    let mut rng = seeded(seed);
    let mut arrivals = Vec::new();
    for is_high in [false, true] {
        let mut now = 0.0;
        while now < end as f64 {
            let spike = if now < BEGINS as f64 { 1.0 } else { SPIKE };
            let rate = if is_high { HIGH } else { LOW * spike };
            now += exponential(1.0 / rate, &mut rng).as_secs_f64();
            arrivals.push((seconds(now), is_high));
        }
    }
    arrivals.sort_by_key(|&(at, _)| at);
    let calls = arrivals.into_iter().map(|(at, is_high)| (at, scene.call(is_high)));
    drive_arrivals(&scene.timer, at(end), calls);
    scene.calls.into_inner().map(|(all, good)| 100.0 * f64::from(good) / f64::from(all))
}

/// The shares of low and of high calls that succeed, in percent.
#[derive(Debug)]
pub struct Measured {
    alike: [f64; 2],
    /// The lowest share of all runs with priorities.
    prioritised: [f64; 2],
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    let (seeds, lasts) = size.pick((1, 30), (5, 180));
    let runs =
        on_all_cores(2 * seeds, progress, |job| run(job >= seeds, lasts, (job % seeds) as u64));
    let (alike, prioritised) = runs.split_at(seeds);
    Measured {
        alike: [0, 1].map(|level| mean(alike.iter().map(|run| run[level]))),
        prioritised: [
            mean(prioritised.iter().map(|run| run[0])),
            prioritised.iter().map(|run| run[1]).fold(f64::MAX, f64::min),
        ],
    }
}

pub fn checks(measured: &Measured) -> Vec<Check> {
    let [low, high] = measured.prioritised;
    vec![
        Check::new("no priorities: high calls", Below(50.0), (measured.alike[1], 1, " %")).ours(),
        Check::new("priorities: high calls", AtLeast(99.4, 0.0), (high, 2, " %")),
        Check::new("priorities: low calls", PlusMinus(20.0, 3.0), (low, 1, " %")),
    ]
}
