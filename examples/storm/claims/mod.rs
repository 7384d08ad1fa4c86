//! Published claims about retries, run as models: seeded, in virtual time, and driven by the crate's own types.
//!
//! A claim is a module with `measure`, which runs its models and returns figures, and `checks`, which holds them against
//! what was published: the bad outcome without the remedy as well as the good one with it, as a model that never
//! collapses proves nothing. The example prints and plots what `tests/claims` asserts.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "statistics")]

pub(crate) mod bucket;
pub(crate) mod cap;
pub(crate) mod collapse;
pub(crate) mod exact;
pub(crate) mod fleet;
pub(crate) mod hedge;
pub(crate) mod jitter;
mod sim;
pub(crate) mod storm;

use std::fmt::Display;
use std::ops::RangeBounds;

/// How much of a claim is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Fewer seeds or shorter runs, and so wider tolerances: seconds in a debug build.
    Quick,
    Full,
}

impl Size {
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Is told which share of a claim's models has run, from 0 to 1.
pub(crate) type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// One statement, and what the models say of it.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) what: String,
    /// The source's figure, or what follows from its arithmetic.
    pub(crate) published: String,
    pub(crate) measured: String,
    pub(crate) holds: bool,
}

impl Check {
    /// `measured`, printed with that many decimals and that unit, is to lie in `accepted`.
    pub(crate) fn new(
        what: impl Into<String>,
        published: impl Display,
        (measured, decimals, unit): (f64, usize, &str),
        accepted: impl RangeBounds<f64>,
    ) -> Self {
        Self {
            what: what.into(),
            published: published.to_string(),
            measured: format!("{measured:.decimals$}{unit}"),
            holds: accepted.contains(&measured),
        }
    }
}
