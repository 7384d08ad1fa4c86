use std::fmt;
use std::time::Duration;

use crate::time::Limit;

/// An error that reports a missed limit of a future or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    limit: Duration,
    missed: Missed,
}

/// The event that did not happen within the limit.
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
        let (missed, setter) = match self.missed {
            Missed::Finish => ("did not finish", ""),
            #[cfg(feature = "stream")]
            Missed::Item => ("no item", " (`idle_timeout`)"),
            #[cfg(feature = "stream")]
            Missed::FirstItem => ("no first item", " (`first_item_timeout`)"),
            #[cfg(feature = "stream")]
            Missed::Progress => ("no progress", " (`progress_timeout`)"),
        };
        write!(f, "{missed} within {}{setter}", Limit(self.limit))
    }
}

impl std::error::Error for Elapsed {}

/// Converts into an error of the kind [`TimedOut`](std::io::ErrorKind::TimedOut), so operations
/// with an `io::Result` can have a limit without further code.
impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}
