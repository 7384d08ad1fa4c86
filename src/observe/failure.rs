use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::allotted::{InFlight, write_cut};
use super::placed::write_placed;
use crate::policy::{NOT_WANTED, Sending, StopReason};
use crate::time::Rounded;
use crate::verdict::{Cut, Health, Verdict};

/// The cause of an attempt's failure.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct AttemptFailure<'a> {
    /// The words of the error and of its [sources](Error::source), each text once.
    ///
    /// The user, the query and the fragment of each URL are cut. `None` without an error and for a
    /// call without an upstream or a name.
    pub error: Option<&'a dyn fmt::Display>,
    /// The error as a value, to count it by a downcast.
    ///
    /// `None` without an error, and for an error whose type is no [`Error`] and contains none.
    pub source: Option<&'a (dyn Error + 'static)>,
    /// The type of the error in one word.
    ///
    /// It is what the classifier says ([`Classify::error_type`](crate::Classify::error_type)), or
    /// the name of the Rust type. For a cut attempt it is the word of [`Cut::as_str`]. For a call within
    /// the attempt it is that of its end: the word of its reason, such as `open`, or the type of its
    /// last error.
    pub error_type: Option<&'a str>,
    /// True if a part of an upstream refused a call within the attempt. That part has events of its
    /// own.
    pub is_refusal: bool,
    /// True if the token of a call within the attempt was cancelled.
    pub is_cancelled: bool,
    /// The timeout or the end of the stream. `None` if the attempt returned an error.
    pub cut: Option<Cut>,
    /// The facts about the attempt beside its error. A reference, because events are passed by value.
    pub(crate) in_flight: Option<&'a InFlight<'a>>,
    /// The classification. `None` if the classifier has no verdict or was not asked.
    pub verdict: Option<Verdict>,
}

