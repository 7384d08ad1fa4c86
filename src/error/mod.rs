//! The error of a call, and its forms for `?`.
//!
//! [`GaveUp`] itself is at the root of the crate.

mod explain;
mod facts;
mod flatten;
pub(crate) mod gave_up;
mod last_attempt;
mod replaced;
mod sentence;
mod source;
pub(crate) mod waits;
pub(crate) mod within;

pub(crate) use facts::Facts;
pub(crate) use gave_up::{GaveUp, Inner};
pub(crate) use last_attempt::{Dropped, LastAttempt};
pub use source::{Boxed, Source};
