use std::sync::atomic::{self, Ordering};

use super::lease::{EMPTY, FIRST_LEASED, Lease, is_leased};
use super::pace::{Moment, Pace};
use super::rate::Rate;
use crate::sync::AtomicU64;

/// A token bucket in one word, by the generic cell rate algorithm (GCRA, ITU-T I.371). Pure: time
/// is an argument, in nanoseconds.
///
/// The word is the time at which the bucket is full again, so each unit taken adds the time in
/// which a unit refills. The bucket is empty if this time is a burst away. A later time is a debt:
/// it must refill too.
///
/// While the bucket is leased, the word is not a time. It is [`EMPTY`] less the time of the units
/// that the lease has, and a debt is above it. No clock changes it, so nothing refills. The two
/// ranges of words are apart, so a call that changes the word knows from the word alone how to read
/// it, and no change is lost while a lease begins or ends.
pub(super) struct Bucket {
    rate: Rate,
    /// The time in which the whole burst refills.
    burst_time: u64,
    /// Invariant: at least the time of all units taken and not given back, so that giving back
    /// never goes below zero.
    full_at: AtomicU64,
    /// The word after the last refusal that emptied the bucket, and 0 before. A hint for the words of a line,
    /// so it is not a subject of a model and always the standard library's.
    emptied: atomic::AtomicU64,
    lease: Lease,
    /// The clock of the word. It is late while the bucket uses a share of its rate.
    pace: Pace,
}

/// The latest reading of the clock, in nanoseconds: 292 years. Later readings count as this one.
/// Sums of times and of two costs stay below 2^64.
const LATEST: u64 = 1 << 63;
/// The largest time in the word. A larger debt is cut to it.
const LAST: u64 = FIRST_LEASED - 1;

/// The result of [`Bucket::take`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// The bucket does not have the units.
    Refused,
    /// The units are taken.
    Taken,
    /// The units are taken, and few units of the lease are left.
    Last,
}

impl Bucket {
    pub(super) const fn new(rate: Rate) -> Self {
        let burst_time = rate.time_of(rate.burst() as u64);
        Self {
            rate,
            burst_time,
            full_at: AtomicU64::new(0),
            emptied: atomic::AtomicU64::new(0),
            lease: Lease::new(),
            pace: Pace::new(),
        }
    }

    pub(super) const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Returns the limit of which the bucket uses a share: that of all processes, or else its rate.
    pub(super) fn limit(&self) -> Rate {
        #[cfg(feature = "fleet")]
        return self.lease.limit().unwrap_or(self.rate);
        #[cfg(not(feature = "fleet"))]
        self.rate
    }

    pub(super) const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Returns the moment of the bucket's clock at `now`.
    #[inline]
    fn moment(&self, now: u64) -> Moment {
        if self.pace.is_on() {
            self.slow_moment(now)
        } else {
            Moment { now: now.min(LATEST), gap: 0 }
        }
    }

    #[cold]
    fn slow_moment(&self, now: u64) -> Moment {
        let later = |late| {
            self.update(
                |word| if is_leased(word) { word } else { word.saturating_add(late).min(LAST) },
            );
        };
        let Moment { now, gap } = self.pace.moment(&self.rate, now.min(LATEST), later);
        Moment { now: now.min(LATEST), gap: gap.min(self.burst_time) }
    }

