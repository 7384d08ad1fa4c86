use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// A monotonic clock with sleeps, and the source of random numbers.
///
/// A reading is the [`Duration`] since an origin chosen by the timer. Readings therefore saturate
/// instead of panicking, and they also work on targets without `std::time::Instant`. Readings of
/// two timers cannot be compared.
///
/// Every random number of a call comes from the timer of its upstream: the jitter of a delay, the
/// release of a cooldown, the pause of a breaker. A call without an upstream has the default timer.
/// [`Upstream::with_seed`](crate::Upstream::with_seed) makes the numbers the same in each run.
///
/// # Examples
///
/// A timer for another runtime takes a dozen lines. This timer wraps a made-up `sleep_for`:
///
/// ```
/// # use std::{future::Future, pin::Pin, time::{Duration, Instant}};
/// # fn sleep_for(_: Duration) -> std::future::Ready<()> { std::future::ready(()) }
/// struct OtherRuntime { origin: Instant }
///
/// impl resile::time::Timer for OtherRuntime {
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
    message = "`{Self}` is not a timer: implement `resile::time::Timer` for it",
    note = "without the feature `tokio` (on wasm32-unknown-unknown: `browser`) there is no default timer: call `.on(&upstream)` with an `Upstream` that has `.with_timer(…)`"
)]
pub trait Timer {
    /// The future returned by [`sleep`](Timer::sleep).
    type Sleep: Future<Output = ()>;

    /// Returns the time since the timer's origin. The reading never decreases.
    fn now(&self) -> Duration;

    /// Returns a future that completes once `delay` has passed since this call, never earlier. Must
    /// accept any `delay` up to [`Duration::MAX`] without panicking.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Returns a future that completes once the timer reads `at`, never earlier. If the reading is
    /// already past `at`, the future completes at once or soon. Override the default if the timer
    /// can do so without reading the clock.
    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        self.sleep(at.saturating_sub(self.now()))
    }

    /// Blocks the thread for at most `limit` or until it is unparked. It may return early.
    /// [`Run::blocking_next`](crate::Run::blocking_next) waits with this method.
    ///
    /// The default parks the thread. On wasm32-unknown-unknown it returns at once, so a wait keeps
    /// the thread busy. Override it there if the host can block.
    fn park(&self, limit: Duration) {
        if cfg!(all(target_os = "wasi", not(target_feature = "atomics"))) {
            std::thread::sleep(limit); // no other thread could unpark this one
        } else {
            std::thread::park_timeout(limit);
        }
    }

    /// Returns 64 random bits. The default draws from the generator of the thread, which the
    /// operating system has seeded.
    ///
    /// Override it to draw from elsewhere. The crate calls it when it computes a delay, and never
    /// in a call that succeeds at once. Two constants are useful in tests: 0 makes each draw the
    /// lowest number of its range, and [`u64::MAX`] the highest one.
    fn draw(&self) -> u64 {
        super::rng::from_thread()
    }

    /// Returns a uniform random number from `range`, by one or two [draws](Self::draw).
    ///
    /// It serves a decision by hand: `backoff.delay(1, last, |range| timer.draw_within(range))`.
    /// The number is the product of the size of the range and a fraction of 128 bits, rounded down
    /// (Lemire 2019, Canon 2021). An empty range gives its start.
    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        super::rng::within(range, || self.draw())
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

    fn draw(&self) -> u64 {
        (**self).draw()
    }

    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        (**self).draw_within(range)
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

    fn draw(&self) -> u64 {
        (**self).draw()
    }

    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        (**self).draw_within(range)
    }
}
