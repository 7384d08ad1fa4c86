use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project_lite::pin_project;
use resile::cancel::Cancel;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use resile_clients::grpc::to_status;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::plain::Plain;
use crate::deadline::TimeLeft;
use crate::grpc::{GrpcRule, answer_to_error};
use crate::http::{Keeping, KeptBody};
use crate::retry::RetryFuture;
use crate::{BoxError, Failed};

/// The call that makes the attempts.
type Call<S, X, K> =
    RetryFuture<TimeLeft<Plain<S>>, Request<KeptBody<Body>>, Keeping<Body>, GrpcRule, X, K>;

pin_project! {
    /// The future of [`RetryChannel`](super::RetryChannel): a call with its attempts.
    ///
    /// Dropping it drops the attempt in flight, and gives back what it holds at the upstream.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct RetryChannelFuture<S, X, K>
    where
        S: Service<Request<Body>>,
        X: Target,
        K: Cancel,
    {
        #[pin]
        call: Call<S, X, K>,
    }
}

impl<S, X, K> RetryChannelFuture<S, X, K>
where
    S: Service<Request<Body>>,
    X: Target,
    K: Cancel,
{
    pub(super) const fn new(call: Call<S, X, K>) -> Self {
        Self { call }
    }
}

impl<S, B, X, K> Future for RetryChannelFuture<S, X, K>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone,
    X: Target,
    K: Cancel,
    Via<X, ByError>: TargetFor<Failed<Response<B>>>,
{
    type Output = Result<Response<B>, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().call.poll(cx).map(|outcome| answer_to_error(outcome).map_err(to_status))
    }
}

impl<S, X, K> fmt::Debug for RetryChannelFuture<S, X, K>
where
    S: Service<Request<Body>>,
    X: Target,
    K: Cancel,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryChannelFuture").finish_non_exhaustive()
    }
}
