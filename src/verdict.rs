//! What a failure means: may the same request be sent again, how is the upstream, and when.

use std::fmt;
use std::time::Duration;

use crate::time::nanos;

/// The classification of a failed attempt. It answers three questions, and each part of the crate reads the answer that
/// it needs.
///
/// | question | read by | getter |
/// |---|---|---|
/// | May the same request be sent again? | retry, stream, hedge, fallback | [`is_again`](Self::is_again) |
/// | How is the upstream? | breaker, cooldown, metrics | [`health`](Self::health) |
/// | When may it be sent again? | retry, cooldown | [`hint`](Self::hint) |
///
/// The questions are independent. A `POST` that got a 500 must not be sent again, and the upstream is failing. A 404
/// must not be sent again, and the upstream is healthy.
///
/// # Examples
///
/// ```
/// use resile::{Health, Verdict};
/// use std::time::Duration;
///
/// const BUSY: Verdict = Verdict::throttled().after(Duration::from_secs(2));
/// assert_eq!((BUSY.is_again(), BUSY.health(), BUSY.hint()), (true, Health::Throttling, Some(Duration::from_secs(2))));
///
/// let booking_failed = Verdict::transient().not_again();
/// assert_eq!((booking_failed.is_again(), booking_failed.health()), (false, Health::Failing));
///
/// let not_found = Verdict::fatal().with_health(Health::Healthy);
/// assert_eq!((not_found.is_again(), not_found.health()), (false, Health::Healthy));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a verdict does nothing until it is returned"]
pub struct Verdict {
    /// In nanoseconds; `NO_HINT` is none.
    hint: u64,
    again: bool,
    health: Health,
}

const NO_HINT: u64 = u64::MAX;

/// How an upstream is, as far as one attempt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// It answered as it should. Refusing a bad request is such an answer.
    Healthy,
    /// It works, and asks for fewer requests.
    Throttling,
    /// It did not answer, or could not do what it should.
    Failing,
    /// The attempt shows nothing: the error is local, or nobody classified it.
    Unknown,
}

impl Health {
    /// Returns a stable word for logs and metrics: `healthy`, `throttling`, `failing`, `unknown`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Throttling => "throttling",
            Self::Failing => "failing",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Verdict {
    /// The request may be sent again, and the upstream is failing: a reset, a timeout, an internal error.
    pub const fn transient() -> Self {
        Self { hint: NO_HINT, again: true, health: Health::Failing }
    }

    /// The request may be sent again, and the upstream asks for fewer requests: a rate limit, an overload.
    pub const fn throttled() -> Self {
        Self { hint: NO_HINT, again: true, health: Health::Throttling }
    }

    /// The request must not be sent again. About the upstream it says nothing.
    pub const fn fatal() -> Self {
        Self { hint: NO_HINT, again: false, health: Health::Unknown }
    }

    /// Adds a hint: the request may be sent again no sooner than `wait` from now. Saturates at 584 years.
    pub const fn after(mut self, wait: Duration) -> Self {
        let hint = nanos(wait);
        self.hint = if hint == NO_HINT { NO_HINT - 1 } else { hint };
        self
    }

    /// Says that the request must not be sent again. The rest stays.
    pub const fn not_again(mut self) -> Self {
        self.again = false;
        self
    }

    /// Says how the upstream is. The rest stays.
    pub const fn with_health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Returns whether the same request may be sent again.
    #[must_use]
    pub const fn is_again(&self) -> bool {
        self.again
    }

    /// Returns how the upstream is.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health
    }

    /// Returns how long the upstream asked to wait, if it said.
    #[must_use]
    pub const fn hint(&self) -> Option<Duration> {
        match self.hint {
            NO_HINT => None,
            hint => Some(Duration::from_nanos(hint)),
        }
    }

    /// The same; `None` also for a hint of zero.
    #[inline]
    pub(crate) const fn hint_to_wait(&self) -> Option<Duration> {
        match self.hint {
            NO_HINT | 0 => None,
            hint => Some(Duration::from_nanos(hint)),
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("again", &self.again)
            .field("health", &self.health)
            .field("hint", &self.hint())
            .finish()
    }
}

/// What ended an attempt that came to no error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// The attempt did not finish within the policy's attempt timeout, which was this long.
    AttemptTimeout(Duration),
    /// The attempt was in flight when the call's total timeout ran out.
    Deadline,
    /// The stream ended without the item that should be its last.
    Stream,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AttemptTimeout(limit) => write!(f, "did not finish within {limit:?}"),
            Self::Deadline => f.write_str("did not finish before the deadline of the call"),
            Self::Stream => f.write_str("the stream ended before its last item"),
        }
    }
}
