//! A limit on the time that one future takes.
//!
//! The [guide](crate::guide) has a chapter on timeouts and deadlines.
//!
//! This limit is for single futures. For the attempts of a retry use
//! [`RetryPolicy::with_attempt_timeout`](crate::RetryPolicy::with_attempt_timeout). A timeout shows
//! nothing about the upstream's work, which may have been done.

mod elapsed;
mod error;
mod future;

pub use elapsed::Elapsed;
pub(crate) use elapsed::Missed;
pub use error::{ClassifyOperation, Error};
pub use future::Timeout;
