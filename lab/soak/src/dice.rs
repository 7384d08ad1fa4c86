//! Random numbers of one call, from its seed alone.

use std::cell::Cell;
use std::time::Duration;

/// A generator with one word of state: `SplitMix64`.
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    /// Creates the generator of stream `stream` of a run.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Cell::new(mixed(seed ^ mixed(stream))))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        mixed(self.0.get())
    }

    /// Returns a number below `bound`, or 0 if that is 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or_default()
    }

    pub(crate) fn is_one_in(&self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn of<T: Copy>(&self, choices: &[T]) -> T {
        let at = self.below(choices.len() as u64);
        choices[usize::try_from(at).unwrap_or_default()]
    }

    /// Returns a time from 2^10 ns to 2^`most` ns. Each doubling is as likely as any other.
    pub(crate) fn time(&self, most: u32) -> Duration {
        let bits = 10 + self.below(u64::from(most.saturating_sub(10)));
        Duration::from_nanos((1 << bits) + self.below(1 << bits))
    }
}

/// Mixes the bits of a word.
pub(crate) const fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}
