//! A limit on the time that one future takes.
//!
//! The attempts of a retry have their own: [`RetryPolicy::with_attempt_timeout`](crate::RetryPolicy::with_attempt_timeout).
//! This one is for single futures. A timeout says nothing of what the upstream did: the work may have been done.

mod future;

pub use future::Timeout;

use std::fmt;
use std::time::Duration;

/// A future or an item did not come within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    limit: Duration,
    missed: Missed,
}

/// What did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Missed {
    Finish,
    #[cfg(feature = "stream")]
    Item,
    #[cfg(feature = "stream")]
    FirstItem,
    #[cfg(feature = "stream")]
    Progress,
}

impl Elapsed {
    pub(crate) const fn new(limit: Duration, missed: Missed) -> Self {
        Self { limit, missed }
    }

    /// Returns the limit that ran out.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missed = match self.missed {
            Missed::Finish => "not finished",
            #[cfg(feature = "stream")]
            Missed::Item => "no item",
            #[cfg(feature = "stream")]
            Missed::FirstItem => "no first item",
            #[cfg(feature = "stream")]
            Missed::Progress => "no progress",
        };
        write!(f, "{missed} within {:?}", self.limit)
    }
}

impl std::error::Error for Elapsed {}

/// Of the kind [`TimedOut`](std::io::ErrorKind::TimedOut), so that operations which return `io::Result` fit under a
/// limit as they are.
impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}
