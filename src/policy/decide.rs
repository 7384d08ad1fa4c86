use std::fmt;
use std::time::Duration;

use rand::Rng;

use super::{Attempt, RetryPolicy};
use crate::classify::Verdict;

/// What follows from a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Wait that long, then try again.
    Retry(Duration),
    /// Give up.
    Stop(Stop),
}

/// Why a call ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stop {
    /// The last error was judged to be one that a retry cannot mend.
    Fatal,
    /// No attempts were left.
    Attempts,
    /// No time was left, or not enough for the delay.
    Deadline,
    /// The shared budget could not pay for a retry.
    Budget,
    /// The circuit breaker was open.
    Open,
    /// The peer asked us to wait longer than the policy allows.
    HintTooLong,
    /// No alternatives were left to [fall back](crate::fallback()) on.
    Alternatives,
    /// Part of the answer had already been handed over.
    Partial,
    /// The caller's token said stop.
    Cancelled,
}

impl Stop {
    /// A stable word for logs and metrics: `fatal`, `attempts`, `deadline`, `budget`, `open`, `hint_too_long`,
    /// `alternatives`, `partial`, `cancelled`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Attempts => "attempts",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Open => "open",
            Self::HintTooLong => "hint_too_long",
            Self::Alternatives => "alternatives",
            Self::Partial => "partial",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fatal => "the error is not one that a retry can mend",
            Self::Attempts => "no attempts left",
            Self::Deadline => "no time left",
            Self::Budget => "the retry budget is spent",
            Self::Open => "the circuit breaker is open",
            Self::HintTooLong => "the peer asked for a longer wait than the policy allows",
            Self::Alternatives => "no alternatives left",
            Self::Partial => "part of the answer had already been handed over",
            Self::Cancelled => "cancelled",
        })
    }
}

impl<C> RetryPolicy<C> {
    /// What follows from `failed`, an attempt judged as `verdict`; its `elapsed` and `remaining` are those at the
    /// moment of failure, its `delay` the one before it. The heart of every retry: pure and total.
    ///
    /// The first that applies:
    /// 1. [`Verdict::Fail`] stops as [`Stop::Fatal`];
    /// 2. the last attempt stops as [`Stop::Attempts`];
    /// 3. a hint above the hint cap stops as [`Stop::HintTooLong`];
    /// 4. a hint, or a delay, that does not leave time for another attempt stops as [`Stop::Deadline`];
    /// 5. else it retries after the backoff's delay, or after the hint where that is longer. On top of a hint jitter is
    ///    positive only: up to the backoff's un-jittered delay or a tenth of the hint, whichever is more,
    ///    squeezed to fit the deadline. A hint does not reset the backoff's growth.
    #[inline]
    pub fn decide<R: Rng + ?Sized>(&self, failed: Attempt, verdict: Verdict, rng: &mut R) -> Decision {
        let Verdict::Retry { after, .. } = verdict else {
            return Decision::Stop(Stop::Fatal);
        };
        if failed.number() >= self.attempts {
            return Decision::Stop(Stop::Attempts);
        }
        let retry = failed.number();
        let mut delay = self.backoff.delay(retry, failed.delay(), rng);
        if let Some(hint) = after.filter(|hint| !hint.is_zero()) {
            if hint > self.hint_cap {
                return Decision::Stop(Stop::HintTooLong);
            }
            let room = failed.remaining().unwrap_or(Duration::MAX);
            delay = delay.max(self.backoff.on_top(hint, retry, room, rng));
        }
        if failed.is_over_after(delay) {
            return Decision::Stop(Stop::Deadline);
        }
        Decision::Retry(delay)
    }
}
