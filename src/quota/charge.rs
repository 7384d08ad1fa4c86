use super::rate::saturated;

/// The rule by which a provider charges a call to a quota of tokens.
///
/// A quota follows the provider's own count only if it charges as the provider does. The rule is
/// data, because providers change it. The crate `resile-llm` has the rules of LLM providers as
/// constants with the months of their sources.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | maximum reserved | false | a call reserves an estimate of its output: the maximum is mostly many times the output |
/// | refund | true | at the end the actual usage counts |
/// | default maximum | 0 | only you know the most output of a request that does not limit it |
/// | weights | 1 | each token counts once |
///
/// # Examples
///
/// ```
/// use resile::quota::Charge;
///
/// /// Input read from a cache is free, and output counts five times.
/// const CHARGE: Charge = Charge::ACTUAL
///     .with_cache_read_weight(0.0)
///     .with_output_weight(5.0);
/// assert_eq!(CHARGE.output_weight(), 5.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a charge does nothing until a quota has it"]
pub struct Charge {
    reserves_maximum: bool,
    refunds: bool,
    /// The most output of a request that does not limit it.
    default_maximum: u32,
    cache_read_weight: f64,
    cache_write_weight: f64,
    output_weight: f64,
}

impl Charge {
    /// Charges the actual usage: the input at the start and the output at the end. All input
    /// counts.
    pub const ACTUAL: Self = Self {
        reserves_maximum: false,
        refunds: true,
        default_maximum: 0,
        cache_read_weight: 1.0,
        cache_write_weight: 1.0,
        output_weight: 1.0,
    };

    /// Sets whether the provider charges the most output at the start. Otherwise a call reserves
    /// an estimate of its output.
    pub const fn with_maximum_reserved(mut self, reserves: bool) -> Self {
        self.reserves_maximum = reserves;
        self
    }

    /// Sets whether the provider charges the actual usage at the end. Otherwise the charge at the
    /// start stands.
    pub const fn with_refund(mut self, refunds: bool) -> Self {
        self.refunds = refunds;
        self
    }

    /// Sets the most output of a request that does not limit its output. Without
    /// [`with_maximum_reserved`](Self::with_maximum_reserved) the number has no effect. The largest
    /// number is 4,294,967,295.
    pub const fn with_default_maximum(mut self, tokens: u64) -> Self {
        self.default_maximum = saturated(tokens);
        self
    }

    /// Sets the weight of input read from a cache, 0 to 1,000,000. Negative weights and NaN are 0.
    pub const fn with_cache_read_weight(mut self, weight: f64) -> Self {
        self.cache_read_weight = clamped(weight);
        self
    }

    /// Sets the weight of input written to a cache, 0 to 1,000,000. Negative weights and NaN are 0.
    pub const fn with_cache_write_weight(mut self, weight: f64) -> Self {
        self.cache_write_weight = clamped(weight);
        self
    }

    /// Sets the weight of output at the end of a call, 0 to 1,000,000. Negative weights and NaN are
    /// 0.
    pub const fn with_output_weight(mut self, weight: f64) -> Self {
        self.output_weight = clamped(weight);
        self
    }

    /// Returns whether the provider charges the most output at the start.
    #[must_use]
    pub const fn reserves_maximum(&self) -> bool {
        self.reserves_maximum
    }

    /// Returns whether the provider charges the actual usage at the end.
    #[must_use]
    pub const fn refunds(&self) -> bool {
        self.refunds
    }

    /// Returns the most output of a request that does not limit its output.
    #[must_use]
    pub const fn default_maximum(&self) -> u32 {
        self.default_maximum
    }

    /// Returns the weight of input read from a cache.
    #[must_use]
    pub const fn cache_read_weight(&self) -> f64 {
        self.cache_read_weight
    }

    /// Returns the weight of input written to a cache.
    #[must_use]
    pub const fn cache_write_weight(&self) -> f64 {
        self.cache_write_weight
    }

    /// Returns the weight of output at the end of a call.
    #[must_use]
    pub const fn output_weight(&self) -> f64 {
        self.output_weight
    }

    /// Returns the charged number of input tokens of a usage.
    pub(super) fn input_of(&self, plain: u64, cache_reads: u64, cache_writes: u64) -> u32 {
        let weighted = weigh(cache_reads, self.cache_read_weight)
            .saturating_add(weigh(cache_writes, self.cache_write_weight));
        u32::try_from(plain).unwrap_or(u32::MAX).saturating_add(weighted)
    }

    /// Returns the charged number of output tokens of a usage.
    pub(super) fn output_of(&self, output: u64) -> u32 {
        weigh(output, self.output_weight)
    }
}

impl Default for Charge {
    fn default() -> Self {
        Self::ACTUAL
    }
}

const fn clamped(weight: f64) -> f64 {
    const MOST: f64 = 1_000_000.0;
    if weight > MOST {
        MOST
    } else if weight > 0.0 {
        weight
    } else {
        0.0
    }
}

/// Multiplies tokens by a weight and rounds up. Most weights are 0 or 1.
#[inline]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#[expect(clippy::float_cmp, reason = "the exact weight 1 needs no arithmetic")]
fn weigh(tokens: u64, weight: f64) -> u32 {
    if weight == 1.0 {
        return u32::try_from(tokens).unwrap_or(u32::MAX);
    }
    (tokens as f64 * weight).ceil() as u32 // saturates
}
