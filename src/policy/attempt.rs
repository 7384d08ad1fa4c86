use std::fmt;
use std::time::Duration;

use crate::time::nanos;

/// The attempt that an operation makes.
///
/// # Examples
///
/// An operation that sends its own deadline along:
///
/// ```
/// use resile::Attempt;
/// use std::time::Duration;
///
/// fn timeout_header(attempt: Attempt) -> Option<String> {
///     attempt.remaining().map(|left| left.as_millis().to_string())
/// }
///
/// let attempt = Attempt::new(2).with_remaining(Some(Duration::from_secs(9)));
/// assert_eq!(timeout_header(attempt).as_deref(), Some("9000"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    // All in nanoseconds, 584 years' worth: it is made anew for each attempt and each failure.
    elapsed: u64,
    delay: u64,
    /// `UNLIMITED` without a deadline.
    remaining: u64,
}

const UNLIMITED: u64 = u64::MAX;

/// What is left of a deadline is never `UNLIMITED`.
#[inline]
const fn limited(remaining: u64) -> u64 {
    if remaining == UNLIMITED { UNLIMITED - 1 } else { remaining }
}

impl Attempt {
    /// The attempt of that number (the first is 1; 0 means 1), at the start of a call without a deadline. For calling
    /// an operation, or [`decide`](crate::RetryPolicy::decide), by hand.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        let number = if number == 0 { 1 } else { number };
        Self { number, elapsed: 0, delay: 0, remaining: UNLIMITED }
    }

    /// The same from what a call knows, in nanoseconds. `u64::MAX` remains without a deadline.
    #[inline]
    pub(crate) const fn of_call(number: u32, elapsed: u64, delay: u64, remaining: u64) -> Self {
        Self { number, elapsed, delay, remaining }
    }

    /// The same with that much time since the call began, at most 584 years.
    #[must_use]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = nanos(elapsed);
        self
    }

    /// The same after that delay, at most 584 years.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = nanos(delay);
        self
    }

    /// The same with that much time left, at most 584 years.
    #[must_use]
    pub const fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.remaining = match remaining {
            Some(remaining) => limited(nanos(remaining)),
            None => UNLIMITED,
        };
        self
    }

    /// 1 for the first, 2 for the first retry, …
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Whether this is the first attempt, so not a retry.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.number == 1
    }

    /// Time from the start of the call to the start of this attempt (in an event: to the event).
    ///
    /// Without a deadline, and without an observer that reads times, the clock is not read before the call
    /// first has to wait, so what an operation did before its first wait does not count.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed)
    }

    /// The same in nanoseconds.
    #[inline]
    pub(crate) const fn elapsed_nanos(&self) -> u64 {
        self.elapsed
    }

    /// The delay before this attempt; zero before the first.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay)
    }

    /// Time left until the deadline of the whole call; `None` without one.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        match self.remaining {
            UNLIMITED => None,
            remaining => Some(Duration::from_nanos(remaining)),
        }
    }

    /// Whether a delay of that length leaves no time for another attempt.
    #[inline]
    pub(crate) const fn is_over_after(&self, delay: Duration) -> bool {
        self.remaining != UNLIMITED && nanos(delay) >= self.remaining
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number)
            .field("elapsed", &self.elapsed())
            .field("delay", &self.delay())
            .field("remaining", &self.remaining())
            .finish()
    }
}
