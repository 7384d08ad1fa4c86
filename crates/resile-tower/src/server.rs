//! The answers of a server to the requests that it refuses.

mod future;
mod layer;
mod refusal;

pub use future::RefusalFuture;
pub use layer::{RefusalLayer, Refusals};
pub use refusal::Refusal;
