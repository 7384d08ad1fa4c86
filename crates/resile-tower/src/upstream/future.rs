use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use resile::GaveUp;
use resile::cancel::Cancel;
use resile::error::Boxed;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use tower_service::Service;

use crate::Failed;
use crate::attempt::Attempting;
use crate::ended::ended;
use crate::judge::{Known, Rule, SealedRule};

/// The call that makes the attempt.
pub(super) type Call<S, Req, L, X, K> = resile::call::Call<
    Attempting<S, Req, L, ()>,
    Failed<<S as Service<Req>>::Response>,
    Known<L, (), <S as Service<Req>>::Error>,
    Via<X, ByError>,
    K,
>;

pin_project! {
    /// The future of [`Through`](super::Through): one attempt on the upstream.
    ///
    /// Dropping it in the queue leaves the queue. Dropping it in flight drops the attempt, which then
    /// counts neither as a success nor as a failure.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct ThroughFuture<S, Req, L, X, K>
    where
        S: Service<Req>,
        X: Target,
        K: Cancel,
    {
        #[pin]
        call: Call<S, Req, L, X, K>,
    }
}

impl<S, Req, L, X, K> ThroughFuture<S, Req, L, X, K>
where
    S: Service<Req>,
    X: Target,
    K: Cancel,
{
    pub(super) const fn new(call: Call<S, Req, L, X, K>) -> Self {
        Self { call }
    }
}

impl<S, Req, L, X, K> Future for ThroughFuture<S, Req, L, X, K>
where
    S: Service<Req>,
    L: Rule<S::Response, S::Error>,
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

impl<S, Req, L, X, K> fmt::Debug for ThroughFuture<S, Req, L, X, K>
where
    S: Service<Req>,
    X: Target,
    K: Cancel,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThroughFuture").finish_non_exhaustive()
    }
}
