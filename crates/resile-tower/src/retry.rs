//! Retries of the requests to a service.

mod future;
pub(crate) mod layer;
mod sending;
mod service;

pub use future::RetryFuture;
pub use service::Retry;
