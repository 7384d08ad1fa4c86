use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Elapsed, Limit};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A future with a limit. Made by [`ResilienceExt::timeout`](crate::ResilienceExt::timeout).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Timeout<F, M = DefaultTimer, L = Duration>
    where
        M: TimerSlot,
        L: Limit,
    {
        limit: L,
        timer: M,
        #[pin]
        future: F,
        // These two are made when the future first had to be waited for.
        call: Option<L::Call>,
        #[pin]
        sleep: Option<M::Sleep>,
    }
}

impl<F, L: Limit> Timeout<F, DefaultTimer, L> {
    #[inline]
    pub(crate) fn new(future: F, limit: L) -> Self {
        Self { limit, timer: DEFAULT_TIMER, future, call: None, sleep: None }
    }
}

impl<F, M: TimerSlot, L: Limit> Timeout<F, M, L> {
    /// Time is `timer`'s.
    #[inline]
    pub fn with_timer<N: Timer>(self, timer: N) -> Timeout<F, N, L> {
        Timeout { limit: self.limit, timer, future: self.future, call: None, sleep: None }
    }
}

impl<F, T, E, M, L> Future for Timeout<F, M, L>
where
    F: Future<Output = Result<T, E>>,
    E: From<Elapsed>,
    M: Timer,
    L: Limit,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            if let (Some(call), Ok(_)) = (*this.call, &output) {
                this.limit.succeeded(call, this.timer);
            }
            return Poll::Ready(output);
        }
        let call = *this.call.get_or_insert_with(|| this.limit.begin(this.timer));
        let limit = this.limit.of(call);
        if !limit.is_zero() {
            if this.sleep.is_none() {
                this.sleep.set(Some(this.limit.sleep(call, this.timer)));
            }
            if let Some(sleep) = this.sleep.as_pin_mut() {
                ready!(sleep.poll(cx));
            }
        }
        this.limit.ran_out(call, this.timer);
        Poll::Ready(Err(Elapsed::finish(limit).into()))
    }
}

impl<F, M: TimerSlot, L: Limit> fmt::Debug for Timeout<F, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.call.map_or_else(|| self.limit.current(), |call| self.limit.of(call));
        f.debug_struct("Timeout").field("limit", &limit).finish_non_exhaustive()
    }
}
