use super::Estimate;

/// The cost of a call before it is sent, as far as the caller knows it.
///
/// Every attempt costs one request. The cost adds tokens. Missing numbers are estimated from the
/// usage of recent calls: see [`Estimate`].
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

/// The tokens that a call used, as its answer reports them.
///
/// The numbers of one call may come in parts: a stream reports its input first and its output last.
/// A later number replaces an earlier one.
///
/// # Examples
///
/// ```
/// use resile::quota::Usage;
///
/// let usage = Usage::new().with_input(1_200).with_cache_reads(4_000).with_output(350);
/// assert_eq!(usage.output(), Some(350));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a usage does nothing until it is recorded"]
pub struct Usage {
    input: Option<u32>,
    cache_reads: u32,
    cache_writes: u32,
    output: Option<u32>,
}

/// Numbers. Each saturates at 4,294,967,295.
impl Usage {
    /// Creates an empty usage.
    pub const fn new() -> Self {
        Self { input: None, cache_reads: 0, cache_writes: 0, output: None }
    }

    /// Sets the number of input tokens that were neither read from a cache nor written to it.
    pub const fn with_input(mut self, tokens: u64) -> Self {
        self.input = Some(saturated(tokens));
        self
    }

    /// Sets the number of input tokens that were read from a cache.
    pub const fn with_cache_reads(mut self, tokens: u64) -> Self {
        self.cache_reads = saturated(tokens);
        self
    }

    /// Sets the number of input tokens that were written to a cache.
    pub const fn with_cache_writes(mut self, tokens: u64) -> Self {
        self.cache_writes = saturated(tokens);
        self
    }

    /// Sets the number of output tokens, including those of reasoning.
    pub const fn with_output(mut self, tokens: u64) -> Self {
        self.output = Some(saturated(tokens));
        self
    }

    /// Returns the number of input tokens that were neither read from a cache nor written to it.
    #[must_use]
    pub fn input(&self) -> Option<u64> {
        self.input.map(u64::from)
    }

    /// Returns the number of input tokens that were read from a cache.
    #[must_use]
    pub fn cache_reads(&self) -> u64 {
        u64::from(self.cache_reads)
    }

    /// Returns the number of input tokens that were written to a cache.
    #[must_use]
    pub fn cache_writes(&self) -> u64 {
        u64::from(self.cache_writes)
    }

    /// Returns the number of output tokens, including those of reasoning.
    #[must_use]
    pub fn output(&self) -> Option<u64> {
        self.output.map(u64::from)
    }

    /// Returns whether the usage has no number of input and none of output.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// Returns this usage with the numbers of `later` in place of its own.
    pub const fn merged(self, later: Self) -> Self {
        let mut merged = self;
        if let Some(input) = later.input {
            merged.input = Some(input);
            merged.cache_reads = later.cache_reads;
            merged.cache_writes = later.cache_writes;
        }
        if let Some(output) = later.output {
            merged.output = Some(output);
        }
        merged
    }
}

const fn saturated(tokens: u64) -> u32 {
    if tokens > u32::MAX as u64 {
        u32::MAX
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        {
            tokens as u32
        }
    }
}

/// The priority and the group of a call that waits for a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(unreachable_pub)] // appears in a sealed trait
pub struct Standing {
    pub(crate) priority: u8,
    /// A hash of the caller's key. 0 is the group of calls without a key.
    pub(crate) group: u64,
}

/// The demand of a call: its cost and its standing in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand<'a> {
    pub(crate) cost: Cost<'a>,
    pub(crate) standing: Standing,
}
