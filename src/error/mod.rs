//! The error of a call, its forms for `?` and what a program may conclude of it.
//!
//! [`GaveUp`] itself is at the root of the crate.

mod conclusion;
mod explain;
mod facts;
mod flatten;
pub(crate) mod gave_up;
pub(crate) mod inherited;
mod last_attempt;
mod replaced;
mod sentence;
mod source;
pub(crate) mod waits;
pub(crate) mod within;

pub use conclusion::Conclusion;
pub(crate) use facts::Facts;
pub(crate) use gave_up::{GaveUp, Inner};
pub(crate) use last_attempt::{Dropped, LastAttempt};
pub use source::{Boxed, Source};
