use std::sync::atomic::Ordering;

use super::lease::{self, Lease};
use super::rate::Rate;
use crate::signal::Signal;
use crate::sync::AtomicU64;

/// A token bucket in one word, by the generic cell rate algorithm (GCRA, ITU-T I.371). Pure: time
/// is an argument, in nanoseconds.
///
/// The word is the time at which the bucket is full again. Each unit taken adds the time in which a
/// unit refills. The bucket is empty if this time is a burst away. A later time is a debt: it must
/// refill too.
///
/// While the bucket is leased, its clock stands still at [`LEASED`]. So it does not refill, and the
/// word may be earlier than the clock: a lease may be larger than the burst.
pub(super) struct Bucket {
    rate: Rate,
    /// The time in which the whole burst refills.
    burst_time: u64,
    /// Invariant: at least the time of all units taken and not given back, so that giving back
    /// never goes below zero.
    full_at: AtomicU64,
    lease: Lease,
}

/// The latest reading of the clock, in nanoseconds: 292 years. Later readings count as this one.
/// Sums of times and of two costs stay below 2^64.
const LATEST: u64 = 1 << 63;
/// The largest value of the word. A larger debt is cut to it.
const LAST: u64 = LATEST + (1 << 62);
/// The time on the clock of a leased bucket.
const LEASED: u64 = LATEST;

impl Bucket {
    pub(super) const fn new(rate: Rate) -> Self {
        let burst_time = rate.time_of(rate.burst() as u64);
        Self { rate, burst_time, full_at: AtomicU64::new(0), lease: Lease::new() }
    }

    pub(super) const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Takes `units` if the bucket has them at `now`. A cost of 0 always fits. The signal is set if
    /// few units of a lease are left.
    #[inline]
    pub(super) fn take(&self, units: u32, now: u64, signal: &Signal) -> bool {
        if units == 0 {
            return true;
        }
        let (now, cost) = (now.min(LATEST), self.rate.time_of(u64::from(units)));
        if units > self.rate.burst() {
            return false;
        }
        let lease_end = self.lease.end();
        let (start, most) = match lease_end {
            lease::NONE => (now, now + self.burst_time),
            _ if now < lease_end => (0, LEASED + self.burst_time),
            _ => return false,
        };
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(start) + cost;
            if next > most {
                return false;
            }
            match self.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if next > self.lease.low() {
                        signal.hint();
                    }
                    return true;
                }
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
        let (now, add, sub) = (self.start(now), self.rate.time_of(to), self.rate.time_of(from));
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
        let apart = self.rate.time_of(units.unsigned_abs());
        let empty_at = self.clock(now) + self.burst_time;
        let at = if units >= 0 { empty_at.saturating_sub(apart) } else { empty_at + apart };
        self.full_at.fetch_max(at.min(LAST), Ordering::AcqRel);
        if self.is_leased() {
            self.lease.tell(u64::try_from(units).unwrap_or(0));
        }
    }

    /// Returns the earliest time at which `units` fit, after `ahead` more nanoseconds of cost.
    /// The time is in the past if they fit at `now`. For a lease this is the time if the lease got
    /// the whole rate from now on.
    pub(super) fn fits_at(&self, units: u64, ahead: u64, now: u64) -> u64 {
        let full_at = self.full_at.load(Ordering::Relaxed);
        let at = full_at
            .saturating_add(ahead)
            .saturating_add(self.rate.time_of(units))
            .saturating_sub(self.burst_time);
        if !self.is_leased() {
            return at;
        }
        let lacks = at.saturating_sub(LEASED);
        if lacks == 0 { 0 } else { now.saturating_add(lacks) }
    }

    /// Makes every earlier change by another thread visible to this one, and this call visible to
    /// every later change. See [`Line`](super::line::Line).
    pub(super) fn touch(&self) {
        self.full_at.fetch_add(0, Ordering::AcqRel);
    }

    /// Returns the units in the bucket at `now`. Negative units are a debt, rounded up.
    pub(super) fn level(&self, now: u64) -> i64 {
        let level = self.level_on(self.clock(now));
        if self.is_leased() && now >= self.lease.end() { level.min(0) } else { level }
    }

    /// Returns the units in the bucket at a time on its own clock.
    fn level_on(&self, clock: u64) -> i64 {
        let full_at = self.full_at.load(Ordering::Relaxed);
        let empty_at = clock + self.burst_time;
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        if full_at > empty_at {
            return -signed((full_at - empty_at).div_ceil(self.rate.time_of(1)));
        }
        // Only a lease is fuller than the burst.
        let earliest = if self.is_leased() { 0 } else { clock };
        signed(self.rate.units_in(empty_at - full_at.max(earliest)))
    }

    #[inline]
    pub(super) fn is_leased(&self) -> bool {
        self.lease.end() != lease::NONE
    }

    /// Returns the time on the clock of the bucket.
    #[inline]
    fn clock(&self, now: u64) -> u64 {
        if self.is_leased() { LEASED } else { now.min(LATEST) }
    }

    /// Returns the earliest time at which a charge can begin.
    #[inline]
    fn start(&self, now: u64) -> u64 {
        if self.is_leased() { 0 } else { now.min(LATEST) }
    }

    /// Begins a lease without units. It ends at once until [`lease_until`](Self::lease_until).
    pub(super) fn begin_lease(&self) {
        self.lease.set_end(0);
        self.full_at.store(LEASED + self.burst_time, Ordering::Release);
    }

    /// Ends the lease: the bucket refills by time, from its level on.
    pub(super) fn end_lease(&self, now: u64) {
        let level = self.leased();
        self.lease.set_low(u64::MAX);
        self.lease.set_end(lease::NONE);
        let empty_at = now.min(LATEST) + self.burst_time;
        let apart = self.rate.time_of(level.unsigned_abs());
        let at = if level > 0 { empty_at.saturating_sub(apart) } else { empty_at + apart };
        self.full_at.store(at.min(LAST), Ordering::Release);
    }

    pub(super) fn lease_until(&self, end: u64) {
        self.lease.set_end(end.min(lease::NONE - 1));
    }

    /// Sets the level below which a take sets the signal.
    pub(super) fn set_low(&self, units: u64) {
        let left = self.rate.time_of(units);
        self.lease.set_low((LEASED + self.burst_time).saturating_sub(left));
    }

    /// Returns the units of the lease, also after its end.
    pub(super) fn leased(&self) -> i64 {
        self.level_on(LEASED)
    }

    /// Takes the lowest level reported since the last call.
    pub(super) fn told(&self) -> Option<u64> {
        self.lease.told()
    }
}
