use std::time::Duration;

use crate::observe::{Allotted, HeldBy, TooLong};
use crate::policy::{Doubt, StopReason};
use crate::verdict::{Cut, Verdict};

/// The end of a call without success, as the step that ends it knows it.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub(super) reason: StopReason,
    /// The classifier's verdict on the last failure.
    pub(super) verdict: Option<Verdict>,
    /// The cut that was the last failure.
    pub(super) cut: Option<Cut>,
    pub(super) retry_after: Option<Duration>,
    /// The wait before the next attempt, if it is too long.
    pub(super) wait: Duration,
    /// The part that holds the next attempt for too long, or held it until the deadline.
    pub(super) held_by: Option<HeldBy>,
    /// True if the cut attempts ran too briefly for a report. Then observers see no health.
    pub(super) is_unreported: bool,
    /// The classifier's verdict on the attempts that the token dropped in flight.
    pub(super) dropped: Option<Verdict>,
    /// The time of the call whose deadline cut the attempt.
    pub(super) allotted: Option<Allotted>,
    /// The duration of the attempt that the deadline cut, or of the longest one. `None` if it is unknown.
    pub(super) latency: Option<Duration>,
    /// True if the deadline cut an attempt, and the classifier has no opinion on that.
    pub(super) has_no_opinion: bool,
}

impl Ending {
    pub(super) const fn new(reason: StopReason, verdict: Option<Verdict>) -> Self {
        Self {
            reason,
            verdict,
            cut: None,
            retry_after: None,
            wait: Duration::ZERO,
            held_by: None,
            is_unreported: false,
            dropped: None,
            allotted: None,
            latency: None,
            has_no_opinion: false,
        }
    }

    /// Returns the doubt that the end leaves. `unknown` is the classifier's verdict on attempts whose
    /// end nobody has seen, if there are some and no verdict on a failure.
    pub(super) fn doubt(&self, unknown: Option<Verdict>) -> Doubt {
        let in_flight = Some(Cut::Deadline);
        let has_failed = self.verdict.is_some_and(|verdict| verdict.is_in_doubt(self.cut));
        let dropped = self.dropped.filter(|verdict| verdict.is_in_doubt(in_flight));
        if has_failed && !self.has_no_opinion || dropped.is_some_and(Verdict::is_stated) {
            return Doubt::Stated;
        }
        let is_unknown = unknown.is_some_and(|verdict| verdict.is_in_doubt(in_flight));
        let is_unclassified = self.reason == StopReason::Unclassified && self.verdict.is_none();
        let is_unstated = has_failed || dropped.is_some() || is_unknown || is_unclassified;
        if is_unstated { Doubt::Unstated } else { Doubt::No }
    }

    /// Returns whether the wait is the one that the upstream asked for. A hint that does not fit the
    /// deadline has no jitter, so any other wait is one of the backoff.
    pub(super) fn asks_for_wait(&self) -> bool {
        let hint = self.verdict.and_then(|verdict| verdict.hint());
        !self.wait.is_zero() && hint == Some(self.wait)
    }

    /// Returns the wait that is above the hint cap.
    pub(super) fn hint_too_long(&self, cap: Duration) -> TooLong {
        let is_asked = self.verdict.is_some_and(|verdict| verdict.floor().is_none());
        TooLong::Hint { wait: self.wait, cap, is_asked }
    }
}
