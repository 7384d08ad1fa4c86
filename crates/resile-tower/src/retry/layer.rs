use std::fmt;
use std::panic::Location;

use resile::cancel::Cancel;
use resile::classify::Always;
use resile::upstream::Target;
use resile::{Attempt, Never, RetryPolicy, Verdict};
use tower_layer::Layer;

use super::service::Retry;
use crate::judge::{Answers, Errors};
use crate::replay::{By, Cloned};

/// A layer that retries the requests to a service.
///
/// It is [`resile::retry`](resile::retry()) as a layer: a policy, and an upstream whose budget, breaker
/// and other parts all calls share.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | judge | each `Ok` is good, and the classifier of the policy judges errors | the layer does not know your answers. For HTTP take `RetryLayer::http` |
/// | replay | the request is cloned | a request that is not `Clone` is an error of the compiler: see [`replay`](crate::replay) |
/// | upstream | none: the log prints the name `service` | [`on`](Self::on) shares the parts of one |
/// | token | none | [`with_token`](Self::with_token) takes that of a shutdown |
///
/// The total timeout of a call is that of the policy, or what the current
/// [`Deadline`](crate::deadline::Deadline) leaves if that is less.
///
/// # Order
///
/// A layer above this one sees the call, and a layer below sees each attempt. So a layer that adds an
/// idempotency key belongs above, and a layer that signs a request with the time belongs below.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::io;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// use resile_tower::RetryLayer;
/// use resile_tower::resile::{Breaker, Budget, RetryPolicy, Upstream};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// static STORE: Upstream =
///     Upstream::new("store").with_budget(Budget::new()).with_breaker(Breaker::new());
///
/// fn is_reset(error: &io::Error) -> bool {
///     error.kind() == io::ErrorKind::ConnectionReset
/// }
/// # static CALLS: AtomicU32 = AtomicU32::new(0);
/// # let store = service_fn(async |key: u32| {
/// #     if CALLS.fetch_add(1, Relaxed) < 2 {
/// #         return Err(io::Error::from(io::ErrorKind::ConnectionReset));
/// #     }
/// #     Ok(key * 6)
/// # });
/// let policy = RetryPolicy::new().with_classifier(is_reset);
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(policy).on(&STORE))
///     .service(store); // fails twice
/// assert_eq!(service.oneshot(7).await.unwrap(), 42);
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct RetryLayer<J, R = Cloned, X = &'static str, K = Never> {
    pub(super) policy: RetryPolicy<Always>,
    pub(crate) judge: J,
    pub(super) replay: R,
    pub(super) target: X,
    pub(super) token: K,
    /// The place in the source that made the layer, for the log.
    pub(crate) site: &'static Location<'static>,
}

impl<C: Copy> RetryLayer<Errors<C>> {
    /// Makes a layer with a policy and its classifier of errors. A closure that captures nothing is
    /// `Copy`, and so is a `&'static dyn Classify`.
    #[track_caller]
    pub const fn new(policy: RetryPolicy<C>) -> Self {
        let errors = Errors(*policy.classifier());
        RetryLayer::of(policy, errors)
    }
}

impl<J> RetryLayer<J> {
    #[track_caller]
    pub(crate) const fn of<C: Copy>(policy: RetryPolicy<C>, judge: J) -> Self {
        Self {
            policy: policy.with_classifier(Always),
            judge,
            replay: Cloned,
            target: "service",
            token: Never,
            site: Location::caller(),
        }
    }
}

/// Settings, in any order. Each replaces an earlier value of the same setting.
impl<J, R, X, K> RetryLayer<J, R, X, K> {
    /// Sets the upstream of all calls, or its name alone: `&'static Upstream`, `Arc<Upstream>`,
    /// `&'static LazyLock<Upstream>`, or a name.
    pub fn on<Y: Target>(self, target: Y) -> RetryLayer<J, R, Y, K> {
        let Self { policy, judge, replay, token, site, .. } = self;
        RetryLayer { policy, judge, replay, target, token, site }
    }

    /// Sets the token that cancels all calls, such as that of a shutdown.
    pub fn with_token<L: Cancel>(self, token: L) -> RetryLayer<J, R, X, L> {
        let Self { policy, judge, replay, target, site, .. } = self;
        RetryLayer { policy, judge, replay, target, token, site }
    }

    /// Judges answers by a function first. It returns the verdict on an answer that is a failure, and
    /// `None` leaves the answer to the judge of the layer: with [`new`](RetryLayer::new) it is good then, and
    /// with `http` its status decides. [`judge`](crate::judge) says what a verdict on an answer does, and which
    /// one makes a bad answer good.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use std::convert::Infallible;
    /// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use resile_tower::RetryLayer;
    /// use resile_tower::resile::{RetryPolicy, Verdict};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// #[derive(Debug, PartialEq)]
    /// enum Answer {
    ///     Busy,
    ///     Value(u32),
    /// }
    ///
    /// # static CALLS: AtomicU32 = AtomicU32::new(0);
    /// # let store = service_fn(async |key: u32| {
    /// #     let is_first = CALLS.fetch_add(1, Relaxed) == 0;
    /// #     Ok::<_, Infallible>(if is_first { Answer::Busy } else { Answer::Value(key) })
    /// # });
    /// let layer = RetryLayer::new(RetryPolicy::new())
    ///     .judging(|answer: &Answer| match answer {
    ///         Answer::Busy => Some(Verdict::overloaded()),
    ///         Answer::Value(_) => None,
    ///     });
    /// let service = layer.layer(store); // is busy once
    /// assert_eq!(service.oneshot(7).await.unwrap(), Answer::Value(7));
    /// # }
    /// ```
    pub fn judging<T, F>(self, answers: F) -> RetryLayer<Answers<J, F>, R, X, K>
    where
        F: Fn(&T) -> Option<Verdict> + Clone,
    {
        let Self { policy, judge, replay, target, token, site } = self;
        let judge = Answers { errors: judge, answers };
        RetryLayer { policy, judge, replay, target, token, site }
    }

    /// Makes the request of each attempt by a function, the first one included. The request of the
    /// caller stays for the next attempt. The inner service may take another type of request.
    pub fn replaying<Req, Q, F>(self, make: F) -> RetryLayer<J, By<F>, X, K>
    where
        F: Fn(&Req, Attempt) -> Q + Clone,
    {
        self.replay(By(make))
    }

    pub(crate) fn replay<Z>(self, replay: Z) -> RetryLayer<J, Z, X, K> {
        let Self { policy, judge, target, token, site, .. } = self;
        RetryLayer { policy, judge, replay, target, token, site }
    }
}

impl<S, J, R, X, K> Layer<S> for RetryLayer<J, R, X, K>
where
    Self: Clone,
{
    type Service = Retry<S, J, R, X, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Retry::new(inner, self.clone())
    }
}

impl<J: fmt::Debug, R, X, K> fmt::Debug for RetryLayer<J, R, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("policy", &self.policy)
            .field("judge", &self.judge)
            .finish_non_exhaustive()
    }
}