impl AttemptFailure<'_> {
    /// Writes what the upstream asked for with the failure, before the words of the error. A wait that is
    /// `told` already is left out, and so is the classifier's own if nothing waits for it any more.
    pub(super) fn fmt_asked(
        &self,
        f: &mut fmt::Formatter<'_>,
        is_over: bool,
        told: Option<Duration>,
    ) -> fmt::Result {
        let Some(verdict) = self.verdict else { return Ok(()) };
        if verdict.is_not_wanted() {
            write!(f, ", {NOT_WANTED}")?;
        }
        self.fmt_wait(f, is_over, told)
    }

    /// Writes the same without the words that the upstream wants no retry.
    pub(super) fn fmt_wait(
        &self,
        f: &mut fmt::Formatter<'_>,
        is_over: bool,
        told: Option<Duration>,
    ) -> fmt::Result {
        let Some(verdict) = self.verdict else { return Ok(()) };
        match (verdict.hint(), verdict.floor()) {
            (Some(hint), _) if told == Some(hint) || hint.is_zero() => Ok(()),
            (Some(hint), _) => write!(f, ", the upstream asked for a wait of {}", Rounded(hint)),
            (None, Some(floor)) if !is_over => {
                write!(f, ", a wait of at least {} is set for this error", Rounded(floor))
            }
            (None, _) => Ok(()),
        }
    }

    /// Writes what the upstream asked for after the `delay` that the line names. A wait that reads like it
    /// is named without its number.
    pub(super) fn fmt_delayed(
        &self,
        f: &mut fmt::Formatter<'_>,
        is_over: bool,
        delay: Option<Duration>,
    ) -> fmt::Result {
        let is_told = |it: &Verdict| {
            let both = it.positive_wait().zip(delay);
            !it.is_not_wanted() && both.is_some_and(|(it, delay)| Rounded(it).reads_like(delay))
        };
        match self.verdict.filter(is_told) {
            Some(verdict) if verdict.hint().is_some() => f.write_str(", as the upstream asked"),
            Some(_) => f.write_str(", as set for this error"),
            None => self.fmt_asked(f, is_over, None),
        }
    }

    /// Returns a time before which the attempt after this failure surely does not begin, if a part of the
    /// upstream holds it: `cooldown` is the rest of the cooldown's hold.
    pub(super) fn held(&self, cooldown: Option<Duration>) -> Option<Duration> {
        self.in_flight.and_then(|in_flight| in_flight.held).max(cooldown)
    }

    /// Returns the duration of the attempt that the deadline cut, if it is known.
    #[cfg(feature = "metrics")]
    pub(super) fn cut_latency(&self) -> Option<Duration> {
        self.in_flight.and_then(|in_flight| in_flight.latency)
    }

    /// Returns which part of the upstream holds the attempt for this [time](Self::held).
    pub(super) fn held_in_words(&self, cooldown: Option<Duration>) -> &'static str {
        match self.in_flight.and_then(|in_flight| in_flight.held) {
            Some(held) if Some(held) > cooldown => ", held by the quota",
            _ => ", held by the cooldown",
        }
    }

    /// Returns whether the failure is none of this upstream: a part that refuses has events of its own, and a
    /// cancellation is the wish of the caller.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        self.is_refusal || self.is_cancelled
    }

    /// Returns whether a part of an upstream refused the last attempt of a call that ended for this reason after
    /// so many attempts.
    pub(crate) const fn is_refused(&self, reason: StopReason, attempts: u32) -> bool {
        self.is_refusal || reason.is_refusal(attempts, self.cut.is_some())
    }

    /// Returns whether a call that ends for this reason has made the one attempt that its caller counts on, so that the
    /// error is the caller's like any other.
    pub(crate) fn ends_at_first(&self, reason: StopReason, attempts: u32, allowed: u32) -> bool {
        match reason {
            StopReason::Fatal => attempts <= 1 && !self.lacks_retry(allowed),
            StopReason::Unclassified => attempts <= 1,
            // There is no retry.
            StopReason::Attempts => allowed == 1,
            _ => false,
        }
    }

    /// Returns whether nobody has the request for a retry that is allowed, or the upstream asks for none. The caller
    /// counts on a retry and does not see that it got none.
    pub(crate) fn lacks_retry(&self, allowed: u32) -> bool {
        let Some(verdict) = self.verdict else { return false };
        verdict.is_not_repeatable() || (allowed > 1 && verdict.is_not_wanted())
    }

    /// Returns whether a healthy upstream reports the error, such as a collision with another caller.
    pub(crate) fn is_of_healthy(&self) -> bool {
        self.health() == Health::Healthy
    }

    /// Returns the health of the upstream as shown by this attempt.
    #[must_use]
    pub fn health(&self) -> Health {
        self.verdict.map_or(Health::Unknown, |verdict| verdict.health())
    }
}

/// Prints the error in one line and escapes its control characters. Without an error, prints the
/// timeout or the end of the stream. Before both is the [place](crate::Classify::place) of the request if the
/// classifier knows it and the error does not name it. The wait that the upstream asked for is in the line of
/// the event.
impl fmt::Display for AttemptFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InFlight {
            place, allotted, is_dropped, sending, effect, awaits_content, earlier, ..
        } = self.in_flight.copied().unwrap_or_default();
        match (self.cut, self.error) {
            (Some(cut), _) => {
                let sending = match self.verdict {
                    Some(verdict) if verdict.is_not_sent() => Sending::NotSent,
                    // The sentence has said it of the dropped one.
                    _ if is_dropped => Sending::Unknown,
                    _ => sending,
                };
                let effect = effect.of_attempt(sending);
                let allotted = allotted.map(|it| it.after_error(earlier.is_some()));
                write_cut(f, cut, awaits_content, place, allotted, effect)
            }
            // The sentence has named the place of a dropped attempt.
            (None, Some(error)) => write_placed(f, place.filter(|_| !is_dropped), error),
            (None, None) => f.write_str("error not shown (name the call by `.on(\"…\")`)"),
        }
    }
}

impl fmt::Debug for AttemptFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.map(ToString::to_string);
        f.debug_struct("AttemptFailure")
            .field("error", &error)
            .field("error_type", &self.error_type)
            .field("cut", &self.cut)
            .field("verdict", &self.verdict)
            .finish()
    }
}
