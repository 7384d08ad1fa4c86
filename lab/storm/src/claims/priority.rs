//! A fleet of agents that cannot all finish. 512 agents make 30 calls each, and the limit is 10
//! calls a second for ten minutes.
//!
//! By arithmetic, an equal share is 11.7 calls for each agent, so no agent finishes. The same calls
//! are enough for 200 agents.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::{Cost, Rate};
use resile::time::{ManualTimer, Timer};
use resile::{Never, Quota, RetryPolicy, Upstream, retry};

use super::Published::{AtLeast, PlusMinus};
use super::sim::{Series, drive, exponential, mean, on_all_cores, seeded};
use super::{Check, Progress, Size};

const AGENTS: usize = 512;
const STEPS: u8 = 30;
const RATE: u32 = 10;
const END: Duration = Duration::from_mins(10);
/// The mean time of a call in seconds.
const TAKES: f64 = 0.5;

/// The order in which calls wait for the quota.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// The oldest call first.
    Age,
    /// Each agent is a group, and all groups have equal shares.
    Share,
    /// The priority is the number of steps done.
    Progress,
}

const LINES: [(&str, Order, u32); 4] = [
    ("oldest first", Order::Age, RATE),
    ("equal shares", Order::Share, RATE),
    ("by progress", Order::Progress, RATE),
    ("by progress, burst of 1", Order::Progress, 1),
];

struct Scene {
    order: Order,
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    rng: RefCell<ChaCha8Rng>,
    calls: Cell<u32>,
    finished: RefCell<Series>,
}

impl Scene {
    async fn ask(&self) -> Result<(), std::io::Error> {
        self.calls.set(self.calls.get() + 1);
        let takes = exponential(TAKES, &mut self.rng.borrow_mut());
        self.timer.sleep(takes).await;
        Ok(())
    }

    async fn agent(&self, number: usize) {
        for step in 0..STEPS {
            let left = END.saturating_sub(self.timer.now());
            let policy = RetryPolicy::new().with_total_timeout(left);
            let target = self.upstream.at_cost(Cost::new());
            let target = match self.order {
                Order::Age => target,
                Order::Share => target.with_group(number),
                Order::Progress => target.with_priority(step),
            };
            if retry(|_| self.ask(), &policy, Never).on(target).await.is_err() {
                return;
            }
        }
        self.finished.borrow_mut().count(self.timer.now());
    }
}

#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    /// The agents that have finished by each second.
    pub finished: Vec<f64>,
    /// The calls of the mean agent.
    calls: f64,
}

fn run(order: Order, burst: u32, seed: u64) -> (Series, f64) {
    let timer = ManualTimer::with_seed(seed);
    let quota =
        Quota::new().with_requests(Rate::per_second(u64::from(RATE)).with_burst(u64::from(burst)));
    let scene = Scene {
        order,
        upstream: Upstream::new("provider")
            .with_timer(timer.clone())
            .with_observer(&())
            .with_quota(quota),
        rng: RefCell::new(seeded(seed)),
        calls: Cell::default(),
        finished: RefCell::new(Series::new(END.as_secs())),
        timer,
    };
    drive(&scene.timer, (0..AGENTS).map(|number| scene.agent(number)));
    (scene.finished.into_inner(), f64::from(scene.calls.get()) / AGENTS as f64)
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let seeds = size.pick(1, 16);
    let runs = on_all_cores(LINES.len() * seeds, progress, |job| {
        let (_, order, burst) = LINES[job / seeds];
        run(order, burst, (job % seeds) as u64)
    });
    let line = |((name, ..), runs): (&(&'static str, _, _), &[(Series, f64)])| {
        let each_second = Series::average(runs.iter().map(|(finished, _)| finished));
        let so_far = |sum: &mut f64, more: f64| {
            *sum += more;
            Some(*sum)
        };
        Line {
            name,
            finished: each_second.into_iter().scan(0.0, so_far).collect(),
            calls: mean(runs.iter().map(|(_, calls)| *calls)),
        }
    };
    LINES.iter().zip(runs.chunks(seeds)).map(line).collect()
}

pub fn checks(lines: &[Line]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (line, (_, order, burst)) in lines.iter().zip(LINES) {
        let finished = line.finished.last().copied().unwrap_or_default();
        let calls = f64::from(RATE * 600 + burst) / AGENTS as f64;
        // A few agents are at work at the end. Their calls finish nothing.
        let expected =
            if order == Order::Progress { AtLeast(195.0, 0.0) } else { PlusMinus(0.0, 0.0) };
        checks.push(Check::new(
            format!("{}: agents that finish", line.name),
            expected,
            (finished, 1, ""),
        ));
        checks.push(Check::new(
            "  calls of the mean agent",
            PlusMinus((calls * 10.0).round() / 10.0, 0.1),
            (line.calls, 2, ""),
        ));
    }
    checks
}
