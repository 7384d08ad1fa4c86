use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Elapsed, Missed};
use crate::time::Timer;
use crate::upstream::{Endpoint, NoUpstream, Target};

// The timeout of an attempt of a call is in `engine/attempt.rs`.
pin_project! {
    /// A future with a limit. Made by [`ResilienceExt::timeout`](crate::ResilienceExt::timeout).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Timeout<F, X = NoUpstream>
    where
        X: Target,
    {
        limit: Duration,
        target: X,
        #[pin]
        future: F,
        // Made when the future is first found pending.
        #[pin]
        sleep: Option<X::Sleep>,
    }
}

impl<F> Timeout<F> {
    #[inline]
    pub(crate) fn new(future: F, limit: Duration) -> Self {
        Self { limit, target: NoUpstream, future, sleep: None }
    }

    /// Uses the timer of an [`Upstream`](crate::Upstream) for the limit.
    #[inline]
    pub fn on<Y: Target>(self, target: Y) -> Timeout<F, Y> {
        Timeout { limit: self.limit, target, future: self.future, sleep: None }
    }
}

impl<F, T, E, X> Future for Timeout<F, X>
where
    F: Future<Output = Result<T, E>>,
    E: From<Elapsed>,
    X: Target + Endpoint<Timer: Timer<Sleep = <X as Endpoint>::Sleep>, Sleep: Future<Output = ()>>,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(output);
        }
        if !this.limit.is_zero() {
            if this.sleep.is_none() {
                this.sleep.set(Some(this.target.timer().sleep(*this.limit)));
            }
            if let Some(sleep) = this.sleep.as_pin_mut() {
                ready!(sleep.poll(cx));
            }
        }
        Poll::Ready(Err(Elapsed::new(*this.limit, Missed::Finish).into()))
    }
}

impl<F, X: Target> fmt::Debug for Timeout<F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}
