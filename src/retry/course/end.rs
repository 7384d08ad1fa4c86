use std::time::Duration;

use super::super::links::Steps;
use super::super::{Event, GaveUp};
use super::{Course, Failure, Refusal};
use crate::backoff::Draw;
use crate::cancel::Cancel;
use crate::classify::{Classify, Verdict};
use crate::observe::Observe;
use crate::policy::{Attempt, Decision, Stop};
use crate::time::{Asked, Timer, nanos};

/// What follows from a failure that does not end the call.
pub(crate) struct Next {
    pub(crate) delay: Duration,
    /// When it was judged, in nanoseconds since the start.
    pub(super) elapsed: u64,
}

impl Next {
    /// Whether the next attempt must be waited for.
    #[inline]
    pub(crate) const fn waits(&self) -> bool {
        !self.delay.is_zero()
    }
}

/// A failed attempt, judged.
struct Judged {
    verdict: Verdict,
    attempt: Attempt,
    /// Whether somebody was told.
    told: bool,
}

/// How attempts, and the call, end.
impl<E, C, K, O, M, L> Course<'_, E, C, K, O, M, L>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Steps,
{
    /// Judges a failed attempt and takes note of it.
    #[inline]
    fn judged(&mut self, error: E) -> Judged {
        let verdict = self.policy.classify().classify(&error).unwrap_or(Verdict::Fail);
        let now = self.clock_runs().then(|| nanos(self.timer.now()));
        let reading = || now.map_or_else(|| self.timer.now(), Duration::from_nanos);
        self.links.failed(verdict, now.filter(|_| self.timer.is_tokio(Asked)), reading);
        let elapsed = now.map_or(0, |now| now.saturating_sub(self.started));
        let attempt = self.attempt_at(elapsed);
        let told = self.observer.is_enabled();
        if told {
            self.tell_failed(attempt, &error, verdict);
        }
        self.last = Some(Failure::new(error));
        Judged { verdict, attempt, told }
    }

    #[cold]
    #[inline(never)]
    fn tell_failed(&self, attempt: Attempt, error: &E, verdict: Verdict) {
        self.observer.observe(&Event::Failed { attempt, allowed: self.policy.attempts(), error, verdict });
    }

    /// Judges a failed attempt after which there is no other, whatever the policy would allow: `stop` says why, unless
    /// the error is hopeless anyway.
    #[cfg(feature = "stream")]
    #[cold]
    #[inline(never)]
    pub(crate) fn failed_for_good(&mut self, error: E, stop: Stop) -> GaveUp<E> {
        let verdict = self.judged(error).verdict;
        let stop = if verdict == Verdict::Fail { Stop::Fatal } else { stop };
        self.give_up(stop, Some(verdict), verdict.after())
    }

    /// Judges a failed attempt: the delay before the next, which is then paid for, or the end.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a third of the cost of a failure is to pass this result on")]
    pub(crate) fn failed(&mut self, error: E) -> Result<Next, GaveUp<E>> {
        let Judged { verdict, attempt, told } = self.judged(error);
        let delay = match self.policy.decide(attempt, verdict, &mut Draw) {
            Decision::Stop(stop) => return Err(self.give_up(stop, Some(verdict), verdict.after())),
            Decision::Retry(delay) => delay,
        };
        if self.token.is_cancelled() {
            return Err(self.give_up(Stop::Cancelled, Some(verdict), verdict.after()));
        }
        // It would be refused after the delay: it does not wait for that.
        if let Some(open) = self.links.refusal_within(delay) {
            return Err(self.give_up(Stop::Open, Some(verdict), open.retry_after()));
        }
        if !self.tally.pay() {
            return Err(self.give_up(Stop::Budget, Some(verdict), verdict.after()));
        }
        if !delay.is_zero() {
            if let Some(last) = &mut self.last {
                last.set_delay(delay);
            }
            self.note_start();
        }
        if told {
            self.tell_waiting(attempt, verdict, delay);
            if self.token.is_cancelled() {
                return Err(self.give_up(Stop::Cancelled, Some(verdict), verdict.after()));
            }
        }
        Ok(Next { delay, elapsed: attempt.elapsed_nanos() })
    }

    /// When the delay is over, on the timer: counted from the reading that was taken with the failure, as a sleep of a
    /// length would take another.
    #[inline]
    pub(crate) fn resumes_at(&self, next: &Next) -> Duration {
        self.reading_at(next.elapsed).saturating_add(next.delay)
    }

    #[cold]
    #[inline(never)]
    fn tell_waiting(&self, attempt: Attempt, verdict: Verdict, delay: Duration) {
        let Verdict::Retry { after: hint, cause } = verdict else { return };
        let (allowed, tokens) = (self.policy.attempts(), self.tally.tokens());
        let resumes_at = self.at(attempt.elapsed_nanos()).map(|judged| judged.saturating_add(delay));
        self.observer.observe(&Event::Waiting { attempt, allowed, delay, hint, cause, resumes_at, tokens });
    }

    /// The call succeeded.
    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.settle_success(self.tally.attempts(), None);
    }

    /// The call succeeded in the turn in which it began.
    #[inline]
    pub(crate) fn succeeded_at_once(&mut self) {
        let known = self.clock_runs() && self.timer.is_tokio(Asked);
        self.settle_success(1, known.then_some(self.started));
    }

    #[inline]
    fn settle_success(&mut self, attempts: u32, at: Option<u64>) {
        self.links.succeeded(at);
        self.tally.deposit();
        if (!O::TROUBLE_ONLY || attempts > 1) && self.observer.is_enabled() {
            self.tell_success(attempts);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_success(&self, attempts: u32) {
        let elapsed = Duration::from_nanos(self.elapsed());
        self.observer.observe(&Event::Succeeded { attempts, elapsed });
    }

    /// The call ends from outside, before, in or after an attempt.
    #[cold]
    #[inline(never)]
    pub(crate) fn cut(&mut self, why: impl Into<Refusal>) -> GaveUp<E> {
        let (stop, retry_after) = match why.into() {
            Refusal::End { stop, retry_after } => (stop, retry_after),
            Refusal::Hold(delay) => (Stop::Deadline, Some(delay)),
        };
        self.links.forget();
        self.give_up(stop, None, retry_after)
    }

    #[cold]
    #[inline(never)]
    fn give_up(&mut self, stop: Stop, verdict: Option<Verdict>, retry_after: Option<Duration>) -> GaveUp<E> {
        self.tally.take_back();
        let (attempts, elapsed) = (self.tally.attempts(), Duration::from_nanos(self.elapsed()));
        let retry_after = retry_after.filter(|hint| !hint.is_zero());
        if self.observer.is_enabled() {
            let (allowed, last, tokens) =
                (self.policy.attempts(), self.last.as_ref().map(|last| &last.error), self.tally.tokens());
            self.observer.observe(&Event::GaveUp {
                stop,
                attempts,
                allowed,
                elapsed,
                last,
                verdict,
                retry_after,
                tokens,
            });
        }
        GaveUp::new(stop, attempts, elapsed, retry_after, self.last.take().map(|last| last.error))
    }
}
