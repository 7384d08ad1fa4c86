use std::fmt;
use std::time::Duration;

use crate::classify::Verdict;
use crate::observe::{CALLS, Figure, Line, Report};
use crate::policy::Stop;

/// What a [`fallback`](crate::fallback()) tells its observer. Alternatives are told by their index; the first is 0.
///
/// A call ends with exactly one `Answered` or `NoAnswer`, unless it is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a, E> {
    /// An alternative is tried. The first goes without saying where only trouble is of interest.
    #[non_exhaustive]
    Trying {
        /// Which.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// It failed. `Trying` the next or `NoAnswer` follows.
    #[non_exhaustive]
    Failed {
        /// Which.
        index: usize,
        /// How many there are.
        count: usize,
        /// Its error.
        error: &'a E,
        /// Whether that is worth the next one.
        verdict: Verdict,
        /// Time since the call began.
        elapsed: Duration,
    },
    /// One answered.
    #[non_exhaustive]
    Answered {
        /// Which.
        index: usize,
        /// How many there are.
        count: usize,
        /// How long the call took.
        elapsed: Duration,
    },
    /// None did.
    #[non_exhaustive]
    NoAnswer {
        /// Why.
        stop: Stop,
        /// How many were begun.
        tried: usize,
        /// How many there are.
        count: usize,
        /// How long the call took.
        elapsed: Duration,
        /// The last error, if any alternative came to one.
        last: Option<&'a E>,
    },
}

impl<E> fmt::Display for Event<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trying { index, count } => write!(f, "trying alternative {} of {count}", ordinal(*index)),
            Self::Failed { index, count, verdict, .. } => {
                write!(f, "alternative {} of {count} failed", ordinal(*index))?;
                f.write_str(if verdict.is_retry() { "" } else { ", as all would" })
            }
            Self::Answered { index, count, .. } => write!(f, "alternative {} of {count} answered", ordinal(*index)),
            Self::NoAnswer { stop, tried, count, .. } => {
                write!(f, "no answer from {tried} of {count} alternatives: {stop}")
            }
        }
    }
}

/// As people count.
const fn ordinal(index: usize) -> usize {
    index.saturating_add(1)
}

impl<E> Report for Event<'_, E> {
    #[inline]
    fn is_reported(&self) -> bool {
        !matches!(self, Self::Trying { .. } | Self::Answered { index: 0, .. })
    }

    fn report(&self) -> Line {
        let number = |n: usize| Some(u32::try_from(n).unwrap_or(u32::MAX));
        let line = |message, attempt, of| Line {
            message,
            attempt: number(attempt),
            attempts_allowed: number(of),
            ..Line::default()
        };
        match *self {
            Self::Trying { index, count } => line("trying an alternative", ordinal(index), count),
            Self::Failed { index, count, verdict, .. } => Line {
                warn: true,
                hint: verdict.after(),
                cause: verdict.cause(),
                ..line("alternative failed", ordinal(index), count)
            },
            Self::Answered { index, count, .. } => line("alternative answered", ordinal(index), count),
            Self::NoAnswer { stop, tried, count, .. } => {
                Line { warn: true, stop: Some(stop.as_str()), ..line("no alternative answered", tried, count) }
            }
        }
    }

    fn figures(&self, put: &mut dyn FnMut(Figure)) {
        let (outcome, ended) = match *self {
            Self::Trying { .. } => return,
            Self::Failed { .. } => ("failed", None),
            Self::Answered { index: 0, .. } => ("first", Some("ok")),
            Self::Answered { .. } => ("later", Some("ok")),
            Self::NoAnswer { stop, .. } => (stop.as_str(), Some(stop.as_str())),
        };
        let mut count = |name, value| put(Figure::Count { name, key: "outcome", value });
        count("resile_fallbacks_total", outcome);
        if let Some(ended) = ended {
            count(CALLS, ended);
        }
    }
}
