use std::fmt;
use std::time::Duration;

use crate::time::nanos;

/// A number of units per period, and the number that may be used at once.
///
/// A unit is a request or a token. A rate of `n` per period refills one unit each `period / n`,
/// rounded up to a whole nanosecond, so it never refills faster than it says.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | burst | one period's count, and at most 268,435,454 | providers publish only the count; a smaller burst follows the short windows that some of them enforce |
///
/// # Examples
///
/// ```
/// use resile::quota::Rate;
/// use std::time::Duration;
///
/// let tokens = Rate::per_minute(400_000).with_burst(66_000);
/// assert_eq!(tokens.count(), 400_000);
/// assert_eq!(tokens.period(), Duration::from_secs(60));
/// assert_eq!(tokens.burst(), 66_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a rate does nothing until a quota has it"]
pub struct Rate {
    count: u32,
    burst: u32,
    period: Duration,
    /// The time in which one unit refills, in nanoseconds. At least 1 and at most [`LONGEST`].
    per_unit: u64,
}

/// The longest time in which a cost refills, in nanoseconds: 73 years.
const LONGEST: u64 = 1 << 61;

/// The largest burst. A [saturated](super::reserved) cost is above every burst.
const LARGEST_BURST: u32 = (1 << 28) - 2;

/// Returns the number, and that of the largest count for a larger one.
#[expect(clippy::cast_possible_truncation, reason = "compared before")]
pub(super) const fn saturated(units: u64) -> u32 {
    if units > u32::MAX as u64 { u32::MAX } else { units as u32 }
}

impl Rate {
    /// Creates a rate of `count` units per `period`. With a count of 0 nothing refills, and no
    /// cost fits. The largest count is 4,294,967,295. A period of zero counts as one nanosecond.
    pub const fn new(count: u64, period: Duration) -> Self {
        let count = saturated(count);
        let whole = nanos(period);
        let per_unit = if count == 0 { LONGEST } else { whole.div_ceil(count as u64) };
        let per_unit = if per_unit == 0 {
            1
        } else if per_unit > LONGEST {
            LONGEST
        } else {
            per_unit
        };
        Self { count, burst: 0, period, per_unit }.with_burst(count as u64)
    }

    /// Creates a rate of `count` units per second.
    pub const fn per_second(count: u64) -> Self {
        Self::new(count, Duration::from_secs(1))
    }

    /// Creates a rate of `count` units per minute.
    pub const fn per_minute(count: u64) -> Self {
        Self::new(count, Duration::from_secs(60))
    }

    /// Creates a rate of `count` units per hour.
    pub const fn per_hour(count: u64) -> Self {
        Self::new(count, Duration::from_secs(60 * 60))
    }

    /// Creates a rate of `count` units per day.
    pub const fn per_day(count: u64) -> Self {
        Self::new(count, Duration::from_secs(24 * 60 * 60))
    }

    /// Sets the number of units that may be used at once after a pause. With 0 no cost fits. A
    /// rate with a count of 0 has a burst of 0. The largest burst is 268,435,454.
    pub const fn with_burst(mut self, burst: u64) -> Self {
        let burst = saturated(burst);
        self.burst = if self.count == 0 {
            0
        } else if burst > LARGEST_BURST {
            LARGEST_BURST
        } else {
            burst
        };
        self
    }

    /// Returns the number of units per period.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of units that may be used at once.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Returns a share of the rate, in whole units per period and at least one. A share above 1
    /// leaves the burst.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub(super) fn scaled(&self, share: f64) -> Self {
        let of = |units: u32| ((f64::from(units) * share).round() as u32).max(1.min(units));
        let burst = of(self.burst).min(self.burst);
        Self::new(of(self.count).into(), self.period).with_burst(burst.into())
    }

    /// Returns the time in which `units` refill, in nanoseconds.
    #[inline]
    pub(super) const fn time_of(&self, units: u64) -> u64 {
        let time = self.per_unit.saturating_mul(units);
        if time > LONGEST { LONGEST } else { time }
    }

    /// Returns the number of whole units that refill in `time` nanoseconds.
    pub(super) const fn units_in(&self, time: u64) -> u64 {
        time / self.per_unit
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rate")
            .field("count", &self.count)
            .field("period", &self.period)
            .field("burst", &self.burst)
            .finish_non_exhaustive()
    }
}
