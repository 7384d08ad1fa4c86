use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::classify::{Cause, Verdict};
use crate::observe::{ATTEMPTS, CALLS, Figure, Line, Report};
use crate::policy::{Attempt, Stop};

/// What a [`retry`](crate::retry()) or a [`Run`](crate::Run) tells its observer.
///
/// Each attempt that ends by itself has one event, `Failed` or `Succeeded`. A call ends with exactly one `Succeeded` or
/// `GaveUp`, unless it is dropped.
///
/// `Display` words an event for a person.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a, E> {
    /// An attempt failed. `Waiting` or `GaveUp` follows.
    #[non_exhaustive]
    Failed {
        /// The attempt, with the times at its failure.
        attempt: Attempt,
        /// How many attempts the policy allows.
        allowed: u32,
        /// Its error.
        error: &'a E,
        /// How it was judged.
        verdict: Verdict,
    },
    /// The next attempt will be made after a delay, which may be zero.
    #[non_exhaustive]
    Waiting {
        /// The attempt that failed, with the times at its failure.
        attempt: Attempt,
        /// How many attempts the policy allows.
        allowed: u32,
        /// The wait.
        delay: Duration,
        /// What the peer asked us to wait, if it said.
        hint: Option<Duration>,
        /// Why trying again may help.
        cause: Cause,
        /// When the wait is over, on the run's [`Timer`](crate::Timer); `None` if the clock was not read.
        resumes_at: Option<Duration>,
        /// Retries that the budget could still pay, if there is one.
        tokens: Option<u32>,
    },
    /// A cooldown holds the next attempt. Told for each wait: amid a release a call may wait for some turns.
    #[non_exhaustive]
    Held {
        /// The number of the attempt that is held.
        attempt: u32,
        /// How many attempts the policy allows.
        allowed: u32,
        /// For how long; then it asks again.
        delay: Duration,
    },
    /// The call is made within an attempt of another one: their attempts multiply. Told once, before its first attempt.
    #[non_exhaustive]
    Nested {
        /// Where the other call was made.
        outer: &'static Location<'static>,
        /// Where this one was made.
        inner: &'static Location<'static>,
    },
    /// The call succeeded; with more than one attempt, it recovered.
    #[non_exhaustive]
    Succeeded {
        /// How many attempts that took, the good one included.
        attempts: u32,
        /// How long that took.
        elapsed: Duration,
    },
    /// The call ended without success.
    #[non_exhaustive]
    GaveUp {
        /// Why.
        stop: Stop,
        /// How many attempts were begun.
        attempts: u32,
        /// How many attempts the policy allows.
        allowed: u32,
        /// How long that took.
        elapsed: Duration,
        /// The last error, if any attempt came to one.
        last: Option<&'a E>,
        /// The verdict on the last attempt, if that is why the call ended; `None` when an attempt, or the wait after
        /// it, was cut short.
        verdict: Option<Verdict>,
        /// What the peer asked us to wait, and we did not.
        retry_after: Option<Duration>,
        /// Retries that the budget could still pay, if there is one.
        tokens: Option<u32>,
    },
}

impl<E> fmt::Display for Event<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { attempt, allowed, verdict, .. } => {
                write!(f, "attempt {} of {allowed} failed", attempt.number())?;
                match verdict.cause() {
                    Some(cause) => write!(f, " ({cause})"),
                    None => f.write_str(" (permanent)"),
                }
            }
            Self::Waiting { attempt, allowed, delay, hint, .. } => {
                write!(f, "waiting {delay:.1?}")?;
                if let Some(hint) = hint {
                    write!(f, ", the peer asked for {hint:.1?}")?;
                }
                write!(f, ", then attempt {} of {allowed}", attempt.number().saturating_add(1))
            }
            Self::Held { attempt, allowed, delay } => {
                write!(f, "held by a cooldown for {delay:.1?}, then attempt {attempt} of {allowed}")
            }
            Self::Nested { outer, inner } => {
                write!(f, "the retry at {inner} runs within an attempt of the one at {outer}: their attempts multiply")
            }
            Self::Succeeded { attempts: 1, .. } => f.write_str("succeeded"),
            Self::Succeeded { attempts, .. } => write!(f, "recovered on attempt {attempts}"),
            Self::GaveUp { stop, attempts, allowed, .. } => {
                write!(f, "gave up after {attempts} of {allowed} attempts: {stop}")
            }
        }
    }
}

impl<E> Report for Event<'_, E> {
    #[inline]
    fn is_reported(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Succeeded { attempts: 1, .. })
    }

    fn report(&self) -> Line {
        match *self {
            Self::Failed { attempt, allowed, verdict, .. } => Line {
                message: "attempt failed",
                attempt: Some(attempt.number()),
                attempts_allowed: Some(allowed),
                hint: verdict.after(),
                cause: verdict.cause(),
                ..Line::default()
            },
            Self::Waiting { attempt, allowed, delay, hint, cause, .. } => Line {
                warn: true,
                message: "attempt failed, retrying",
                attempt: Some(attempt.number()),
                attempts_allowed: Some(allowed),
                delay: Some(delay),
                hint,
                cause: Some(cause),
                ..Line::default()
            },
            Self::Held { attempt, allowed, delay } => Line {
                message: "held by a cooldown",
                attempt: Some(attempt),
                attempts_allowed: Some(allowed),
                delay: Some(delay),
                ..Line::default()
            },
            Self::Nested { outer, inner } => Line {
                warn: true,
                message: "retries are nested: their attempts multiply",
                outer: Some(outer),
                inner: Some(inner),
                ..Line::default()
            },
            Self::Succeeded { attempts, .. } => Line {
                message: if attempts > 1 { "recovered" } else { "succeeded" },
                attempt: Some(attempts),
                ..Line::default()
            },
            Self::GaveUp { stop, attempts, allowed, verdict, retry_after, .. } => Line {
                warn: true,
                message: "gave up",
                attempt: Some(attempts),
                attempts_allowed: Some(allowed),
                hint: retry_after,
                cause: verdict.as_ref().and_then(Verdict::cause),
                stop: Some(stop.as_str()),
                ..Line::default()
            },
        }
    }

    fn figures(&self, put: &mut dyn FnMut(Figure)) {
        let mut count = |name, key, value| put(Figure::Count { name, key, value });
        match *self {
            Self::Failed { verdict, .. } => {
                let outcome = verdict.cause().map_or("permanent", |cause| cause.as_str());
                count(ATTEMPTS, "outcome", outcome);
            }
            Self::Waiting { cause, delay, tokens, .. } => {
                count("resile_retries_total", "cause", cause.as_str());
                put(Figure::Time { name: "resile_wait_seconds", value: delay });
                put_tokens(tokens, put);
            }
            Self::Held { delay, .. } => {
                count("resile_holds_total", "by", "cooldown");
                put(Figure::Time { name: "resile_wait_seconds", value: delay });
            }
            Self::Nested { .. } => count("resile_nested_total", "where", "attempt"),
            Self::Succeeded { .. } => {
                count(ATTEMPTS, "outcome", "ok");
                count(CALLS, "outcome", "ok");
            }
            Self::GaveUp { stop, tokens, .. } => {
                count(CALLS, "outcome", stop.as_str());
                put_tokens(tokens, put);
            }
        }
    }
}

fn put_tokens(tokens: Option<u32>, put: &mut dyn FnMut(Figure)) {
    if let Some(tokens) = tokens {
        put(Figure::Level { name: "resile_budget_tokens", value: f64::from(tokens) });
    }
}
