//! How long to wait before a retry: curve × cap × jitter, pure arithmetic.

use std::fmt;
use std::time::Duration;

use rand::{Rng, RngExt, TryRng};

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
/// | jitter | [`Jitter::Full`] | the fewest calls for nearly the least time (Brooker, "Exponential Backoff And Jitter", AWS 2015) |
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
    pub(crate) jitter: Jitter,
}

#[derive(Clone, Copy)]
pub(crate) enum Curve {
    None,
    Fixed(Duration),
    Linear(Duration),
    Exponential(Duration),
    Fibonacci(Duration),
    Steps(&'static [Duration]),
    Custom(fn(u32) -> Duration),
}

/// How a delay `d` is spread, so that clients which failed together do not come back together.
///
/// `Full`, `Equal` and `Decorrelated` are those of Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog,
/// 2015), with one mend: where the formula clips at the cap, ours narrows or slides the interval, as clipping lets most
/// delays *be* the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// Exactly `d`.
    None,
    /// Uniform in `[0, d]`.
    #[default]
    Full,
    /// Uniform in `[d/2, d]`: never less than half the delay.
    Equal,
    /// Uniform in `[d·(1−f), d·(1+f)]`, for f from 0 to 1 (NaN is 0). Where that would pass the cap, the whole interval
    /// slides down until it ends at the cap, and keeps its width as far as zero lets it.
    Proportional(f64),
    /// Uniform in `[base, 3 × the previous delay]`, where `base` is the curve's first delay: a random walk that
    /// replaces the curve's growth. The upper end is held to the cap and the lower end to a third of the cap.
    Decorrelated,
}

const DEFAULT_CAP: Duration = Duration::from_secs(30);

impl Backoff {
    /// No delay at all.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(Curve::None, Duration::MAX)
    }

    /// The same delay each time. Uncapped.
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

    /// The delays as listed; the last one repeats, an empty list is no delay. Uncapped.
    #[must_use]
    pub const fn steps(delays: &'static [Duration]) -> Self {
        Self::new(Curve::Steps(delays), Duration::MAX)
    }

    /// Whatever `delay` says for retry 1, 2, 3, … Uncapped.
    #[must_use]
    pub const fn custom(delay: fn(u32) -> Duration) -> Self {
        Self::new(Curve::Custom(delay), Duration::MAX)
    }

    const fn new(curve: Curve, cap: Duration) -> Self {
        Self { curve, factor: 2.0, cap, jitter: Jitter::Full }
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

    /// How delays are spread.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The delay before the given retry (1 is the first), drawn with `rng`; `previous` is the delay before the
    /// retry that came ahead of it (zero if none). Never more than the cap.
    ///
    /// Draws nothing where jitter has nothing to spread. Spread delays saturate at `u64::MAX` nanoseconds (584
    /// years).
    #[inline]
    pub fn delay<R: Rng + ?Sized>(&self, retry: u32, previous: Duration, rng: &mut R) -> Duration {
        match self.curve {
            Curve::None => Duration::ZERO,
            _ => self.drawn(retry, previous, rng),
        }
    }

    #[inline(never)] // a delay is worth a call
    fn drawn<R: Rng + ?Sized>(&self, retry: u32, previous: Duration, rng: &mut R) -> Duration {
        let delay = match self.jitter {
            Jitter::Decorrelated => self.unjittered(1),
            _ => self.unjittered(retry),
        };
        if delay.is_zero() || matches!(self.jitter, Jitter::None) {
            return delay;
        }
        let (d, cap) = (nanos(delay), nanos(self.cap));
        let (low, high) = match self.jitter {
            Jitter::None => (d, d),
            Jitter::Full => (0, d),
            Jitter::Equal => (d / 2, d),
            Jitter::Proportional(share) => {
                let reach = scale(d, if share > 0.0 { share.min(1.0) } else { 0.0 });
                let high = d.saturating_add(reach).min(cap);
                (high.saturating_sub(reach.saturating_mul(2)), high)
            }
            Jitter::Decorrelated => {
                let high = nanos(previous).max(d).saturating_mul(3).min(cap);
                (d.min(cap / 3), high)
            }
        };
        if low == high { Duration::from_nanos(low) } else { Duration::from_nanos(rng.random_range(low..=high)) }
    }

    /// The un-jittered delays, capped, without end.
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        Schedule { backoff: *self, retry: 0 }
    }

    /// The wait after a peer's `hint`: the hint or more, spread upwards, as those who got the same hint would
    /// otherwise all come back at one instant. `room` is the longest wait that is of use: the spread is squeezed to
    /// stay below it.
    pub(crate) fn on_top<R: Rng + ?Sized>(&self, hint: Duration, retry: u32, room: Duration, rng: &mut R) -> Duration {
        let spread = self.unjittered(retry).max(hint / 10).min(room.saturating_sub(hint) / 2);
        if self.jitter == Jitter::None || spread.is_zero() {
            return hint;
        }
        hint.saturating_add(Duration::from_nanos(rng.random_range(0..=nanos(spread))))
    }

    pub(crate) fn unjittered(&self, retry: u32) -> Duration {
        let n = retry.max(1);
        let delay = match self.curve {
            Curve::None => Duration::ZERO,
            Curve::Fixed(delay) => delay,
            Curve::Linear(base) => base.saturating_mul(n),
            Curve::Exponential(base) => grown(base, self.factor, n - 1, self.cap),
            Curve::Fibonacci(base) => base.saturating_mul(fibonacci(n)),
            Curve::Steps(delays) => {
                let last = delays.len().saturating_sub(1);
                let at = usize::try_from(n - 1).unwrap_or(usize::MAX).min(last);
                delays.get(at).copied().unwrap_or(Duration::ZERO)
            }
            Curve::Custom(delay) => delay(n),
        };
        delay.min(self.cap)
    }
}

