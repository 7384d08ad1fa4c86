use std::time::Duration;

/// What an operation is told of the attempt that it makes.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    elapsed: Duration,
    delay: Duration,
    remaining: Option<Duration>,
}

impl Attempt {
    /// The attempt of that number (the first is 1; 0 means 1), at the start of a call without a deadline. For calling
    /// an operation, or [`decide`](crate::RetryPolicy::decide), by hand.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        let number = if number == 0 { 1 } else { number };
        Self { number, elapsed: Duration::ZERO, delay: Duration::ZERO, remaining: None }
    }

    /// The same with that much time since the call began.
    #[must_use]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The same after that delay.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same with that much time left.
    #[must_use]
    pub const fn with_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.remaining = remaining;
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
        self.elapsed
    }

    /// The delay before this attempt; zero before the first.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Time left until the deadline of the whole call; `None` without one.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}
