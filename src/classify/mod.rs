//! Classification of errors, shared by all parts of a call.

pub(crate) mod classify;

pub use self::classify::{Always, ClassifyExt, CutIs, Opinion, Over};
pub(crate) use self::classify::{CUT, Classify};
pub use crate::verdict::Cut;
