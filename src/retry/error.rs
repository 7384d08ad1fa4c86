use std::error::Error;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::policy::Stop;
use crate::time::nanos;

/// Why a call was given up: the reason, what was spent on it, and the last error of the operation.
///
/// `Display` prints this level only; the last error is the [`source`](Error::source). For error types that are
/// not `std::error::Error` themselves (`anyhow::Error`, `Box<dyn Error>`) take [`into_last`](Self::into_last).
#[derive(Clone, PartialEq, Eq)]
pub struct GaveUp<E> {
    stop: Stop,
    attempts: u32,
    // Both in nanoseconds, 584 years' worth: what every call returns is moved about, so it is kept small.
    elapsed: u64,
    retry_after: Option<NonZeroU64>,
    last: Option<E>,
}

impl<E> GaveUp<E> {
    pub(crate) fn new(
        stop: Stop,
        attempts: u32,
        elapsed: Duration,
        retry_after: Option<Duration>,
        last: Option<E>,
    ) -> Self {
        let retry_after = retry_after.and_then(|after| NonZeroU64::new(nanos(after)));
        Self { stop, attempts, elapsed: nanos(elapsed), retry_after, last }
    }

    /// Why the call ended.
    #[must_use]
    pub const fn stop(&self) -> Stop {
        self.stop
    }

    /// How many attempts were begun, one that was cut short included; 0 where the token was cancelled from the start.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the call took, to the nanosecond and no more than 584 years. As exact as
    /// [`Attempt::elapsed`](crate::Attempt::elapsed).
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed)
    }

    /// The error of the last attempt that had one. `None` when the only attempt was cut short, or none was begun.
    #[must_use]
    pub const fn last(&self) -> Option<&E> {
        self.last.as_ref()
    }

    /// The error of the last attempt that had one, by value.
    #[must_use]
    pub fn into_last(self) -> Option<E> {
        self.last
    }

    /// How long it is worth waiting before the next call, counted from the end of this one and no more than 584 years,
    /// where it is known and was not waited out:
    /// * what the peer asked for with the last error: it was more than the hint cap or the deadline allowed, no attempt
    ///   or budget was left for afterwards, or the token was cancelled by then. A call that is cancelled later, in the
    ///   wait itself, does not say how much of it was left;
    /// * with [`Stop::Open`], when the breaker will let calls through;
    /// * with [`Stop::Deadline`], how long a cooldown holds the next attempt, where that did not fit.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after {
            Some(after) => Some(Duration::from_nanos(after.get())),
            None => None,
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GaveUp")
            .field("stop", &self.stop)
            .field("attempts", &self.attempts)
            .field("elapsed", &self.elapsed())
            .field("retry_after", &self.retry_after())
            .field("last", &self.last)
            .finish()
    }
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {} attempt{plural}", self.attempts)?;
        if self.elapsed > 0 {
            write!(f, " in {:.1?}", self.elapsed())?;
        }
        write!(f, ": {}", self.stop)?;
        if let Some(after) = self.retry_after() {
            write!(f, " (worth trying again in {after:.1?})")?;
        }
        Ok(())
    }
}

impl<E: Error + 'static> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last.as_ref().map(|last| last as _)
    }
}