    /// Takes `units` if the bucket has them at `now`. A cost of 0 always fits.
    #[inline]
    pub(super) fn take(&self, units: u32, now: u64) -> Take {
        if units == 0 {
            return Take::Taken;
        }
        let cost = self.rate.time_of(u64::from(units));
        if units > self.rate.burst() {
            return Take::Refused;
        }
        let Moment { now: at, gap } = self.moment(now);
        // A cost that is larger than the part of the burst in use may use more of it.
        let start = at + gap.min(self.burst_time - cost);
        // Acquire, because a lease reads its end too.
        let mut full_at = self.full_at.load(Ordering::Acquire);
        loop {
            let next = if is_leased(full_at) {
                let next = full_at.saturating_add(cost);
                if next > EMPTY || now >= self.lease.end() {
                    return Take::Refused;
                }
                next
            } else {
                let next = full_at.max(start) + cost;
                if next > at + self.burst_time {
                    return Take::Refused;
                }
                next
            };
            match self.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) if is_leased(next) && next > self.lease.low() => return Take::Last,
                Ok(_) => return Take::Taken,
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
        let (add, sub) = (self.rate.time_of(to), self.rate.time_of(from));
        let (add, sub) = (add.saturating_sub(sub), sub.saturating_sub(add));
        let now = if add > 0 { self.moment(now).now } else { 0 }; // only an addition needs it
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = if is_leased(full_at) {
                (full_at.saturating_add(add) - sub).max(FIRST_LEASED)
            } else {
                // A full bucket gets no fuller: units that refilled while they were reserved are
                // charged from `now` on.
                let start = if add > 0 { full_at.max(now) } else { full_at };
                (start + add).saturating_sub(sub).min(LAST)
            };
            match self.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => full_at = seen,
            }
        }
    }

    /// Lowers the level at `at` to `units`, which may be negative. A lower level stays.
    #[cold]
    pub(super) fn lower_to(&self, units: i64, at: u64) {
        let now = self.moment(at).now;
        let lowered = |word: u64| {
            if is_leased(word) {
                word.max(self.leased_word(units))
            } else {
                word.max(self.word_at(units, now))
            }
        };
        if is_leased(self.update(lowered)) {
            self.lease.tell(u64::try_from(units).unwrap_or(0), at);
        }
    }

    /// Notes that a refusal has emptied the bucket.
    #[cold]
    pub(super) fn note_emptied(&self) {
        self.emptied.store(self.full_at.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns whether the bucket lacks units at `now` because a refusal has emptied it: nothing refills yet,
    /// or nothing was taken since. The owner of a lease knows better.
    pub(super) fn is_emptied(&self, now: u64) -> bool {
        let emptied = self.emptied.load(Ordering::Relaxed);
        let word = self.full_at.load(Ordering::Relaxed);
        if emptied == 0 || is_leased(emptied) || is_leased(word) {
            return false;
        }
        let now = self.moment(now).now;
        word > now && (word <= emptied || now.saturating_add(self.burst_time) < emptied)
    }

    /// Changes the word and returns the word before.
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let change = |word| Some(change(word));
        match self.full_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change) {
            Ok(word) | Err(word) => word,
        }
    }

    /// Returns the word of a bucket with `units` at `now` of its clock.
    fn word_at(&self, units: i64, now: u64) -> u64 {
        let apart = self.rate.time_of(units.unsigned_abs());
        let empty_at = now + self.burst_time;
        let at = if units >= 0 { empty_at.saturating_sub(apart) } else { empty_at + apart };
        at.min(LAST)
    }

    /// Returns the word of a lease with `units`.
    fn leased_word(&self, units: i64) -> u64 {
        let apart = self.rate.time_of(units.unsigned_abs());
        let word = if units >= 0 { EMPTY - apart } else { EMPTY.saturating_add(apart) };
        word.max(FIRST_LEASED)
    }

    /// Returns the time at which `units` fit. The time is in the past if they fit at `now`. For a
    /// lease this is the time if the lease got the whole rate from now on.
    pub(super) fn fits_at(&self, units: u64, now: u64) -> u64 {
        let (full_at, cost) = (self.full_at.load(Ordering::Relaxed), self.rate.time_of(units));
        if !is_leased(full_at) {
            return self.pace.when(full_at.saturating_add(cost).saturating_sub(self.burst_time));
        }
        match full_at.saturating_add(cost).saturating_sub(EMPTY) {
            0 => 0,
            lacks => now.saturating_add(lacks),
        }
    }

    /// Returns a time before which `units` cannot fit, after `ahead` more nanoseconds of cost.
    /// A lease can get any number of units at any time.
    pub(super) fn earliest(&self, units: u64, ahead: u64) -> u64 {
        let full_at = self.full_at.load(Ordering::Relaxed);
        if is_leased(full_at) {
            return 0;
        }
        let fits_at = full_at
            .saturating_add(ahead)
            .saturating_add(self.rate.time_of(units))
            .saturating_sub(self.burst_time);
        self.pace.when(fits_at)
    }

    /// Does the same while nothing is taken before `held_until`: only the part of the burst that is in use then
    /// refills until that time. `first` is the largest cost in nanoseconds that may be taken first.
    #[cold]
    pub(super) fn earliest_after(
        &self,
        units: u64,
        ahead: u64,
        first: u64,
        held_until: u64,
    ) -> u64 {
        if is_leased(self.full_at.load(Ordering::Relaxed)) {
            return 0;
        }
        let Moment { now, gap } = self.pace.forecast(&self.rate, held_until.min(LATEST));
        let start = now.saturating_add(gap.min(self.burst_time.saturating_sub(first)));
        let fits_at = start
            .saturating_add(ahead)
            .saturating_add(self.rate.time_of(units))
            .saturating_sub(self.burst_time);
        self.pace.when(fits_at)
    }

    /// Makes every earlier change by another thread visible to this one, and this call visible to
    /// every later change. See [`Line`](super::line::Line).
    pub(super) fn touch(&self) {
        self.full_at.fetch_add(0, Ordering::AcqRel);
    }

    /// Returns the units in the bucket at `now`: a take of so many does not fail. Negative units are
    /// a debt, rounded up. After the end of a lease no units are left.
    pub(super) fn level(&self, now: u64) -> i64 {
        let full_at = self.full_at.load(Ordering::Acquire);
        let level = self.level_of(full_at, self.moment(now).now);
        if is_leased(full_at) && now >= self.lease.end() { level.min(0) } else { level }
    }

    /// Returns the units at `now` if the word is `full_at`. For a lease, whether it has ended does
    /// not matter.
    fn level_of(&self, full_at: u64, now: u64) -> i64 {
        let (full_at, empty_at) = if is_leased(full_at) {
            (full_at, EMPTY)
        } else {
            (full_at.max(now), now + self.burst_time)
        };
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        match full_at.checked_sub(empty_at) {
            Some(debt) => -signed(debt.div_ceil(self.rate.time_of(1))),
            None => signed(self.rate.units_in(empty_at - full_at)),
        }
    }
}

