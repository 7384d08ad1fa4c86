//! Cancellation of a call by a token of the caller.

pub(crate) mod cancel;

pub use self::cancel::Cancel;
pub(crate) use self::cancel::Never;
