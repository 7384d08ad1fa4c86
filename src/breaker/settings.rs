use std::time::Duration;

use super::Trip;
use super::machine::MAX_PROBES;
use super::window::{Counts, Slot};
use crate::backoff::{Backoff, Draw, Jitter};

/// When a breaker opens, for how long, and what closes it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) consecutive: Option<u32>,
    pub(super) failure_rate: Option<Rate>,
    pub(super) slow_rate: Option<Rate>,
    /// In nanoseconds.
    pub(super) slow_limit: u64,
    /// A slot of the window.
    pub(super) slot: Slot,
    pub(super) open: Backoff,
    pub(super) hint_cap: Duration,
    pub(super) probes: u32,
    pub(super) probe_share: f64,
    pub(super) lease: Duration,
}

/// A share of at least so many calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) share: f64,
    pub(super) of_at_least: u32,
}

impl Settings {
    pub(super) const fn new() -> Self {
        Self {
            consecutive: Some(10),
            failure_rate: Some(Rate { share: 0.5, of_at_least: 20 }),
            slow_rate: None,
            slow_limit: u64::MAX,
            slot: Slot::of(Duration::from_secs(10)),
            open: Backoff::exponential(Duration::from_secs(5))
                .with_cap(Duration::from_secs(60))
                .with_jitter(Jitter::Proportional(0.2)),
            hint_cap: Duration::from_secs(5 * 60),
            probes: 5,
            probe_share: 0.6,
            lease: Duration::from_secs(30),
        }
    }

    pub(super) const fn counts_in_window(&self) -> bool {
        self.failure_rate.is_some() || self.slow_rate.is_some()
    }

    pub(super) const fn times_calls(&self) -> bool {
        self.slow_rate.is_some()
    }

    /// Whether a call of that many nanoseconds was too slow, where that is asked.
    pub(super) fn is_slow(&self, took: u64) -> bool {
        self.times_calls() && took > self.slow_limit
    }

    pub(super) fn probes(&self) -> usize {
        (self.probes as usize).clamp(1, MAX_PROBES)
    }

    /// Draws for how long it opens: that often, and after it was open for that long.
    pub(super) fn draw_open(&self, (times, last): (u32, Duration)) -> Duration {
        self.open.delay(times, last, &mut Draw)
    }

    /// How many of the probes must pass: at least one, at most all.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn probes_to_pass(&self) -> usize {
        let probes = self.probes();
        ((probes as f64 * self.probe_share).ceil() as usize).clamp(1, probes)
    }

    /// Whether what was counted opens the breaker: the heart of it, pure. Asks for the counts of the window only if
    /// they matter.
    pub(super) fn trips_on(&self, streak: u32, counts: impl FnOnce() -> Counts) -> Option<Trip> {
        if self.consecutive.is_some_and(|limit| streak >= limit.max(1)) {
            return Some(Trip::Consecutive);
        }
        if !self.counts_in_window() {
            return None;
        }
        let counts = counts();
        if self.failure_rate.is_some_and(|rate| rate.is_reached(counts.failed, counts.total())) {
            return Some(Trip::FailureRate);
        }
        if self.slow_rate.is_some_and(|rate| rate.is_reached(counts.slow, counts.total())) {
            return Some(Trip::SlowRate);
        }
        None
    }
}

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn is_reached(&self, part: u64, whole: u64) -> bool {
        part > 0 && whole >= u64::from(self.of_at_least) && part as f64 >= self.share * whole as f64
    }
}
