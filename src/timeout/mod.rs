//! A limit on the time that one future takes.
//!
//! Put it on each attempt, inside the closure of a retry, so that one that hangs leaves time for the next; the policy's
//! deadline is the limit of the whole call. A timeout says nothing of what the peer did: the work may have been done.

mod future;

pub use future::Timeout;

use std::fmt;
use std::time::Duration;

/// A future did not finish within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    limit: Duration,
}

impl Elapsed {
    /// The limit that ran out.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not finished within {:?}", self.limit)
    }
}

impl std::error::Error for Elapsed {}

/// Of the kind [`TimedOut`](std::io::ErrorKind::TimedOut), so that operations which return `io::Result` fit under a limit as
/// they are.
impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}
