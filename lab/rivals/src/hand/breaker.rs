use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use crate::job::Fault;

/// A breaker in two atomics: a streak of failures, and the instant until which calls are refused.
/// After that instant every call is admitted, and the first one to end decides.
pub struct HandBreaker {
    streak: AtomicU32,
    limit: u32,
    wait: Duration,
    began: Instant,
    until: AtomicU64,
}

impl HandBreaker {
    pub fn new(limit: u32, wait: Duration) -> Self {
        Self {
            streak: AtomicU32::new(0),
            limit,
            wait,
            began: Instant::now(),
            until: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub async fn guard<T>(&self, call: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        if self.streak.load(Relaxed) >= self.limit && self.now() < self.until.load(Relaxed) {
            return Err(Fault::Open);
        }
        let outcome = call.await;
        if outcome.is_err() {
            if self.streak.fetch_add(1, Relaxed) + 1 >= self.limit {
                let wait = u64::try_from(self.wait.as_nanos()).unwrap_or(u64::MAX);
                self.until.store(self.now().saturating_add(wait), Relaxed);
            }
        } else if self.streak.load(Relaxed) != 0 {
            self.streak.store(0, Relaxed);
        }
        outcome
    }
}
