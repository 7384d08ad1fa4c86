//! How long to wait before a retry: curve × cap × jitter, pure arithmetic.

mod curve;
mod jitter;

pub(crate) use curve::Curve;
pub use jitter::Jitter;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::time::nanos;

/// The delay before each retry: a curve, capped, then jittered.
///
/// The first retry has the number 1. All arithmetic saturates; no input panics. Jitter never lifts a delay above
/// the cap, and at the cap it still spreads: a cap that every client reaches would otherwise line them up.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | factor | 2 | doubling reaches any overload's scale in a few steps; used by `exponential` only |
/// | cap, where the curve grows | 30 s, or the base where that is longer | longer waits help no caller that still waits |
/// | cap of `fixed`, `steps`, `custom` | none | each delay was spelled out |
/// | jitter, where the curve grows | [`Jitter::Full`] | the fewest calls for nearly the least time (Brooker, "Exponential Backoff And Jitter", AWS 2015) |
/// | jitter of `fixed`, `steps`, `custom` | [`Jitter::None`] | each delay was spelled out; ask for jitter where many clients may fail together |
///
/// A [`Breaker`](crate::Breaker::with_open_time) has a default of its own for a curve that grows.
///
/// # Examples
///
/// ```
/// use resile::{Backoff, Jitter};
/// use std::time::Duration;
///
/// const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100)).with_cap(Duration::from_secs(1));
/// let millis: Vec<_> = BACKOFF.schedule().take(5).map(|delay| delay.as_millis()).collect();
/// assert_eq!(millis, [100, 200, 400, 800, 1000]);
/// ```
#[derive(Clone, Copy)]
pub struct Backoff {
    pub(crate) curve: Curve,
    pub(crate) factor: f64,
    pub(crate) cap: Duration,
    /// `None` until one is given: then it depends on the curve.
    pub(crate) jitter: Option<Jitter>,
}

const DEFAULT_CAP: Duration = Duration::from_secs(30);

