//! The generator behind jitter.

use std::ops::RangeInclusive;

use rand::RngExt;

/// Draws a number of `range`, evenly, with the thread's generator, which is looked up only here.
#[inline(never)]
pub(crate) fn draw(range: RangeInclusive<u64>) -> u64 {
    rand::rng().random_range(range)
}
