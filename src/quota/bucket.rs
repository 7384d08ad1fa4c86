use std::sync::atomic::Ordering;

use super::rate::Rate;
use crate::sync::AtomicU64;

/// A token bucket in one word, by the generic cell rate algorithm (GCRA, ITU-T I.371). Pure: time
/// is an argument, in nanoseconds.
///
/// The word is the time at which the bucket is full again. Each unit taken adds the time in which a
/// unit refills. The bucket is empty if this time is a burst away. A later time is a debt: it must
/// refill too.
pub(super) struct Bucket {
    rate: Rate,
    /// The time in which the whole burst refills.
    burst_time: u64,
    /// Invariant: at least the time of all units taken and not given back, so that giving back
    /// never goes below zero.
    full_at: AtomicU64,
}

/// The latest reading of the clock, in nanoseconds: 292 years. Later readings count as this one.
/// Sums of times and of two costs stay below 2^64.
const LATEST: u64 = 1 << 63;
/// The largest value of the word. A larger debt is cut to it.
const LAST: u64 = LATEST + (1 << 62);

impl Bucket {
    pub(super) const fn new(rate: Rate) -> Self {
        let burst_time = rate.time_of(rate.burst() as u64);
        Self { rate, burst_time, full_at: AtomicU64::new(0) }
    }

    pub(super) const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Takes `units` if the bucket has them at `now`. A cost of 0 always fits.
    #[inline]
    pub(super) fn take(&self, units: u32, now: u64) -> bool {
        if units == 0 {
            return true;
        }
        let (now, cost) = (now.min(LATEST), self.rate.time_of(u64::from(units)));
        if units > self.rate.burst() {
            return false;
        }
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now) + cost;
            if next > now + self.burst_time {
                return false;
            }
            match self.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => full_at = seen,
            }
        }
    }

    /// Gives back units that were taken.
    pub(super) fn give_back(&self, units: u32) {
        self.change(u64::from(units), 0, 0); // only an addition needs the time
    }

    /// Changes the number of units that a reservation has taken. More units than the bucket has
    /// become a debt.
    #[inline]
    pub(super) fn change(&self, from: u64, to: u64, now: u64) {
        if from == to {
            return;
        }
        let (now, add, sub) = (now.min(LATEST), self.rate.time_of(to), self.rate.time_of(from));
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            // A full bucket gets no fuller: units that refilled while they were reserved are
            // charged from `now` on.
            let start = if add > sub { full_at.max(now) } else { full_at };
            let next = (start + add.saturating_sub(sub)).saturating_sub(sub.saturating_sub(add));
            match self.full_at.compare_exchange_weak(
                full_at,
                next.min(LAST),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => full_at = seen,
            }
        }
    }

    /// Lowers the level at `now` to `units`, which may be negative. A lower level stays.
    #[cold]
    pub(super) fn lower_to(&self, units: i64, now: u64) {
        let (now, apart) = (now.min(LATEST), self.rate.time_of(units.unsigned_abs()));
        let empty_at = now + self.burst_time;
        let at = if units >= 0 { empty_at.saturating_sub(apart) } else { empty_at + apart };
        self.full_at.fetch_max(at.min(LAST), Ordering::AcqRel);
    }

    /// Returns the earliest time at which `units` fit, after `ahead` more nanoseconds of cost.
    /// The time is in the past if they fit now.
    pub(super) fn fits_at(&self, units: u64, ahead: u64) -> u64 {
        let full_at = self.full_at.load(Ordering::Relaxed);
        full_at
            .saturating_add(ahead)
            .saturating_add(self.rate.time_of(units))
            .saturating_sub(self.burst_time)
    }

    /// Makes every earlier change by another thread visible to this one, and this call visible to
    /// every later change. See [`Line`](super::line::Line).
    pub(super) fn touch(&self) {
        self.full_at.fetch_add(0, Ordering::AcqRel);
    }

    /// Returns the units in the bucket at `now`. Negative units are a debt, rounded up.
    pub(super) fn level(&self, now: u64) -> i64 {
        let now = now.min(LATEST);
        let full_at = self.full_at.load(Ordering::Relaxed);
        let used = full_at.saturating_sub(now);
        let burst = self.burst_time;
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        if used <= burst {
            signed(self.rate.units_in(burst - used))
        } else {
            -signed((used - burst).div_ceil(self.rate.time_of(1)))
        }
    }
}
