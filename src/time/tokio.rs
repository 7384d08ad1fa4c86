use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Instant;

use super::Timer;

/// The clock of tokio, including the paused clock of tokio's tests.
///
/// Reading the clock and parking work on any thread, but sleeping requires a tokio runtime with
/// time enabled. tokio rounds sleeps up to the next millisecond. On a thread without a runtime use
/// [`ThreadTimer`](crate::time::ThreadTimer) with
/// [`Upstream::with_timer`](crate::Upstream::with_timer).
///
/// # Panics
///
/// Sleeping panics on a thread without a tokio runtime. The message names the remedy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioTimer;

impl TokioTimer {
    /// Creates the timer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Timer for TokioTimer {
    /// The sleep is exempt from tokio's cooperative budget. An operation may use up this budget in
    /// every poll, and its own limit would then never be polled.
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

/// Sleeps until `at`. `None` is an instant beyond the range of the clock.
#[inline]
fn sleep_until(at: Option<Instant>) -> Unconstrained<tokio::time::Sleep> {
    assert!(
        Handle::try_current().is_ok(),
        "a delay or a timeout needs a tokio runtime, and this thread is in none: run the call in a \
         runtime, or give its upstream another clock, as in \
         `Upstream::new(\"…\").with_timer(ThreadTimer::new())`",
    );
    // Leaves room for tokio's own rounding.
    let at = at.filter(|at| at.checked_add(Duration::from_secs(1)).is_some());
    unconstrained(tokio::time::sleep_until(at.unwrap_or_else(far_future)))
}

/// The origin of the readings of [`TokioTimer`].
static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// Returns an origin as far in the past as the system allows, up to 136 years, because each paused
/// runtime has its own clock, which may be before an origin just set by another thread.
#[cold]
fn origin(now: Instant) -> Instant {
    (0..=32).rev().find_map(|bits| now.checked_sub(Duration::from_secs(1 << bits))).unwrap_or(now)
}

/// Returns tokio's own far future, which is 30 years from now.
#[cold]
fn far_future() -> Instant {
    Instant::now() + Duration::from_secs(30 * 365 * 86400)
}
