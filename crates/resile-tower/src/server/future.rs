use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::Refusal;
use crate::BoxError;

pin_project! {
    /// The future of [`Refusals`](super::Refusals).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct RefusalFuture<F> {
        #[pin]
        handler: F,
    }
}

impl<F> RefusalFuture<F> {
    pub(super) const fn new(handler: F) -> Self {
        Self { handler }
    }
}

impl<F, B, E> Future for RefusalFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Default,
    E: Into<BoxError>,
{
    type Output = Result<Response<B>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().handler.poll(cx)).or_else(|error| {
            let error: BoxError = error.into();
            Refusal::find(&*error).map(Refusal::response).ok_or(error)
        }))
    }
}

impl<F> fmt::Debug for RefusalFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalFuture").finish_non_exhaustive()
    }
}
