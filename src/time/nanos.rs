use std::time::Duration;

/// Converts to nanoseconds for storage in an atomic. Saturates at 584 years.
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(1_000_000_000) {
        Some(nanos) => nanos.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}
