//! Members of a fleet in one process, each with an upstream and a connection of its own.

#![allow(dead_code, reason = "each test uses some of it")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resile::fleet::State;
use resile::quota::Rate;
use resile::{Never, Quota, Upstream};
use resile_redis::{Fleet, Member};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// Long enough for a busy machine. Nothing waits as long if it works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A member and its upstream.
#[derive(Clone)]
pub(crate) struct Mate {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) member: Member,
}

impl Mate {
    pub(crate) fn join(fleet: &Fleet, upstream: Upstream) -> Self {
        let upstream = Arc::new(upstream);
        let member = fleet.join(Arc::clone(&upstream)).unwrap();
        Self { upstream, member }
    }

    pub(crate) fn state(&self) -> State {
        self.member.snapshot().state
    }

    /// Waits until the member is in this state.
    pub(crate) async fn becomes(&self, state: State) {
        let name = format!("the state {state:?}");
        until(&name, || self.state() == state, || format!("{:?}", self.member.snapshot())).await;
    }
}

/// Waits until all members share, and know each other. Returns the time that it took.
pub(crate) async fn all_share(crew: &[Mate]) -> Duration {
    let began = Instant::now();
    let is_one = |mate: &Mate| {
        let snapshot = mate.member.snapshot();
        snapshot.state == State::Shared && snapshot.members as usize >= crew.len()
    };
    let all = || crew.iter().all(is_one);
    until("a shared fleet", all, || {
        format!("{:#?}", crew.iter().map(|mate| mate.member.snapshot()).collect::<Vec<_>>())
    })
    .await;
    began.elapsed()
}

/// Waits for a condition.
///
/// # Panics
///
/// Panics if the condition does not hold in time. The text describes the state.
pub(crate) async fn until(
    name: &str,
    mut condition: impl FnMut() -> bool,
    state: impl Fn() -> String,
) -> Duration {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{name} did not come: {}", state());
        sleep(Duration::from_millis(2)).await;
    }
    began.elapsed()
}

/// An upstream with a quota of requests.
pub(crate) fn limited(per_second: u32, burst: u32) -> Upstream {
    let rate = Rate::per_second(u64::from(per_second)).with_burst(u64::from(burst));
    Upstream::new("shared").with_quota(Quota::new().with_requests(rate))
}

/// The admissions of callers that always want one more.
#[derive(Debug)]
pub(crate) struct Load {
    began: Instant,
    times: Arc<Mutex<Vec<Duration>>>,
    callers: JoinSet<()>,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), times: Arc::default(), callers: JoinSet::new() }
    }

    /// Adds callers on the upstream of a member. Each begins its next call when one is admitted.
    pub(crate) fn add(&mut self, mate: &Mate, callers: usize) {
        for _ in 0..callers {
            self.add_caller(mate);
        }
    }

    /// Adds a caller. Returns a handle that stops it.
    pub(crate) fn add_caller(&mut self, mate: &Mate) -> AbortHandle {
        let (upstream, began) = (Arc::clone(&mate.upstream), self.began);
        let times = Arc::clone(&self.times);
        self.callers.spawn(async move {
            loop {
                if let Ok(admission) = upstream.admit(Never).await {
                    times.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
                    admission.succeeded();
                }
                tokio::task::yield_now().await;
            }
        })
    }

    /// Adds calls that each are admitted once.
    pub(crate) fn add_calls(&mut self, mate: &Mate, calls: usize) {
        for _ in 0..calls {
            let (upstream, began) = (Arc::clone(&mate.upstream), self.began);
            let times = Arc::clone(&self.times);
            self.callers.spawn(async move {
                if let Ok(admission) = upstream.admit(Never).await {
                    times.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
                    admission.succeeded();
                }
            });
        }
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the times of all admissions so far, in order.
    pub(crate) fn times(&self) -> Times {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort_unstable();
        Times(times)
    }
}

/// The times of admissions, in order.
#[derive(Clone, Debug)]
pub(crate) struct Times(pub(crate) Vec<Duration>);

#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
impl Times {
    /// Returns the admissions from one time to another.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> Self {
        Self(self.0.iter().copied().filter(|at| (from..to).contains(at)).collect())
    }

    /// Returns the admissions from a time on, which is then the beginning.
    pub(crate) fn since(&self, from: Duration) -> Self {
        Self(self.0.iter().filter_map(|at| at.checked_sub(from)).collect())
    }

    pub(crate) fn count(&self) -> f64 {
        self.0.len() as f64
    }

    /// Returns the most admissions beyond a rate, over all intervals. For a token bucket it is at
    /// most the burst.
    pub(crate) fn excess(&self, per_second: f64) -> f64 {
        let (mut most, mut lowest) = (0.0_f64, f64::INFINITY);
        for (index, at) in self.0.iter().enumerate() {
            let before = index as f64 - per_second * at.as_secs_f64();
            lowest = lowest.min(before);
            most = most.max(before + 1.0 - lowest);
        }
        most
    }

    /// Returns the most admissions in any second.
    pub(crate) fn worst_second(&self) -> usize {
        let mut first = 0;
        let counts = self.0.iter().enumerate().map(|(index, at)| {
            while at.saturating_sub(self.0[first]) >= Duration::from_secs(1) {
                first += 1;
            }
            index - first + 1
        });
        counts.max().unwrap_or(0)
    }
}
