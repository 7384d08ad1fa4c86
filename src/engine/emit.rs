use std::borrow::Cow;
use std::marker::PhantomData;

use super::{CallPolicy, CallState, Engine, nesting};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::within;
use crate::observe::{AttemptFailure, Call, CallKind, Event, EventKind, InFlight, Placed};
use crate::policy::{Rules, StopReason};
use crate::time::Timer;
use crate::upstream::{Describe, Endpoint, TargetFor};
use crate::verdict::{Cut, Verdict};

impl<X: Endpoint, const N: usize> Engine<X, N> {
    /// Returns the call of an event, apart from what only a call that is polled knows.
    pub(super) fn call(&self, allowed: u32) -> Call {
        let progress = &self.guard.progress;
        Call {
            kind: progress.kind(),
            number: progress.number(self.guard.target.parts().map(|parts| &parts.calls)),
            site: self.site,
            allowed,
            is_part: false,
            counts_attempts: false,
            is_told: false,
            surges: false,
            has_failed: self.last_cut.has_failed(),
        }
    }

    /// Passes an event of the call to the observer. `now` reads the clock.
    pub(super) fn observe(
        &self,
        kind: EventKind<'_>,
        call: Call,
        place: Option<&dyn Placed>,
        now: impl FnOnce() -> u64,
    ) {
        let target = &self.guard.target;
        let gauges = target.parts().map(|parts| parts.gauges(now)).unwrap_or_default();
        let (upstream, call) = (target.name(), Some(call));
        target.observe(&Event { upstream, call, kind, gauges, place, kinds: None });
    }
}

/// Events for the observer.
impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Reports an event to the observer if the observer is enabled. `allowed` is the number of
    /// attempts that the policy allows.
    #[cold]
    pub(super) fn emit(&self, kind: EventKind<'_>, allowed: u32) {
        self.emit_placed(kind, allowed, None);
    }

    /// Does the same with the place of the requests.
    #[cold]
    #[inline(never)]
    fn emit_placed(&self, kind: EventKind<'_>, allowed: u32, place: Option<&dyn Placed>) {
        let target = &self.guard.target;
        if !target.listens() {
            return;
        }
        let (is_part, has_attempts) = target.name().map(nesting::is_part).unwrap_or_default();
        let call = Call {
            is_part,
            counts_attempts: !has_attempts && self.guard.progress.kind() != CallKind::Fallback,
            is_told: nesting::is_told(),
            surges: self.guard.progress.kind() == CallKind::Fallback && nesting::surges(),
            ..self.call(allowed)
        };
        self.observe(kind, call, place, || self.now());
    }

    /// Returns whether the call is a stream.
    pub(super) fn is_stream(&self) -> bool {
        self.guard.progress.kind() == CallKind::Stream
    }

    /// Reports, once, a call with retries within an attempt of another one. This is its first event.
    /// A retry within a hedge, a fallback or a single attempt is intended, and one of a call that makes
    /// only one attempt multiplies nothing.
    #[cold]
    pub(super) fn note_nesting(&mut self, allowed: u32) {
        if allowed <= 1 || !self.guard.progress.repeats() || self.guard.progress.note_nesting() {
            return;
        }
        if let Some(outer) = nesting::outer() {
            self.emit(EventKind::Nested { outer }, allowed);
        }
    }
}

/// The place that the classifier of a policy knows.
struct PlaceOf<'a, P, E> {
    policy: &'a P,
    error: PhantomData<fn(&E)>,
}

