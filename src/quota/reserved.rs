use super::{Charge, Cost, Usage};

/// The amounts that one attempt holds of a quota, in eight bytes. Each attempt stores them, also
/// without a quota. The stage leaves room for the tag of the enum around them.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The reserved output tokens, and then the charged ones, in the lower bits. Flags above them.
    output: u32,
    /// The estimated input tokens if the caller does not know its input, and then the charged ones.
    input: [u8; 3],
    stage: Stage,
}

/// The stage of the request for which an admission was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request was not sent yet.
    Waiting,
    /// The request may have been sent.
    Sent,
    /// The request may have been sent, with the admission of the attempt around its call.
    Taken,
    /// A call within the attempt has taken the admission, and reports it.
    Lent,
    /// A call within the attempt has the admission, and another call within the attempt waits for an admission of its own.
    Contended,
    /// A call within the attempt has sent the request, and the answer was good.
    Answered,
    /// A call within the attempt has sent the request, and was dropped before an answer.
    Unanswered,
}

/// The bits of the output. A larger number counts as this one: 268 million tokens.
const MOST_OUTPUT: u32 = (1 << 28) - 1;
/// The bits of an estimated or charged input. A larger number counts as this one: 16 million
/// tokens.
const MOST_INPUT: u32 = (1 << 24) - 1;

/// Set once the input is charged by its usage.
const INPUT: u32 = 1 << 28;
/// Set once the output is charged by its usage.
const OUTPUT: u32 = 1 << 29;
/// Set once the provider has reported its limits with the answer.
const REPORTED: u32 = 1 << 30;
/// Set if the attempt began within an attempt of another call on the same upstream.
const NESTED: u32 = 1 << 31;

impl Reserved {
    /// The reservation of an attempt without a quota.
    pub(crate) const NONE: Self = Self { output: 0, input: [0; 3], stage: Stage::Waiting };

    /// The reservation of an attempt that a quota in shadow mode would have refused. It looks like a
    /// charge of the largest input and of no output.
    pub(super) const UNCHARGED: Self =
        Self { output: INPUT | OUTPUT, input: [u8::MAX; 3], stage: Stage::Waiting };

    /// Returns whether this is [`UNCHARGED`](Self::UNCHARGED), for a quota in shadow mode.
    pub(super) const fn is_uncharged(self) -> bool {
        let [a, b, c] = self.input;
        let is_largest = a & b & c == u8::MAX;
        is_largest && self.output & (INPUT | OUTPUT | MOST_OUTPUT) == INPUT | OUTPUT
    }

    /// Creates a reservation of `output` tokens, and of `input` tokens if these are an estimate.
    #[inline]
    pub(super) fn new(input: u32, output: u32) -> Self {
        let mut reserved = Self { output: output.min(MOST_OUTPUT), ..Self::NONE };
        reserved.set_input(input.min(MOST_INPUT));
        reserved
    }

    #[inline]
    fn set_input(&mut self, input: u32) {
        let [a, b, c, _] = input.to_le_bytes();
        self.input = [a, b, c];
    }

    /// Returns the reserved or charged output tokens.
    #[inline]
    pub(super) const fn output(self) -> u32 {
        self.output & MOST_OUTPUT
    }

    /// Returns the reserved or charged input tokens.
    #[inline]
    pub(super) fn input(self, cost: &Cost<'_>) -> u32 {
        let [a, b, c] = self.input;
        let own = u32::from_le_bytes([a, b, c, 0]);
        if self.is_input_charged() { own } else { cost.known_input().unwrap_or(own) }
    }

    /// Returns the amounts by dimension: requests, input, output, tokens.
    #[inline]
    pub(super) fn amounts(self, cost: &Cost<'_>) -> Amounts {
        let input = self.input(cost);
        [1, input, self.output(), input.saturating_add(self.output())]
    }

    /// Returns the reserved tokens of input and output.
    pub(crate) fn tokens(self, cost: &Cost<'_>) -> u64 {
        if self.is_uncharged() {
            return 0;
        }
        u64::from(self.input(cost)) + u64::from(self.output())
    }

    #[inline]
    pub(super) const fn is_input_charged(self) -> bool {
        self.output & INPUT != 0
    }

    #[inline]
    pub(super) const fn is_output_charged(self) -> bool {
        self.output & OUTPUT != 0
    }

    #[inline]
    pub(super) const fn is_reported(self) -> bool {
        self.output & REPORTED != 0
    }

    pub(super) const fn note_reported(&mut self) {
        self.output |= REPORTED;
    }

    /// Returns true if an answer has told its usage or its limits, or if a call within the attempt has
    /// sent a request. So a request of the attempt was sent, even if a later one was not.
    pub(crate) const fn is_told(self) -> bool {
        let has_told = self.output & (INPUT | OUTPUT | REPORTED) != 0;
        has_told || self.was_lent()
    }

