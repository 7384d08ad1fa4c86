use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::allotted::{InFlight, write_cut};
use super::placed::write_placed;
use crate::policy::{NOT_WANTED, effect_in_words};
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
        match (verdict.hint(), verdict.floor()) {
            (Some(hint), _) if told == Some(hint) || hint.is_zero() => Ok(()),
            (Some(hint), _) => write!(f, ", the upstream asked for a wait of {}", Rounded(hint)),
            (None, Some(floor)) if !is_over => {
                write!(f, ", the classifier demands a wait of {}", Rounded(floor))
            }
            (None, _) => Ok(()),
        }
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
        let InFlight { place, allotted, is_dropped, has_effect, .. } =
            self.in_flight.copied().unwrap_or_default();
        match (self.cut, self.error) {
            (Some(cut), _) => {
                let is_unsent = self.verdict.is_some_and(|verdict| verdict.is_not_sent());
                write_cut(f, cut, place, allotted, effect_in_words(is_unsent, has_effect))
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
