use std::sync::atomic::Ordering;

use super::Budget;
use crate::signal::Signal;

/// The operations for the owner of a lease. Amounts are in millionths of a token.
impl Budget {
    /// Returns the signal that is set when few tokens are left.
    pub(crate) const fn signal(&self) -> &Signal {
        &self.signal
    }

    pub(crate) fn balance(&self) -> i64 {
        i64::try_from(self.left.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    /// Adds an amount up to the capacity, or takes it as far as it is there.
    pub(crate) fn adjust(&self, amount: i64) {
        let capacity = self.capacity;
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_add_signed(amount).min(capacity))
        });
    }

    pub(crate) fn set_low(&self, amount: u64) {
        self.low.store(amount, Ordering::Relaxed);
    }

    /// Sets the number above which deposits are lost.
    pub(crate) fn set_ceiling(&self, amount: u64) {
        self.ceiling.store(amount.min(self.capacity), Ordering::Relaxed);
    }

    pub(crate) fn end_lease(&self) {
        self.set_low(0);
        self.set_ceiling(self.capacity);
    }
}
