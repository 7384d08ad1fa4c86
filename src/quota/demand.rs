use super::{Cost, CostKey};

/// The priority and the group of a call that waits for a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(unreachable_pub)] // appears in a sealed trait
pub struct Standing {
    pub(crate) priority: u8,
    /// A hash of the caller's key. 0 is the group of calls without a key.
    pub(crate) group: u64,
    /// True if an attempt of the call was sent before.
    pub(crate) is_retry: bool,
}

/// The demand of a call: its cost and its standing in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand<'a> {
    pub(crate) cost: Cost<'a>,
    pub(crate) standing: Standing,
}

impl Demand<'_> {
    /// Returns the demand for a reservation that another call has made. Its standing does not matter
    /// any more.
    pub(crate) fn of(cost: CostKey) -> Self {
        Self { cost: cost.tokens(), standing: Standing::default() }
    }
}
