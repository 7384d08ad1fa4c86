//! The delay before a retry: curve × cap × jitter, in pure arithmetic.

mod backoff;
mod curve;
mod jitter;

pub use self::backoff::{Backoff, Schedule};
#[cfg(feature = "serde")]
pub(crate) use curve::Curve;
pub use jitter::Jitter;
