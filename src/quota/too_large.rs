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
}

/// Names both numbers: "the cost of 101 tokens is above the quota's burst of 100 (`with_burst`)".
impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, cost, limit } = self;
        write!(
            f,
            "the cost of {cost} {} is above the quota's burst of {limit} ",
            dimension.noun()
        )?;
        f.write_str("(`with_burst`)")
    }
}
