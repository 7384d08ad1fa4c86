use std::task::Waker;
use std::time::Duration;

use super::engine::remaining;
use super::until::Until;
use super::{CallPolicy, CallState, Engine, Limits, NO_LIMIT, nesting};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::GaveUp;
use crate::observe::{CallKind, EventKind, HeldBy};
use crate::policy::{Attempt, Rules, StopReason};
use crate::time::{Timer, nanos};
use crate::upstream::{Admit, Endpoint, Limited, Refuser, TargetFor};

/// The answer to a call that wants to begin its next attempt.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// The attempt has begun, at this time since the start of the call.
    Go(u64),
    /// A cooldown holds the attempt for this time. The call then asks again. It is new if the hold has not made
    /// the attempt wait before.
    Hold { delay: Duration, is_new: bool },
    /// The attempt waits in a queue. The call asks again when the queue wakes it. At `until` it asks
    /// again too, or else it ends. `held` is the part and the wait, if known, of an attempt that has just
    /// joined.
    Queued { until: u64, asks_again: bool, held: Option<(HeldBy, Option<Duration>)> },
    /// The call must end, with this `retry_after`.
    End(StopReason, Option<Duration>),
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Begins the next attempt unless the token, the policy, the budget or the target forbids it.
    ///
    /// With a `waker` the attempt may wait for a cooldown or in a queue. Without a `waker` a full
    /// bulkhead or a used-up quota refuses the attempt.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize, waker: Option<&Waker>) -> Begin {
        match self.begin_first(slot) {
            Some(_) => Begin::Go(0),
            None => self.begin_next(slot, waker, None),
        }
    }

    /// Begins any attempt as [`begin`](Self::begin) does. `elapsed` is the time since the start
    /// if an attempt of this poll has just finished, as [`finish`](Self::finish) returns it.
    #[inline]
    pub(super) fn begin_next(
        &mut self,
        slot: usize,
        waker: Option<&Waker>,
        elapsed: Option<u64>,
    ) -> Begin {
        let is_cancelled = self.token.is_cancelled();
        let begin = self.engine.begin(slot, waker, elapsed, is_cancelled, self.policy.limits());
        match begin {
            Begin::Hold { delay, is_new: true } if waker.is_some() => {
                self.emit_held(HeldBy::Cooldown, Some(delay));
            }
            Begin::Queued { held: Some((by, delay)), .. } => self.emit_held(by, delay),
            Begin::Go(_) | Begin::End(..) | Begin::Hold { .. } | Begin::Queued { .. } => {}
        }
        begin
    }

    /// Reports that the next attempt waits. The event knows the place of its request.
    #[cold]
    #[inline(never)]
    fn emit_held(&self, by: HeldBy, delay: Option<Duration>) {
        let attempt = self.attempts().saturating_add(1);
        self.emit(EventKind::Held { attempt, by, delay });
    }

    /// Begins the first attempt if nothing can forbid it, no attempt of another call is around it and
    /// no observer wants all events. On `None` the attempt needs the full check.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a few instructions: a function call would double them"
    )]
    pub(super) fn begin_first(&mut self, slot: usize) -> Option<Attempt> {
        let engine = &mut self.engine;
        let is_first = engine.guard.progress.attempts == 0 && !engine.clock_runs();
        if !is_first
            || nesting::outer().is_some()
            || self.token.is_cancelled()
            || (!X::ALONE && engine.guard.target.wants_all())
        {
            return None;
        }
        let total = self.policy.total_timeout();
        if total != NO_LIMIT {
            if total == 0 {
                return None; // the caller may have had no time left
            }
            engine.note_start();
        }
        if !X::ALONE && !engine.guard.admit_at_once(slot, engine.started()) {
            return None;
        }
        engine.guard.progress.attempts = 1;
        Some(Attempt::of_call(1, 0, 0, total).limited_to(self.policy.attempt_timeout()))
    }

    /// Returns the attempt that has begun at `elapsed`, for its operation.
    #[inline]
    pub(crate) fn attempt_at(&self, elapsed: u64) -> Attempt {
        self.attempt(self.attempts(), elapsed, self.engine.delay)
            .limited_to(self.policy.attempt_timeout())
    }

    /// Returns attempt `number` as it is at `elapsed`. `delay` was the delay before it.
    #[inline]
    pub(super) fn attempt(&self, number: u32, elapsed: u64, delay: u64) -> Attempt {
        let left = remaining(self.policy.total_timeout(), elapsed);
        Attempt::of_call(number, elapsed, delay, left)
    }

    /// Begins the first attempt, or gives up if the attempt would have to wait.
    pub(crate) fn begin_now(&mut self, slot: usize) -> Result<Attempt, GaveUp<E>> {
        match self.begin(slot, None) {
            Begin::Go(elapsed) => Ok(self.attempt_at(elapsed)),
            Begin::Hold { delay, .. } => Err(self.close(StopReason::Deadline, Some(delay))),
            Begin::Queued { .. } => Err(self.close(StopReason::Full, None)),
            Begin::End(reason, retry_after) => Err(self.close(reason, retry_after)),
        }
    }

    /// Counts an attempt that the caller made without an admission, because a loop of uncounted
    /// attempts would never end.
    pub(crate) fn count_unadmitted(&mut self) {
        self.engine.note_begin();
        self.engine.guard.spend();
        self.engine.until.set(Until::Nothing);
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Returns true if the next attempt begins after a wait.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        !self.until.is_nothing() || self.guard.progress.must_yield()
    }

    /// Begins the attempt after a failure of this poll, if the call is alone and nobody listens.
    /// `finish` has just checked the token, the attempts and the deadline, and no foreign code has
    /// run since. Any other call needs the full check, which would be right here too: this only
    /// saves it.
    #[inline(never)] // compiled once for all call sites
    pub(super) fn begins_again(&mut self) -> bool {
        let begins = X::ALONE && !self.guard.target.listens();
        if begins {
            self.note_begin();
        }
        begins
    }

    /// Counts an attempt that begins, and forgets what was known of the one before alone.
    #[inline]
    fn note_begin(&mut self) {
        let attempts = &mut self.guard.progress.attempts;
        *attempts = attempts.saturating_add(1);
        self.last_cut = self.last_cut.begins();
    }

    /// Begins as [`CallState::begin_next`] does, with the answer of the token.
    #[inline(never)] // compiled once for all call sites
    fn begin(
        &mut self,
        slot: usize,
        waker: Option<&Waker>,
        elapsed: Option<u64>,
        is_cancelled: bool,
        limits: Limits,
    ) -> Begin {
        if self.guard.progress.attempts == 0 {
            self.note_nesting(limits.allowed);
        }
        if is_cancelled {
            return Begin::End(StopReason::Cancelled, None);
        }
        if self.guard.progress.attempts >= limits.allowed {
            return Begin::End(StopReason::Attempts, None);
        }
        let starts = !self.clock_runs();
        // The start of each attempt is needed.
        if limits.total != NO_LIMIT || (!X::ALONE && self.guard.target.wants_all()) {
            self.note_start();
        }
        let elapsed = if starts { 0 } else { elapsed.unwrap_or_else(|| self.elapsed()) };
        // With a total timeout of zero, the first attempt still gets one poll. But if the caller had no time left,
        // nobody awaits the answer, and one poll may send an order.
        let is_one_poll =
            self.guard.progress.attempts == 0 && limits.total == 0 && !limits.is_shortened;
        // In a long overload each waiter would begin a moment before its deadline.
        if !X::ALONE && self.guard.progress.refuser() == Some(Refuser::Quota) {
            if let Some(end) = self.leaves_line(slot, elapsed, limits.total) {
                return end;
            }
        }
        if remaining(limits.total, elapsed) == 0 && !is_one_poll {
            return Begin::End(StopReason::Deadline, None);
        }
        // `finish_failed` paid for a retry before its delay. A retry after a dropped attempt or after a panic
        // pays here.
        if self.guard.progress.attempts > 0 && !self.guard.pay() {
            self.guard.note_unpaid(None);
            return Begin::End(StopReason::Budget, None);
        }
        self.admit(slot, waker, elapsed, limits)
    }

    /// Asks the target to admit the next attempt, and begins the attempt. `elapsed` is the time
    /// since the start, or 0 if the clock does not run.
    #[inline]
    fn admit(&mut self, slot: usize, waker: Option<&Waker>, elapsed: u64, limits: Limits) -> Begin {
        let now = self.clock_runs().then(|| self.started.saturating_add(elapsed));
        let mut has_moved = false;
        match self.guard.admit(slot, now, waker, self.ends_at(limits.total)) {
            Admit::Go => self.guard.progress.set_refuser(None),
            Admit::Moved => {
                has_moved = true;
                self.guard.progress.set_refuser(None);
            }
            Admit::Hold { delay, is_new } => {
                return self.hold(delay, is_new, waker.is_some(), limits);
            }
            Admit::Queued { until, is_new } => {
                self.note_start();
                if is_new {
                    self.guard.contend();
                    self.limited(Refuser::Bulkhead, Limited::Waits, None);
                }
                let until = until.min(self.ends_at(limits.total));
                let held = is_new.then_some((HeldBy::Bulkhead, None));
                return Begin::Queued { until, asks_again: false, held };
            }
            Admit::InLine { asks_at, earliest, is_new } => {
                return self.wait_in_line(slot, asks_at, earliest, is_new, limits);
            }
            Admit::Refused { by, reason, retry_after } => {
                self.refused(by, reason);
                return Begin::End(reason, retry_after);
            }
        }
        let number = self.guard.progress.attempts.saturating_add(1);
        let left = remaining(limits.total, elapsed);
        let attempt = Attempt::of_call(number, elapsed, self.delay, left);
        // A hedge is reported even to an observer that wants only trouble.
        if self.guard.target.wants_all()
            || (self.guard.progress.kind() == CallKind::Hedge && !attempt.is_first())
        {
            // The attempt around this call has reported the reservation.
            let reserved = if has_moved { None } else { self.guard.reserved(slot) };
            self.emit(EventKind::Started { attempt, reserved }, limits.allowed);
        }
        // The attempt begins here and not before: the observer above may panic.
        self.note_begin();
        self.guard.spend();
        self.guard.note_sent(slot);
        Begin::Go(elapsed)
    }

    /// Notes that a part refuses the attempt.
    #[cold]
    fn refused(&mut self, by: Refuser, reason: StopReason) {
        // No strain is behind a cost above the burst. The breaker has its own events.
        if reason == StopReason::TooLarge || by == Refuser::Breaker {
            self.guard.progress.set_refuser(Some(by));
            return;
        }
        let is_full = reason == StopReason::Full && by != Refuser::BulkheadWait;
        self.limited(by, if is_full { Limited::Full } else { Limited::Refused }, None);
    }

    /// Notes that a part refuses the attempt or makes it wait, for this time if it is known.
    #[cold]
    pub(super) fn limited(&mut self, by: Refuser, limited: Limited, wait: Option<Duration>) {
        // A cooldown that goes on may hold the same attempt several times. It waits once.
        let is_again = by == Refuser::Cooldown && self.guard.progress.refuser() == Some(by);
        self.guard.progress.set_refuser(Some(by));
        let limited = if is_again { Limited::Again } else { limited };
        self.guard.note_limit(by.part(), wait, limited);
    }

    /// Prepares the wait for a cooldown. A hold that reaches the deadline ends the call at once.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, delay: Duration, is_new: bool, may_wait: bool, limits: Limits) -> Begin {
        self.note_start();
        let now = self.now();
        let left = remaining(limits.total, now.saturating_sub(self.started));
        let is_late = left != NO_LIMIT && nanos(delay) >= left;
        let limited = if is_late { Limited::Refused } else { Limited::Waits };
        self.limited(Refuser::Cooldown, limited, None);
        if is_late {
            return Begin::End(StopReason::Deadline, Some(delay));
        }
        if may_wait {
            self.until.set(Until::Delay(now.saturating_add(nanos(delay))));
            // A timer's sleep may end at once. The call then yields before it asks again.
            self.guard.progress.set_must_yield(true);
        }
        Begin::Hold { delay, is_new }
    }

    /// Returns the time at which a call with this total timeout leaves the quota's queue.
    pub(super) fn leaves_at(&self, total: u64) -> u64 {
        let ends_at = self.ends_at(total);
        if ends_at == NO_LIMIT { ends_at } else { ends_at.saturating_sub(self.guard.margin(total)) }
    }

    /// Leaves the quota's queue and ends the call if less time is left than an attempt takes.
    #[cold]
    #[inline(never)]
    fn leaves_line(&mut self, slot: usize, elapsed: u64, total: u64) -> Option<Begin> {
        if total == NO_LIMIT || remaining(total, elapsed) > self.guard.margin(total) {
            return None;
        }
        self.end_in_line(slot);
        Some(Begin::End(StopReason::Deadline, None))
    }

    /// Leaves the quota's queue without an attempt. The wait of the call is a refusal too.
    #[cold]
    pub(super) fn end_in_line(&mut self, slot: usize) {
        self.guard.leave_queue(slot);
        self.limited(Refuser::Quota, Limited::Ends, None);
    }

    /// Waits in the quota's queue. A cost that cannot fit before the deadline ends the call.
    #[cold]
    #[inline(never)]
    fn wait_in_line(
        &mut self,
        slot: usize,
        asks_at: u64,
        earliest: u64,
        is_new: bool,
        limits: Limits,
    ) -> Begin {
        self.note_start();
        let now = self.now();
        let ends_at = self.leaves_at(limits.total);
        let is_late = earliest >= ends_at;
        if is_late {
            // Before the report of the strain, which counts the calls in the queue.
            self.guard.leave_queue(slot);
        }
        let wait = Duration::from_nanos(earliest.saturating_sub(now));
        if is_new {
            self.guard.contend();
            let limited = if is_late { Limited::Refused } else { Limited::Waits };
            self.limited(Refuser::Quota, limited, Some(wait));
        }
        if is_late {
            // A hold that began while the call was in the queue is enough of a reason.
            let hold = self.guard.hold_until(now, ends_at);
            if hold.is_some() {
                self.limited(Refuser::Cooldown, Limited::Refused, hold);
            } else if !is_new {
                self.limited(Refuser::Quota, Limited::Ends, Some(wait));
            }
            return Begin::End(StopReason::Deadline, hold.or(Some(wait)));
        }
        #[cfg(feature = "fleet")]
        if !is_new {
            self.guard.note_waits();
        }
        let is_known = asks_at != NO_LIMIT;
        let delay = is_known.then(|| Duration::from_nanos(asks_at.saturating_sub(now)));
        let held = is_new.then_some((HeldBy::Quota, delay));
        Begin::Queued { until: asks_at.min(ends_at), asks_again: true, held }
    }
}
