use std::fmt;
use std::time::Duration;

use crate::classify::Verdict;
use crate::observe::{ATTEMPTS, CALLS, Figure, Line, Report};
use crate::policy::{Attempt, Stop};

/// What a [`hedge`](crate::hedge()) tells its observer.
///
/// A call ends with exactly one `Won` or `GaveUp`, unless it is dropped. What it says of attempts counts the first
/// as 1.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a, E> {
    /// A hedge starts.
    #[non_exhaustive]
    Started {
        /// The hedge, with the times at its start.
        attempt: Attempt,
    },
    /// The budget could not pay for a hedge. The call goes on without it.
    #[non_exhaustive]
    Denied {
        /// How many attempts are in flight or have failed.
        attempts: u32,
    },
    /// An attempt failed.
    #[non_exhaustive]
    Failed {
        /// Which.
        attempt: u32,
        /// Its error.
        error: &'a E,
        /// How it was judged.
        verdict: Verdict,
    },
    /// An attempt succeeded, and with it the call.
    #[non_exhaustive]
    Won {
        /// Which.
        attempt: u32,
        /// How many were begun.
        attempts: u32,
        /// How long the call took; zero if it never had to be waited for.
        elapsed: Duration,
    },
    /// An attempt was dropped in flight as another was accepted.
    #[non_exhaustive]
    Lost {
        /// Which.
        attempt: u32,
    },
    /// The call ended without success.
    #[non_exhaustive]
    GaveUp {
        /// Why.
        stop: Stop,
        /// How many attempts were begun.
        attempts: u32,
        /// How long that took; zero if it never had to be waited for.
        elapsed: Duration,
        /// The last error, if any attempt came to one.
        last: Option<&'a E>,
        /// What the peer asked us to wait.
        retry_after: Option<Duration>,
    },
}

impl<E> fmt::Display for Event<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { attempt } => {
                write!(f, "attempt {} starts after {:.1?}", attempt.number(), attempt.delay())
            }
            Self::Denied { .. } => f.write_str("the budget is spent, no hedge"),
            Self::Failed { attempt, .. } => write!(f, "attempt {attempt} failed"),
            Self::Won { attempt, attempts, .. } => write!(f, "attempt {attempt} of {attempts} won"),
            Self::Lost { attempt } => write!(f, "attempt {attempt} lost"),
            Self::GaveUp { stop, attempts, .. } => write!(f, "gave up after {attempts} attempts: {stop}"),
        }
    }
}

impl<E> Report for Event<'_, E> {
    fn is_reported(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Lost { .. } | Self::Won { attempts: 1, .. })
    }

    fn report(&self) -> Line {
        let line = Line::default();
        match *self {
            Self::Started { attempt } => {
                Line { message: "slow, hedging", attempt: Some(attempt.number()), delay: Some(attempt.delay()), ..line }
            }
            Self::Denied { attempts } => Line { message: "no budget for a hedge", attempt: Some(attempts), ..line },
            Self::Failed { attempt, verdict, .. } => Line {
                message: "attempt failed",
                attempt: Some(attempt),
                cause: verdict.cause(),
                hint: verdict.after(),
                ..line
            },
            Self::Won { attempt, .. } => Line { message: "won", attempt: Some(attempt), ..line },
            Self::Lost { attempt } => Line { message: "lost", attempt: Some(attempt), ..line },
            Self::GaveUp { stop, attempts, retry_after, .. } => Line {
                warn: true,
                message: "gave up",
                attempt: Some(attempts),
                hint: retry_after,
                stop: Some(stop.as_str()),
                ..line
            },
        }
    }

    fn figures(&self, put: &mut dyn FnMut(Figure)) {
        let mut count = |name, key, value| put(Figure::Count { name, key, value });
        match *self {
            Self::Started { .. } => count("resile_hedges_total", "event", "started"),
            Self::Denied { .. } => count("resile_hedges_total", "event", "denied"),
            Self::Failed { verdict, .. } => {
                let outcome = verdict.cause().map_or("permanent", |cause| cause.as_str());
                count(ATTEMPTS, "outcome", outcome);
            }
            Self::Won { attempt, .. } => {
                if attempt > 1 {
                    count("resile_hedges_total", "event", "won");
                }
                count(ATTEMPTS, "outcome", "ok");
                count(CALLS, "outcome", "ok");
            }
            Self::Lost { attempt: 1 } => {}
            Self::Lost { .. } => count("resile_hedges_total", "event", "lost"),
            Self::GaveUp { stop, .. } => count(CALLS, "outcome", stop.as_str()),
        }
    }
}
