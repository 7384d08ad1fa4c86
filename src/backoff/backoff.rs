use super::curve::Curve;
use super::jitter::Jitter;
use crate::time::nanos;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The delay before each retry: a curve, capped, then jittered.
///
/// The first retry has the number 1. All arithmetic saturates, so no input panics. Jitter never
/// raises a delay above the cap, but it still spreads delays at the cap: otherwise all clients at
/// the cap would retry together.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | factor | 2 | doubling reaches the scale of any overload in a few steps; used by `exponential` only |
/// | cap of growing curves | 30 s, or the base if longer | longer waits help no caller that still waits |
/// | cap of `fixed`, `steps`, `custom` | none | each delay is given by the caller |
/// | jitter of growing curves | [`Jitter::Full`] | the fewest calls for nearly the least time (Brooker, "Exponential Backoff And Jitter", AWS 2015) |
/// | jitter of `fixed`, `steps`, `custom` | [`Jitter::None`] | each delay is given by the caller; set a jitter if many clients may fail together |
///
/// A [`Breaker`](crate::Breaker::with_open_time) has its own default jitter for growing curves.
///
/// # Examples
///
/// ```
/// use resile::{Backoff, Jitter};
/// use std::time::Duration;
///
/// const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100))
///     .with_cap(Duration::from_secs(1));
/// let delays = BACKOFF.schedule().take(5);
/// let millis: Vec<_> = delays.map(|delay| delay.as_millis()).collect();
/// assert_eq!(millis, [100, 200, 400, 800, 1000]);
/// ```
#[derive(Clone, Copy)]
pub struct Backoff {
    pub(crate) curve: Curve,
    pub(crate) factor: f64,
    pub(crate) cap: Duration,
    /// `None` until one is given. The default depends on the curve.
    pub(crate) jitter: Option<Jitter>,
}

const DEFAULT_CAP: Duration = Duration::from_secs(30);

/// A delay before its random draw.
enum Undrawn {
    /// There is nothing to draw.
    Delay(Duration),
    /// The delay is a uniform draw from this range of nanoseconds.
    Within(RangeInclusive<u64>),
}