impl<P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>, E> Placed for PlaceOf<'_, P, E> {
    fn place(&self) -> Option<Cow<'_, str>> {
        self.policy.rules().classifier().place()
    }
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Reports an event to the observer if the observer is enabled.
    #[cold]
    pub(crate) fn emit(&self, kind: EventKind<'_>) {
        let place = PlaceOf { policy: &self.policy, error: PhantomData };
        self.engine.emit_placed(kind, self.policy.allowed(), Some(&place));
    }

    /// Builds the [`AttemptFailure`] of the last failure and reports the event that `make` builds
    /// of it.
    #[cold]
    pub(super) fn emit_with_failure(
        &self,
        cut: Option<Cut>,
        verdict: Option<Verdict>,
        make: &dyn for<'f> Fn(AttemptFailure<'f>) -> EventKind<'f>,
    ) {
        self.emit_at_end(cut, verdict, self.in_flight(), make);
    }

    /// Returns whether the end of the call counts among those that end at their first attempt. The error of a healthy
    /// upstream is the caller's own, and the line of a fallback tells of a call within it.
    fn counts_end(&self, failure: &AttemptFailure<'_>, reason: StopReason, attempts: u32) -> bool {
        let is_own = failure.is_of_healthy() || failure.is_elsewhere();
        let is_fallback = self.engine.guard.progress.kind() == CallKind::Fallback;
        let counts = !is_own && !is_fallback && !nesting::is_told();
        let allowed = self.policy.allowed();
        let is_first = failure.ends_at_first(reason, attempts, allowed);
        counts && (is_first || reason.lacks_time(attempts))
    }

    /// Returns what is known of each attempt of this call.
    pub(super) fn in_flight(&self) -> InFlight<'static> {
        let (sending, awaits_content) = (self.sending(), self.engine.is_stream());
        InFlight { sending, awaits_content, ..InFlight::default() }
    }

    /// Does the same at the end of the call, which may have an attempt in flight.
    #[cold]
    #[inline(never)]
    pub(super) fn emit_at_end(
        &self,
        cut: Option<Cut>,
        verdict: Option<Verdict>,
        in_flight: InFlight<'_>,
        make: &dyn for<'f> Fn(AttemptFailure<'f>) -> EventKind<'f>,
    ) {
        let is_fallback = self.engine.guard.progress.kind() == CallKind::Fallback;
        let (last, classifier) = (self.last.as_ref(), self.policy.rules().classifier());
        let tell: &mut dyn FnMut(AttemptFailure<'_>) = &mut |failure| match make(failure) {
            kind @ EventKind::Waiting { .. } if is_fallback => {
                within::passing_on(|| self.emit(kind));
            }
            kind @ EventKind::Waiting { failure, .. } if !failure.is_elsewhere() => {
                self.engine.guard.note_failure(failure, || self.emit(kind));
            }
            kind @ EventKind::GaveUp { failure, reason, attempts, .. }
                if nesting::is_alternative() =>
            {
                let is_cancelled = failure.is_cancelled || reason == StopReason::Cancelled;
                let counts = !is_cancelled && !failure.is_refused(reason, attempts);
                let emit = || self.emit(kind);
                nesting::note_surge(if counts {
                    self.engine.guard.note_alternative(failure, emit)
                } else {
                    emit();
                    false
                });
            }
            kind @ EventKind::GaveUp {
                failure,
                reason,
                attempts,
                in_doubt: false,
                is_partial: false,
                ..
            } if self.counts_end(&failure, reason, attempts) => {
                self.engine.guard.note_end(failure, || self.emit(kind));
            }
            kind => self.emit(kind),
        };
        tell_failure::<E, X>(last, classifier, cut, verdict, in_flight, tell);
    }
}

/// Builds the [`AttemptFailure`] of an attempt and passes it to `tell`. `last` is the last error of
/// the call.
#[cold]
pub(super) fn tell_failure<E, X: TargetFor<E>>(
    last: Option<&E>,
    classifier: &impl Classify<E>,
    cut: Option<Cut>,
    verdict: Option<Verdict>,
    in_flight: InFlight<'_>,
    tell: &mut dyn FnMut(AttemptFailure<'_>),
) {
    let place = classifier.place();
    let in_flight = InFlight { place: in_flight.place.or(place.as_deref()), ..in_flight };
    // An attempt that was cut has no error, and `last` is the error of an earlier attempt.
    let Some(failed) = last.filter(|_| cut.is_none()) else {
        let error_type = cut.as_ref().map(Cut::as_str);
        let failure = AttemptFailure { error_type, cut, verdict, ..Default::default() };
        return match last {
            None => tell(AttemptFailure { in_flight: Some(&in_flight), ..failure }),
            // The attempt was cut.
            Some(last) => X::Describe::with(last, |earlier, _| {
                let in_flight = InFlight { earlier, ..in_flight };
                tell(AttemptFailure { in_flight: Some(&in_flight), ..failure });
            }),
        };
    };
    let named = classifier.error_type(failed);
    let inner = within::ask(|| X::Describe::value(failed));
    let is_refusal = inner.as_ref().is_some_and(|inner| inner.is_refusal);
    let reason = inner.as_ref().map(|inner| inner.reason);
    let is_cancelled = reason == Some(StopReason::Cancelled);
    #[cfg(feature = "tracing")]
    let in_flight = InFlight { inner: reason, ..in_flight };
    let inner = inner.as_ref().map(|inner| &*inner.error_type);
    let error_type = named.as_deref().or(inner).or(Some(std::any::type_name::<E>()));
    X::Describe::with(failed, |error, source| {
        tell(AttemptFailure {
            error,
            source,
            error_type,
            is_refusal,
            is_cancelled,
            cut,
            in_flight: Some(&in_flight),
            verdict,
        });
    });
}
