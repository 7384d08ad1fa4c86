use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::task::{Context, Poll, ready};

use resile::cancel::Cancel;
use resile::error::Boxed;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use resile::{GaveUp, ResilienceExt};
use tower_service::Service;

use super::future::ThroughFuture;
use super::layer::UpstreamLayer;
use crate::Failed;
use crate::attempt::Attempting;
use crate::deadline::{Deadline, least};
use crate::judge::{Judge, Known, Rule};

/// A service whose requests pass through an upstream. Made by [`UpstreamLayer`].
///
/// # Readiness
///
/// [`poll_ready`](Service::poll_ready) is that of the inner service, and its error fails the attempt, as
/// for [`Retry`](crate::retry::Retry). The upstream is asked within the future, so a refusal is an error
/// and no service waits in `poll_ready` for it. The inner service is called after the admission.
///
/// # Errors
///
/// [`GaveUp`]: the reason says whether the upstream refused the request, or the attempt failed, was cut
/// or cancelled. An answer that counts as a failure is returned as the `Ok`.
pub struct Through<S, J, X, K> {
    inner: S,
    /// False after the inner service failed to become ready.
    is_ready: bool,
    layer: UpstreamLayer<J, X, K>,
}

impl<S, J, X, K> Through<S, J, X, K> {
    pub(super) const fn new(inner: S, layer: UpstreamLayer<J, X, K>) -> Self {
        Self { inner, is_ready: true, layer }
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

impl<Req, S, J, X, K> Service<Req> for Through<S, J, X, K>
where
    S: Service<Req> + Clone,
    J: Judge<Req>,
    J::Rule: Rule<S::Response, S::Error>,
    X: Target + Clone,
    K: Cancel + Clone,
    Via<X, ByError>: TargetFor<Failed<S::Response>>,
{
    type Response = S::Response;
    type Error = GaveUp<Boxed>;
    type Future = ThroughFuture<S, Req, J::Rule, X, K>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GaveUp<Boxed>>> {
        if self.is_ready && ready!(self.inner.poll_ready(cx)).is_err() {
            // A service that failed must not be used any more.
            self.inner = self.inner.clone();
            self.is_ready = false;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        let UpstreamLayer { judge, target, token, total_timeout, attempt_timeout, site } =
            &self.layer;
        let attempt_timeout = least(judge.limit(&mut request), *attempt_timeout);
        let known = Known { rule: judge.rule(&request), check: (), error: PhantomData };
        let spare = self.inner.clone();
        let service = mem::replace(&mut self.inner, spare);
        let is_ready = mem::replace(&mut self.is_ready, true);
        let left = Deadline::current().map(Deadline::left);
        let deadline = least(left, *total_timeout).map(Deadline::after);
        let attempt = Attempting::new(service, is_ready, Some(request), known.clone(), deadline)
            .limited(attempt_timeout);
        let mut call = attempt.through(target.clone(), known).called_at(site);
        if let Some(limit) = *total_timeout {
            call = call.with_total_timeout(limit);
        }
        if let Some(limit) = attempt_timeout {
            call = call.with_attempt_timeout(limit);
        }
        if let Some(left) = left {
            call = call.shortened_to(left);
        }
        ThroughFuture::new(call.with_token(token.clone()))
    }
}

impl<S: Clone, J: Clone, X: Clone, K: Clone> Clone for Through<S, J, X, K> {
    /// A clone is not ready.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, J, X, K> fmt::Debug for Through<S, J, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Through").field("inner", &self.inner).finish_non_exhaustive()
    }
}
