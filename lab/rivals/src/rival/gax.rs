//! `google-cloud-gax`: the loop that its generated clients run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use google_cloud_gax::Result;
use google_cloud_gax::backoff_policy::BackoffPolicy;
use google_cloud_gax::error::Error;
use google_cloud_gax::retry_loop_internal::retry_loop;
use google_cloud_gax::retry_policy::{AlwaysRetry, RetryPolicy, RetryPolicyExt};
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_state::RetryState;
use google_cloud_gax::retry_throttler::{CircuitBreaker, RetryThrottler};

use crate::job::Fault;

/// A constant delay. The curves of the crate itself cannot be constant.
#[derive(Debug)]
struct Constant(Duration);

impl BackoffPolicy for Constant {
    fn on_failure(&self, _: &RetryState) -> Duration {
        self.0
    }
}

#[derive(Clone)]
pub struct Gax {
    throttler: Arc<Mutex<dyn RetryThrottler>>,
    retry: Arc<dyn RetryPolicy>,
    backoff: Arc<dyn BackoffPolicy>,
}

/// Makes a throttler that never throttles: an error costs nothing.
pub fn throttler() -> Arc<Mutex<dyn RetryThrottler>> {
    Arc::new(Mutex::new(CircuitBreaker::clamp(1000, 0, 0)))
}

/// Makes a throttler that is half empty. It has room for every deposit of the benchmark.
pub fn filling_throttler() -> Arc<Mutex<dyn RetryThrottler>> {
    let mut throttler = CircuitBreaker::clamp(1 << 60, 0, 1 << 59);
    throttler.on_retry_failure(&RetryResult::Continue(Error::io(Fault::Failed)));
    Arc::new(Mutex::new(throttler))
}

impl Gax {
    pub fn new(delay: Duration, limit: Option<Duration>) -> Self {
        Self::limited(5, delay, limit)
    }

    pub fn limited(attempts: u32, delay: Duration, limit: Option<Duration>) -> Self {
        let policy = AlwaysRetry.with_attempt_limit(attempts);
        let retry: Arc<dyn RetryPolicy> = match limit {
            Some(limit) => Arc::new(policy.with_time_limit(limit)),
            None => Arc::new(policy),
        };
        Self { throttler: throttler(), retry, backoff: Arc::new(Constant(delay)) }
    }

    /// Runs a call. Its error is a type of `google-cloud-gax`.
    pub async fn call<F>(&self, op: impl Fn(Option<Duration>) -> F + Send + Sync) -> Result<u64>
    where
        F: Future<Output = std::result::Result<u64, Fault>>,
    {
        retry_loop(
            async |remaining| op(remaining).await.map_err(Error::io),
            async |delay| tokio::time::sleep(delay).await,
            true,
            self.throttler.clone(),
            self.retry.clone(),
            self.backoff.clone(),
        )
        .await
    }
}