    /// Returns true if the request may have been sent.
    #[inline]
    pub(crate) const fn is_sent(self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    /// Marks the request as sent, unless an earlier step did.
    #[inline]
    pub(crate) const fn note_sent(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            self.stage = Stage::Sent;
        }
    }

    /// Returns the reservation as that of a request that was never sent.
    pub(crate) const fn unsent(self) -> Self {
        Self { stage: Stage::Waiting, ..self }
    }

    /// Returns true if a call within the attempt holds the admission now or has reported it.
    #[inline]
    pub(crate) const fn is_lent(self) -> bool {
        matches!(self.stage, Stage::Lent | Stage::Contended)
    }

    /// Returns true if another call within the attempt waits meanwhile.
    pub(crate) const fn is_contended(self) -> bool {
        matches!(self.stage, Stage::Contended)
    }

    /// Returns true for an admission that a call has taken from the attempt around it.
    pub(crate) const fn is_taken(self) -> bool {
        matches!(self.stage, Stage::Taken)
    }

    #[inline]
    pub(crate) const fn is_answered(self) -> bool {
        matches!(self.stage, Stage::Answered)
    }

    /// Returns true if the call that sent the request was dropped before an answer.
    pub(crate) const fn is_unanswered(self) -> bool {
        matches!(self.stage, Stage::Unanswered)
    }

    /// Returns true if a call within the attempt has taken the admission, even if it is back.
    #[inline]
    pub(crate) const fn was_lent(self) -> bool {
        self.is_lent() || matches!(self.stage, Stage::Answered | Stage::Unanswered)
    }

    /// Returns true if the request concerns another call on the upstream too.
    #[inline]
    pub(crate) const fn is_shared(self) -> bool {
        self.is_nested() || self.was_lent()
    }

    /// Returns true if the attempt began within an attempt of another call on the same upstream.
    #[inline]
    pub(crate) const fn is_nested(self) -> bool {
        self.output & NESTED != 0
    }

    /// Returns the admission for a call that is not within another call.
    pub(crate) const fn unnested(self) -> Self {
        Self { output: self.output & !NESTED, stage: Stage::Sent, ..self }
    }

    /// Returns what the attempt keeps after a call within it has taken its admission.
    pub(crate) const fn lent(self) -> Self {
        Self { stage: Stage::Lent, ..self }
    }

    /// Returns the admission as the call holds it that has taken it.
    pub(crate) const fn taken(self) -> Self {
        Self { stage: Stage::Taken, ..self }
    }

    /// Returns what the attempt keeps while another call within it waits.
    pub(crate) const fn contended(self) -> Self {
        Self { stage: Stage::Contended, ..self }
    }

    /// Returns the admission as an attempt within another attempt on the upstream holds it.
    pub(crate) const fn nested(self) -> Self {
        Self { output: self.output | NESTED, ..self }
    }

    /// Returns the admission as it goes back to the attempt that has `lent` it. `answered` is true if
    /// the request had a good answer, and false if its call was dropped.
    pub(crate) const fn back(self, lent: Self, answered: bool) -> Self {
        let output = self.output & !NESTED | lent.output & NESTED;
        let stage = if answered { Stage::Answered } else { Stage::Unanswered };
        Self { output, stage, ..self }
    }

    /// Charges a usage and returns the change of input and of output, each as from and to. Without
    /// a refund the amounts stay.
    #[inline]
    pub(super) fn charge(&mut self, cost: &Cost<'_>, charge: &Charge, usage: Usage) -> Change {
        let (input, output) = (self.input(cost), self.output());
        let mut changed = Change { input: (input, input), output: (output, output) };
        if let Some(plain) = usage.input() {
            let weighted = charge.input_of(plain, usage.cache_reads(), usage.cache_writes());
            changed.input.1 = weighted.min(MOST_INPUT);
            self.output |= INPUT;
            self.set_input(if charge.refunds() { changed.input.1 } else { input.min(MOST_INPUT) });
        }
        if let Some(output) = usage.output() {
            changed.output.1 = charge.output_of(output).min(MOST_OUTPUT);
            self.output |= OUTPUT;
            if charge.refunds() {
                self.output = self.output & !MOST_OUTPUT | changed.output.1;
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

impl Change {
    /// Returns the tokens charged before the change.
    #[inline]
    pub(super) fn tokens_before(&self) -> u64 {
        u64::from(self.input.0) + u64::from(self.output.0)
    }

    /// Returns the tokens charged after the change.
    #[inline]
    pub(super) fn tokens_now(&self) -> u64 {
        u64::from(self.input.1) + u64::from(self.output.1)
    }

    /// Returns whether the change gives tokens back.
    #[inline]
    pub(super) const fn gives_back(&self) -> bool {
        self.input.1 < self.input.0 || self.output.1 < self.output.0
    }
}
