//! Requests to a service as single attempts on an upstream.

mod future;
pub(crate) mod layer;
mod service;

pub use future::ThroughFuture;
pub use service::Through;
