use std::time::Duration;

use super::emit::tell_failure;
use super::ending::{Doubt, Ending};
use super::engine::remaining;
use super::finish::Classified;
use super::until::Until;
use super::{CallPolicy, CallState, Engine, NO_LIMIT};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::GaveUp;
use crate::error::waits::{EarlierWaits, Told};
use crate::error::{ErrorOf, Facts, Inner};
use crate::observe::{Allotted, AttemptFailure, EventKind, HeldBy, InFlight, TooLong};
use crate::policy::{HALF_OPEN, LACKS_LEASE, Rules, StopReason};
use crate::time::Timer;
use crate::upstream::{Describe, Endpoint, Refuser, TargetFor, TellFailure};
use crate::verdict::{Cut, Health, Verdict};

/// The close of a call without success.
impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Closes the call after a failure. `reason` applies unless the classifier states that the request
    /// must not be sent again.
    #[cold]
    pub(crate) fn close_after(&mut self, classified: Classified, reason: StopReason) -> GaveUp<E> {
        let reason = match classified.verdict {
            None => StopReason::Unclassified,
            Some(verdict) if !verdict.is_again() && classified.is_stated => StopReason::Fatal,
            Some(_) => reason,
        };
        self.close_failed(
            reason,
            classified,
            classified.verdict.and_then(|verdict| verdict.positive_wait()),
        )
    }

    #[cold]
    #[inline(never)]
    pub(super) fn close_failed(
        &mut self,
        reason: StopReason,
        classified: Classified,
        retry_after: Option<Duration>,
    ) -> GaveUp<E> {
        let Classified { verdict, cut, is_stated, .. } = classified;
        let by_default = reason == StopReason::Fatal && !is_stated;
        let reason = if by_default { StopReason::Unclassified } else { reason };
        let wait = retry_after.unwrap_or_default();
        self.close_with(Ending { cut, retry_after, wait, ..Ending::new(reason, verdict) })
    }

    /// Closes the call after a failure, because the `wait` for the next attempt is longer than the time
    /// left. `held_by` is the part that makes it so long.
    #[cold]
    #[inline(never)]
    pub(super) fn close_late(
        &mut self,
        classified: Classified,
        retry_after: Option<Duration>,
        wait: Duration,
        held_by: Option<HeldBy>,
    ) -> GaveUp<E> {
        let Classified { verdict, cut, .. } = classified;
        let ending = Ending::new(StopReason::Deadline, verdict);
        self.close_with(Ending { cut, retry_after, wait, held_by, ..ending })
    }

    /// Closes the call for a reason other than a failure, at any time.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&mut self, reason: StopReason, retry_after: Option<Duration>) -> GaveUp<E> {
        let ending = self.ending(reason);
        let is_late = reason == StopReason::Deadline;
        let refuser = self.engine.guard.progress.refuser().filter(|_| is_late);
        let (wait, held_by) = (retry_after.unwrap_or_default(), refuser.map(Refuser::part));
        self.close_with(Ending { retry_after, wait, held_by, ..ending })
    }

    /// Returns an end of the call after its last failure, which may have been a cut.
    fn ending(&self, reason: StopReason) -> Ending {
        let classifier = self.policy.rules().classifier();
        let cut = self.engine.last_cut.get();
        let verdict = match cut {
            Some(cut) => Some(self.classified_cut(cut)),
            None => self.last.as_ref().and_then(|last| classifier.classify(last)),
        };
        Ending { cut, ..Ending::new(reason, verdict.map(Verdict::as_fact)) }
    }

    /// Closes the call at its deadline or by its token, with the attempts in `slots` in flight.
    ///
    /// At the deadline, an attempt counts like one that exceeded its own timeout, if it ran for at
    /// least half of its [fair time](CallPolicy::fair_time). A shorter run says nothing about the upstream.
    #[cold]
    #[inline(never)]
    pub(crate) fn close_cut(
        &mut self,
        slots: impl Iterator<Item = usize>,
        reason: StopReason,
    ) -> GaveUp<E> {
        let cut = Cut::Deadline;
        let verdict = self.classified_cut(cut);
        if self.attempts() > 0 && !self.is_unsent() {
            self.engine.note_effect();
        }
        if reason != StopReason::Deadline {
            let dropped = Some(verdict).filter(|_| self.attempts() > 0);
            return self.close_with(Ending { dropped, ..self.ending(reason) });
        }
        let verdict = verdict.as_fact();
        let enough = self.policy.fair_time() / 2;
        let (mut allotted, mut most) = (self.allotted(), None);
        if !X::ALONE {
            let now = self.engine.now();
            let (last, classifier) = (self.last.as_ref(), self.policy.rules().classifier());
            for slot in slots {
                let had = self.engine.guard.began(slot).map(|began| now.saturating_sub(began));
                most = most.max(had);
                let attempt = had.map(Duration::from_nanos);
                let allotted = allotted.map(|it| Allotted { attempt, ..it });
                let in_flight = InFlight { allotted, ..InFlight::default() };
                let (cut, stated) = (Some(cut), Some(verdict));
                let failure: TellFailure<'_> = &move |tell| {
                    tell_failure::<E, X>(last, classifier, cut, stated, in_flight, tell);
                };
                self.engine.guard.note_too_late(slot, self.engine.started, now);
                if had.is_some_and(|had| had >= enough) {
                    let verdict = Some(verdict);
                    self.engine.guard.report(slot, verdict, Some(now), true, Some(failure));
                }
            }
            let attempt = most.map(Duration::from_nanos);
            allotted = allotted.map(|it| Allotted { attempt, ..it });
        }
        let is_unreported = most.is_some_and(|had| had < enough);
        let ending = Ending::new(reason, Some(verdict));
        self.close_with(Ending { cut: Some(cut), allotted, is_unreported, ..ending })
    }

    /// Returns the time of a call that its deadline ends.
    fn allotted(&self) -> Option<Allotted> {
        Some(Allotted { call: self.policy.limit()?, attempt: None })
    }

    /// Closes the call of a stream that flows, at the limit of `whole` nanoseconds on the whole stream. The
    /// upstream does not count the attempt: it has answered, and a long answer is not a failure.
    #[cfg(feature = "stream")]
    #[cold]
    pub(crate) fn close_whole(&mut self, whole: u64) -> GaveUp<E> {
        let cut = Cut::Deadline;
        self.engine.note_effect();
        let verdict = self.classified_cut(cut).as_fact().with_health(Health::Unknown);
        let ending = Ending::new(StopReason::Partial, Some(verdict));
        // The total timeout may be shorter. It ends with the first content.
        let allotted = Some(Allotted { call: Duration::from_nanos(whole), attempt: None });
        self.close_with(Ending { cut: Some(cut), allotted, ..ending })
    }

    /// Releases everything that the call holds, reports its close and builds the error.
    pub(super) fn close_with(&mut self, ending: Ending) -> GaveUp<E> {
        let Ending { reason, verdict, cut, allotted, is_unreported, .. } = ending;
        // The caller dropped the attempts before, and the upstream may have executed them.
        let is_unknown = verdict.is_none() && reason != StopReason::Unclassified;
        let unknown =
            (is_unknown && self.attempts() > 0).then(|| self.classified_cut(Cut::Deadline));
        let doubt = ending.doubt(unknown);
        let last = unknown.map_or(verdict, |dropped| {
            let unknown = Verdict::transient().with_health(Health::Unknown);
            Some(if dropped.is_again() { unknown } else { unknown.not_again() })
        });
        let (total, limit) = (self.policy.total_timeout(), self.policy.limit());
        let mut facts = self.engine.close(ending);
        facts.too_long = match reason {
            StopReason::Deadline => self.engine.delay_too_long(ending, total, limit),
            StopReason::HintTooLong => {
                self.policy.rules().hint_cap().map(|cap| ending.hint_too_long(cap))
            }
            _ => None,
        };
        facts.in_doubt = doubt != Doubt::No;
        // After a cut the last error is that of an earlier attempt.
        facts.hint = verdict.filter(|_| cut.is_none()).and_then(|verdict| verdict.hint());
        let last = if facts.attempts > 1 && facts.may_have_effect {
            last.map(Verdict::of_several)
        } else {
            last
        };
        facts.verdict = reason.verdict(last, facts.retry_after);
        if !facts.may_have_effect {
            let unsent = facts.attempts == 0;
            let known = |it: Verdict| if unsent { it.not_sent() } else { it.without_effect() };
            facts.verdict = facts.verdict.map(known);
        }
        facts.is_partial = self.policy.is_partial();
        if facts.is_partial {
            facts.verdict = facts.verdict.map(Verdict::not_again);
        }
        facts.is_floor = facts.retry_after.is_some_and(|after| reason.is_floor(verdict, after));
        facts.told = Told::new(facts.retry_after);
        let is_earlier = facts.error_of == ErrorOf::Earlier;
        facts.earlier_waits = self.policy.earlier_waits(facts.elapsed, is_earlier);
        let is_dropped = ending.dropped.is_some() || unknown.is_some();
        let place = || Some(Box::from(self.policy.rules().classifier().place()?));
        facts.place = (cut.is_some() || !is_dropped).then(place).flatten();
        facts.dropped = is_dropped.then(place).flatten();
        let Facts {
            attempts, elapsed, retry_after, too_large, no_room, too_long, is_partial, ..
        } = facts;
        let mut word = None;
        if self.engine.guard.target.listens() {
            let classifier = self.policy.rules().classifier();
            let named = self.last.as_ref().and_then(|last| classifier.error_type(last));
            word = named.map(|named| named.into_owned().into());
            let unreported = |verdict: Verdict| verdict.with_health(Health::Unknown);
            let shown = if is_unreported { verdict.map(unreported) } else { verdict };
            let is_dropped_unsent = facts.is_dropped_unsent;
            let has_effect = facts.may_have_effect;
            let in_flight = InFlight {
                is_dropped,
                is_dropped_unsent,
                has_effect,
                allotted,
                ..InFlight::default()
            };
            self.emit_at_end(cut, shown, in_flight, &|failure| EventKind::GaveUp {
                reason,
                attempts,
                elapsed,
                failure,
                retry_after,
                too_large,
                no_room,
                too_long,
                in_doubt: doubt == Doubt::Stated,
                is_partial,
                error_type: error_type(reason, &failure),
            });
        }
        let last = self.last.take();
        GaveUp::new(Inner { facts, last, error_type: word, writer: X::Describe::writer() })
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Releases everything that the call holds. Returns the facts about its close, apart from those
    /// of the verdict.
    #[cold]
    #[inline(never)]
    fn close(&mut self, ending: Ending) -> Facts {
        let Ending { reason, cut, retry_after, dropped, allotted, .. } = ending;
        if !X::ALONE {
            self.guard.release_all();
        }
        self.until.set(Until::Nothing);
        Facts {
            reason,
            kind: self.guard.progress.kind(),
            attempts: self.guard.progress.attempts,
            elapsed: Duration::from_nanos(self.elapsed()),
            retry_after: retry_after.filter(|after| !after.is_zero()),
            hint: None,
            too_large: (reason == StopReason::TooLarge).then(|| self.guard.too_large()).flatten(),
            no_room: (reason == StopReason::Full).then(|| self.guard.no_room()).flatten(),
            too_long: None,
            words: match reason {
                StopReason::Budget if self.guard.lacks_lease() => Some(LACKS_LEASE),
                StopReason::Open if retry_after.is_none() && self.guard.is_half_open() => {
                    Some(HALF_OPEN)
                }
                _ => None,
            },
            verdict: None,
            is_floor: false,
            is_of_another: false,
            cut,
            allotted,
            told: Told::default(),
            earlier_waits: EarlierWaits::default(),
            place: None,
            dropped: None,
            in_doubt: false,
            may_have_effect: self.last_cut.has_effect(),
            is_unsent: cut.is_some() && dropped.is_none() && self.last_cut.is_unsent(),
            is_dropped_unsent: dropped.is_some() && self.last_cut.is_unsent(),
            is_partial: false,
            error_of: if cut.is_some() || dropped.is_some() {
                ErrorOf::Earlier
            } else {
                ErrorOf::Last
            },
            upstream: self.guard.target.owned_name(),
            alternative: None,
        }
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Returns the wait that did not fit the deadline of a call, which has this total timeout. `limit`
    /// is the limit as its caller has set it. `None` if the deadline cut an attempt.
    #[cold]
    fn delay_too_long(
        &self,
        ending: Ending,
        total: u64,
        limit: Option<Duration>,
    ) -> Option<TooLong> {
        let left = if total == NO_LIMIT { 0 } else { remaining(total, self.elapsed()) };
        let Ending { cut, wait, held_by: by, .. } = ending;
        let left = Duration::from_nanos(left);
        let is_asked = by.is_none() && ending.asks_for_wait();
        let too_long = TooLong::Delay { wait, is_asked, by, left, total: limit };
        (cut != Some(Cut::Deadline)).then_some(too_long)
    }
}

/// Returns the type of the error of a call in few words, for the `error.type` of OpenTelemetry.
fn error_type<'a>(reason: StopReason, failure: &AttemptFailure<'a>) -> &'a str {
    match (reason, failure.error_type) {
        // The caller ended the call, whatever had failed before.
        (StopReason::Cancelled, _) => "cancelled",
        (_, Some(error_type)) => error_type,
        // An attempt made by hand: its error is not known here.
        (StopReason::Fatal | StopReason::Unclassified | StopReason::Attempts, None) => "_OTHER",
        (reason, None) => reason.as_str(),
    }
}
