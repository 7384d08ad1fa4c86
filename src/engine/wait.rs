use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use super::until::{LATEST, Until};
use super::{Begin, CallPolicy, CallState, Engine, NO_LIMIT, PendingOf};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::GaveUp;
use crate::policy::{Attempt, Rules, StopReason};
use crate::time::Timer;
use crate::upstream::{Endpoint, Refuser, TargetFor};

/// The cause that ended a wait.
enum WokenBy {
    Token,
    Time,
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Waits until the next attempt begins or the call ends: for the delay, for a cooldown and in
    /// the queue. The token ends each wait. `elapsed` is that of
    /// [`begin_next`](Self::begin_next).
    ///
    /// Most calls end with a first attempt that needs no wait, so this case is inline.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the attempt would pass through memory")]
    pub(crate) fn poll_between(
        &mut self,
        slot: usize,
        elapsed: Option<u64>,
        pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Attempt, GaveUp<E>>> {
        if let Some(attempt) = self.begin_first(slot) {
            return Poll::Ready(Ok(attempt));
        }
        // After a failure without a delay the next attempt begins in the same poll.
        if let Some(elapsed) = elapsed.filter(|_| !self.engine.must_wait()) {
            if X::ALONE && self.engine.begins_again() {
                return Poll::Ready(Ok(self.attempt_at(elapsed)));
            }
            match self.begin_next(slot, Some(cx.waker()), Some(elapsed)) {
                Begin::Go(elapsed) => return Poll::Ready(Ok(self.attempt_at(elapsed))),
                Begin::Hold { .. } | Begin::Queued { .. } => {}
                Begin::End(reason, retry_after) => {
                    return Poll::Ready(Err(self.close(reason, retry_after)));
                }
            }
        }
        self.poll_wait(slot, pending, cx)
    }

    #[inline(never)]
    fn poll_wait(
        &mut self,
        slot: usize,
        mut pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Attempt, GaveUp<E>>> {
        loop {
            if let Until::Delay(at) = self.engine.until.get() {
                match ready!(self.poll_until(at, pending.as_mut(), cx)) {
                    WokenBy::Token => {
                        return Poll::Ready(Err(self.close(StopReason::Cancelled, None)));
                    }
                    WokenBy::Time => self.engine.until.set(Until::Nothing),
                }
            }
            pending.as_mut().drop_sleep();
            // `set_wait` (`finish.rs`), a hold or a queue asks for it, even after a delay: a timer's sleep may end at
            // once.
            if self.engine.guard.progress.must_yield() {
                self.engine.guard.progress.set_must_yield(false);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.begin(slot, Some(cx.waker())) {
                Begin::Go(elapsed) => return Poll::Ready(Ok(self.attempt_at(elapsed))),
                Begin::Hold { .. } => {}
                Begin::Queued { until, asks_again, .. } => {
                    let woken = ready!(self.poll_until(until, pending.as_mut(), cx));
                    let reason = match woken {
                        WokenBy::Token => StopReason::Cancelled,
                        WokenBy::Time if until >= self.ends_at() => {
                            if asks_again {
                                self.engine.end_in_line(slot);
                            }
                            StopReason::Deadline
                        }
                        WokenBy::Time if asks_again => {
                            // A timer's sleep may end too early. The call yields before it asks.
                            self.engine.guard.progress.set_must_yield(true);
                            continue;
                        }
                        WokenBy::Time => self.engine.waited_too_long(),
                    };
                    return Poll::Ready(Err(self.close(reason, None)));
                }
                Begin::End(reason, retry_after) => {
                    return Poll::Ready(Err(self.close(reason, retry_after)));
                }
            }
        }
    }

    /// Waits until the timer reads `at` or the token is cancelled.
    #[inline]
    fn poll_until(
        &self,
        at: u64,
        mut pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<WokenBy> {
        self.engine.tell_name();
        if at != NO_LIMIT && self.poll_time(at, pending.as_mut(), cx).is_ready() {
            return Poll::Ready(WokenBy::Time);
        }
        pending.poll_cancelled(&self.token, cx).map(|()| WokenBy::Token)
    }

    /// Waits until the timer reads `at`.
    pub(crate) fn poll_time(
        &self,
        at: u64,
        mut pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if !pending.is_asleep() {
            let (timer, delay) =
                (self.engine.guard.target.timer(), Duration::from_nanos(self.engine.delay));
            // `LATEST` is a saturated time, so the sleep lasts for the delay itself.
            pending.as_mut().sleep(|| match at {
                LATEST => timer.sleep(delay),
                at => timer.sleep_until(Duration::from_nanos(at)),
            });
        }
        let polled = pending.poll_sleep(cx);
        let ends_now =
            || polled.is_pending() && at >= self.ends_at() && self.engine.ends_with_outer(at);
        if ends_now() { Poll::Ready(()) } else { polled }
    }

    /// Waits as [`poll_between`](Self::poll_between) does, but blocks a thread without a runtime.
    pub(crate) fn block_between(&mut self, slot: usize) -> Result<Attempt, GaveUp<E>> {
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let token_wakes = self.token.cancelled();
        let mut cancelled = pin!(token_wakes);
        loop {
            let (until, stop) = match self.engine.until.get() {
                Until::Delay(at) => (at, None),
                _ => match self.begin(slot, Some(&waker)) {
                    Begin::Go(elapsed) => return Ok(self.attempt_at(elapsed)),
                    Begin::Hold { .. } => continue,
                    Begin::Queued { until, .. } if until >= self.ends_at() => {
                        (until, Some(StopReason::Deadline))
                    }
                    Begin::Queued { until, asks_again: true, .. } => (until, None),
                    Begin::Queued { until, asks_again: false, .. } => {
                        (until, Some(StopReason::Full))
                    }
                    Begin::End(reason, retry_after) => {
                        return Err(self.close(reason, retry_after));
                    }
                },
            };
            if cancelled
                .as_mut()
                .as_pin_mut()
                .is_some_and(|cancelled| cancelled.poll(&mut cx).is_ready())
            {
                return Err(self.close(StopReason::Cancelled, None));
            }
            let left = until.saturating_sub(self.engine.now());
            match stop {
                _ if left > 0 => self.engine.guard.target.timer().park(Duration::from_nanos(left)),
                None => self.engine.until.set(Until::Nothing),
                Some(StopReason::Full) => {
                    let full = self.engine.waited_too_long();
                    return Err(self.close(full, None));
                }
                Some(stop) => return Err(self.close(stop, None)),
            }
        }
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Notes that the attempt waited for the longest time in the bulkhead's queue.
    #[cold]
    fn waited_too_long(&mut self) -> StopReason {
        self.guard.progress.set_refuser(Some(Refuser::BulkheadWait));
        StopReason::Full
    }
}
