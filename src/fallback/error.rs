use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::policy::Stop;

/// Why no alternative answered: the reason, which were tried, and the last error.
///
/// `Display` prints this level only; the last error is the [`source`](Error::source).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer<E> {
    pub(super) stop: Stop,
    pub(super) tried: usize,
    pub(super) count: usize,
    pub(super) elapsed: Duration,
    pub(super) last: Option<E>,
}

impl<E> NoAnswer<E> {
    /// Why the call ended: [`Stop::Alternatives`] (there was none left), [`Stop::Fatal`] (the last error is the same
    /// everywhere), [`Stop::Deadline`] or [`Stop::Cancelled`].
    #[must_use]
    pub const fn stop(&self) -> Stop {
        self.stop
    }

    /// How many were begun, one that was cut short included: the first so many, as they are tried in order.
    #[must_use]
    pub const fn tried(&self) -> usize {
        self.tried
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// How long the call took; zero if there was no need to read the clock, as for
    /// [`Attempt::elapsed`](crate::Attempt::elapsed).
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The error of the last alternative that had one.
    #[must_use]
    pub const fn last(&self) -> Option<&E> {
        self.last.as_ref()
    }

    /// The error of the last alternative that had one, by value.
    #[must_use]
    pub fn into_last(self) -> Option<E> {
        self.last
    }
}

impl<E> fmt::Display for NoAnswer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "s" };
        write!(f, "no answer from {} of {} alternative{plural}", self.tried, self.count)?;
        if !self.elapsed.is_zero() {
            write!(f, " in {:.1?}", self.elapsed)?;
        }
        write!(f, ": {}", self.stop)
    }
}

impl<E: Error + 'static> Error for NoAnswer<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last.as_ref().map(|last| last as _)
    }
}
