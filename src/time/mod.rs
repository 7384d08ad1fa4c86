//! Whose clock: every wait and every reading of time goes through a [`Timer`].

mod manual;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "tokio")]
pub use self::tokio::TokioTimer;
pub use manual::{ManualSleep, ManualTimer};

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
    note = "without the feature `tokio` there is no default timer: give one with `.with_timer(…)`"
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

    /// Blocks the thread for at most `limit`, or until it is unparked: how [`Run::blocking_again`] waits.
    /// Waking early is allowed.
    ///
    /// [`Run::blocking_again`]: crate::Run::blocking_again
    fn park(&self, limit: Duration) {
        std::thread::park_timeout(limit);
    }

    /// Whether this is tokio's clock: then what one part of a call read, another need not read again. Only this crate
    /// can say so.
    #[doc(hidden)]
    #[inline]
    fn is_tokio(&self, _: Asked) -> bool {
        false
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

    #[inline]
    fn is_tokio(&self, asked: Asked) -> bool {
        (**self).is_tokio(asked)
    }
}

/// What may stand where a timer goes: any [`Timer`], or [`NoTimer`], the empty place that
/// `with_timer` fills. Nobody needs to implement it.
pub trait TimerSlot: sealed::Sealed {
    /// What the place must hold while waiting.
    type Sleep;

    /// The time, if there is a timer to ask.
    #[doc(hidden)]
    fn reading(&self) -> Option<Duration>;
}

impl<M: Timer> TimerSlot for M {
    type Sleep = M::Sleep;

    fn reading(&self) -> Option<Duration> {
        Some(self.now())
    }
}

pub(crate) use sealed::Asked;

mod sealed {
    /// What nobody outside can name.
    #[derive(Clone, Copy, Debug)]
    pub struct Asked;

    pub trait Sealed {}
    impl<M: super::Timer> Sealed for M {}
    impl Sealed for super::NoTimer {}
}

/// No timer yet: the default without the feature `tokio`. What holds it cannot be awaited before
/// `with_timer` has given it one, and the compiler says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTimer;

impl TimerSlot for NoTimer {
    type Sleep = std::convert::Infallible;

    fn reading(&self) -> Option<Duration> {
        None
    }
}

/// The timer that is used when nobody gave one: [`TokioTimer`] with the feature `tokio`, otherwise [`NoTimer`].
#[cfg(feature = "tokio")]
pub type DefaultTimer = TokioTimer;
/// The timer that is used when nobody gave one: `TokioTimer` with the feature `tokio`, otherwise [`NoTimer`].
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
