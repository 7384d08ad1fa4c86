use std::time::Duration;

use super::emit::tell_failure;
use super::ending::Ending;
use super::until::Until;
use super::{CallPolicy, CallState, Engine, NO_LIMIT};
use crate::budget::Cause;
use crate::cancel::Cancel;
use crate::classify::{CUT, Classify};
use crate::error::GaveUp;
use crate::observe::{EventKind, HeldBy, InFlight};
use crate::policy::{Attempt, Decision, Rules, Sending, StopReason};
use crate::time::{Timer, nanos};
use crate::upstream::{Endpoint, Limited, Refuser, TargetFor, TellFailure};
use crate::verdict::{Cut, Health, Verdict};

// The way of a failed attempt: classified, reported, decided, paid, and delayed or closed.

/// The number of failures after which a call yields: failures without delay must not keep other tasks
/// from running.
const YIELD_EVERY: u32 = 32;

/// The way in which an attempt finished without success. The error stays in the call, so this value fits in two
/// registers on its way through several functions.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// The attempt failed with the error stored by [`CallState::note_error`].
    Error,
    /// The attempt exceeded its own timeout, in nanoseconds.
    TimedOut(u64),
    /// The attempt's stream ended without its last item.
    #[cfg_attr(not(feature = "stream"), expect(dead_code, reason = "there are no streams"))]
    Stream,
    /// The call reached its deadline during the attempt.
    Deadline,
    /// The call was cancelled during the attempt.
    Cancelled,
}

impl Finish {
    /// Returns true if a limit or the token ended the attempt.
    #[inline]
    pub(crate) const fn is_cut(self) -> bool {
        !matches!(self, Self::Error)
    }

    /// Returns the cut for the classifier. An error and a cancelled call are not cuts.
    #[inline]
    fn cut(self) -> Option<Cut> {
        match self {
            Self::Error | Self::Cancelled => None,
            Self::TimedOut(limit) => Some(Cut::AttemptTimeout(Duration::from_nanos(limit))),
            Self::Stream => Some(Cut::Stream),
            Self::Deadline => Some(Cut::Deadline),
        }
    }
}

