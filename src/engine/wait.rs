use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use super::engine::LATEST;
use super::{Begin, CallPolicy, CallState, Engine, Finish, Limits, NO_LIMIT, PendingOf};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::GaveUp;
use crate::policy::{Attempt, Rules, StopReason};
use crate::quota::Collecting;
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
        if elapsed.is_some() && !self.engine.must_wait() {
            match self.begin_next(slot, Some(cx.waker()), elapsed) {
                Begin::Go(elapsed) => return Poll::Ready(Ok(self.attempt_at(elapsed))),
                Begin::Hold(_) | Begin::Queued { .. } => {}
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
            let at = self.engine.resumes_at;
            if at != 0 {
                match ready!(self.poll_until(at, pending.as_mut(), cx)) {
                    WokenBy::Token => {
                        return Poll::Ready(Err(self.close(StopReason::Cancelled, None)));
                    }
                    WokenBy::Time => self.engine.resumes_at = 0,
                }
            }
            pending.as_mut().drop_sleep();
            // Yields even after a delay: a timer's sleep may end at once.
            if self.engine.guard.progress.must_yield() {
                self.engine.guard.progress.set_must_yield(false);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.begin(slot, Some(cx.waker())) {
                Begin::Go(elapsed) => return Poll::Ready(Ok(self.attempt_at(elapsed))),
                Begin::Hold(_) => {}
                Begin::Queued { until, asks_again } => {
                    let woken = ready!(self.poll_until(until, pending.as_mut(), cx));
                    let reason = match woken {
                        WokenBy::Token => StopReason::Cancelled,
                        WokenBy::Time if until >= self.ends_at() => StopReason::Deadline,
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
        pending.poll_sleep(cx)
    }

    /// Polls an attempt. If the attempt is pending, polls the limits that may cut it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the new sleep would be moved")]
    pub(crate) fn poll_attempt<T>(
        &mut self,
        slot: usize,
        attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
        pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, Finish>> {
        let polled = self.poll_within(slot, || attempt.poll(cx));
        match polled {
            Poll::Ready(Ok(value)) => Poll::Ready(Ok(value)),
            Poll::Ready(Err(error)) => {
                self.note_error(error);
                Poll::Ready(Err(Finish::Error))
            }
            Poll::Pending => self.poll_limits(slot, pending, cx).map(Err),
        }
    }

    /// Runs one poll of the attempt in `slot`, or of its stream. The poll may report a usage and
    /// limits to the quota.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions around the caller's future")]
    pub(crate) fn poll_within<R>(&mut self, slot: usize, poll: impl FnOnce() -> R) -> R {
        let _polled = self.engine.polled();
        let collecting = self.engine.guard.has_quota().then(Collecting::start);
        let polled = {
            let _lending = self.engine.guard.lend(slot);
            poll()
        };
        if let Some(report) = collecting.as_ref().and_then(Collecting::report) {
            self.charge(slot, &report);
        }
        polled
    }

    /// Polls the limits of a pending attempt: first the token, then a sleep. The sleep ends at the
    /// attempt's timeout or at the call's deadline, whichever comes first.
    #[inline(never)]
    pub(crate) fn poll_limits(
        &mut self,
        slot: usize,
        mut pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<Finish> {
        if self.token.stops_attempts()
            && pending.as_mut().poll_cancelled(&self.token, cx).is_ready()
        {
            return Poll::Ready(Finish::Cancelled);
        }
        if self.engine.resumes_at == 0 {
            if !self.policy.has_timeouts() && self.learns().is_none() {
                self.engine.note_start();
                self.engine.resumes_at = NO_LIMIT;
                return Poll::Pending;
            }
            self.engine.resumes_at = self
                .engine
                .cuts_at(slot, self.policy.attempt_timeout(), self.policy.limits())
                .max(1);
            if self.engine.resumes_at == NO_LIMIT {
                return Poll::Pending;
            }
            // Without a sleep, because a timer may round a sleep of zero up.
            if self.policy.total_timeout() == 0 || self.policy.attempt_timeout() == 0 {
                return Poll::Ready(self.engine.reached_limit(
                    slot,
                    self.policy.attempt_timeout(),
                    self.policy.limits(),
                ));
            }
            let at = Duration::from_nanos(self.engine.resumes_at);
            pending.as_mut().sleep(|| self.engine.guard.target.timer().sleep_until(at));
        }
        if self.engine.resumes_at == NO_LIMIT {
            return Poll::Pending;
        }
        ready!(pending.as_mut().poll_sleep(cx));
        pending.drop_sleep();
        Poll::Ready(self.engine.reached_limit(
            slot,
            self.policy.attempt_timeout(),
            self.policy.limits(),
        ))
    }

    /// Removes the limits of an attempt whose stream now flows. The time until now is its latency.
    /// Returns the time if the upstream needs it at the end of the stream.
    #[cfg(feature = "stream")]
    pub(crate) fn lift_limits(&mut self, slot: usize) -> Option<u64> {
        if self.engine.resumes_at != 0 {
            self.learn_from(slot);
            self.engine.resumes_at = 0;
        }
        self.engine.guard.times_attempts().then(|| self.engine.now())
    }

    /// Polls the limits of a stream that flows: the token and the limit `whole` on the whole stream.
    #[cfg(feature = "stream")]
    pub(crate) fn poll_whole(
        &mut self,
        whole: u64,
        mut pending: Pin<&mut PendingOf<X, K>>,
        cx: &mut Context<'_>,
    ) -> Poll<Finish> {
        if self.token.stops_attempts()
            && pending.as_mut().poll_cancelled(&self.token, cx).is_ready()
        {
            return Poll::Ready(Finish::Cancelled);
        }
        match self.engine.ends_at(whole) {
            LATEST | NO_LIMIT => Poll::Pending,
            ends_at => self.poll_time(ends_at, pending, cx).map(|()| Finish::Deadline),
        }
    }

    /// Returns true if the limit `whole` on the whole stream has passed.
    #[cfg(feature = "stream")]
    pub(crate) fn is_past(&self, whole: u64) -> bool {
        whole != NO_LIMIT && self.engine.now() >= self.engine.ends_at(whole)
    }

    /// Returns true if the token now stops the attempt in flight.
    #[cfg(feature = "stream")]
    pub(crate) fn stops_reading(&self) -> bool {
        self.token.stops_attempts() && self.token.is_cancelled()
    }

    /// Does the work of [`poll_between`](Self::poll_between) on a thread without a runtime. Blocks
    /// that thread.
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
            let (until, stop) = match self.engine.resumes_at {
                0 => match self.begin(slot, Some(&waker)) {
                    Begin::Go(elapsed) => return Ok(self.attempt_at(elapsed)),
                    Begin::Hold(_) => continue,
                    Begin::Queued { until, .. } if until >= self.ends_at() => {
                        (until, Some(StopReason::Deadline))
                    }
                    Begin::Queued { until, asks_again: true } => (until, None),
                    Begin::Queued { until, asks_again: false } => (until, Some(StopReason::Full)),
                    Begin::End(reason, retry_after) => {
                        return Err(self.close(reason, retry_after));
                    }
                },
                until => (until, None),
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
                None => self.engine.resumes_at = 0,
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

    /// Returns the limit that ended at `resumes_at`: the call's deadline or the attempt's timeout,
    /// `own` of the policy or learned.
    #[cold]
    #[inline(never)]
    fn reached_limit(&mut self, slot: usize, own: u64, limits: Limits) -> Finish {
        let at = std::mem::take(&mut self.resumes_at);
        if at >= self.ends_at(limits.total) || limits.total == 0 {
            return Finish::Deadline;
        }
        let began = self.guard.began(slot);
        let limit = match (self.learns(limits.is_learned), began) {
            (Some(adaptive), Some(began)) => {
                let limit = at.saturating_sub(began);
                adaptive.record_cut(Duration::from_nanos(self.now()), Duration::from_nanos(limit));
                limit
            }
            _ => own,
        };
        Finish::TimedOut(limit)
    }
}
