//! The error of a call, and its forms for `?`.
//!
//! [`GaveUp`] itself is at the root of the crate.

mod explain;
pub(crate) mod gave_up;
mod sentence;
mod source;
pub(crate) mod waits;
pub(crate) mod within;

pub(crate) use gave_up::{ErrorOf, Facts, GaveUp, Inner};
pub use source::{Boxed, Source};
