//! Whose clock: every wait and every reading of time goes through a [`Timer`].

mod manual;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "tokio")]
pub use self::tokio::TokioTimer;
pub use manual::{ManualSleep, ManualTimer};

use std::sync::Arc;
use std::time::Duration;

/// A monotonic clock that can be waited on.
///
/// Time is the [`Duration`] since an origin of the timer's own choosing, so that it saturates instead of panicking
/// and works where `std::time::Instant` does not. Two timers' readings do not compare.
///
/// # Examples
///
/// A timer for another runtime is a dozen lines; this one wraps a made-up `sleep_for`:
///
/// ```
/// # use std::{future::Future, pin::Pin, time::{Duration, Instant}};
/// # fn sleep_for(_: Duration) -> std::future::Ready<()> { std::future::ready(()) }
/// struct OtherRuntime { origin: Instant }
///
/// impl resile::Timer for OtherRuntime {
///     type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
///
///     fn now(&self) -> Duration {
///         self.origin.elapsed()
///     }
///
///     fn sleep(&self, delay: Duration) -> Self::Sleep {
///         Box::pin(sleep_for(delay))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no clock to wait on",
    note = "without the feature `tokio` there is no default timer: go `.on(&upstream)`, with an `Upstream` that has `.with_timer(…)`"
)]
pub trait Timer {
    /// What [`sleep`](Timer::sleep) returns.
    type Sleep: Future<Output = ()>;

    /// Time since the timer's origin. Never goes back.
    fn now(&self) -> Duration;

    /// Completes once `delay` has passed since this call; never earlier. Must take any `delay`, up to
    /// [`Duration::MAX`], without panicking.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Completes once the timer reads `at`; never earlier, and at once or soon where it already does. Worth writing for
    /// timers that can do it without reading the clock.
    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        self.sleep(at.saturating_sub(self.now()))
    }

    /// Blocks the thread for at most `limit`, or until it is unparked: how [`Run::blocking_next`] waits.
    /// Waking early is allowed.
    ///
    /// [`Run::blocking_next`]: crate::Run::blocking_next
    fn park(&self, limit: Duration) {
        std::thread::park_timeout(limit);
    }
}

impl<M: Timer + ?Sized> Timer for &M {
    type Sleep = M::Sleep;

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        (**self).sleep(delay)
    }

    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        (**self).sleep_until(at)
    }

    fn park(&self, limit: Duration) {
        (**self).park(limit);
    }
}

impl<M: Timer + ?Sized> Timer for Arc<M> {
    type Sleep = M::Sleep;

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        (**self).sleep(delay)
    }

    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        (**self).sleep_until(at)
    }

    fn park(&self, limit: Duration) {
        (**self).park(limit);
    }
}

/// No timer: the default without the feature `tokio`. A call cannot be awaited before it is
/// [on an upstream](crate::Retry::on) that [has one](crate::Upstream::with_timer), and the compiler says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTimer;

/// The timer of an upstream that is given no other: [`TokioTimer`] with the feature `tokio`, otherwise [`NoTimer`].
#[cfg(feature = "tokio")]
pub type DefaultTimer = TokioTimer;
/// The timer of an upstream that is given no other: `TokioTimer` with the feature `tokio`, otherwise [`NoTimer`].
#[cfg(not(feature = "tokio"))]
pub type DefaultTimer = NoTimer;

/// The value of [`DefaultTimer`].
pub(crate) const DEFAULT_TIMER: DefaultTimer = {
    #[cfg(feature = "tokio")]
    {
        TokioTimer
    }
    #[cfg(not(feature = "tokio"))]
    {
        NoTimer
    }
};

/// In nanoseconds, which last for 584 years: for a reading or a delay that is kept in an atomic.
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(1_000_000_000) {
        Some(nanos) => nanos.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}
