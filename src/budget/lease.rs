use std::sync::atomic::Ordering;

use super::Budget;
use crate::signal::Signal;

/// The operations for the owner of a lease. Amounts are in millionths of a token.
impl Budget {
    /// Returns the signal that is set when few tokens are left.
    pub(crate) const fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Returns what is left, with the deposits that wait for the store.
    pub(crate) fn balance(&self) -> i64 {
        let earned = self.earned.load(Ordering::Relaxed);
        let all = self.left.load(Ordering::Relaxed).saturating_add(earned);
        i64::try_from(all).unwrap_or(i64::MAX)
    }

    /// Adds an amount up to the capacity, or takes it as far as it is there. Deposits that wait for the
    /// store are taken first.
    pub(crate) fn adjust(&self, amount: i64) {
        let capacity = self.capacity;
        let amount = if amount < 0 { self.take_earned(amount) } else { amount };
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_add_signed(amount).min(capacity))
        });
    }

    /// Takes an amount from the deposits that wait. Returns what is still to take.
    fn take_earned(&self, amount: i64) -> i64 {
        let less = |earned: u64| Some(earned.saturating_add_signed(amount));
        let before = self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        amount.saturating_add_unsigned(before.unwrap_or_else(|same| same)).min(0)
    }

    /// Sets the number above which deposits wait for the store. Those that waited and are below it
    /// can be used now.
    pub(crate) fn set_usable(&self, amount: u64) {
        self.usable.store(amount.min(self.capacity), Ordering::Relaxed);
        if self.earned.load(Ordering::Relaxed) > 0 {
            self.bring(self.earned.swap(0, Ordering::Relaxed), self.capacity);
        }
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
        self.set_usable(self.capacity);
    }
}
