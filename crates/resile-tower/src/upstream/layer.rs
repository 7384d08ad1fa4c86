use std::fmt;
use std::panic::Location;
use std::time::Duration;

use resile::cancel::Cancel;
use resile::upstream::Target;
use resile::{Never, Verdict};
use tower_layer::Layer;

use super::service::Through;
use crate::judge::{Answers, Errors};

/// A layer that makes each request one attempt on an upstream: through its breaker, its bulkhead and
/// its other parts, without a retry.
///
/// It is [`Upstream::call`](resile::Upstream::call) as a layer. Use it around a service that must not
/// be retried, on a server to admit requests, or below a [`RetryLayer`](crate::RetryLayer) where each
/// attempt has another upstream.
///
/// The attempt waits for its admission. Set a total timeout, because a cooldown may hold the attempt
/// for minutes. The current [`Deadline`](crate::deadline::Deadline) ends the call too.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::io;
///
/// use resile_tower::UpstreamLayer;
/// use resile_tower::resile::classify::Always;
/// use resile_tower::resile::{Breaker, StopReason, Upstream};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// static STORE: Upstream = Upstream::new("store")
///     .with_breaker(Breaker::new().with_consecutive(1));
///
/// let store = service_fn(async |_: u32| {
///     Err::<u32, io::Error>(io::ErrorKind::ConnectionReset.into())
/// });
/// let mut service = UpstreamLayer::new(&STORE, Always).layer(store);
/// let failed = service.ready().await.unwrap().call(1).await.unwrap_err();
/// assert_eq!(failed.reason(), StopReason::Attempts);
/// let refused = service.ready().await.unwrap().call(2).await.unwrap_err();
/// assert_eq!(refused.reason(), StopReason::Open);
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct UpstreamLayer<J, X, K = Never> {
    pub(super) judge: J,
    pub(super) target: X,
    pub(super) token: K,
    pub(super) total_timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    /// The place in the source that made the layer, for the log.
    pub(super) site: &'static Location<'static>,
}

impl<C: Clone, X: Target> UpstreamLayer<Errors<C>, X> {
    /// Makes a layer for an upstream. The classifier judges errors, and each answer is good.
    #[track_caller]
    pub const fn new(target: X, classifier: C) -> Self {
        UpstreamLayer::of(target, Errors(classifier))
    }
}

impl<J, X> UpstreamLayer<J, X> {
    #[track_caller]
    pub(crate) const fn of(target: X, judge: J) -> Self {
        let site = Location::caller();
        Self { judge, target, token: Never, total_timeout: None, attempt_timeout: None, site }
    }
}

/// Settings, in any order. Each replaces an earlier value of the same setting.
impl<J, X, K> UpstreamLayer<J, X, K> {
    /// Sets the token that cancels all calls, such as that of a shutdown.
    pub fn with_token<L: Cancel>(self, token: L) -> UpstreamLayer<J, X, L> {
        let Self { judge, target, total_timeout, attempt_timeout, site, .. } = self;
        UpstreamLayer { judge, target, token, total_timeout, attempt_timeout, site }
    }

    /// Sets the limit on the wait for the admission and the attempt together. Zero allows one poll.
    pub const fn with_total_timeout(mut self, limit: Duration) -> Self {
        self.total_timeout = Some(limit);
        self
    }

    /// Sets the limit on the attempt alone. Zero allows one poll.
    pub const fn with_attempt_timeout(mut self, limit: Duration) -> Self {
        self.attempt_timeout = Some(limit);
        self
    }

    /// Judges answers by a function first. See [`RetryLayer::judging`](crate::RetryLayer::judging).
    pub fn judging<T, F>(self, answers: F) -> UpstreamLayer<Answers<J, F>, X, K>
    where
        F: Fn(&T) -> Option<Verdict> + Clone,
    {
        let Self { judge, target, token, total_timeout, attempt_timeout, site } = self;
        let judge = Answers { errors: judge, answers };
        UpstreamLayer { judge, target, token, total_timeout, attempt_timeout, site }
    }
}

impl<S, J, X, K> Layer<S> for UpstreamLayer<J, X, K>
where
    Self: Clone,
{
    type Service = Through<S, J, X, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Through::new(inner, self.clone())
    }
}

impl<J: fmt::Debug, X, K> fmt::Debug for UpstreamLayer<J, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamLayer")
            .field("judge", &self.judge)
            .field("total_timeout", &self.total_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .finish_non_exhaustive()
    }
}
