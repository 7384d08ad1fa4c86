//! Cancellation of a call by a token of the caller.
//!
//! [`Never`] and [`Drain`](crate::Drain) are at the root of the crate.

pub(crate) mod cancel;

pub use self::cancel::Cancel;
pub(crate) use self::cancel::Never;
