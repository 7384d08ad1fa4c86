//! Retries: a call sends its request again until it succeeds or gives up.
//!
//! The guide has a chapter on [a first call](crate::guide::first_call).
//!
//! Retries help only against faults that pass. If an upstream is overloaded, retries add load, so
//! an [`Upstream`](crate::Upstream) shared by many callers needs a [`Budget`](crate::Budget).
//! Classify the errors of an operation with care if the operation is not idempotent, because an
//! error does not prove that nothing happened.

mod future;
mod operation;
pub(crate) mod retry;
pub(crate) mod run;

pub use future::Retry;
pub use operation::Operation;
