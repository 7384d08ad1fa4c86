//! Published claims about retries and quotas as models. The models are seeded, run in virtual time,
//! and use the types of the crate.
//!
//! Each claim is a module. Its `measure` runs the models and returns figures, and its `checks`
//! compares these figures with the published ones. A claim checks the bad outcome without the
//! remedy and the good one with the remedy, as a model without collapses proves nothing. The
//! program prints and plots the same rows that the tests assert.
//!
//! A [`Check`] takes the published figure with its tolerance ([`Published`]). It prints both and
//! accepts nothing else. If the figure differs and the conclusion still holds, the row says
//! `outcome only` and gives the reason.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "statistics"
)]

mod account;
pub mod bedrock;
pub mod bucket;
pub mod cap;
mod check;
pub mod collapse;
pub mod crowd;
pub mod exact;
pub mod fleet;
pub mod freeze;
pub mod gate;
pub mod hedge;
mod hidden;
pub mod jitter;
pub mod limit;
pub mod moving;
pub mod neighbour;
pub mod pairs;
pub mod partition;
mod peers;
pub mod priority;
pub mod quota;
pub mod ramp;
mod shock;
pub mod sim;
pub mod slots;
pub mod storm;
pub mod throttle;
mod ways;

pub use check::{Check, Published, Verdict};

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Fewer seeds or shorter runs, with wider tolerances in print. It takes seconds in a debug
    /// build.
    Quick,
    /// All seeds and whole runs.
    Full,
}

impl Size {
    /// Returns the value for this size.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// A function that receives the finished share of the models of a claim, from 0 to 1.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);