/// A failed attempt, classified and reported.
#[derive(Clone, Copy)]
pub(crate) struct Classified {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) cut: Option<Cut>,
    /// False for the default of a classifier without an opinion on cuts.
    pub(super) is_stated: bool,
    /// The time since the start, or 0 if the clock does not run.
    elapsed: u64,
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Stores the error of a failed attempt.
    #[inline]
    pub(crate) fn note_error(&mut self, error: E) {
        let before = self.last.replace(error);
        self.policy.drop_last(|| drop(before));
    }

    /// Returns the error of the attempt if it ended with an error.
    #[cfg(feature = "stream")]
    pub(crate) fn error_of(&self, finish: Finish) -> Option<&E> {
        self.last.as_ref().filter(|_| matches!(finish, Finish::Error))
    }

    /// Classifies a failed or cut attempt, and reports it to the target and the observer.
    #[inline]
    pub(crate) fn report_failure(
        &mut self,
        slot: usize,
        number: u32,
        finish: Finish,
    ) -> Classified {
        let cut = finish.cut();
        let classifier = self.policy.rules().classifier();
        let verdict = match cut {
            None => {
                let verdict = self.last.as_ref().and_then(|error| classifier.classify(error));
                verdict.map(|verdict| self.judged(verdict))
            }
            Some(cut) => Some(self.policy.judged(self.classified_cut(cut))),
        };
        let is_stated = verdict.is_none_or(Verdict::is_stated);
        // An outer layer may pass the verdict on. For that layer it is a fact.
        let verdict = verdict.map(Verdict::as_fact);
        let flows_since = self.policy.flows_since();
        let last = self.last.as_ref();
        let in_flight = self.in_flight();
        let failure: TellFailure<'_> = &move |tell| {
            tell_failure::<E, X>(last, classifier, cut, verdict, in_flight, tell);
        };
        let Reported { elapsed, latency, is_counted } =
            self.engine.report(slot, verdict, flows_since, cut, Some(failure));
        if self.engine.guard.target.listens() {
            self.emit_failure(verdict, cut, number, elapsed, latency, is_counted);
        }
        Classified { verdict, cut, is_stated, elapsed }
    }

    /// Classifies a cut. If the classifier returns `None`, the request is not sent again, unless it was
    /// surely not sent.
    #[cold]
    pub(super) fn classified_cut(&self, cut: Cut) -> Verdict {
        let verdict = self.policy.rules().classifier().classify_cut(cut).unwrap_or(CUT);
        if self.is_unsent() { verdict.unsent() } else { verdict }
    }

    #[cold]
    #[inline(never)]
    fn emit_failure(
        &self,
        verdict: Option<Verdict>,
        cut: Option<Cut>,
        number: u32,
        elapsed: u64,
        latency: Option<Duration>,
        is_counted: bool,
    ) {
        let attempt = self.attempt(number, elapsed, self.engine.delay);
        let latency = latency.filter(|_| self.engine.guard.target.wants_all());
        self.emit_with_failure(cut, verdict, &|failure| EventKind::Failed {
            attempt,
            failure,
            latency,
            is_counted,
        });
    }

    #[cold]
    #[inline(never)]
    fn emit_wait(
        &self,
        verdict: Option<Verdict>,
        cut: Option<Cut>,
        elapsed: u64,
        before: u64,
        delay: Duration,
        held: Option<Duration>,
    ) {
        let attempt = self.attempt(self.attempts(), elapsed, before);
        let resumes_at = match self.engine.until.get() {
            Until::Delay(at) => Some(Duration::from_nanos(at)),
            _ => None,
        };
        let in_flight = InFlight { held, ..self.in_flight() };
        let held = held.max(self.engine.held_by_cooldown(elapsed)).filter(|held| *held > delay);
        self.emit_at_end(cut, verdict, in_flight, &|failure| EventKind::Waiting {
            attempt,
            failure,
            delay,
            held,
            resumes_at,
            is_partial: self.policy.is_partial(),
        });
    }

    /// Notes that the budget does not pay for a retry of the attempt that has just failed.
    #[cold]
    #[inline(never)]
    fn note_unpaid(&self, verdict: Option<Verdict>, cut: Option<Cut>) {
        let (last, classifier) = (self.last.as_ref(), self.policy.rules().classifier());
        let in_flight = self.in_flight();
        self.engine.guard.note_unpaid(Some(&|tell| {
            tell_failure::<E, X>(last, classifier, cut, verdict, in_flight, tell);
        }));
    }

    /// Finishes an attempt without success. `Ok` allows another attempt, which is already paid for.
    ///
    /// The `Ok` value is the time since the start, or 0 if the clock does not run.
    #[inline]
    pub(crate) fn finish(&mut self, slot: usize, finish: Finish) -> Result<u64, GaveUp<E>> {
        let reason = match finish {
            Finish::Error | Finish::TimedOut(_) | Finish::Stream => {
                return self.finish_failed(slot, finish);
            }
            Finish::Deadline => StopReason::Deadline,
            Finish::Cancelled => StopReason::Cancelled,
        };
        Err(self.close_cut(std::iter::once(slot), reason))
    }

    /// Finishes a failed attempt: classifies it, decides, pays for the next attempt and sets its delay.
    /// Returns like [`finish`](Self::finish).
    #[inline(never)]
    pub(crate) fn finish_failed(&mut self, slot: usize, finish: Finish) -> Result<u64, GaveUp<E>> {
        let Classified { verdict, cut, is_stated, elapsed } =
            self.report_failure(slot, self.attempts(), finish);
        // Made anew where a cold function takes it: a struct that is lent to one lives in memory.
        let classified = || Classified { verdict, cut, is_stated, elapsed };
        let before = self.engine.delay;
        let failed = self.attempt(self.attempts(), elapsed, before);
        let hint = verdict.and_then(|verdict| verdict.positive_wait());
        let timer = self.engine.guard.target.timer();
        let delay = match self.policy.decide(failed, verdict, |range| timer.draw_within(range)) {
            Decision::Stop(reason) => return Err(self.close_failed(reason, classified(), hint)),
            Decision::Retry(delay) => delay,
        };
        if failed.is_over_after(delay) {
            return Err(self.close_late(classified(), hint, delay, None));
        }
        let mut held = None;
        if !X::ALONE {
            let ends_at = self.ends_at();
            if let Some(wait) = self.engine.held_beyond(elapsed, delay, ends_at) {
                let held_by = Some(HeldBy::Cooldown);
                return Err(self.close_late(classified(), Some(wait), wait, held_by));
            }
            held = self.engine.held_by_quota(elapsed, delay);
            let total = self.policy.total_timeout();
            if let Some(wait) = held.filter(|wait| self.engine.is_refused(elapsed, *wait, total)) {
                let held_by = Some(HeldBy::Quota);
                return Err(self.close_late(classified(), Some(wait), wait, held_by));
            }
        }
        if self.token.is_cancelled() {
            return Err(self.close_failed(StopReason::Cancelled, classified(), hint));
        }
        if !X::ALONE {
            if let Err((reason, wait)) = self.engine.pay(verdict, delay) {
                if reason == StopReason::Budget {
                    self.note_unpaid(verdict, cut);
                }
                let wait = if reason == StopReason::Open { wait } else { hint };
                return Err(self.close_failed(reason, classified(), wait));
            }
        }
        self.engine.set_wait(elapsed, delay);
        if self.engine.guard.target.listens() {
            self.emit_wait(verdict, cut, elapsed, before, delay, held);
        }
        Ok(elapsed)
    }

    /// Finishes an attempt that the caller made and that failed, and closes the call.
    #[cold]
    pub(crate) fn finish_by_hand(&mut self, slot: usize, verdict: Verdict) {
        let Reported { elapsed, latency, is_counted } =
            self.engine.report(slot, Some(verdict), None, None, None);
        let attempt = Attempt::of_call(self.attempts(), elapsed, self.engine.delay, NO_LIMIT);
        let verdict = Some(verdict);
        self.emit_with_failure(None, verdict, &|failure| EventKind::Failed {
            attempt,
            failure,
            latency,
            is_counted,
        });
        let reason = if verdict.is_some_and(|verdict| verdict.is_again()) {
            StopReason::Attempts
        } else {
            StopReason::Fatal
        };
        drop(self.close_with(Ending::new(reason, verdict)));
    }

    /// Finishes a failed attempt and closes the call, even if the policy would allow another. See
    /// [`close_after`](Self::close_after) for `reason`.
    #[cold]
    #[inline(never)]
    pub(crate) fn finish_last(
        &mut self,
        slot: usize,
        finish: Finish,
        reason: StopReason,
    ) -> GaveUp<E> {
        let classified = self.report_failure(slot, self.attempts(), finish);
        self.close_after(classified, reason)
    }
}

