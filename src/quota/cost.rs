use std::ptr;

use super::Estimate;

/// The cost of a call before it is sent, as far as the caller knows it.
///
/// Every attempt costs one request, and the cost adds tokens. Missing numbers are estimated from
/// the usage of recent calls: see [`Estimate`].
///
/// A cost above a burst of the quota never fits, so the call ends at once with
/// [`StopReason::TooLarge`](crate::StopReason::TooLarge) and sends nothing.
/// [`GaveUp::too_large`](crate::GaveUp::too_large) returns both numbers. Send less, or set a larger
/// burst.
///
/// # Examples
///
/// ```
/// use resile::quota::Cost;
///
/// let cost = Cost::input(3_100).with_max_output(8_192);
/// assert_eq!((cost.input_tokens(), cost.max_output()), (Some(3_100), Some(8_192)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a cost does nothing until a call has it"]
pub struct Cost<'a> {
    input: Option<u32>,
    max_output: Option<u32>,
    estimate: Option<&'a Estimate>,
}

/// Two costs with estimates are equal if the estimates are the same object.
impl PartialEq for Cost<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self { input, max_output, estimate } = *self;
        (input, max_output) == (other.input, other.max_output)
            && estimate.map(ptr::from_ref) == other.estimate.map(ptr::from_ref)
    }
}

impl Eq for Cost<'_> {}

impl<'a> Cost<'a> {
    /// Creates the cost of one request with an unknown number of tokens.
    pub const fn new() -> Self {
        Self { input: None, max_output: None, estimate: None }
    }

    /// Creates the cost of one request with `tokens` of input, without input that is read from a
    /// cache free of charge. Saturates at 4,294,967,295.
    pub const fn input(tokens: u64) -> Self {
        Self { input: Some(saturated(tokens)), ..Self::new() }
    }

    /// Sets the most output tokens that the request allows. Saturates at 4,294,967,295.
    pub const fn with_max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(saturated(tokens));
        self
    }

    /// Sets the estimate that replaces the quota's own for this call. Use one for each kind of
    /// call.
    pub const fn estimated_by(mut self, estimate: &'a Estimate) -> Self {
        self.estimate = Some(estimate);
        self
    }

    /// Returns the number of input tokens if it is known.
    #[must_use]
    pub fn input_tokens(&self) -> Option<u64> {
        self.input.map(u64::from)
    }

    /// Returns the most output tokens if the request limits them.
    #[must_use]
    pub fn max_output(&self) -> Option<u64> {
        self.max_output.map(u64::from)
    }

    /// Returns what tells this cost from another one, without its lifetime.
    #[inline]
    pub(crate) fn key(&self) -> CostKey {
        let estimate = self.estimate.map_or(0, |estimate| std::ptr::from_ref(estimate).addr());
        CostKey { input: self.input, max_output: self.max_output, estimate }
    }

    #[inline]
    pub(super) const fn known_input(&self) -> Option<u32> {
        self.input
    }

    #[inline]
    pub(super) const fn most_output(&self) -> Option<u32> {
        self.max_output
    }

    #[inline]
    pub(super) const fn estimate(&self) -> Option<&'a Estimate> {
        self.estimate
    }
}

/// A cost as a value to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CostKey {
    input: Option<u32>,
    max_output: Option<u32>,
    /// The address of the estimate, or 0 without one.
    estimate: usize,
}

impl CostKey {
    /// The key of a cost without numbers.
    pub(crate) const NONE: Self = Self { input: None, max_output: None, estimate: 0 };

    /// Returns the cost with the same tokens, to give a reservation back.
    pub(crate) const fn tokens(self) -> Cost<'static> {
        Cost { input: self.input, max_output: self.max_output, estimate: None }
    }
}

/// Returns the number, or `u32::MAX` if it is larger.
pub(super) const fn saturated(tokens: u64) -> u32 {
    if tokens > u32::MAX as u64 {
        u32::MAX
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        {
            tokens as u32
        }
    }
}
