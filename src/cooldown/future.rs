use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Cooldown, Gate};
use crate::backoff::Draw;
use crate::cancel::{Cancel, Cancelled, Never, poll_cancelled};
use crate::classify::Classify;
use crate::time::{DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A wait for the end of a cooldown. Made by [`Cooldown::until`].
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Until<'a, K, M = DefaultTimer>
    where
        K: Cancel,
        M: TimerSlot,
    {
        gate: &'a Gate,
        timer: &'a M,
        token: K,
        #[pin]
        sleep: Option<M::Sleep>,
        // The token's future, from the first time that something had to be waited for.
        #[pin]
        cancelled: Option<K::Cancelled>,
    }
}

impl<'a, K: Cancel, M: TimerSlot> Until<'a, K, M> {
    #[inline]
    pub(super) const fn new(gate: &'a Gate, timer: &'a M, token: K) -> Self {
        Self { gate, timer, token, sleep: None, cancelled: None }
    }
}

impl<K: Cancel, M: Timer> Future for Until<'_, K, M> {
    type Output = Result<(), Cancelled>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.token.is_cancelled() {
            return Poll::Ready(Err(Cancelled));
        }
        if self.sleep.is_none() && self.gate.is_free() {
            return Poll::Ready(Ok(()));
        }
        self.poll_wait(cx)
    }
}

impl<K: Cancel, M: Timer> Until<'_, K, M> {
    #[cold]
    fn poll_wait(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        let mut this = self.project();
        loop {
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                if sleep.poll(cx).is_pending() {
                    return poll_cancelled(this.token, this.cancelled, cx).map(|()| Err(Cancelled));
                }
                this.sleep.set(None);
            }
            // Asked anew after each sleep: the hold may have been extended.
            match this.gate.wait(this.timer.now(), &mut Draw) {
                Some(delay) => this.sleep.set(Some(this.timer.sleep(delay))),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<K: Cancel, M: TimerSlot> fmt::Debug for Until<'_, K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("waiting", &self.sleep.is_some()).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that waits for a cooldown first. Made by [`ResilienceExt::paced_by`](crate::ResilienceExt::paced_by).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Paced<'a, F, C, M = DefaultTimer>
    where
        M: TimerSlot,
    {
        cooldown: &'a Cooldown<C, M>,
        // `None` once the future may go.
        #[pin]
        until: Option<Until<'a, Never, M>>,
        #[pin]
        future: F,
    }
}

impl<'a, F, C, M: TimerSlot> Paced<'a, F, C, M> {
    #[inline]
    pub(crate) fn new(future: F, cooldown: &'a Cooldown<C, M>) -> Self {
        Self { cooldown, until: Some(cooldown.until(Never)), future }
    }
}

impl<F, T, E, C, M> Future for Paced<'_, F, C, M>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    M: Timer,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(until) = this.until.as_mut().as_pin_mut() {
            // Nothing cancels this wait but its drop.
            let (Ok(()) | Err(Cancelled)) = ready!(until.poll(cx));
            this.until.set(None);
        }
        let output = ready!(this.future.poll(cx));
        if let Err(error) = &output {
            learn(this.cooldown, error);
        }
        Poll::Ready(output)
    }
}

#[cold]
fn learn<E, C: Classify<E>, M: Timer>(cooldown: &Cooldown<C, M>, error: &E) {
    if let Some(verdict) = cooldown.classify().classify(error) {
        cooldown.gate().hold(cooldown.timer.now(), verdict);
    }
}

impl<F, C, M: TimerSlot> fmt::Debug for Paced<'_, F, C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").field("started", &self.until.is_none()).finish_non_exhaustive()
    }
}
