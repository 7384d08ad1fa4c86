//! The random number generator behind jitter.

use std::ops::RangeInclusive;

use rand::RngExt;

/// Draws a uniform number from `range`. Only this function looks the thread's generator up.
#[inline(never)]
pub(crate) fn draw(range: RangeInclusive<u64>) -> u64 {
    rand::rng().random_range(range)
}
