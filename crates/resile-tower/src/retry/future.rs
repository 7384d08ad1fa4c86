use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use resile::cancel::Cancel;
use resile::error::Boxed;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use resile::{GaveUp, RetryPolicy};
use tower_service::Service;

use super::sending::Sending;
use crate::Failed;
use crate::attempt::Attempting;
use crate::ended::ended;
use crate::judge::{Known, Rule, SealedRule};
use crate::replay::Copies;

/// The call that makes the attempts.
pub(super) type Call<S, Q, C, L, X, K> = resile::retry::Retry<
    Sending<S, Q, C, L>,
    Attempting<S, Q, L, <C as Copies>::Check>,
    Failed<<S as Service<Q>>::Response>,
    RetryPolicy<Known<L, <C as Copies>::Check, <S as Service<Q>>::Error>>,
    K,
    Via<X, ByError>,
>;

pin_project! {
    /// The future of [`Retry`](super::Retry): a call with its attempts.
    ///
    /// Dropping it drops the attempt in flight, and gives back what it holds at the upstream.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct RetryFuture<S, Q, C, L, X, K>
    where
        S: Service<Q>,
        C: Copies,
        X: Target,
        K: Cancel,
    {
        #[pin]
        call: Call<S, Q, C, L, X, K>,
    }
}

impl<S, Q, C, L, X, K> RetryFuture<S, Q, C, L, X, K>
where
    S: Service<Q>,
    C: Copies,
    X: Target,
    K: Cancel,
{
    pub(super) const fn new(call: Call<S, Q, C, L, X, K>) -> Self {
        Self { call }
    }
}

impl<S, C, L, X, K> Future for RetryFuture<S, C::Request, C, L, X, K>
where
    S: Service<C::Request> + Clone,
    C: Copies,
    L: Rule<S::Response, S::Error> + Clone,
    X: Target,
    K: Cancel,
    Via<X, ByError>: TargetFor<Failed<S::Response>>,
{
    type Output = Result<S::Response, GaveUp<Boxed>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().call.poll(cx).map(|outcome| {
            outcome.or_else(|gave_up| ended(gave_up, <L as SealedRule<_, S::Error>>::note))
        })
    }
}

impl<S, Q, C, L, X, K> fmt::Debug for RetryFuture<S, Q, C, L, X, K>
where
    S: Service<Q>,
    C: Copies,
    X: Target,
    K: Cancel,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}
