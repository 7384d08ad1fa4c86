use std::task::Waker;
use std::time::Duration;

use super::{CallPolicy, CallState, GaveUp, NO_LIMIT, wait_end};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::{CallKind, EventKind, HeldBy};
use crate::policy::{Attempt, Rules, StopReason};
use crate::time::nanos;
use crate::upstream::{Admit, TargetFor};

/// The answer to the question whether the next attempt may begin.
pub(crate) enum Begin {
    Go(Attempt),
    /// Not yet: it must ask again once its time to resume has come.
    Hold(Duration),
    /// Not yet: it waits in line, no longer than to that reading. It asks again when it is woken.
    Queued {
        until: u64,
    },
    End(StopReason, Option<Duration>),
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Begins the next attempt, unless the token, the policy, the budget or the target forbid it. It never waits. With a
    /// `waker` the call is ready to wait for the attempt; without, it is refused instead.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize, waker: Option<&Waker>) -> Begin {
        if self.token.is_cancelled() {
            return Begin::End(StopReason::Cancelled, None);
        }
        match self.begin_first(slot) {
            Some(attempt) => Begin::Go(attempt),
            None => self.begin_on(slot, waker),
        }
    }

    /// Begins the first attempt where nothing stands in its way and nobody has to hear of it. `None`: it must ask.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is a few instructions, which a call of it would double"
    )]
    pub(crate) fn begin_first(&mut self, slot: usize) -> Option<Attempt> {
        let is_first = self.guard.progress.attempts == 0 && !self.clock_runs();
        if !is_first || self.token.is_cancelled() || (!X::ALONE && self.guard.target.wants_all()) {
            return None;
        }
        let total = self.policy.total_timeout();
        if total != NO_LIMIT {
            self.note_start();
        }
        if !self.guard.admit_at_once(slot, self.started()) {
            return None;
        }
        self.guard.progress.attempts = 1;
        Some(Attempt::of_call(1, 0, 0, total))
    }

    /// Begins the next attempt if it need not be waited for.
    #[inline]
    pub(crate) fn begin_at_once(
        &mut self,
        slot: usize,
        waker: &Waker,
    ) -> Result<Option<Attempt>, GaveUp<E>> {
        if self.resumes_at != 0 || self.guard.progress.must_yield {
            return Ok(None);
        }
        if self.token.is_cancelled() {
            return Err(self.give_up(StopReason::Cancelled, None));
        }
        let begun = self.begin_on(slot, Some(waker));
        self.begun(begun)
    }

    /// Begins the attempt after a failure that the policy has just allowed to be retried, if that
    /// attempt need not be waited for. `elapsed` is the time from the start to the failure.
    #[inline]
    pub(crate) fn begin_after_failure(
        &mut self,
        slot: usize,
        waker: &Waker,
        elapsed: u64,
    ) -> Result<Option<Attempt>, GaveUp<E>> {
        if self.resumes_at != 0 || self.guard.progress.must_yield {
            return Ok(None);
        }
        // The token was asked after the failure. Only an observer has run since.
        if self.guard.target.listens() && self.token.is_cancelled() {
            return Err(self.give_up(StopReason::Cancelled, None));
        }
        let begun = self.admit(slot, Some(waker), elapsed);
        self.begun(begun)
    }

    /// Returns the attempt, or `None` if it has to wait.
    #[inline]
    fn begun(&mut self, begun: Begin) -> Result<Option<Attempt>, GaveUp<E>> {
        match begun {
            Begin::Go(attempt) => Ok(Some(attempt)),
            Begin::Hold(_) | Begin::Queued { .. } => Ok(None),
            Begin::End(reason, retry_after) => Err(self.give_up(reason, retry_after)),
        }
    }

    /// Begins the next attempt, where the token does not forbid it.
    #[inline(never)]
    fn begin_on(&mut self, slot: usize, waker: Option<&Waker>) -> Begin {
        if self.guard.progress.attempts > 0 && self.guard.progress.attempts >= self.policy.allowed()
        {
            return Begin::End(StopReason::Attempts, None);
        }
        let starts = !self.clock_runs();
        if self.needs_clock() {
            self.note_start();
        }
        let elapsed = if starts { 0 } else { self.elapsed() };
        // A total timeout of zero allows the first attempt one poll.
        let is_one_poll =
            self.guard.progress.attempts == 0 && (starts || self.policy.total_timeout() == 0);
        if self.remaining(elapsed) == 0 && !is_one_poll {
            return Begin::End(StopReason::Deadline, None);
        }
        // A retry was paid for before its delay, unless a caller's loop goes on after an attempt
        // that it dropped.
        if self.guard.progress.attempts > 0 && !self.guard.pay() {
            return Begin::End(StopReason::Budget, None);
        }
        self.admit(slot, waker, elapsed)
    }

    /// Asks the target to admit the next attempt and begins it. `elapsed` is the time since the
    /// start, if the clock runs.
    #[inline]
    fn admit(&mut self, slot: usize, waker: Option<&Waker>, elapsed: u64) -> Begin {
        let now = self.clock_runs().then(|| self.started.saturating_add(elapsed));
        match self.guard.admit(slot, now, waker) {
            Admit::Go => {}
            Admit::Hold(delay) => return self.hold(delay, waker.is_some()),
            Admit::Queued { until, is_new } => {
                self.note_start();
                if is_new {
                    self.emit_held(HeldBy::Bulkhead, None);
                }
                return Begin::Queued { until: until.min(self.ends_at()) };
            }
            Admit::Refused { reason, retry_after } => return Begin::End(reason, retry_after),
        }
        let number = self.guard.progress.attempts.saturating_add(1);
        let attempt = Attempt::of_call(number, elapsed, self.delay, self.remaining(elapsed));
        // An observer that wants trouble alone hears of a hedge too.
        if self.guard.target.wants_all()
            || (self.guard.progress.kind == CallKind::Hedge && !attempt.is_first())
        {
            self.emit(EventKind::Started { attempt });
        }
        // The attempt begins here. If an observer has panicked above, it has not begun.
        self.guard.progress.attempts = number;
        self.guard.spend();
        Begin::Go(attempt)
    }

    /// Counts an attempt that the caller made without asking, so that no loop is without end.
    pub(crate) fn count_unseen(&mut self) {
        self.guard.progress.attempts = self.guard.progress.attempts.saturating_add(1);
        self.guard.spend();
        self.resumes_at = 0;
    }

    /// Begins the first attempt, or gives up where it would have to wait.
    pub(crate) fn begin_now(&mut self, slot: usize) -> Result<Attempt, GaveUp<E>> {
        match self.begin(slot, None) {
            Begin::Go(attempt) => Ok(attempt),
            Begin::Hold(delay) => Err(self.give_up(StopReason::Deadline, Some(delay))),
            Begin::Queued { .. } => Err(self.give_up(StopReason::Full, None)),
            Begin::End(reason, retry_after) => Err(self.give_up(reason, retry_after)),
        }
    }

    /// Whether the time of each attempt is of use.
    #[inline]
    fn needs_clock(&self) -> bool {
        self.policy.total_timeout() != NO_LIMIT || (!X::ALONE && self.guard.target.wants_all())
    }

    /// What cannot begin in time ends at once, with the time at which it could.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, delay: Duration, pending: bool) -> Begin {
        self.note_start();
        let now = self.now();
        let left = self.remaining(now.saturating_sub(self.started));
        if left != NO_LIMIT && nanos(delay) >= left {
            return Begin::End(StopReason::Deadline, Some(delay));
        }
        if pending {
            self.emit_held(HeldBy::Cooldown, Some(delay));
            self.resumes_at = wait_end(now, nanos(delay));
            // A timer may have sleeps that are over at once: each question in a turn of its own.
            self.guard.progress.must_yield = true;
        }
        Begin::Hold(delay)
    }

    #[cold]
    fn emit_held(&self, by: HeldBy, delay: Option<Duration>) {
        self.emit(EventKind::Held {
            attempt: self.guard.progress.attempts.saturating_add(1),
            by,
            delay,
        });
    }
}
