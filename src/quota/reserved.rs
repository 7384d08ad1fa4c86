use super::{Charge, Cost, Usage};

/// The amounts that one attempt holds of a quota, in eight bytes. Each attempt stores them.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The output tokens: the reserved ones, and then the charged ones.
    pub(super) output: u32,
    /// The estimated input tokens in steps of [`STEP`], if the caller does not know its input.
    input: u16,
    /// Bits of `INPUT`, `OUTPUT` and `REPORTED`.
    flags: u8,
    /// True once the request may have been sent.
    pub(crate) is_sent: bool,
}

/// The resolution of an estimated input, in tokens. The largest estimate is four million.
const STEP: u32 = 64;

/// Set once the input is charged by its usage.
const INPUT: u8 = 1;
/// Set once the output is charged by its usage.
const OUTPUT: u8 = 2;
/// Set once the provider has reported its limits with the answer.
const REPORTED: u8 = 4;

impl Reserved {
    /// The reservation of an attempt without a quota.
    pub(crate) const NONE: Self = Self { output: 0, input: 0, flags: 0, is_sent: false };

    /// Creates a reservation of `output` tokens, and of at least `input` tokens if these are an
    /// estimate.
    #[inline]
    pub(super) fn new(input: u32, output: u32) -> Self {
        let input = u16::try_from(input.div_ceil(STEP)).unwrap_or(u16::MAX);
        Self { output, input, flags: 0, is_sent: false }
    }

    /// Returns the reserved input tokens.
    #[inline]
    pub(super) fn input(self, cost: &Cost<'_>) -> u32 {
        cost.known_input().unwrap_or(u32::from(self.input) * STEP)
    }

    /// Returns the amounts by dimension: requests, input, output, tokens.
    #[inline]
    pub(super) fn amounts(self, cost: &Cost<'_>) -> Amounts {
        let input = self.input(cost);
        [1, input, self.output, input.saturating_add(self.output)]
    }

    /// Returns the reserved tokens of input and output.
    pub(crate) fn tokens(self, cost: &Cost<'_>) -> u64 {
        u64::from(self.input(cost)) + u64::from(self.output)
    }

    #[inline]
    pub(super) const fn is_input_charged(self) -> bool {
        self.flags & INPUT != 0
    }

    #[inline]
    pub(super) const fn is_output_charged(self) -> bool {
        self.flags & OUTPUT != 0
    }

    #[inline]
    pub(super) const fn is_reported(self) -> bool {
        self.flags & REPORTED != 0
    }

    pub(super) const fn note_reported(&mut self) {
        self.flags |= REPORTED;
    }

    /// Charges a usage and returns the change of input and of output, each as from and to.
    #[inline]
    pub(super) fn charge(&mut self, cost: &Cost<'_>, charge: &Charge, usage: Usage) -> Change {
        let input = self.input(cost);
        let mut changed = Change { input: (input, input), output: (self.output, self.output) };
        if let Some(plain) = usage.input().filter(|_| !self.is_input_charged()) {
            self.flags |= INPUT;
            changed.input.1 = charge.input_of(plain, usage.cache_reads(), usage.cache_writes());
        }
        if let Some(output) = usage.output() {
            self.flags |= OUTPUT;
            self.output = charge.output_of(output);
            changed.output.1 = self.output;
        }
        changed
    }
}

/// Units by dimension.
pub(super) type Amounts = [u32; 4];

/// The change of a charge.
pub(super) struct Change {
    pub(super) input: (u32, u32),
    pub(super) output: (u32, u32),
}