impl Backoff {
    /// No delay at all.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(Curve::None, Duration::MAX)
    }

    /// The same delay each time. Uncapped, and without jitter unless one is given.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::new(Curve::Fixed(delay), Duration::MAX)
    }

    /// `base`, 2 × `base`, 3 × `base`, …
    #[must_use]
    pub const fn linear(base: Duration) -> Self {
        Self::new(Curve::Linear(base), cap_for(base))
    }

    /// `base`, `base` × factor, `base` × factor², …
    #[must_use]
    pub const fn exponential(base: Duration) -> Self {
        Self::new(Curve::Exponential(base), cap_for(base))
    }

    /// `base` × 1, 1, 2, 3, 5, 8, …
    #[must_use]
    pub const fn fibonacci(base: Duration) -> Self {
        Self::new(Curve::Fibonacci(base), cap_for(base))
    }

    /// The delays as listed; the last one repeats, an empty list is no delay. Uncapped, and without jitter unless one is
    /// given.
    #[must_use]
    pub const fn steps(delays: &'static [Duration]) -> Self {
        Self::new(Curve::Steps(delays), Duration::MAX)
    }

    /// Asks `delay` for the delay before retry 1, 2, 3, … Uncapped, and without jitter unless one is given.
    #[must_use]
    pub const fn custom(delay: fn(u32) -> Duration) -> Self {
        Self::new(Curve::Custom(delay), Duration::MAX)
    }

    const fn new(curve: Curve, cap: Duration) -> Self {
        Self { curve, factor: 2.0, cap, jitter: None }
    }

    /// The growth of `exponential` per retry. Below 1 (delays never shrink) and NaN are taken as 1.
    #[must_use]
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = if factor > 1.0 { factor } else { 1.0 };
        self
    }

    /// The longest delay, jitter included. A server's hint is not held to it.
    #[must_use]
    pub const fn with_cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Sets how delays are spread. Without this the curve decides: see [Defaults](#defaults).
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// Returns the longest delay, jitter included. [`Duration::MAX`] is no cap.
    #[must_use]
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// Uses that jitter where the curve grows and none was given.
    #[must_use]
    pub(crate) const fn or_jitter(self, jitter: Jitter) -> Self {
        if self.jitter.is_none() && !self.curve.is_spelled_out() {
            self.with_jitter(jitter)
        } else {
            self
        }
    }

    /// Returns how delays are spread: the jitter that was given, or the curve's own.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        match self.jitter {
            Some(jitter) => jitter,
            None if self.curve.is_spelled_out() => Jitter::None,
            None => Jitter::Full,
        }
    }

    /// Returns the delay before retry `retry` (1 is the first). It is never more than the cap.
    ///
    /// `previous` is the delay before the retry ahead of it, zero if there was none. `draw` returns a number of a range
    /// of nanoseconds, evenly: with the crate `rand`, `|range| rng.random_range(range)`. It is not called where the
    /// jitter has nothing to spread. Spread delays saturate at `u64::MAX` nanoseconds (584 years).
    #[inline]
    pub fn delay(
        &self,
        retry: u32,
        previous: Duration,
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        match self.curve {
            Curve::None => Duration::ZERO,
            _ => self.drawn(retry, previous, draw),
        }
    }

    #[inline(never)] // a delay is worth a call
    fn drawn(
        &self,
        retry: u32,
        previous: Duration,
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        let jitter = self.jitter();
        let delay = match jitter {
            Jitter::Decorrelated => self.unjittered(1),
            _ => self.unjittered(retry),
        };
        if delay.is_zero() || matches!(jitter, Jitter::None) {
            return delay;
        }
        let spread = jitter.spread(nanos(delay), nanos(previous), nanos(self.cap));
        Duration::from_nanos(if spread.start() == spread.end() {
            *spread.end()
        } else {
            draw(spread)
        })
    }

    /// The un-jittered delays, capped, without end.
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        Schedule { backoff: *self, retry: 0 }
    }

    /// The wait after a peer's `hint`: the hint or more, spread upwards, as those who got the same hint would
    /// otherwise all come back at one instant. `room` is the longest wait that is of use: the spread is squeezed to
    /// stay below it. A hint is not a delay that was spelled out here: it is spread unless `Jitter::None` was asked for.
    pub(crate) fn on_top(
        &self,
        hint: Duration,
        retry: u32,
        room: Duration,
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        let spread = self.unjittered(retry).max(hint / 10).min(room.saturating_sub(hint) / 2);
        if self.jitter == Some(Jitter::None) || spread.is_zero() {
            return hint;
        }
        hint.saturating_add(Duration::from_nanos(draw(0..=nanos(spread))))
    }

    pub(crate) fn unjittered(&self, retry: u32) -> Duration {
        self.curve.delay(retry, self.factor, self.cap)
    }
}

/// The cap of a curve that grows from `base`: never below the base itself.
const fn cap_for(base: Duration) -> Duration {
    if base.as_nanos() > DEFAULT_CAP.as_nanos() { base } else { DEFAULT_CAP }
}

/// The un-jittered delays of a [`Backoff`], without end. Made by [`Backoff::schedule`].
#[derive(Clone, Debug)]
pub struct Schedule {
    backoff: Backoff,
    retry: u32,
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.retry = self.retry.saturating_add(1);
        Some(self.backoff.unjittered(self.retry))
    }
}

/// Equal if they give the same delays. Whether a jitter was given or is the curve's own does not matter here; it does for
/// hints, and for [`Breaker::with_open_time`](crate::Breaker::with_open_time).
impl PartialEq for Backoff {
    fn eq(&self, other: &Self) -> bool {
        self.curve == other.curve
            && self.factor == other.factor
            && self.cap == other.cap
            && self.jitter() == other.jitter()
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Backoff");
        match &self.curve {
            Curve::None => all.field("curve", &"none"),
            Curve::Fixed(delay) => all.field("curve", &"fixed").field("base", delay),
            Curve::Linear(base) => all.field("curve", &"linear").field("base", base),
            Curve::Exponential(base) => {
                all.field("curve", &"exponential").field("base", base).field("factor", &self.factor)
            }
            Curve::Fibonacci(base) => all.field("curve", &"fibonacci").field("base", base),
            Curve::Steps(delays) => all.field("curve", &"steps").field("delays", delays),
            Curve::Custom(_) => all.field("curve", &"custom"),
        };
        if self.cap == Duration::MAX {
            all.field("cap", &"none")
        } else {
            all.field("cap", &self.cap)
        };
        all.field("jitter", &self.jitter()).finish()
    }
}
