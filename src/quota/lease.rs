#[cfg(feature = "fleet")]
use std::sync::PoisonError;
use std::sync::atomic::{self, Ordering};

#[cfg(feature = "fleet")]
use super::rate::Rate;
use crate::sync::AtomicU64;
#[cfg(feature = "fleet")]
use crate::sync::Mutex;

/// The lease of a bucket whose limit is shared with other processes.
///
/// A leased bucket does not refill by time: it has the units that it was granted, and none after
/// the end of the lease. Whether the bucket is leased is in its word, see [`is_leased`].
pub(super) struct Lease {
    /// The end of the lease in nanoseconds.
    end: AtomicU64,
    /// The word of the bucket above which few units are left.
    low: AtomicU64,
    /// The lowest level that the provider has reported, or [`NOT_TOLD`].
    told: AtomicU64,
    /// The time in nanoseconds before which nothing refills after a refusal. It only grows and `told` publishes it, so
    /// it is not a subject of a model and always the standard library's.
    resumes_at: atomic::AtomicU64,
    /// The largest amount of a call that did not wait for it.
    refused: AtomicU64,
    /// True if `limit` has one. A hint that spares the lock, so it is not a subject of a model and always the standard
    /// library's.
    #[cfg(feature = "fleet")]
    has_limit: atomic::AtomicBool,
    /// The limit that all processes have instead of the configured one.
    #[cfg(feature = "fleet")]
    limit: Mutex<Option<Rate>>,
}

/// The first word of a lease. A larger lease is cut to it.
pub(super) const FIRST_LEASED: u64 = (1 << 63) + (1 << 62);
/// The word of a lease without units and without a debt.
pub(super) const EMPTY: u64 = FIRST_LEASED + (1 << 61);

/// Returns whether a bucket with this word is leased.
#[inline]
pub(super) const fn is_leased(word: u64) -> bool {
    word >= FIRST_LEASED
}

/// The number that stands for no report.
const NOT_TOLD: u64 = u64::MAX;

impl Lease {
    pub(super) const fn new() -> Self {
        Self {
            end: AtomicU64::new(0),
            low: AtomicU64::new(u64::MAX),
            told: AtomicU64::new(NOT_TOLD),
            resumes_at: atomic::AtomicU64::new(0),
            refused: AtomicU64::new(0),
            #[cfg(feature = "fleet")]
            has_limit: atomic::AtomicBool::new(false),
            #[cfg(feature = "fleet")]
            limit: Mutex::new(None),
        }
    }

    /// Prepares a lease that has ended, without a report.
    #[cfg(feature = "fleet")]
    pub(super) fn reset(&self) {
        self.set_end(0);
        self.set_low(u64::MAX);
        self.told.store(NOT_TOLD, Ordering::Relaxed);
        self.resumes_at.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    #[cfg(feature = "fleet")]
    pub(super) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn low(&self) -> u64 {
        self.low.load(Ordering::Relaxed)
    }

    #[cfg(feature = "fleet")]
    pub(super) fn set_low(&self, low: u64) {
        self.low.store(low, Ordering::Relaxed);
    }

    /// Keeps the lowest reported level, and the latest time from which on it refills. A level is an `i64`
    /// and never [`NOT_TOLD`].
    pub(super) fn tell(&self, units: u64, at: u64) {
        self.resumes_at.fetch_max(at, Ordering::Relaxed);
        self.told.fetch_min(units, Ordering::Release); // who takes it sees the time
    }

    /// Keeps the largest refused amount.
    pub(super) fn refuse(&self, units: u64) {
        self.refused.fetch_max(units, Ordering::Relaxed);
    }

    /// Takes the largest amount refused since the last call.
    #[cfg(feature = "fleet")]
    pub(super) fn refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// Sets the limit that all processes have instead of the configured one. `None` removes it.
    #[cfg(feature = "fleet")]
    pub(super) fn set_limit(&self, limit: Option<Rate>) {
        let mut kept = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = limit;
        self.has_limit.store(limit.is_some(), Ordering::Relaxed);
    }

    /// Returns the limit that all processes have instead of the configured one.
    #[cfg(feature = "fleet")]
    pub(super) fn limit(&self) -> Option<Rate> {
        if !self.has_limit.load(Ordering::Relaxed) {
            return None;
        }
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time before which nothing refills after a refusal, or an earlier one.
    #[cfg(feature = "fleet")]
    pub(super) fn resumes_at(&self) -> u64 {
        self.resumes_at.load(Ordering::Relaxed)
    }

    /// Takes the lowest level reported since the last call.
    #[cfg(feature = "fleet")]
    pub(super) fn told(&self) -> Option<u64> {
        let units = self.told.swap(NOT_TOLD, Ordering::Acquire);
        (units != NOT_TOLD).then_some(units)
    }
}

/// The amounts of the calls in the queue, in one dimension.
#[cfg(feature = "fleet")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The amount of the first call.
    pub first: u64,
    /// The sum of the amounts of all calls.
    pub all: u64,
}
