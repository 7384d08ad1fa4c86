//! The error of a call, and its forms for `?`.

mod explain;
pub(crate) mod gave_up;
pub(crate) mod within;

pub use gave_up::{Boxed, Source};
pub(crate) use gave_up::{Facts, GaveUp, Inner};
