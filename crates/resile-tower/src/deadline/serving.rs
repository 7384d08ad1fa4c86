use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

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
        // The words of an answer of gRPC that is too late.
        limit: Option<Limit>,
        // `None` if no time is left.
        #[pin]
        handler: Option<F>,
        // Made when the handler is first found pending.
        #[pin]
        sleep: Option<<TokioTimer as Timer>::Sleep>,
    }
}

impl<F> DeadlineFuture<F> {
    pub(super) const fn new(deadline: Deadline, limit: Option<Limit>, handler: Option<F>) -> Self {
        Self { deadline, limit, handler, sleep: None }
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
            return Poll::Ready(Ok(late(*this.limit)));
        };
        {
            let _current = this.deadline.enter();
            if let Poll::Ready(answer) = handler.poll(cx) {
                // A layer below may have ended its call at the same deadline.
                let is_late = answer.is_err() && this.deadline.left().is_zero();
                return Poll::Ready(if is_late { Ok(late(*this.limit)) } else { answer });
            }
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(TokioTimer::new().sleep_until(this.deadline.reading())));
        }
        if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            ready!(sleep.poll(cx));
        }
        this.handler.set(None);
        Poll::Ready(Ok(late(*this.limit)))
    }
}

/// The limit that ended a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The time that the caller told, and what the request may use of it.
    Caller { told: Duration, usable: Duration },
    /// The maximum of the server.
    Server(Duration),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller { told, .. } if told.is_zero() => {
                f.write_str("the request arrived when its caller had no time left")
            }
            Self::Caller { told, usable } => {
                write!(
                    f,
                    "the request did not finish within {usable:?}, and its caller told a timeout of {told:?}"
                )
            }
            Self::Server(maximum) => {
                write!(
                    f,
                    "the request did not finish within the {maximum:?} that the server allows"
                )
            }
        }
    }
}

/// Returns the answer to a request that is too late. The words are for gRPC.
fn late<R: Default>(limit: Option<Limit>) -> Response<R> {
    let mut answer = Response::new(R::default());
    if let Some(limit) = limit {
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static("4"));
        // A message is percent-encoded UTF-8, and a duration may have the sign for "micro".
        let message = limit.to_string().replace('\u{b5}', "%C2%B5");
        if let Ok(message) = HeaderValue::try_from(message) {
            headers.insert("grpc-message", message);
        }
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
