use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Retry tokens in an atomic. A success puts some back, up to the capacity.
pub struct HandBudget {
    left: AtomicU64,
    capacity: u64,
    deposit: u64,
    cost: u64,
}

impl HandBudget {
    pub const fn new(capacity: u64, deposit: u64, cost: u64) -> Self {
        Self { left: AtomicU64::new(capacity), capacity, deposit, cost }
    }

    /// Creates an empty budget.
    pub const fn filling(capacity: u64, deposit: u64, cost: u64) -> Self {
        Self { left: AtomicU64::new(0), capacity, deposit, cost }
    }

    #[inline]
    pub fn deposit(&self) {
        let _ = self.left.fetch_update(Relaxed, Relaxed, |left| {
            (left < self.capacity).then(|| (left + self.deposit).min(self.capacity))
        });
    }

    #[inline]
    pub fn withdraw(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(self.cost)).is_ok()
    }
}
