use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Attempt, RetryPolicy};
use crate::verdict::Verdict;

/// What follows from a failed attempt. Made by [`RetryPolicy::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Wait that long, then send the request again.
    Retry(Duration),
    /// Give up.
    Stop(StopReason),
}

/// Why a call ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The last error was classified as one after which the request must not be sent again.
    Fatal,
    /// The classifier had no opinion on the last error.
    Unclassified,
    /// No attempts were left.
    Attempts,
    /// No time was left, or not enough for the delay.
    Deadline,
    /// The shared budget could not pay for a retry.
    Budget,
    /// The circuit breaker was open.
    Open,
    /// The bulkhead was full, its queue included, or the wait in its queue took too long.
    Full,
    /// The upstream asked for a longer wait than the policy allows.
    HintTooLong,
    /// No alternatives were left to [fall back](crate::fallback()) on.
    Alternatives,
    /// Part of the answer had already been handed over.
    Partial,
    /// The caller's token was cancelled.
    Cancelled,
}

impl StopReason {
    /// Returns a stable word for logs and metrics: `fatal`, `unclassified`, `attempts`, `deadline`, `budget`, `open`,
    /// `full`, `hint_too_long`, `alternatives`, `partial`, `cancelled`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Unclassified => "unclassified",
            Self::Attempts => "attempts",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Open => "open",
            Self::Full => "full",
            Self::HintTooLong => "hint_too_long",
            Self::Alternatives => "alternatives",
            Self::Partial => "partial",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fatal => "the error is final, the request must not be sent again",
            Self::Unclassified => "nobody classified this error",
            Self::Attempts => "no attempts left",
            Self::Deadline => "no time left",
            Self::Budget => "the retry budget is spent",
            Self::Open => "the circuit breaker is open",
            Self::Full => "the bulkhead is full",
            Self::HintTooLong => "the upstream asked for a longer wait than the policy allows",
            Self::Alternatives => "no alternatives left",
            Self::Partial => "part of the answer had already been handed over",
            Self::Cancelled => "cancelled",
        })
    }
}

impl<C> RetryPolicy<C> {
    /// Decides what follows from `failed`, an attempt with that verdict; `None` is no opinion. Pure and total.
    ///
    /// The attempt's `elapsed` and `remaining` are those at the moment of failure, its `delay` is the one before it.
    /// `draw` returns a number of a range, evenly: with the crate `rand`, `|range| rng.random_range(range)`.
    ///
    /// The first rule that applies:
    /// 1. no opinion stops as [`StopReason::Unclassified`];
    /// 2. a verdict of not again stops as [`StopReason::Fatal`];
    /// 3. the last attempt stops as [`StopReason::Attempts`];
    /// 4. a hint above the hint cap stops as [`StopReason::HintTooLong`];
    /// 5. a hint, or a delay, that does not leave time for another attempt stops as [`StopReason::Deadline`];
    /// 6. else it retries after the backoff's delay, or after the hint where that is longer. On top of a hint jitter is
    ///    positive only: up to the backoff's un-jittered delay or a tenth of the hint, whichever is more,
    ///    squeezed to fit the deadline. A hint does not reset the backoff's growth.
    #[inline]
    pub fn decide(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        self.decide_by(failed, verdict, 0, draw)
    }

    /// The same where attempts counted anew after that many.
    #[inline]
    pub(super) fn decide_by(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        renewed: u32,
        mut draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        let Some(verdict) = verdict else {
            return Decision::Stop(StopReason::Unclassified);
        };
        if !verdict.is_again() {
            return Decision::Stop(StopReason::Fatal);
        }
        let retry = failed.number().saturating_sub(renewed).max(1);
        if retry >= self.attempts {
            return Decision::Stop(StopReason::Attempts);
        }
        let mut delay = self.backoff.delay(retry, failed.delay(), &mut draw);
        if let Some(hint) = verdict.hint_to_wait() {
            if hint > self.hint_cap {
                return Decision::Stop(StopReason::HintTooLong);
            }
            let room = failed.remaining().unwrap_or(Duration::MAX);
            delay = delay.max(self.backoff.on_top(hint, retry, room, &mut draw));
        }
        if failed.is_over_after(delay) {
            return Decision::Stop(StopReason::Deadline);
        }
        Decision::Retry(delay)
    }
}
