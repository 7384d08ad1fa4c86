//! A greedy user among ten. The users share one quota of 1,000,000 tokens a minute. One of them has
//! 100 workers, and the others have 10 each. All together want several times the limit.
//!
//! By arithmetic, the greedy user has 100 of 190 workers, which are 53 %. An equal share is 10 %.
//!
//! The estimate of the output is known from the start, as in a program that runs for some time. No
//! call waits for ten minutes, after which its age would count.

use std::cell::Cell;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::{self, Cost, Rate};
use resile::time::{ManualTimer, Timer};
use resile::{Never, Quota, RetryPolicy, Upstream, retry};

use super::Published::{AtLeast, AtMost, PlusMinus};
use super::account::{MAXIMUM, Tokens};
use super::sim::{drive, mean, on_all_cores, seeded};
use super::{Check, Progress, Size};

const USERS: usize = 10;
const GREEDY: usize = 0;
/// The time after which tokens are counted.
const WARM: Duration = Duration::from_mins(1);

struct Scene {
    has_groups: bool,
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    /// The tokens of each user.
    used: [Cell<u32>; USERS],
}

impl Scene {
    async fn ask(&self, user: usize, call: Tokens) -> Result<(), std::io::Error> {
        self.timer.sleep(call.takes()).await;
        quota::record(call.usage());
        if self.timer.now() >= WARM {
            self.used[user].set(self.used[user].get() + call.all());
        }
        Ok(())
    }

    async fn worker(&self, user: usize, mut rng: ChaCha8Rng, until: Duration) {
        while self.timer.now() < until {
            let call = Tokens::draw(&mut rng);
            let cost = Cost::input(call.input.into()).with_max_output(MAXIMUM.into());
            let left = until.saturating_sub(self.timer.now());
            let policy = RetryPolicy::new().with_total_timeout(left);
            let target = self.upstream.at_cost(cost);
            let target = if self.has_groups { target.with_group(user) } else { target };
            if retry(|_| self.ask(user, call), &policy, Never).on(target).await.is_err() {
                return;
            }
        }
    }
}

/// The share of the tokens that the greedy user and the poorest user get, in percent.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    greedy: f64,
    least: f64,
}

fn run(has_groups: bool, until: Duration, seed: u64) -> Shares {
    let timer = ManualTimer::with_seed(seed);
    let quota = Quota::new().with_tokens(Rate::per_minute(1_000_000).with_burst(160_000));
    let mut rng = seeded(seed);
    for call in (0..512).map(|_| Tokens::draw(&mut rng)) {
        quota.estimate().record(call.input.into(), call.output.into());
    }
    let scene = Scene {
        has_groups,
        upstream: Upstream::new("provider")
            .with_timer(timer.clone())
            .with_observer(&())
            .with_quota(quota),
        used: Default::default(),
        timer,
    };
    let workers = (0..USERS)
        .flat_map(|user| vec![user; if user == GREEDY { 100 } else { 10 }])
        .zip(1_000 * seed..)
        .map(|(user, number)| scene.worker(user, seeded(number), until));
    drive(&scene.timer, workers);
    let used = scene.used.map(|used| f64::from(used.get()));
    let all: f64 = used.iter().sum();
    Shares {
        greedy: 100.0 * used[GREEDY] / all,
        least: 100.0 * used.into_iter().fold(f64::INFINITY, f64::min) / all,
    }
}

pub fn measure(size: Size, progress: Progress<'_>) -> [Shares; 2] {
    let (until, seeds) = size.pick((900, 1), (1_800, 16));
    let runs = on_all_cores(2 * seeds, progress, |job| {
        run(job >= seeds, Duration::from_secs(until), (job % seeds) as u64)
    });
    [&runs[..seeds], &runs[seeds..]].map(|runs| Shares {
        greedy: mean(runs.iter().map(|run| run.greedy)),
        least: mean(runs.iter().map(|run| run.least)),
    })
}

pub fn checks([alone, groups]: [Shares; 2], size: Size) -> Vec<Check> {
    let chance = size.pick(5.0, 2.0);
    vec![
        Check::new("no groups: greedy user", PlusMinus(52.6, chance), (alone.greedy, 1, " %")),
        Check::new("groups: greedy user", AtMost(10.0, 2.0), (groups.greedy, 1, " %")),
        // The poorest of ten users has less than the mean by the chance of its calls.
        Check::new("groups: poorest user", AtLeast(10.0, chance), (groups.least, 1, " %")),
    ]
}
