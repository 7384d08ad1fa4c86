use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use pin_project_lite::pin_project;
use resile::time::{Timer, TokioTimer};

use super::Deadline;

pin_project! {
    /// The future of [`DeadlineService`](super::DeadlineService): a handler that ends at its deadline.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct DeadlineFuture<F> {
        deadline: Deadline,
        is_grpc: bool,
        // `None` if no time is left.
        #[pin]
        handler: Option<F>,
        // Made when the handler is first found pending.
        #[pin]
        sleep: Option<<TokioTimer as Timer>::Sleep>,
    }
}

impl<F> DeadlineFuture<F> {
    pub(super) const fn new(deadline: Deadline, is_grpc: bool, handler: Option<F>) -> Self {
        Self { deadline, is_grpc, handler, sleep: None }
    }
}

impl<F, R, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(handler) = this.handler.as_mut().as_pin_mut() else {
            return Poll::Ready(Ok(late(*this.is_grpc)));
        };
        {
            let _current = this.deadline.enter();
            if let Poll::Ready(answer) = handler.poll(cx) {
                // A layer below may have ended its call at the same deadline.
                let is_late = answer.is_err() && this.deadline.left().is_zero();
                return Poll::Ready(if is_late { Ok(late(*this.is_grpc)) } else { answer });
            }
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(TokioTimer::new().sleep_until(this.deadline.reading())));
        }
        if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            ready!(sleep.poll(cx));
        }
        this.handler.set(None);
        Poll::Ready(Ok(late(*this.is_grpc)))
    }
}

/// Returns the answer to a request that is too late.
fn late<R: Default>(is_grpc: bool) -> Response<R> {
    let mut answer = Response::new(R::default());
    if is_grpc {
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static("4"));
    } else {
        *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    }
    answer
}

impl<F> fmt::Debug for DeadlineFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineFuture").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
