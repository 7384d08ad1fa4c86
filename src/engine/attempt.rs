use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::overdue::poll_overdue;
use super::until::Until;
use super::{CallPolicy, CallState, Engine, Finish, NO_LIMIT, PendingOf};
use crate::cancel::Cancel;
use crate::classify::{CUT, Classify};
use crate::error::inherited;
use crate::policy::{Doubt, Rules};
use crate::quota::Collecting;
use crate::time::Timer;
use crate::upstream::{Around, Endpoint, Name, TargetFor};
use crate::verdict::{Cut, Verdict};

/// The attempt in flight, and the limits that may cut it.
impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
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
        let _polled = self.engine.polled(self.policy.allowed());
        // A function of its own, so that a call that is alone compiles nothing of it.
        if X::ALONE { poll() } else { self.poll_lending(slot, poll) }
    }

    /// Runs one poll of the attempt in `slot`, which lends its admission to the calls within it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions around the caller's future")]
    fn poll_lending<R>(&mut self, slot: usize, poll: impl FnOnce() -> R) -> R {
        let collecting = self.engine.guard.has_quota().then(Collecting::start);
        let polled = {
            let _around = Around::enter(self.engine.guard.target.demand().standing.priority);
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
        self.engine.tell_name();
        if self.is_stopped(pending.as_mut(), cx) {
            return Poll::Ready(Finish::Cancelled);
        }
        match self.engine.until.get() {
            Until::Finish => return Poll::Pending,
            Until::Timeout(_) | Until::Deadline => {}
            Until::Nothing | Until::Delay(_) => {
                self.note_doubt();
                if !self.policy.has_timeouts() && self.learns().is_none() {
                    self.engine.note_start();
                    self.engine.until.set(Until::Finish);
                    return Poll::Pending;
                }
                let (own, limits) = (self.policy.attempt_timeout(), self.policy.limits());
                let cut_at = self.engine.set_cut(slot, own, limits);
                if cut_at == NO_LIMIT {
                    return Poll::Pending;
                }
                // Without a sleep, because a timer may round a sleep of zero up.
                if limits.total == 0 || own == 0 {
                    return Poll::Ready(self.engine.cut(limits.is_learned));
                }
                let at = Duration::from_nanos(cut_at);
                pending.as_mut().sleep(|| self.engine.guard.target.timer().sleep_until(at));
            }
        }
        if pending.as_mut().poll_sleep(cx).is_pending() && !self.ends_now() {
            return Poll::Pending;
        }
        pending.drop_sleep();
        Poll::Ready(self.engine.cut(self.policy.rules().is_learned()))
    }

    /// Notes whether a drop of the attempt would leave a doubt, and then its place, and whether its request has a key. A
    /// call that is dropped cannot ask its classifier.
    #[inline]
    fn note_doubt(&mut self) {
        let listens = self.engine.guard.target.listens();
        if listens || inherited::is_asked() {
            let (doubt, is_keyed) = self.drop_leaves();
            let is_told = listens && doubt == Doubt::Stated;
            let place = if is_told { self.policy.rules().classifier().place() } else { None };
            let last_cut = self.engine.last_cut.with_doubt(doubt);
            self.engine.last_cut = if is_keyed { last_cut.with_key() } else { last_cut };
            self.engine.place = place.map(Box::from);
        }
    }

    /// Returns the classifier's verdict on a cut attempt, which is about the request alone.
    pub(super) fn on_cut(&self) -> Verdict {
        self.policy.rules().classifier().classify_cut(Cut::Deadline).unwrap_or(CUT)
    }

    /// Returns the doubt that a drop of the attempt in flight leaves, and whether its request has a key.
    fn drop_leaves(&self) -> (Doubt, bool) {
        let on_cut = self.on_cut();
        (Doubt::of_drop(on_cut), on_cut.is_keyed())
    }

    /// Returns the same if a fallback asks for it. It is for an attempt of whose drop the call does not tell: a hedge, one
    /// by hand and a stream whose content comes.
    #[inline]
    pub(crate) fn asked_leaves(&self) -> (Doubt, bool) {
        if inherited::is_asked() { self.drop_leaves() } else { (Doubt::No, false) }
    }

    /// Returns true if the limit of the attempt is the deadline, which coincides with that of a fallback around
    /// this call.
    #[inline]
    fn ends_now(&self) -> bool {
        self.engine.until.get() == Until::Deadline && self.engine.ends_with_outer(self.ends_at())
    }

    /// Polls an alternative once more at the deadline of its fallback. Without an answer, returns the cut and
    /// the name of the call in it.
    #[cold]
    pub(crate) fn poll_overdue<T>(
        &mut self,
        slot: usize,
        attempt: Pin<&mut impl Future<Output = Result<T, E>>>,
        cx: &mut Context<'_>,
    ) -> (Result<T, Finish>, Option<Name>) {
        // A timeout of zero gives one poll.
        if self.policy.total_timeout() == 0 {
            return (Err(Finish::Deadline), None);
        }
        let (polled, name) = self.poll_within(slot, || poll_overdue(|| attempt.poll(cx)));
        let outcome = match polled {
            Poll::Ready(Ok(value)) => Ok(value),
            Poll::Ready(Err(error)) => {
                self.note_error(error);
                Err(Finish::Error)
            }
            Poll::Pending => Err(Finish::Deadline),
        };
        (outcome, name)
    }

    /// Polls the token of a pending attempt. Returns true if it stops the attempt.
    #[inline]
    fn is_stopped(&self, pending: Pin<&mut PendingOf<X, K>>, cx: &mut Context<'_>) -> bool {
        self.token.stops_attempts() && pending.poll_cancelled(&self.token, cx).is_ready()
    }

    /// Removes the limits of an attempt whose stream now flows. The time until now is its latency.
    /// Returns the time if the upstream needs it at the end of the stream.
    #[cfg(feature = "stream")]
    pub(crate) fn lift_limits(&mut self, slot: usize) -> Option<u64> {
        if !self.engine.until.is_nothing() {
            self.learn_from(slot);
            self.engine.until.set(Until::Nothing);
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
        self.engine.tell_name();
        if self.is_stopped(pending.as_mut(), cx) {
            return Poll::Ready(Finish::Cancelled);
        }
        match self.engine.ends_at(whole) {
            NO_LIMIT => Poll::Pending,
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
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Cuts the attempt at the limit that [`set_cut`](Self::set_cut) has set.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, is_learned: bool) -> Finish {
        let Until::Timeout(limit) = self.until.take() else { return Finish::Deadline };
        if let Some(adaptive) = self.learns(is_learned) {
            adaptive.record_cut(Duration::from_nanos(self.now()), Duration::from_nanos(limit));
        }
        Finish::TimedOut(limit)
    }
}
