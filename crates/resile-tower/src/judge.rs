//! The judges of outcomes: which answers are failures, and what a failure means.
//!
//! In `tower` a bad answer is often an `Ok`: a 503 is one. So a layer asks a judge about each answer
//! and about each error:
//!
//! | judge | made by | an answer is a failure if | an error is judged by |
//! |---|---|---|---|
//! | [`Errors`] | `RetryLayer::new(policy)` | never | the classifier of the policy |
//! | `Http` | `RetryLayer::http(policy)` | its status says so | the chain of its sources |
//! | `Grpc` | `RetryLayer::grpc(policy, idempotency)` | its `grpc-status` is not OK, or it has none and is not a 200 | the status of `tonic`, or the chain of its sources |
//! | [`Answers`] | `.judging(…)` after any of them | the function says so, or leaves it to the judge by `None` | the judge |
//!
//! An answer that is a failure counts for the breaker and the cooldown of the upstream, and may lead
//! to another attempt. If there is none, the caller gets the last answer as `Ok`, as without a layer.
//!
//! # The end of a call that ends with an answer
//!
//! Such an answer of `Http` and `Grpc` has the end of its call among its extensions, as
//! `Arc<GaveUp<Boxed>>`. It says why the call ended, after how many attempts, and whether the request [may
//! have been executed](resile::GaveUp::is_in_doubt):
//!
//! ```
//! # #[cfg(feature = "http")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # use std::convert::Infallible;
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use resile_tower::RetryLayer;
//! use resile_tower::resile::error::Boxed;
//! use resile_tower::resile::{GaveUp, RetryPolicy};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # let client = service_fn(async |_: Request<String>| {
//! #     Ok::<_, Infallible>(Response::builder().status(500).body(()).unwrap())
//! # });
//! let service = RetryLayer::http(RetryPolicy::new()).layer(client); // answers with a 500
//! let order = Request::post("/orders").body(String::new()).unwrap();
//! let answer = service.oneshot(order).await.unwrap();
//! let end = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
//! assert!(end.is_in_doubt());
//! # }
//! # #[cfg(not(feature = "http"))]
//! # fn main() {}
//! ```
//!
//! For the other judges an answer with a verdict that forbids another attempt and says that the upstream
//! is [`Healthy`](resile::Health::Healthy) is not a failure: `Verdict::fatal().with_health(Health::Healthy)`
//! of a function makes any answer a good one. A 404 is such an answer, while a `NOT_FOUND` of
//! gRPC ends its call as [`Fatal`](resile::StopReason::Fatal).

mod answers;
mod errors;
mod known;

use std::borrow::Cow;

use resile::classify::{Always, Cut};
use resile::{Health, Verdict};

pub use answers::Answers;
pub use errors::Errors;
pub(crate) use known::Known;
pub(crate) use sealed::{Judge as SealedJudge, Rule as SealedRule};

use crate::BoxError;

/// A judge of the requests `Req`. Sealed: the [table](self) lists all of them.
pub trait Judge<Req>: SealedJudge<Req, Rule: Clone> {}

impl<Req, J: SealedJudge<Req, Rule: Clone>> Judge<Req> for J {}

/// The rule of a judge for one request with answers `T` and errors `E`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot judge answers of type `{T}` and errors of type `{E}`",
    note = "the error of the service must convert to `Box<dyn Error + Send + Sync>`",
    note = "`RetryLayer::new(policy)` takes a classifier of the service's own error type, and `RetryLayer::http(policy)` a service with the answer `http::Response<_>`"
)]
pub trait Rule<T, E>: SealedRule<T, E> {}

impl<T, E, L: SealedRule<T, E>> Rule<T, E> for L {}

/// The classifier of a policy for a layer that judges by itself. Sealed: it is [`Always`], which is that of
/// a policy that was given none.
///
/// ```compile_fail,E0277
/// # use resile_tower::RetryLayer;
/// use resile_tower::resile::RetryPolicy;
/// use resile_tower::resile::http::Classifier;
///
/// RetryLayer::http(RetryPolicy::new().with_classifier(Classifier::idempotent()));
/// ```
#[diagnostic::on_unimplemented(
    message = "this layer judges answers and errors by itself, so its policy has no classifier",
    label = "the policy has the classifier `{Self}`",
    note = "leave out `with_classifier`: a classifier among the extensions of a request says whether it may be executed twice, and `.judging(…)` of a `RetryLayer` or a `RetryMiddleware` judges answers by a function"
)]
pub trait NoClassifier: sealed::NoClassifier + Copy {}

impl NoClassifier for Always {}

/// A failure in the words of its judge.
#[derive(Debug)]
pub struct Judged {
    pub(crate) error: BoxError,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) error_type: Option<Cow<'static, str>>,
    /// The words of the error with its sources, if the judge has other ones.
    pub(crate) words: Option<String>,
}

impl Judged {
    pub(crate) const fn new(
        error: BoxError,
        verdict: Option<Verdict>,
        error_type: Option<Cow<'static, str>>,
    ) -> Self {
        Self { error, verdict, error_type, words: None }
    }

    /// Replaces the verdict, and keeps the words.
    pub(crate) fn with_verdict(self, verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..self }
    }
}

/// Returns whether an answer with this verdict is a failure.
pub(crate) fn is_failure(verdict: Verdict) -> bool {
    verdict.is_again() || verdict.health() != Health::Healthy
}

mod sealed {
    use std::panic::Location;
    use std::time::Duration;

    use resile::GaveUp;
    use resile::error::Boxed;

    use super::{Always, Cut, Judged, Verdict};

    pub trait NoClassifier {}

    impl NoClassifier for Always {}

    pub trait Judge<Req> {
        type Rule;

        /// Returns the rule for the outcomes of this request.
        fn rule(&self, request: &Req) -> Self::Rule;

        /// Returns the limit that the request itself sets for each of its attempts.
        fn limit(&self, request: &mut Req) -> Option<Duration> {
            let _ = request;
            None
        }

        /// Warns if another library retries this request too. The layer was made at `site`.
        fn watch(&self, request: &Req, site: &'static Location<'static>) {
            let _ = (request, site);
        }
    }

    pub trait Rule<T, E> {
        /// Returns the failure that an answer is. `None` is a good answer.
        fn answer(&self, answer: &T) -> Option<Judged>;

        /// Judges an error. `is_sent` is false if the service was not ready, so it has no request.
        fn error(&self, error: E, is_sent: bool) -> Judged;

        /// Returns the verdict on an attempt that was cut.
        fn cut(&self, cut: Cut) -> Option<Verdict>;

        /// Returns the place that the request goes to, in words.
        fn place(&self) -> Option<String> {
            None
        }

        /// Gives the last answer of a call the end of the call, if the answer has room for it.
        fn note(answer: &mut T, gave_up: GaveUp<Boxed>) {
            let _ = (answer, gave_up);
        }
    }
}
