use std::time::Duration;

/// The growth of delays from retry to retry.
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

impl Curve {
    /// Returns whether the caller gives each delay instead of a base.
    pub(super) const fn is_explicit(self) -> bool {
        matches!(self, Self::Fixed(_) | Self::Steps(_) | Self::Custom(_))
    }

    /// Returns this curve from another base. An explicit curve and none have no base.
    pub(super) const fn with_base(self, base: Duration) -> Self {
        match self {
            Self::Linear(_) => Self::Linear(base),
            Self::Exponential(_) => Self::Exponential(base),
            Self::Fibonacci(_) => Self::Fibonacci(base),
            Self::None | Self::Fixed(_) | Self::Steps(_) | Self::Custom(_) => self,
        }
    }

    /// Returns the delay before retry `retry` (1 is the first), at most `cap`. `factor` is the
    /// growth of `Exponential`.
    pub(super) fn delay(self, retry: u32, factor: f64, cap: Duration) -> Duration {
        let n = retry.max(1);
        let delay = match self {
            Self::None => Duration::ZERO,
            Self::Fixed(delay) => delay,
            Self::Linear(base) => base.saturating_mul(n),
            Self::Exponential(base) => grown(base, factor, n - 1, cap),
            Self::Fibonacci(base) => base.saturating_mul(fibonacci(n)),
            Self::Steps(delays) => {
                let last = delays.len().saturating_sub(1);
                let at = usize::try_from(n - 1).unwrap_or(usize::MAX).min(last);
                delays.get(at).copied().unwrap_or(Duration::ZERO)
            }
            Self::Custom(delay) => delay(n),
        };
        delay.min(cap)
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

/// Returns `base × factor^exponent`, or `cap` on overflow (floating point overflows to infinity).
fn grown(base: Duration, factor: f64, exponent: u32, cap: Duration) -> Duration {
    if base.is_zero() || exponent == 0 {
        return base;
    }
    let power = i32::try_from(exponent).map_or(f64::INFINITY, |exponent| factor.powi(exponent));
    let power = if factor > 1.0 { power } else { 1.0 };
    // An `Err` is an overflow: base and factor are positive, so the product is positive and not
    // NaN. A base of 52 bits or more loses its last nanoseconds to rounding, hence the `max`.
    Duration::try_from_secs_f64(base.as_secs_f64() * power).unwrap_or(cap).max(base)
}

/// Returns 1, 1, 2, 3, 5, … for n = 1, 2, 3, … Saturates at n = 48.
fn fibonacci(n: u32) -> u32 {
    let (mut this, mut next) = (1_u32, 1_u32);
    for _ in 1..n.min(48) {
        (this, next) = (next, this.saturating_add(next));
    }
    this
}