/// The facts about an attempt that has just finished.
#[derive(Clone, Copy)]
struct Reported {
    /// The time since the start of the call, or 0 if the clock does not run.
    elapsed: u64,
    /// The time since the start of the attempt, if both are known.
    latency: Option<Duration>,
    /// False if a call within the attempt has reported it.
    is_counted: bool,
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Reports to the target that the attempt in `slot` finished with `verdict`. `failure` tells more of it
    /// if it is known.
    #[inline]
    fn report(
        &mut self,
        slot: usize,
        verdict: Option<Verdict>,
        flows_since: Option<u64>,
        cut: Option<Cut>,
        failure: Option<TellFailure<'_>>,
    ) -> Reported {
        let sending = if cut.is_some() { self.last_cut.sending() } else { Sending::Unknown };
        self.last_cut = self.last_cut.then(cut).with(sending);
        if verdict.is_none_or(|verdict| !verdict.is_without_effect()) {
            self.note_effect();
        }
        if verdict.is_none_or(|verdict| verdict.health() != Health::Healthy) {
            self.last_cut = self.last_cut.with_failure();
        }
        if verdict.is_some_and(|verdict| verdict.is_keyed()) {
            self.last_cut = self.last_cut.with_key();
        }
        let now = self.clock_runs().then(|| self.now());
        self.until.set(Until::Nothing);
        let elapsed = now.map_or(0, |now| now.saturating_sub(self.started));
        let began = if X::ALONE { None } else { self.guard.began(slot) };
        let is_counted = X::ALONE || !self.guard.is_lent(slot);
        if !X::ALONE {
            if let Some(since) = flows_since {
                self.guard.leave_out(slot, since);
            }
            self.guard.report(slot, verdict, now, cut.is_some(), failure);
        }
        let took = |began: u64| Some(Duration::from_nanos(now?.saturating_sub(began)));
        Reported { elapsed, latency: began.and_then(took), is_counted }
    }

