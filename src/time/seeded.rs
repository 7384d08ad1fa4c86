use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Timer, nanos, sequence};

/// A timer with the clock of another timer and with seeded draws.
///
/// [`Upstream::with_seed`](crate::Upstream::with_seed) makes one. Two timers with one seed return
/// the same [draws](Timer::draw) in the same order. The draws are those of `SplitMix64` (Steele,
/// Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), so they do not
/// depend on the version of a random number crate. A draw costs one atomic addition.
///
/// The first reading is [`FIRST`](Self::FIRST), whatever the other timer reads, because a second
/// run in the same process would see other readings than the first one otherwise.
///
/// # Examples
///
/// ```
/// use resile::time::{ManualTimer, Seeded, Timer};
/// use resile::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1));
/// let delay = |timer: &Seeded<ManualTimer>| {
///     let draw = |range| timer.draw_within(range);
///     backoff.delay(1, Duration::ZERO, draw)
/// };
/// let [timer, again] = [7, 7].map(|seed| Seeded::new(ManualTimer::new(), seed));
/// assert_eq!(delay(&timer), delay(&again));
/// ```
#[derive(Debug)]
pub struct Seeded<M> {
    timer: M,
    /// The state of the sequence of draws.
    draws: AtomicU64,
    /// The other timer's first reading in nanoseconds, or `UNREAD`.
    origin: AtomicU64,
}

const UNREAD: u64 = u64::MAX;

impl<M> Seeded<M> {
    /// The first reading: 2^30 s, or 34 years. Another runtime with a paused clock may read an
    /// earlier time later, but even that reading is earlier than this one.
    pub const FIRST: Duration = Duration::from_secs(1 << 30);

    /// Creates a timer with the clock of `timer`.
    #[must_use]
    pub const fn new(timer: M, seed: u64) -> Self {
        Self { timer, draws: AtomicU64::new(seed), origin: AtomicU64::new(UNREAD) }
    }
}

impl<M: Timer> Seeded<M> {
    /// Returns the other timer's first reading. If there is none, it is `first`.
    #[inline]
    fn origin(&self, first: impl FnOnce() -> Duration) -> Duration {
        let origin = self.origin.load(Ordering::Relaxed);
        Duration::from_nanos(if origin == UNREAD { self.begin(first()) } else { origin })
    }

    #[cold]
    fn begin(&self, first: Duration) -> u64 {
        let first = nanos(first).min(UNREAD - 1);
        let begun =
            self.origin.compare_exchange(UNREAD, first, Ordering::Relaxed, Ordering::Relaxed);
        begun.err().unwrap_or(first)
    }
}

impl<M: Timer> Timer for Seeded<M> {
    type Sleep = M::Sleep;

    #[inline]
    fn now(&self) -> Duration {
        let now = self.timer.now();
        now.saturating_add(Self::FIRST).saturating_sub(self.origin(|| now))
    }

    #[inline]
    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.timer.sleep(delay)
    }

    #[inline]
    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        let origin = self.origin(|| self.timer.now());
        self.timer.sleep_until(at.saturating_add(origin).saturating_sub(Self::FIRST))
    }

    fn park(&self, limit: Duration) {
        self.timer.park(limit);
    }

    fn draw(&self) -> u64 {
        sequence::next(&self.draws)
    }
}
