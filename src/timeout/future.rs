use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::Elapsed;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A future with a limit. Made by [`ResilienceExt::timeout`](crate::ResilienceExt::timeout).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Timeout<F, M = DefaultTimer>
    where
        M: TimerSlot,
    {
        limit: Duration,
        timer: M,
        #[pin]
        future: F,
        // Made when the future first had to be waited for.
        #[pin]
        sleep: Option<M::Sleep>,
    }
}

impl<F> Timeout<F> {
    #[inline]
    pub(crate) fn new(future: F, limit: Duration) -> Self {
        Self { limit, timer: DEFAULT_TIMER, future, sleep: None }
    }
}

impl<F, M: TimerSlot> Timeout<F, M> {
    /// Time is `timer`'s.
    #[inline]
    pub fn with_timer<N: Timer>(self, timer: N) -> Timeout<F, N> {
        Timeout { limit: self.limit, timer, future: self.future, sleep: None }
    }
}

impl<F, T, E, M> Future for Timeout<F, M>
where
    F: Future<Output = Result<T, E>>,
    E: From<Elapsed>,
    M: Timer,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(output);
        }
        let limit = *this.limit;
        if !limit.is_zero() {
            if this.sleep.is_none() {
                this.sleep.set(Some(this.timer.sleep(limit)));
            }
            if let Some(sleep) = this.sleep.as_pin_mut() {
                ready!(sleep.poll(cx));
            }
        }
        Poll::Ready(Err(Elapsed { limit }.into()))
    }
}

impl<F, M: TimerSlot> fmt::Debug for Timeout<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}
