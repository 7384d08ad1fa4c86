//! A limit on the time that one future takes.
//!
//! Put it on each attempt, inside the closure of a retry, so that one that hangs leaves time for the next; the policy's
//! deadline is the limit of the whole call. A timeout says nothing of what the peer did: the work may have been done.
//!
//! The limit is a [`Duration`], or an [`Adaptive`] one that follows what was lately usual.

mod adaptive;
mod future;
mod latencies;
mod limit;

pub use adaptive::Adaptive;
pub use future::Timeout;
pub use limit::Limit;

use std::fmt;
use std::time::Duration;

/// Something did not come within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    limit: Duration,
    missed: Missed,
}

/// What did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Missed {
    Finish,
    #[cfg(feature = "stream")]
    Item,
    #[cfg(feature = "stream")]
    FirstItem,
    #[cfg(feature = "stream")]
    Progress,
}

impl Elapsed {
    pub(crate) const fn finish(limit: Duration) -> Self {
        Self { limit, missed: Missed::Finish }
    }

    #[cfg(feature = "stream")]
    pub(crate) const fn item(limit: Duration) -> Self {
        Self { limit, missed: Missed::Item }
    }

    #[cfg(feature = "stream")]
    pub(crate) const fn first_item(limit: Duration) -> Self {
        Self { limit, missed: Missed::FirstItem }
    }

    #[cfg(feature = "stream")]
    pub(crate) const fn progress(limit: Duration) -> Self {
        Self { limit, missed: Missed::Progress }
    }

    /// The limit that ran out.
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
