//! Classification of errors, shared by all parts of a call.
//!
//! [`Classify`] itself is at the root of the crate.

pub(crate) mod classify;
mod over;
mod word;

pub use self::classify::{Always, ClassifyExt, CutIs, Opinion};
pub(crate) use self::classify::{CUT, Classify};
pub use self::over::Over;
pub use self::word::note_error_type;
pub use crate::verdict::Cut;
