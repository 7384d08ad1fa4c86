use super::lease::Waiting;
use super::{Dimension, Quota, Rate};
use crate::signal::Signal;

/// The operations for the owner of a lease. Times are in nanoseconds.
impl Quota {
    /// Returns the signal that is set when calls need more units than the lease has.
    pub(crate) const fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Takes the refill and the units from every bucket. A debt stays.
    pub(crate) fn begin_lease(&self, now: u64) {
        self.buckets.iter().flatten().for_each(|bucket| bucket.begin_lease(now));
    }

    /// Lets every bucket refill by time again, from its level on. Wakes no waiter.
    pub(crate) fn end_lease(&self, now: u64) {
        self.buckets.iter().flatten().for_each(|bucket| bucket.end_lease(now));
    }

    /// Wakes the first waiter.
    pub(crate) fn wake_first(&self) {
        self.line.wake_first();
    }

    /// Sets the end of the lease of one dimension.
    pub(crate) fn lease_until(&self, dimension: Dimension, end: u64) {
        if let Some(bucket) = &self.buckets[dimension.index()] {
            bucket.lease_until(end);
            self.line.wake_first();
        }
    }

    /// Sets the level below which the signal is set.
    pub(crate) fn set_low(&self, dimension: Dimension, units: u64) {
        if let Some(bucket) = &self.buckets[dimension.index()] {
            bucket.set_low(units);
        }
    }

    /// Returns the units of the lease, also after its end. Negative units are a debt.
    pub(crate) fn leased(&self, dimension: Dimension) -> Option<i64> {
        Some(self.buckets[dimension.index()].as_ref()?.leased())
    }

    /// Adds units to a lease, or takes them.
    pub(crate) fn adjust(&self, dimension: Dimension, units: i64) {
        let Some(bucket) = &self.buckets[dimension.index()] else { return };
        let amount = units.unsigned_abs();
        if units > 0 {
            bucket.change(amount, 0, 0);
            self.line.wake_first();
        } else {
            bucket.change(0, amount, 0);
        }
    }

    /// Takes the largest amount refused to a call since the last call of this function.
    pub(crate) fn refused(&self, dimension: Dimension) -> u64 {
        self.buckets[dimension.index()].as_ref().map_or(0, |bucket| bucket.lease().refused())
    }

    /// Takes the lowest level that the provider has reported since the last call.
    pub(crate) fn told(&self, dimension: Dimension) -> Option<u64> {
        self.buckets[dimension.index()].as_ref()?.told()
    }

    /// Returns the time in nanoseconds before which nothing refills after a refusal, or an earlier one.
    pub(crate) fn resumes_at(&self, dimension: Dimension) -> u64 {
        self.buckets[dimension.index()].as_ref().map_or(0, |bucket| bucket.lease().resumes_at())
    }

    /// Returns the amounts of the calls in the queue.
    pub(crate) fn waiting_for(&self, dimension: Dimension) -> Waiting {
        self.line.amounts(dimension)
    }

    /// Takes what this process has learned of a limit since the last call.
    pub(crate) fn take_learned(&self, dimension: Dimension) -> Option<Learned> {
        let (change, reported) = self.buckets[dimension.index()].as_ref()?.pace().take_learned();
        Some(Learned { change, reported })
    }

    /// Sets the limit that all processes have instead of the configured one. `None` removes it.
    pub(crate) fn use_limit(&self, dimension: Dimension, limit: Option<Rate>) {
        if let Some(bucket) = &self.buckets[dimension.index()] {
            bucket.lease().set_limit(limit);
        }
    }

    /// Uses a share of a limit, and allows at most another one. Returns whether this process has warned alone of a
    /// lower limit since the last time.
    pub(crate) fn use_share(&self, dimension: Dimension, share: f64, most: f64, now: u64) -> bool {
        let bucket = self.buckets[dimension.index()].as_ref();
        bucket.is_some_and(|bucket| bucket.pace().join(bucket.rate(), share, most, now))
    }

    /// Notes a line of this process alone on a limit: that it is lower, or the end of that.
    pub(crate) fn note_alone(&self, dimension: Dimension, is_lower: bool) {
        if let Some(bucket) = &self.buckets[dimension.index()] {
            bucket.pace().note_alone(is_lower);
        }
    }
}

/// The lesson of a process about a limit. The numbers are shares of its configured limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Learned {
    /// The change that refusals and calls without a refusal have taught since the last time. The
    /// changes of all processes add up: each of them sees its own refusals only.
    pub change: f64,
    /// The limit that the provider reports, if it is lower. All processes see the same one.
    pub reported: Option<f64>,
}
