use std::fmt;
use std::time::Duration;

use crate::verdict::{Cut, Health, Verdict};

/// The next step after a failed attempt. Made by [`RetryPolicy::decide`](crate::RetryPolicy::decide).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Wait for this delay, then send the request again.
    Retry(Duration),
    /// Give up.
    Stop(StopReason),
}

/// The reason for giving up a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The request must not be sent again according to the classifier.
    Fatal,
    /// The classifier had no verdict on the last error, or no opinion on an attempt that was cut.
    /// Such an attempt is not repeated unless [`cut_is`](crate::classify::ClassifyExt::cut_is)
    /// states an opinion.
    Unclassified,
    /// No further attempt was allowed.
    Attempts,
    /// No time was left or too little time for the delay.
    Deadline,
    /// The shared budget could not pay for a retry.
    Budget,
    /// The circuit breaker was open.
    Open,
    /// The throttle refused the attempt by chance, because the upstream refuses too many.
    Throttled,
    /// The queue of the bulkhead or of the quota was full, the wait in the bulkhead's queue took too
    /// long, or a call that goes first took the place in it.
    Full,
    /// The cost was larger than the burst of the quota, so no wait helps. The numbers are in
    /// [`GaveUp::too_large`](crate::GaveUp::too_large).
    TooLarge,
    /// The wait before the next attempt was above the policy's [hint
    /// cap](crate::RetryPolicy::with_hint_cap). The upstream asked for the wait, or the classifier
    /// [demands](Verdict::at_least) it.
    HintTooLong,
    /// All alternatives of a [fallback](crate::fallback()) were tried.
    Alternatives,
    /// Part of the answer was already delivered.
    Partial,
    /// The caller's token was cancelled.
    Cancelled,
}

/// The words for a request in doubt.
pub(crate) const IN_DOUBT: &str = "the request may have been executed and must not be sent again";

/// The words for a cut attempt that may have been executed, if nobody says whether it may be repeated.
pub(crate) const NO_OPINION: &str =
    "the classifier has no opinion on a cut attempt (add one with `cut_is`)";

/// The words behind the place of a request that the token or the caller dropped.
pub(crate) const DROPPED: &str = "was dropped in flight";

/// The words for a request that the upstream does not want again.
pub(crate) const NOT_WANTED: &str = "the upstream asks for no retry";

/// The words for a fallback that ends because a part of the answer was delivered.
pub(crate) const AFTER_PART: &str = "no other alternative is tried after a part of the answer";

/// The words for a fallback that ends because a call in its last alternative is in doubt.
pub(crate) const AFTER_DOUBT: &str = "no other alternative is tried, \
     because the request may have been executed and must not be sent again";

/// The words for a budget that is spent in this process only.
pub(crate) const LACKS_LEASE: &str = "this process holds too few tokens of the fleet's budget";

impl StopReason {
    /// Returns true if a part of the upstream refused the call. A `Deadline` is a refusal if no attempt
    /// could begin before it.
    pub(crate) const fn is_refusal(self, attempts: u32, is_cut: bool) -> bool {
        match self {
            Self::Open | Self::Throttled | Self::Full | Self::Budget => true,
            Self::Deadline => attempts == 0 && !is_cut,
            _ => false,
        }
    }

    /// Returns true if the call ended at its first attempt because it has no time for the retry that it is allowed. No
    /// attempt announced a retry before.
    pub(crate) const fn lacks_time(self, attempts: u32) -> bool {
        attempts == 1 && matches!(self, Self::Deadline | Self::HintTooLong)
    }

    /// Returns a stable word for logs and metrics: `fatal`, `unclassified`, `attempts`, `deadline`,
    /// `budget`, `open`, `throttled`, `full`, `too_large`, `hint_too_long`, `alternatives`, `partial`, `cancelled`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Unclassified => "unclassified",
            Self::Attempts => "attempts",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Open => "open",
            Self::Throttled => "throttled",
            Self::Full => "full",
            Self::TooLarge => "too_large",
            Self::HintTooLong => "hint_too_long",
            Self::Alternatives => "alternatives",
            Self::Partial => "partial",
            Self::Cancelled => "cancelled",
        }
    }
}