impl Backoff {
    /// Creates a backoff without delays.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(Curve::None, Duration::MAX)
    }

    /// Creates a backoff with one constant delay, without a cap and without default jitter.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::new(Curve::Fixed(delay), Duration::MAX)
    }

    /// Creates a backoff with the delays `base`, 2 × `base`, 3 × `base`, …
    #[must_use]
    pub const fn linear(base: Duration) -> Self {
        Self::new(Curve::Linear(base), cap_for(base))
    }

    /// Creates a backoff with the delays `base`, `base` × factor, `base` × factor², …
    #[must_use]
    pub const fn exponential(base: Duration) -> Self {
        Self::new(Curve::Exponential(base), cap_for(base))
    }

    /// Creates a backoff with the delays `base` × 1, 1, 2, 3, 5, 8, …
    #[must_use]
    pub const fn fibonacci(base: Duration) -> Self {
        Self::new(Curve::Fibonacci(base), cap_for(base))
    }

    /// Creates a backoff with the listed delays, of which the last one repeats. An empty list means
    /// no delay. The backoff has no cap and no default jitter.
    ///
    /// # Examples
    ///
    /// The list is `'static`, so write it in a `const`:
    ///
    /// ```
    /// use resile::Backoff;
    /// use std::time::Duration;
    ///
    /// const STEPS: Backoff =
    ///     Backoff::steps(&[Duration::from_millis(100), Duration::from_secs(1)]);
    /// ```
    ///
    /// In a `let` the list is dropped at the end of the statement, so this does not compile:
    ///
    /// ```compile_fail,E0716
    /// # use resile::Backoff;
    /// # use std::time::Duration;
    /// let steps = Backoff::steps(&[Duration::from_millis(100)]);
    /// # let _ = steps;
    /// ```
    #[must_use]
    pub const fn steps(delays: &'static [Duration]) -> Self {
        Self::new(Curve::Steps(delays), Duration::MAX)
    }

    /// Creates a backoff that calls `delay` with the number of the retry: 1, 2, 3, … The backoff
    /// has no cap and no default jitter. A closure is a `fn` if it captures nothing.
    #[must_use]
    pub const fn custom(delay: fn(u32) -> Duration) -> Self {
        Self::new(Curve::Custom(delay), Duration::MAX)
    }

    const fn new(curve: Curve, cap: Duration) -> Self {
        Self { curve, factor: 2.0, cap, jitter: None }
    }

    /// Sets the growth of `exponential` per retry. Values below 1 and NaN become 1: delays never
    /// shrink.
    #[must_use]
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = if factor > 1.0 { factor } else { 1.0 };
        self
    }

    /// Sets the longest delay, jitter included. A base above the cap counts as the cap, so delays
    /// then do not grow. The cap does not apply to an upstream's hint.
    #[must_use]
    pub const fn with_cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Sets the jitter. The default depends on the curve: see [Defaults](#defaults).
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// Returns this backoff with delays that grow from another base, if its delays grow. The cap stays.
    pub(crate) const fn with_base(mut self, base: Duration) -> Self {
        self.curve = self.curve.with_base(base);
        self
    }

    /// Returns the longest delay, jitter included. [`Duration::MAX`] means no cap.
    #[must_use]
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// Sets the jitter of a growing curve unless one was given.
    #[must_use]
    pub(crate) const fn or_jitter(self, jitter: Jitter) -> Self {
        if self.jitter.is_none() && !self.curve.is_explicit() {
            self.with_jitter(jitter)
        } else {
            self
        }
    }

    /// Returns the jitter that was given, or the default of the curve.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        match self.jitter {
            Some(jitter) => jitter,
            None if self.curve.is_explicit() => Jitter::None,
            None => Jitter::Full,
        }
    }

    /// Returns the delay before retry `retry` (1 is the first), at most the cap.
    ///
    /// `previous` is the delay before the last retry (zero if there was none). `draw` returns a
    /// uniform random number from a range of nanoseconds, such as `|range|
    /// timer.draw_within(range)` with any [`Timer`](crate::time::Timer), and is not called if the
    /// jitter has nothing to spread. Jittered delays saturate at `u64::MAX` nanoseconds (584
    /// years).
    #[inline]
    pub fn delay(
        &self,
        retry: u32,
        previous: Duration,
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        match self.curve {
            Curve::None => Duration::ZERO,
            _ => match self.undrawn(retry, previous) {
                Undrawn::Delay(delay) => delay,
                Undrawn::Within(spread) => Duration::from_nanos(draw(spread)),
            },
        }
    }

    #[inline(never)] // compiled once, and not for each `draw`
    fn undrawn(&self, retry: u32, previous: Duration) -> Undrawn {
        let jitter = self.jitter();
        let delay = match jitter {
            Jitter::Decorrelated => self.unjittered(1),
            _ => self.unjittered(retry),
        };
        if delay.is_zero() || matches!(jitter, Jitter::None) {
            return Undrawn::Delay(delay);
        }
        let spread = jitter.spread(nanos(delay), nanos(previous), nanos(self.cap));
        if spread.start() == spread.end() {
            return Undrawn::Delay(Duration::from_nanos(*spread.end()));
        }
        Undrawn::Within(spread)
    }

    /// Returns an endless iterator over the capped delays without jitter.
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        Schedule { backoff: *self, retry: 0 }
    }

    /// Returns the wait after an upstream's `hint`: the hint plus a random part, because all
    /// clients with the same hint would come back at one instant otherwise. `room` is the longest
    /// useful wait. The random part is at most half of the room beyond the hint. Only an explicit
    /// `Jitter::None` omits it: a hint is not a delay given by the caller.
    #[inline]
    pub(crate) fn after_hint(
        &self,
        hint: Duration,
        retry: u32,
        room: Duration,
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        match self.hint_spread(hint, retry, room) {
            0 => hint,
            spread => hint.saturating_add(Duration::from_nanos(draw(0..=spread))),
        }
    }

    /// Returns the greatest random part of the wait after a hint, in nanoseconds.
    #[inline(never)] // compiled once, and not for each `draw`
    fn hint_spread(&self, hint: Duration, retry: u32, room: Duration) -> u64 {
        if self.jitter == Some(Jitter::None) {
            return 0;
        }
        nanos(self.unjittered(retry).max(hint / 10).min(room.saturating_sub(hint) / 2))
    }

    pub(crate) fn unjittered(&self, retry: u32) -> Duration {
        self.curve.delay(retry, self.factor, self.cap)
    }
}

/// Returns the default cap of a growing curve. It is never below the base.
const fn cap_for(base: Duration) -> Duration {
    if base.as_nanos() > DEFAULT_CAP.as_nanos() { base } else { DEFAULT_CAP }
}

/// An endless iterator over the delays of a [`Backoff`] without jitter. Made by
/// [`Backoff::schedule`].
#[derive(Clone, Debug, PartialEq)]
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

/// Compares curve, factor, cap and jitter. A given jitter equals the same default jitter here,
/// although they differ for hints and in
/// [`Breaker::with_open_time`](crate::Breaker::with_open_time).
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
        match (self.jitter, self.jitter()) {
            // A wait after a hint has a random part unless `None` was given.
            (None, Jitter::None) => all.field("jitter", &format_args!("None by default")),
            (_, jitter) => all.field("jitter", &jitter),
        };
        all.finish()
    }
}
