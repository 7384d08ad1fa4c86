//! Published claims about retries, run as models: seeded, in virtual time, and driven by the crate's own types.
//!
//! A claim is a module with `measure`, which runs its models and returns figures, and `checks`, which compares them with
//! what was published: the bad outcome without the remedy as well as the good one with it, as a model that never
//! collapses proves nothing. The example prints and plots what `tests/claims` asserts.
//!
//! A [`Check`] takes the published figure with its tolerance ([`Published`]). It prints both, and accepts nothing else.
//! Where the figure differs and the outcome is the same, the row says `outcome only`, and why.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "statistics"
)]

pub(crate) mod bucket;
pub(crate) mod cap;
mod check;
pub(crate) mod collapse;
pub(crate) mod exact;
pub(crate) mod fleet;
pub(crate) mod hedge;
pub(crate) mod jitter;
mod sim;
pub(crate) mod storm;

pub(crate) use check::{Check, Published, Verdict};

/// How much of a claim is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Fewer seeds or shorter runs, and so wider tolerances, which are printed: seconds in a debug build.
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