impl StopReason {
    /// Returns whether a request may be in doubt of which [`in_words`](Self::in_words) says nothing: the
    /// caller or the deadline dropped it.
    pub(crate) const fn hides_doubt(self) -> bool {
        matches!(self, Self::Cancelled | Self::Deadline)
    }

    /// Returns whether the number of attempts or `cut` already implies the reason in a message.
    pub(crate) fn is_evident(self, cut: Option<Cut>) -> bool {
        match self {
            Self::Attempts | Self::Alternatives => true,
            // A flat error of another reason may have the cut of an inner call.
            Self::Deadline => cut == Some(Cut::Deadline),
            _ => false,
        }
    }

    /// Returns whether the wait of `after` that ends a call is the floor of the classifier. `verdict`
    /// is the classifier's. Otherwise the upstream or one of its parts named the wait.
    pub(crate) fn is_floor(self, verdict: Option<Verdict>, after: Duration) -> bool {
        let floor = verdict.and_then(|verdict| verdict.floor());
        self != Self::Open && floor.is_some_and(|floor| after <= floor)
    }

    /// Returns what a call that ended for this reason tells an outer call. `last` is the
    /// classifier's verdict on the last failure, and `retry_after` is the wait before the next call.
    /// [`GaveUp::verdict`](crate::GaveUp::verdict) has the table.
    pub(crate) fn verdict(
        self,
        last: Option<Verdict>,
        retry_after: Option<Duration>,
    ) -> Option<Verdict> {
        let is_final = matches!(self, Self::TooLarge | Self::Partial | Self::Cancelled);
        let verdict = match (self, last) {
            (Self::Fatal | Self::Unclassified, last) => return last,
            // The upstream was not asked. So nothing speaks against the request, and nothing is
            // known of the health.
            (_, None) => Verdict::transient().with_health(Health::Unknown),
            (_, Some(last)) => last,
        };
        let verdict = if is_final { verdict.not_again() } else { verdict };
        Some(match retry_after {
            Some(after) => verdict.at_least(after),
            None => verdict,
        })
    }

    /// Returns the reason in words. A call that ends as unclassified has a verdict if the verdict is
    /// a default for a cut attempt. A final error of a fallback is final for its alternatives only. `in_doubt` is true
    /// if the last failure leaves the request in doubt.
    pub(crate) fn in_words(
        self,
        is_fallback: bool,
        verdict: Option<Verdict>,
        in_doubt: bool,
    ) -> &'static str {
        match self {
            Self::Fatal if is_fallback => {
                "no other alternative is tried, because the classifier of the fallback forbids it"
            }
            Self::Fatal if in_doubt => IN_DOUBT,
            Self::Fatal if verdict.is_some_and(|verdict| verdict.is_not_wanted()) => NOT_WANTED,
            Self::Fatal if verdict.is_some_and(|verdict| verdict.is_not_repeatable()) => {
                "the request cannot be made again"
            }
            Self::Fatal if verdict.is_some_and(|verdict| is_final(verdict.health())) => {
                "the error is final"
            }
            Self::Fatal => "the classifier forbids a retry",
            Self::Unclassified if verdict.is_some() => NO_OPINION,
            Self::Unclassified => "the classifier has no verdict on the error",
            Self::Attempts => "no further attempt is allowed",
            Self::Deadline => "not enough time left",
            Self::Budget => "the retry budget is spent",
            Self::Open => "the circuit breaker is open",
            Self::Throttled => "the throttle refuses while the upstream refuses too many attempts",
            Self::Full => "the bulkhead or the queue is full",
            Self::TooLarge => "the cost is above the quota's burst",
            Self::HintTooLong => "the wait is above the policy's hint cap",
            Self::Alternatives => "no alternatives left",
            Self::Partial => "part of the answer was already delivered",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Returns whether the same request would fail again, as far as is known. An upstream that fails or throttles
/// may serve the next call.
const fn is_final(health: Health) -> bool {
    matches!(health, Health::Healthy | Health::Unknown)
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.in_words(false, None, false))
    }
}
