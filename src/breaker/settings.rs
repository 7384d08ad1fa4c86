use std::ops::RangeInclusive;
use std::time::Duration;

use super::TripReason;
use super::trip::Trip;
use super::window::{Counts, Slot};
use crate::backoff::{Backoff, Jitter};

/// The default jitter of growing open times.
pub(super) const OPEN_JITTER: Jitter = Jitter::Proportional(0.2);

/// The smallest number of calls of the default failure rate.
pub(crate) const DEFAULT_CALLS: u32 = 20;

/// The default share of probes that must pass.
pub(crate) const DEFAULT_PROBES_SHARE: f64 = 0.6;

/// The settings of a breaker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) consecutive: Option<u32>,
    /// True if an overload is a failure in a row too.
    pub(super) overloads: bool,
    pub(super) failure_rate: Option<Rate>,
    pub(super) slow_rate: Option<Rate>,
    /// In nanoseconds.
    pub(super) slow_limit: u64,
    /// The length of one slot of the window.
    pub(super) slot: Slot,
    pub(super) open: Backoff,
    pub(super) hint_cap: Duration,
    pub(super) probes: Probes,
    pub(super) lease: Duration,
}

/// A share of at least `of_at_least` calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) share: f64,
    pub(super) of_at_least: u32,
}

/// The highest number of probes of a half-open breaker.
pub(super) const MAX_PROBES: usize = 32;

/// The number of probes (1 to [`MAX_PROBES`]), and the number that must pass (1 to `all`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    pub(super) all: usize,
    pub(super) needed: usize,
}

impl Probes {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) const fn of(probes: u32, share: f64) -> Self {
        let all = within(probes as usize, MAX_PROBES);
        let wanted = all as f64 * share;
        let whole = wanted as usize; // a NaN or negative share becomes 0
        let needed = if (whole as f64) < wanted { whole.saturating_add(1) } else { whole };
        Self { all, needed: within(needed, all) }
    }
}

const fn within(count: usize, most: usize) -> usize {
    match count {
        0 => 1,
        _ if count > most => most,
        _ => count,
    }
}

impl Settings {
    pub(super) const fn new() -> Self {
        Self {
            consecutive: Some(10),
            overloads: false,
            failure_rate: Some(Rate { share: 0.5, of_at_least: DEFAULT_CALLS }),
            slow_rate: None,
            slow_limit: u64::MAX,
            slot: Slot::of(Duration::from_secs(10)),
            open: Backoff::exponential(Duration::from_secs(5))
                .with_cap(Duration::from_secs(60))
                .with_jitter(OPEN_JITTER),
            hint_cap: Duration::from_secs(5 * 60),
            probes: Probes::of(5, DEFAULT_PROBES_SHARE),
            lease: Duration::from_secs(30),
        }
    }

    pub(super) const fn counts_in_window(&self) -> bool {
        self.failure_rate.is_some() || self.slow_rate.is_some()
    }

    pub(super) const fn times_calls(&self) -> bool {
        self.slow_rate.is_some()
    }

    /// Returns whether a call of `took` nanoseconds was slow (false without a slow-call rate).
    pub(super) fn is_slow(&self, took: u64) -> bool {
        self.times_calls() && took > self.slow_limit
    }

    /// Draws an open time from the number of openings and the last drawn delay.
    pub(super) fn draw_open(
        &self,
        (times, last): (u32, Duration),
        draw: impl FnOnce(RangeInclusive<u64>) -> u64,
    ) -> Duration {
        self.open.delay(times, last, draw)
    }

    /// Returns the settings of a suspicious breaker: each threshold is halved.
    pub(super) fn halved(&self) -> Self {
        Self {
            consecutive: self.consecutive.map(|limit| limit.div_ceil(2)),
            failure_rate: self.failure_rate.map(Rate::halved),
            slow_rate: self.slow_rate.map(Rate::halved),
            ..*self
        }
    }

    /// Returns the ground to trip, if any. Reads the counts of the window only if needed.
    pub(super) fn trips_on(&self, streak: u32, counts: impl FnOnce() -> Counts) -> Option<Trip> {
        if self.consecutive.is_some_and(|limit| streak >= limit.max(1)) {
            return Some(Trip::new(TripReason::Consecutive, streak.into(), streak.into()));
        }
        if !self.counts_in_window() {
            return None;
        }
        let counts = counts();
        let total = counts.total();
        if self.failure_rate.is_some_and(|rate| rate.is_reached(counts.failed, total)) {
            return Some(Trip::new(TripReason::FailureRate, counts.failed, total));
        }
        if self.slow_rate.is_some_and(|rate| rate.is_reached(counts.slow, total)) {
            return Some(Trip::new(TripReason::SlowRate, counts.slow, total));
        }
        None
    }
}

impl Rate {
    /// Returns half of the rate. A share that no rate reaches (above 1 or NaN) stays out of reach.
    fn halved(self) -> Self {
        let share = if self.share > 1.0 { self.share } else { self.share / 2.0 };
        Self { share, of_at_least: self.of_at_least.div_ceil(2) }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn is_reached(&self, part: u64, whole: u64) -> bool {
        part > 0 && whole >= u64::from(self.of_at_least) && part as f64 >= self.share * whole as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The number is the share of the probes, rounded up, at least one and at most all.
        #[test]
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        fn probes_that_must_pass(probes in any::<u32>(), share in prop_oneof![any::<f64>(), 0.0..1.0]) {
            let Probes { all, needed } = Probes::of(probes, share);
            prop_assert_eq!(all, (probes as usize).clamp(1, MAX_PROBES));
            prop_assert_eq!(needed, ((all as f64 * share).ceil() as usize).clamp(1, all));
        }
    }
}
