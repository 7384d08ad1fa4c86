use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::task::{Context, Poll, ready};

use resile::GaveUp;
use resile::cancel::Cancel;
use resile::error::Boxed;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use tower_service::Service;

use super::future::{Call, RetryFuture};
use super::layer::RetryLayer;
use super::sending::Sending;
use crate::Failed;
use crate::deadline::{least, until_deadline};
use crate::judge::{Judge, Known, Rule};
use crate::replay::{Copies, Replay};

/// A service that makes each request again until it succeeds or gives up. Made by [`RetryLayer`].
///
/// # Readiness
///
/// The first attempt goes to the service that [`poll_ready`](Service::poll_ready) found ready. Each
/// further attempt goes to a clone of its own, and waits until that is ready. This time is a part of
/// the attempt.
///
/// `poll_ready` returns no error. A service that fails to become ready is replaced by a clone, and the
/// first attempt waits for that one. If it fails too, the attempt has failed. The request was not
/// sent then, and the judge says whether another clone may get it.
///
/// # Errors
///
/// [`GaveUp`] with the reason, the number of attempts, and the last error as its
/// [source](std::error::Error::source). A call that ended with an answer returns the answer.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt in flight and gives back what it holds at the upstream.
pub struct Retry<S, J, R, X, K> {
    inner: S,
    /// False after the inner service failed to become ready.
    is_ready: bool,
    layer: RetryLayer<J, R, X, K>,
}

impl<S, J, R, X, K> Retry<S, J, R, X, K> {
    pub(super) const fn new(inner: S, layer: RetryLayer<J, R, X, K>) -> Self {
        Self { inner, is_ready: true, layer }
    }

    /// Replaces the layer.
    #[cfg(feature = "tonic-0_14")]
    pub(crate) fn with_layer<H, Z, Y, L>(
        self,
        replace: impl FnOnce(RetryLayer<J, R, X, K>) -> RetryLayer<H, Z, Y, L>,
    ) -> Retry<S, H, Z, Y, L> {
        let Self { inner, is_ready, layer } = self;
        Retry { inner, is_ready, layer: replace(layer) }
    }

    /// Returns the inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service, by value.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<Req, S, J, R, X, K> Service<Req> for Retry<S, J, R, X, K>
where
    S: Service<R::Request> + Clone,
    J: Judge<Req>,
    J::Rule: Rule<S::Response, S::Error>,
    R: Replay<Req>,
    X: Target + Clone,
    K: Cancel + Clone,
    Via<X, ByError>: TargetFor<Failed<S::Response>>,
{
    type Response = S::Response;
    type Error = GaveUp<Boxed>;
    type Future = RetryFuture<S, R::Request, R::Copies, J::Rule, X, K>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GaveUp<Boxed>>> {
        if self.is_ready && ready!(self.inner.poll_ready(cx)).is_err() {
            // A service that failed must not be used any more.
            self.inner = self.inner.clone();
            self.is_ready = false;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let RetryLayer { policy, judge, replay, target, token, site } = &self.layer;
        let spare = self.inner.clone();
        judge.watch(&request, site);
        let rule = judge.rule(&request);
        let attempt_timeout = least(judge.limit(&mut request), policy.attempt_timeout());
        let copies = replay.copies(request, policy.attempts());
        let known = Known { rule, check: copies.check(), error: PhantomData };
        let sending = Sending {
            service: mem::replace(&mut self.inner, spare),
            is_ready: mem::replace(&mut self.is_ready, true),
            copies,
            known: known.clone(),
            request: PhantomData,
        };
        let policy = until_deadline(match attempt_timeout {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => *policy,
        });
        let call: Call<_, _, _, _, X, K> =
            resile::retry::Retry::of(sending, policy.with_classifier(known), token.clone())
                .called_at(site)
                .on(target.clone());
        RetryFuture::new(call)
    }
}

impl<S: Clone, J: Clone, R: Clone, X: Clone, K: Clone> Clone for Retry<S, J, R, X, K> {
    /// A clone is not ready.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, J, R, X, K> fmt::Debug for Retry<S, J, R, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).finish_non_exhaustive()
    }
}
