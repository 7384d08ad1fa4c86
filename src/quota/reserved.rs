use super::{Charge, Cost, Usage};

/// The amounts that one attempt holds of a quota, in eight bytes. Each attempt stores them.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The output tokens: the reserved ones, and then the charged ones.
    pub(super) output: u32,
    /// The input tokens in the lower bits, and above them the flags. These are the estimated tokens
    /// if the caller does not know its input, and then the charged ones.
    bits: u32,
}

/// The bits of the input. A larger estimate or charge counts as this one: 268 million tokens.
const MOST_INPUT: u32 = (1 << 28) - 1;

/// Set once the input is charged by its usage.
const INPUT: u32 = 1 << 28;
/// Set once the output is charged by its usage.
const OUTPUT: u32 = 1 << 29;
/// Set once the provider has reported its limits with the answer.
const REPORTED: u32 = 1 << 30;
/// Set once the request may have been sent.
const SENT: u32 = 1 << 31;

impl Reserved {
    /// The reservation of an attempt without a quota.
    pub(crate) const NONE: Self = Self { output: 0, bits: 0 };

    /// Creates a reservation of `output` tokens, and of `input` tokens if these are an estimate.
    #[inline]
    pub(super) const fn new(input: u32, output: u32) -> Self {
        let input = if input > MOST_INPUT { MOST_INPUT } else { input };
        Self { output, bits: input }
    }

    /// Returns the reserved or charged input tokens.
    #[inline]
    pub(super) fn input(self, cost: &Cost<'_>) -> u32 {
        let own = self.bits & MOST_INPUT;
        if self.is_input_charged() { own } else { cost.known_input().unwrap_or(own) }
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
        self.bits & INPUT != 0
    }

    #[inline]
    pub(super) const fn is_output_charged(self) -> bool {
        self.bits & OUTPUT != 0
    }

    #[inline]
    pub(super) const fn is_reported(self) -> bool {
        self.bits & REPORTED != 0
    }

    pub(super) const fn note_reported(&mut self) {
        self.bits |= REPORTED;
    }

    #[inline]
    pub(crate) const fn is_sent(self) -> bool {
        self.bits & SENT != 0
    }

    #[inline]
    pub(crate) const fn note_sent(&mut self) {
        self.bits |= SENT;
    }

    pub(crate) const fn note_unsent(&mut self) {
        self.bits &= !SENT;
    }

    /// Charges a usage and returns the change of input and of output, each as from and to. Without
    /// a refund the amounts stay.
    #[inline]
    pub(super) fn charge(&mut self, cost: &Cost<'_>, charge: &Charge, usage: Usage) -> Change {
        let input = self.input(cost);
        let mut changed = Change { input: (input, input), output: (self.output, self.output) };
        if let Some(plain) = usage.input() {
            let charged = charge.input_of(plain, usage.cache_reads(), usage.cache_writes());
            changed.input.1 = charged.min(MOST_INPUT);
            let stands = if charge.refunds() { changed.input.1 } else { input.min(MOST_INPUT) };
            self.bits = self.bits & !MOST_INPUT | INPUT | stands;
        }
        if let Some(output) = usage.output() {
            changed.output.1 = charge.output_of(output);
            self.bits |= OUTPUT;
            if charge.refunds() {
                self.output = changed.output.1;
            }
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