impl Bucket {
    pub(super) fn is_leased(&self) -> bool {
        is_leased(self.full_at.load(Ordering::Relaxed))
    }

    /// Returns the lease.
    pub(super) const fn lease(&self) -> &Lease {
        &self.lease
    }
}

/// The operations for the owner of the lease.
#[cfg(feature = "fleet")]
impl Bucket {
    /// Begins a lease without units, but a debt stays. The lease ends at once until
    /// [`lease_until`](Self::lease_until).
    pub(super) fn begin_lease(&self, now: u64) {
        self.lease.reset();
        let at = self.moment(now);
        self.update(|word| {
            let level = self.level_of(word, at.now);
            if is_leased(word) { word } else { self.leased_word(level.min(0)) }
        });
    }

    /// Ends the lease. The bucket refills by time, from its level on, but units of a lease that has
    /// ended before are lost.
    pub(super) fn end_lease(&self, now: u64) {
        let has_ended = now >= self.lease.end();
        self.lease.set_limit(None);
        let at = self.moment(now);
        self.update(|word| {
            let level = self.level_of(word, at.now);
            let level = if has_ended { level.min(0) } else { level };
            // Not before `now`: a bucket is never fuller than its burst.
            if is_leased(word) { self.word_at(level, at.now).max(at.now) } else { word }
        });
    }

    /// Sets the end of the lease.
    pub(super) fn lease_until(&self, end: u64) {
        self.lease.set_end(end);
        self.touch(); // a waiter sees the end, or the caller sees the waiter
    }

    /// Sets the level below which a take says [`Take::Last`].
    pub(super) fn set_low(&self, units: u64) {
        self.lease.set_low(EMPTY - self.rate.time_of(units));
    }

    /// Returns the units of the lease, also after its end.
    pub(super) fn leased(&self) -> i64 {
        self.level_of(self.full_at.load(Ordering::Relaxed), 0)
    }

    /// Takes the lowest level reported since the last call.
    pub(super) fn told(&self) -> Option<u64> {
        self.lease.told()
    }
}
