use std::sync::OnceLock;
use std::time::Duration;

use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Instant;

use super::Timer;

/// tokio's clock, the paused one of its tests included.
///
/// Reading it and parking on it work on any thread; sleeping needs a tokio runtime with time enabled. tokio
/// rounds sleeps up to the next millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioTimer;

impl TokioTimer {
    /// tokio's clock.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Timer for TokioTimer {
    /// Not held to the task's budget for one turn: an operation that uses it up in each poll would otherwise keep its
    /// own limit from ever being asked.
    type Sleep = Unconstrained<tokio::time::Sleep>;

    #[inline]
    fn now(&self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(*ORIGIN.get_or_init(|| origin(now)))
    }

    #[inline]
    fn sleep(&self, delay: Duration) -> Self::Sleep {
        sleep_until(Instant::now().checked_add(delay))
    }

    #[inline]
    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        let origin = *ORIGIN.get_or_init(|| origin(Instant::now()));
        sleep_until(origin.checked_add(at))
    }
}

/// `None` is later than the clock can tell.
#[inline]
fn sleep_until(at: Option<Instant>) -> Unconstrained<tokio::time::Sleep> {
    // With room for tokio's own rounding.
    let at = at.filter(|at| at.checked_add(Duration::from_secs(1)).is_some());
    unconstrained(tokio::time::sleep_until(at.unwrap_or_else(far)))
}

/// What readings of [`TokioTimer`] are counted from.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// Each paused runtime has a clock of its own, and one of them may stand before the origin that another thread has just
/// set: the origin lies as far back as the system lets it, by up to 136 years.
#[cold]
fn origin(now: Instant) -> Instant {
    (0..=32).rev().find_map(|bits| now.checked_sub(Duration::from_secs(1 << bits))).unwrap_or(now)
}

/// As far as tokio looks ahead.
#[cold]
fn far() -> Instant {
    Instant::now() + Duration::from_secs(30 * 365 * 86400)
}