/// The cap of a curve that grows from `base`: never below the base itself.
const fn cap_for(base: Duration) -> Duration {
    if base.as_nanos() > DEFAULT_CAP.as_nanos() { base } else { DEFAULT_CAP }
}

/// `d × share`, for a share from 0 to 1.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scale(d: u64, share: f64) -> u64 {
    (d as f64 * share) as u64
}

/// `base × factor^exponent`, or the cap where that is less: in floating point, which overflows to infinity.
fn grown(base: Duration, factor: f64, exponent: u32, cap: Duration) -> Duration {
    if base.is_zero() || exponent == 0 {
        return base;
    }
    let power = i32::try_from(exponent).map_or(f64::INFINITY, |exponent| factor.powi(exponent));
    let power = if factor > 1.0 { power } else { 1.0 };
    // An `Err` is overflow: base, factor and so the product are positive and no NaN. A base of 52 bits and more loses
    // its last nanoseconds to the rounding, hence the `max`.
    Duration::try_from_secs_f64(base.as_secs_f64() * power).unwrap_or(cap).max(base)
}

/// 1, 1, 2, 3, 5, … for n = 1, 2, 3, …; saturates at n = 48.
fn fibonacci(n: u32) -> u32 {
    let (mut this, mut next) = (1_u32, 1_u32);
    for _ in 1..n.min(48) {
        (this, next) = (next, this.saturating_add(next));
    }
    this
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

/// The thread's generator, looked up only when something is drawn.
pub(crate) struct Draw;

impl TryRng for Draw {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(rand::rng().next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(rand::rng().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        rand::rng().fill_bytes(bytes);
        Ok(())
    }
}

impl PartialEq for Backoff {
    fn eq(&self, other: &Self) -> bool {
        self.curve == other.curve && self.factor == other.factor && self.cap == other.cap && self.jitter == other.jitter
    }
}

impl PartialEq for Curve {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Fixed(a), Self::Fixed(b))
            | (Self::Linear(a), Self::Linear(b))
            | (Self::Exponential(a), Self::Exponential(b))
            | (Self::Fibonacci(a), Self::Fibonacci(b)) => a == b,
            (Self::Steps(a), Self::Steps(b)) => a == b,
            (Self::Custom(a), Self::Custom(b)) => std::ptr::fn_addr_eq(*a, *b),
            _ => false,
        }
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
        all.field("cap", &self.cap).field("jitter", &self.jitter).finish()
    }
}
