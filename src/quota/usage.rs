use std::fmt;

use super::cost::saturated;

/// The tokens that a call used, as its answer reports them.
///
/// The numbers of one call may come in parts, since a stream reports its input first and its output
/// last. A later number replaces an earlier one.
///
/// # Examples
///
/// ```
/// use resile::quota::Usage;
///
/// let usage = Usage::new().with_input(1_200).with_cache_reads(4_000).with_output(350);
/// assert_eq!(usage.output(), Some(350));
/// assert_eq!(usage.total(), 5_550);
/// assert_eq!(usage.to_string(), "5550 tokens: 1200 input, 4000 cache read, 350 output");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a usage does nothing unless it is recorded, added or printed"]
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

    /// Returns the number of all tokens: of input, of the cache and of output. A number that is not known
    /// counts as 0.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counted = [self.input, Some(self.cache_reads), Some(self.cache_writes), self.output];
        counted.into_iter().flatten().map(u64::from).sum()
    }

    /// Returns whether the usage has no number of input and none of output.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// Returns the sum of two usages, such as those of two attempts or of two calls. A number that only
    /// one of them has counts alone.
    ///
    /// For the parts of one answer use [`merged`](Self::merged), because there a later number replaces an
    /// earlier one.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::Usage;
    ///
    /// let first = Usage::new().with_input(1_200);
    /// let second = Usage::new().with_input(1_200).with_output(350);
    /// let total = Usage::new().with_input(2_400).with_output(350);
    /// assert_eq!(first.plus(second), total);
    /// ```
    pub const fn plus(self, other: Self) -> Self {
        const fn sum(one: Option<u32>, two: Option<u32>) -> Option<u32> {
            match (one, two) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (Some(only), None) | (None, Some(only)) => Some(only),
                (None, None) => None,
            }
        }
        Self {
            input: sum(self.input, other.input),
            cache_reads: self.cache_reads.saturating_add(other.cache_reads),
            cache_writes: self.cache_writes.saturating_add(other.cache_writes),
            output: sum(self.output, other.output),
        }
    }

    /// Returns this usage with the numbers of `later` in place of its own. This is for the parts of one
    /// answer. For the sum of several answers use [`plus`](Self::plus).
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

/// Writes the sum and the known numbers: `1550 tokens: 1200 input, 350 output`. A cache without tokens is
/// left out, and an empty usage is `no usage`.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no usage");
        }
        let total = self.total();
        write!(f, "{total} token{}", if total == 1 { "" } else { "s" })?;
        let cached = |tokens: u32| Some(tokens).filter(|tokens| *tokens > 0);
        let numbers = [
            (self.input, "input"),
            (cached(self.cache_reads), "cache read"),
            (cached(self.cache_writes), "cache write"),
            (self.output, "output"),
        ];
        let known = numbers.iter().filter_map(|(tokens, of)| tokens.map(|tokens| (tokens, of)));
        for (n, (tokens, of)) in known.enumerate() {
            write!(f, "{} {tokens} {of}", if n == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}
