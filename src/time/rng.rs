//! Random numbers: the generator of the thread, seeded sequences, and numbers in a range.

use std::ops::RangeInclusive;

/// The step from one state of a sequence to the next: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws 64 bits from the generator of the thread. Only this function looks it up.
#[inline(never)]
pub(crate) fn from_thread() -> u64 {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    return rand::random();
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    return bare::draw();
}

/// The generator of a target without a system. It never panics, even without entropy.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod bare {
    use std::cell::RefCell;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[cfg(feature = "browser")]
    use crate::time::{nanos, since_1970};

    thread_local! {
        static GENERATOR: RefCell<SmallRng> = RefCell::new(SmallRng::seed_from_u64(seed()));
    }

    /// Draws 64 bits from the generator of this thread.
    pub(super) fn draw() -> u64 {
        GENERATOR.with_borrow_mut(Rng::next_u64)
    }

    /// Returns entropy of JavaScript, or else the time.
    #[cfg(feature = "browser")]
    fn seed() -> u64 {
        getrandom::u64().unwrap_or_else(|_| nanos(since_1970().unwrap_or_default()))
    }

    /// Returns a constant: without JavaScript the target has neither entropy nor a clock.
    #[cfg(not(feature = "browser"))]
    fn seed() -> u64 {
        0
    }
}

/// A seeded sequence of draws: `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014). Its state is one word that only grows, so a draw by several
/// threads needs one addition.
pub(crate) mod sequence {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::STEP;

    /// Returns the `nth` draw from `seed`, counted from 0.
    pub(crate) const fn nth(seed: u64, nth: u64) -> u64 {
        let mut z = seed.wrapping_add(nth.wrapping_add(1).wrapping_mul(STEP));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next draw. `state` begins as the seed.
    pub(crate) fn next(state: &AtomicU64) -> u64 {
        nth(state.fetch_add(STEP, Ordering::Relaxed), 0)
    }
}

/// Returns a uniform number from `range`, made of one or two words of `bits`.
///
/// The number is the upper word of `bits` times the size of the range (Lemire, "Fast Random Integer
/// Generation in an Interval", ACM TOMACS 2019). A second word extends the fraction when it can
/// change the result (Canon, "An optimal algorithm for bounded random integers", Swift pull request
/// 39143, 2021). The probability of each number differs from the uniform one by at most 2^-128.
/// There is no rejection, so `bits` may be constant.
#[inline(never)]
pub(crate) fn within(range: RangeInclusive<u64>, mut bits: impl FnMut() -> u64) -> u64 {
    let (start, end) = range.into_inner();
    let Some(size) = end.saturating_sub(start).checked_add(1) else { return bits() };
    let (number, fraction) = product(bits(), size);
    // No carry is possible from a smaller fraction.
    if fraction <= size.wrapping_neg() {
        return start + number;
    }
    let (more, _) = product(bits(), size);
    start + number + u64::from(fraction.checked_add(more).is_none())
}

/// Returns the upper and the lower word of a product.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
const fn product(a: u64, b: u64) -> (u64, u64) {
    let product = a as u128 * b as u128;
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the words in turn, and repeats the last one.
    fn words<const N: usize>(words: [u64; N]) -> impl FnMut() -> u64 {
        let mut words = words.into_iter();
        let mut last = 0;
        move || {
            last = words.next().unwrap_or(last);
            last
        }
    }

    proptest! {
        /// The number is the integer part of a fraction of 128 bits times the size.
        #[test]
        fn a_number_is_a_share_of_the_range(start: u64, end: u64, high: u64, low: u64) {
            let (start, end) = (start.min(end), start.max(end));
            let number = within(start..=end, words([high, low]));
            prop_assert!((start..=end).contains(&number));
            let size = u128::from(end - start) + 1;
            if size <= u128::from(u64::MAX) {
                // high·size + ⌊low·size / 2^64⌋, without its lowest 64 bits
                let exact = u128::from(high) * size + ((u128::from(low) * size) >> 64);
                prop_assert_eq!(u128::from(number - start), exact >> 64);
            } else {
                prop_assert_eq!(number, high);
            }
        }

        /// Constant bits end too. All zeros give the start of the range and all ones its end.
        #[test]
        fn constant_bits_end(start: u64, end: u64, bits: u64) {
            let (start, end) = (start.min(end), start.max(end));
            prop_assert!((start..=end).contains(&within(start..=end, || bits)));
            prop_assert_eq!(within(start..=end, || 0), start);
            prop_assert_eq!(within(start..=end, || u64::MAX), end);
        }

        /// The two ways through a sequence agree.
        #[test]
        fn a_sequence_is_its_own_list(seed: u64) {
            let state = std::sync::atomic::AtomicU64::new(seed);
            for nth in 0..20 {
                prop_assert_eq!(sequence::next(&state), sequence::nth(seed, nth));
            }
        }
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "no input panics")]
    fn an_empty_range_is_its_start() {
        assert_eq!(within(9..=3, || u64::MAX), 9);
    }

    /// Vigna's `splitmix64.c` has these outputs from this seed.
    #[test]
    fn the_sequence_is_the_published_one() {
        let first: Vec<_> = (0..3).map(|nth| sequence::nth(1_234_567, nth)).collect();
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, published);
    }

    /// The chi-square test of 60,000 numbers for each range, at a significance of one in a million.
    #[test]
    fn numbers_are_uniform() {
        for (size, limit) in [(2_u64, 23.9), (7, 38.3), (10, 44.8), (100, 178.7)] {
            let state = std::sync::atomic::AtomicU64::new(size);
            let mut counts = vec![0_u32; usize::try_from(size).unwrap()];
            for _ in 0..60_000 {
                let number = within(1..=size, || sequence::next(&state));
                counts[usize::try_from(number - 1).unwrap()] += 1;
            }
            let expected = 60_000.0 / f64::from(u32::try_from(size).unwrap());
            let square = |count: u32| (f64::from(count) - expected).powi(2) / expected;
            let sum: f64 = counts.into_iter().map(square).sum();
            assert!(sum < limit, "{size}: {sum}");
        }
    }
}
