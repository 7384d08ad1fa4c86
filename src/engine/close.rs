use std::time::Duration;

use super::emit::tell_failure;
use super::ending::Ending;
use super::engine::remaining;
use super::finish::Classified;
use super::until::Until;
use super::{CallPolicy, CallState, Engine, NO_LIMIT};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::waits::{EarlierWaits, Told};
use crate::error::{Dropped, Facts, GaveUp, Inner, LastAttempt, within};
use crate::observe::{Allotted, AttemptFailure, CallKind, EventKind, HeldBy, InFlight, TooLong};
use crate::policy::{Doubt, Effect, LACKS_LEASE, Rules, Sending, StopReason};
use crate::time::Timer;
use crate::upstream::{Describe, Endpoint, Name, Refuser, TargetFor, TellFailure};
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
        // Only the answer at the end of the call is still late: see `judged`.
        let is_late = cut.is_none() && verdict.is_some_and(Verdict::is_late);
        let is_over = is_late && self.engine.guard.progress.kind() != CallKind::Fallback;
        let is_fatal = reason == StopReason::Fatal;
        let reason = if is_fatal && is_over { StopReason::Deadline } else { reason };
        let verdict = verdict.map(Verdict::in_time);
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
        let has_no_opinion = !verdict.is_stated();
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
                let in_flight = InFlight { allotted, ..self.in_flight() };
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
        // The start of an attempt on a bare name is unknown. No attempt runs for longer than its call.
        let longest =
            most.or_else(|| (X::ALONE && self.attempts() > 0).then(|| self.engine.elapsed()));
        let is_unreported = longest.is_some_and(|had| had < enough);
        let ending = Ending::new(reason, Some(verdict));
        self.close_with(Ending {
            cut: Some(cut),
            allotted,
            latency: most.map(Duration::from_nanos),
            is_unreported,
            has_no_opinion,
            ..ending
        })
    }

    /// Returns the time of a call that its deadline ends.
    fn allotted(&self) -> Option<Allotted> {
        let call = self.policy.limit()?;
        // The limit on a whole stream is a setting too.
        let is_total = self.policy.rules().timeouts().0 == Some(call);
        let is_shortened = self.policy.is_shortened();
        Some(Allotted { call, is_shortened, is_total, is_whole: false, attempt: None })
    }

    /// Closes the call of a stream that flows in `slot`, at the limit of `whole` nanoseconds on the whole stream. If
    /// `is_shortened`, that is the time which its caller had left. The upstream does not count the attempt: it has
    /// answered, and a long answer is not a failure.
    #[cfg(feature = "stream")]
    #[cold]
    pub(crate) fn close_whole(&mut self, slot: usize, whole: u64, is_shortened: bool) -> GaveUp<E> {
        let cut = Cut::Deadline;
        self.engine.note_effect();
        let verdict = self.classified_cut(cut).as_fact().with_health(Health::Unknown);
        let ending = Ending::new(StopReason::Partial, Some(verdict));
        // The total timeout may be shorter. It ends with the first content.
        let call = Duration::from_nanos(whole);
        let (is_total, is_whole) = (false, true);
        let allotted = Some(Allotted { call, is_shortened, is_total, is_whole, attempt: None });
        let now = self.engine.now();
        let began = if X::ALONE { None } else { self.engine.guard.began(slot) };
        let latency = began.map(|began| Duration::from_nanos(now.saturating_sub(began)));
        self.close_with(Ending { cut: Some(cut), allotted, latency, ..ending })
    }

    /// Returns the wait before the next call of a fallback, and whether it is that of another alternative than
    /// the last one. See [`GaveUp::flatten`], whose error has the same wait.
    fn again_after(&self, facts: &Facts) -> Option<(Duration, bool)> {
        let is_asked_again = facts.reason == StopReason::Alternatives || facts.is_late();
        let last = self.last.as_ref().filter(|_| facts.kind == CallKind::Fallback);
        let last = last.filter(|_| is_asked_again)?;
        let own = within::ask(|| X::Describe::value(last)).and_then(|inner| inner.retry_after);
        let wait = facts.earlier_waits.least_with(own).filter(|it| !it.is_zero())?;
        Some((wait, own != Some(wait)))
    }

    /// Releases everything that the call holds, reports its close and builds the error.
    pub(super) fn close_with(&mut self, ending: Ending) -> GaveUp<E> {
        let Ending { reason, verdict, cut, allotted, is_unreported, .. } = ending;
        // The caller dropped the attempts before, and the upstream may have executed them.
        let is_unknown = verdict.is_none() && reason != StopReason::Unclassified;
        let unknown =
            (is_unknown && self.attempts() > 0).then(|| self.classified_cut(Cut::Deadline));
        let (total, limit) = (self.policy.total_timeout(), self.policy.limit());
        let mut facts = self.engine.close(ending);
        facts.too_long = match reason {
            StopReason::Deadline => self.engine.delay_too_long(ending, total, limit),
            StopReason::HintTooLong => {
                self.policy.rules().hint_cap().map(|cap| ending.hint_too_long(cap))
            }
            _ => None,
        };
        let doubt = self.note_request(&mut facts, &ending, unknown);
        // After a cut the last error is that of an earlier attempt.
        facts.hint = verdict.filter(|_| cut.is_none()).and_then(|verdict| verdict.hint());
        facts.is_partial = self.policy.is_partial();
        let is_by_default = verdict.is_some_and(Verdict::is_by_default);
        let ended_by = self.policy.ended_by(is_by_default).filter(|_| reason == StopReason::Fatal);
        facts.words = ended_by.or(facts.words);
        facts.alternative = self.policy.cut_call().filter(|_| cut == Some(Cut::Deadline)).cloned();
        if facts.is_partial {
            facts.verdict = facts.verdict.map(Verdict::not_again);
        }
        facts.is_floor = facts.retry_after.is_some_and(|after| reason.is_floor(verdict, after));
        facts.told = Told::new(facts.retry_after);
        facts.earlier_waits = self.policy.earlier_waits(facts.elapsed, !facts.last.has_error);
        let is_dropped = ending.dropped.is_some() || unknown.is_some();
        let place = || Some(Box::from(self.policy.rules().classifier().place()?));
        facts.last.place = (cut.is_some() || !is_dropped).then(place).flatten();
        // An attempt that the caller dropped was not asked.
        let is_asked = ending.dropped.is_some() || unknown.is_none();
        let sending = if is_asked { self.sending() } else { Sending::Unknown };
        let dropped = |place| Dropped { place, sending };
        facts.last.dropped = is_dropped.then(place).flatten().map(dropped);
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
            let again = self.again_after(&facts);
            let retry_after = again.map(|(wait, _)| wait).or(retry_after);
            let in_flight = InFlight {
                again,
                is_dropped,
                sending,
                effect: facts.effect,
                ended_by,
                lack: facts.lack,
                has_no_opinion: facts.has_no_opinion,
                allotted,
                latency: ending.latency,
                awaits_content: facts.last.awaits_content,
                place: facts.alternative.as_ref().map(Name::as_str),
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
        let Ending { reason, cut, retry_after, dropped, allotted, held_by, .. } = ending;
        if !X::ALONE {
            self.guard.release_all();
        }
        self.until.set(Until::Nothing);
        Facts {
            reason,
            kind: self.guard.progress.kind(),
            is_flat: false,
            attempts: self.guard.progress.attempts,
            elapsed: Duration::from_nanos(self.elapsed()),
            retry_after: retry_after.filter(|after| !after.is_zero()),
            hint: None,
            too_large: (reason == StopReason::TooLarge).then(|| self.guard.too_large()).flatten(),
            no_room: (reason == StopReason::Full).then(|| self.guard.no_room()).flatten(),
            too_long: None,
            lack: (reason == StopReason::Deadline && held_by == Some(HeldBy::Quota))
                .then(|| self.guard.lack())
                .flatten(),
            words: match reason {
                StopReason::Budget if self.guard.lacks_lease() => Some(LACKS_LEASE),
                StopReason::Open if retry_after.is_none() => self.guard.open_in_words(),
                _ => None,
            },
            verdict: None,
            is_floor: false,
            is_of_another: false,
            last: LastAttempt {
                kind: self.guard.progress.kind(),
                cut,
                // The limit on the whole stream ends it in the middle of its answer.
                awaits_content: self.is_stream()
                    && cut.is_some_and(|it| it != Cut::Deadline || reason == StopReason::Deadline),
                allotted,
                place: None,
                sending: if cut.is_some() && dropped.is_none() {
                    self.last_cut.sending()
                } else {
                    Sending::Unknown
                },
                dropped: None,
                has_error: cut.is_none() && dropped.is_none(),
            },
            told: Told::default(),
            earlier_waits: EarlierWaits::default(),
            in_doubt: false,
            inherits_doubt: false,
            has_no_opinion: false,
            effect: Effect {
                may_have: self.last_cut.has_effect(),
                is_earlier: self.last_cut.has_earlier_effect(),
                states_key: self.last_cut.is_keyed(),
                ..Effect::default()
            },
            is_partial: false,
            upstream: self.guard.target.owned_name(),
            alternative: None,
            earlier: None,
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