    /// Sets the delay after an attempt that failed at `elapsed`.
    #[inline]
    fn set_wait(&mut self, elapsed: u64, delay: Duration) {
        self.delay = nanos(delay);
        let attempts = self.guard.progress.attempts;
        self.guard.progress.set_must_yield(attempts % YIELD_EVERY == 0);
        if !delay.is_zero() {
            self.note_start();
            // The reading of the failure, or the one that has just started the clock.
            let now = self.started.saturating_add(elapsed);
            self.until.set(Until::Delay(now.saturating_add(self.delay)));
        }
    }

    /// Returns the wait of the next attempt if the cooldown lets it go only at the end of the call or later.
    /// An attempt that may go before keeps its place.
    #[inline]
    fn held_beyond(&mut self, elapsed: u64, delay: Duration, ends_at: u64) -> Option<Duration> {
        if ends_at == NO_LIMIT {
            return None;
        }
        // The clock runs, because the call has an end.
        let now = self.started.saturating_add(elapsed);
        let place = self.guard.place(now.saturating_add(nanos(delay)), ends_at)?;
        let is_late = place >= ends_at;
        let limited = if is_late { Limited::Refused } else { Limited::Waits };
        self.limited(Refuser::Cooldown, limited, None);
        is_late.then(|| Duration::from_nanos(place.saturating_sub(now)))
    }

    /// Returns the time for which the quota surely holds the next attempt, if that is longer than its delay.
    #[inline]
    fn held_by_quota(&self, elapsed: u64, delay: Duration) -> Option<Duration> {
        let now = || self.finished_at(elapsed);
        let fits_at = self.guard.quota_forecast(now).filter(|at| *at > 0)?;
        let wait = Duration::from_nanos(fits_at.saturating_sub(now()));
        // An attempt does not wait for the quota only to be refused by the breaker.
        (wait > delay && self.guard.refusal_within(delay).is_none()).then_some(wait)
    }

    /// Returns the rest of the cooldown's hold after an attempt that failed at `elapsed`.
    #[cold]
    fn held_by_cooldown(&self, elapsed: u64) -> Option<Duration> {
        self.guard.hold_left(|| self.finished_at(elapsed))
    }

    /// Returns the time at which an attempt failed, if it failed at `elapsed`.
    fn finished_at(&self, elapsed: u64) -> u64 {
        self.started().map_or_else(|| self.now(), |it| it.saturating_add(elapsed))
    }

    /// Returns whether a call with this total timeout would leave the quota's queue after the `wait`, and
    /// notes the refusal. A new call with the same forecast ends at once too.
    #[cold]
    fn is_refused(&mut self, elapsed: u64, wait: Duration, total: u64) -> bool {
        let begins_at = self.started.saturating_add(elapsed).saturating_add(nanos(wait));
        let is_late = total != NO_LIMIT && begins_at >= self.leaves_at(total);
        if is_late {
            self.limited(Refuser::Quota, Limited::Refused, Some(wait));
        }
        is_late
    }

    /// Pays for the next attempt. The error is the reason to end the call, and for an open breaker the
    /// time after which it may admit an attempt.
    #[inline(never)] // compiled once for all call sites
    fn pay(
        &mut self,
        verdict: Option<Verdict>,
        delay: Duration,
    ) -> Result<(), (StopReason, Option<Duration>)> {
        // The breaker would refuse the attempt after the delay, so the call ends now.
        if let Some(open) = self.guard.refusal_within(delay) {
            return Err((StopReason::Open, open.retry_after()));
        }
        self.guard.set_cause(Cause::of(verdict));
        if self.guard.pay() { Ok(()) } else { Err((StopReason::Budget, None)) }
    }
}
