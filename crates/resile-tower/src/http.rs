//! The judge of the answers of HTTP, and bodies that are kept for a replay.

mod body;
pub(crate) mod judge;
mod kept;
mod layer;
pub(crate) mod place;
mod previous;
mod shared;

pub use body::{BodyError, KeptBody};
pub use judge::{Http, HttpRule};
#[cfg(feature = "tonic-0_14")]
pub(crate) use kept::Keeping;
pub use kept::Kept;
