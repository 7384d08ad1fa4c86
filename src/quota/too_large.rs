use std::fmt;

use super::Dimension;

/// A cost that is larger than the burst of a quota. No wait helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TooLarge {
    /// The dimension of the quota that is too small.
    pub dimension: Dimension,
    /// The cost of the attempt in this dimension.
    pub cost: u32,
    /// The burst of the quota in this dimension.
    pub limit: u32,
    /// True if the limit is 0 because the rate is.
    pub(super) has_no_rate: bool,
}

/// Names both numbers: "the cost of 101 tokens is above the quota's burst of 100 (`with_burst`)". A rate of
/// 0 has no burst, so then it names the rate.
impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, cost, limit, has_no_rate } = self;
        write!(f, "the cost of {cost} {} is above the quota's ", dimension.noun())?;
        if *has_no_rate {
            return write!(f, "rate of 0 (`with_{}`)", dimension.as_str());
        }
        write!(f, "burst of {limit} ")?;
        f.write_str("(`with_burst`)")
    }
}
