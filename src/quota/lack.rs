use std::fmt;

use super::{Dimension, Rate};

/// What an attempt costs in the dimension of a quota that holds it longest, and the limit there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(super) dimension: Dimension,
    pub(super) cost: u32,
    /// The rate in use.
    pub(super) rate: Rate,
    /// True if the quota has learned the rate.
    pub(super) is_learned: bool,
}

/// Names both numbers: "it costs 3000 tokens, the limit is 10000 per 60s".
impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, cost, rate, is_learned } = self;
        let noun = dimension.noun();
        let noun = if *cost == 1 { noun.trim_end_matches('s') } else { noun };
        let limit = if *is_learned { "learned limit" } else { "limit" };
        write!(f, "it costs {cost} {noun}, the {limit} is {} per {:?}", rate.count(), rate.period())
    }
}
