//! The delay before a retry: curve × cap × jitter, in pure arithmetic.
//!
//! [`Backoff`] and [`Jitter`] themselves are at the root of the crate.

pub(crate) mod backoff;
mod curve;
pub(crate) mod jitter;

pub(crate) use self::backoff::Backoff;
pub use self::backoff::Schedule;
#[cfg(feature = "serde")]
pub(crate) use curve::Curve;
pub(crate) use jitter::Jitter;
