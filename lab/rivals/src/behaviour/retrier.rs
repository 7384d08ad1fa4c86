//! One interface to all crates that retry. It is for behaviour and not for timings.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use layered::{Execute, Service as _, Stack};
use resile::{Backoff, Never, RetryPolicy};
use seatbelt::ResilienceContext;
use tick::Clock;
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{Retry, RetryError};
use tower::{Layer, ServiceExt, service_fn};

use crate::job::Fault;
use crate::rival::{gax::Gax, seatbelt as belt, tower as towers};

pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub type Op = Arc<dyn Fn() -> Boxed<Result<u64, Fault>> + Send + Sync>;

pub fn op<F>(op: impl Fn() -> F + Send + Sync + 'static) -> Op
where
    F: Future<Output = Result<u64, Fault>> + Send + 'static,
{
    Arc::new(move || Box::pin(op()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Retrier {
    Resile,
    Backon,
    BackonReady,
    TokioRetry2,
    Tower,
    TowerReady,
    TowerResilience,
    Seatbelt,
    Gax,
}

pub const RETRIERS: [Retrier; 9] = [
    Retrier::Resile,
    Retrier::Backon,
    Retrier::BackonReady,
    Retrier::TokioRetry2,
    Retrier::Tower,
    Retrier::TowerReady,
    Retrier::TowerResilience,
    Retrier::Seatbelt,
    Retrier::Gax,
];

impl Retrier {
    /// Returns whether the retrier skips its delays.
    pub fn never_waits(self) -> bool {
        matches!(self, Self::BackonReady | Self::TowerReady)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Resile => "**resile**",
            Self::Backon => "backon",
            Self::BackonReady => "backon, a ready sleeper",
            Self::TokioRetry2 => "tokio-retry2",
            Self::Tower => "tower",
            Self::TowerReady => "tower, a ready policy",
            Self::TowerResilience => "tower-resilience",
            Self::Seatbelt => "seatbelt",
            Self::Gax => "google-cloud-gax",
        }
    }

    /// Makes a call with a number of attempts and the same delay between them. The future of
    /// the crate is made at the first poll.
    pub async fn call(self, attempts: u32, delay: Duration, op: Op) -> Result<u64, String> {
        let more = attempts.saturating_sub(1);
        match self {
            Self::Resile => {
                let backoff = Backoff::fixed(delay).with_jitter(resile::Jitter::None);
                let policy = RetryPolicy::new().with_attempts(attempts).with_backoff(backoff);
                resile::retry(|_| op(), &policy, Never).await.map_err(|e| e.to_string())
            }
            Self::Backon => {
                let policy = ConstantBuilder::new().with_delay(delay).with_max_times(more as usize);
                (|| op()).retry(policy).await.map_err(|e| e.to_string())
            }
            Self::BackonReady => {
                let policy = ConstantBuilder::new().with_delay(delay).with_max_times(more as usize);
                (|| op())
                    .retry(policy)
                    .sleep(|_| std::future::ready(()))
                    .await
                    .map_err(|e| e.to_string())
            }
            Self::TokioRetry2 => {
                let attempt = || async { op().await.map_err(RetryError::transient) };
                let strategy = FixedInterval::new(delay).take(more as usize);
                Retry::spawn(strategy, attempt).await.map_err(|e| e.to_string())
            }
            Self::Tower => {
                let service =
                    tower::retry::Retry::new(towers::Later(more, delay), service_fn(|()| op()));
                service.oneshot(()).await.map_err(|e| e.to_string())
            }
            Self::TowerReady => {
                let service = tower::retry::Retry::new(towers::AtOnce(more), service_fn(|()| op()));
                service.oneshot(()).await.map_err(|e| e.to_string())
            }
            Self::TowerResilience => {
                let layer = tower_resilience_retry::RetryLayer::<(), u64, Fault>::builder()
                    .max_attempts(attempts as usize)
                    .fixed_backoff(delay)
                    .build();
                let service = layer.layer(service_fn(move |()| op()));
                service.oneshot(()).await.map_err(|e| e.to_string())
            }
            Self::Seatbelt => {
                let clock =
                    if delay.is_zero() { Clock::new_tokio() } else { belt::virtual_clock() };
                let context = ResilienceContext::new(&clock).name("trap");
                let layer = seatbelt::retry::Retry::layer("retry", &context)
                    .clone_input()
                    .recovery_with(|output: &belt::Output, _| belt::recovery(output))
                    .max_retry_attempts(more)
                    .backoff(seatbelt::retry::Backoff::Constant)
                    .base_delay(delay)
                    .use_jitter(false);
                let service = (layer, Execute::new(move |()| op())).into_service();
                service.execute(()).await.map_err(|e| e.to_string())
            }
            Self::Gax => {
                Gax::limited(attempts, delay, None).call(|_| op()).await.map_err(|e| e.to_string())
            }
        }
    }
}
