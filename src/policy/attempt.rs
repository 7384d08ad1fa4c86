use std::fmt;
use std::time::Duration;

use crate::time::nanos;

/// An attempt, as its operation sees it: the number of the attempt and its times.
///
/// # Examples
///
/// An operation can tell the upstream for how long it waits:
///
/// ```
/// use resile::Attempt;
/// use std::time::Duration;
///
/// fn timeout_header(attempt: Attempt) -> Option<String> {
///     attempt.time_left().map(|left| left.as_millis().to_string())
/// }
///
/// let attempt = Attempt::new(2).with_remaining(Some(Duration::from_secs(9)));
/// assert_eq!(timeout_header(attempt).as_deref(), Some("9000"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    // Times are `u64` nanoseconds (up to 584 years), to keep the struct small: each attempt and
    // each failure builds one.
    elapsed: u64,
    delay: u64,
    /// `UNLIMITED` means no deadline.
    remaining: u64,
    /// The attempt timeout. `UNLIMITED` means none, and in events it is not set. For a stream it is what is left of
    /// the limit on the whole stream.
    limit: u64,
    /// True if the attempt opens a stream, whose other limits end with its first content.
    is_stream: bool,
}

const UNLIMITED: u64 = u64::MAX;

/// Caps a remaining time below `UNLIMITED`.
#[inline]
const fn limited(remaining: u64) -> u64 {
    if remaining == UNLIMITED { UNLIMITED - 1 } else { remaining }
}

/// Returns a time in nanoseconds as a duration. `UNLIMITED` is `None`.
const fn time(nanos: u64) -> Option<Duration> {
    match nanos {
        UNLIMITED => None,
        nanos => Some(Duration::from_nanos(nanos)),
    }
}

impl Attempt {
    /// Creates attempt `number` at the start of a call without a deadline.
    ///
    /// The first attempt is 1, and 0 means 1. Use this to call an operation or
    /// [`decide`](crate::RetryPolicy::decide) by hand.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        let number = if number == 0 { 1 } else { number };
        Self::of_call(number, 0, 0, UNLIMITED)
    }

    /// Creates an attempt of a call. Times are in nanoseconds. No deadline is `u64::MAX`.
    #[inline]
    pub(crate) const fn of_call(number: u32, elapsed: u64, delay: u64, remaining: u64) -> Self {
        Self { number, elapsed, delay, remaining, limit: UNLIMITED, is_stream: false }
    }

    /// Sets the attempt timeout in nanoseconds. None is `u64::MAX`.
    #[inline]
    pub(crate) const fn limited_to(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Returns the attempt as one that opens a stream. `whole` is the limit on the whole stream in nanoseconds, and
    /// none is `u64::MAX`.
    #[cfg(feature = "stream")]
    pub(crate) const fn of_stream(self, whole: u64) -> Self {
        let left = if whole == UNLIMITED { whole } else { whole.saturating_sub(self.elapsed) };
        Self { limit: left, is_stream: true, ..self }
    }

    /// Sets the time since the start of the call. It saturates at 584 years.
    #[must_use]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = nanos(elapsed);
        self
    }

    /// Sets the delay before the attempt. It saturates at 584 years.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = nanos(delay);
        self
    }

    /// Sets the time left until the deadline. It saturates at 584 years. `None` means no deadline.
    #[must_use]
    pub const fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.remaining = match remaining {
            Some(remaining) => limited(nanos(remaining)),
            None => UNLIMITED,
        };
        self
    }

    /// Returns the number of the attempt. The first attempt is 1, the first retry is 2.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether this is the first attempt of the call.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.number == 1
    }

    /// Returns the time from the start of the call to the start of this attempt.
    ///
    /// In an event it is the time to the event. If the call has no deadline and no observer wants
    /// all events, the clock starts only when the call first waits, so earlier work does not count.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed)
    }

    /// Returns the delay before this attempt. It is zero before the first.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay)
    }

    /// Returns the time left until the deadline of the whole call. `None` without a deadline.
    ///
    /// The attempt itself may end earlier: see [`time_left`](Self::time_left).
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        time(self.remaining)
    }

    /// Returns the time left for this attempt at its start: the attempt timeout, or the time until
    /// the deadline of the call if that is shorter. `None` without both.
    ///
    /// Send it to the upstream, because nobody waits for an answer after this time. A [learned
    /// attempt timeout](crate::RetryPolicy::with_learned_attempt_timeout) may cut the attempt
    /// earlier. In an event the attempt timeout is not counted.
    ///
    /// An attempt of `retry_stream` has no such end: both timeouts apply until its first content, and an upstream
    /// that is told of them would end a stream that flows. So for a stream this is what is left of its
    /// `with_whole_timeout` or of its own `shortened_to`, and `None` without such a limit.
    #[must_use]
    pub const fn time_left(&self) -> Option<Duration> {
        let is_shorter = self.is_stream || self.limit < self.remaining;
        time(if is_shorter { self.limit } else { self.remaining })
    }

    /// Returns whether a wait of `delay` leaves no time for another attempt.
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
            .field("limit", &time(self.limit))
            .field("stream", &self.is_stream)
            .finish()
    }
}
