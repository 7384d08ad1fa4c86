use crate::verdict::{Health, Verdict};

/// In millionths, so that a deposit of 0.1 is exact and `u32::MAX` tokens fit.
pub(super) const TOKEN: u64 = 1_000_000;

/// The prices of a budget in millionths of a token.
#[derive(Clone, Copy)]
pub(super) struct Prices {
    /// The amount that a success returns.
    pub(super) deposit: u64,
    /// The cost of a retry after a failure.
    pub(super) failed: u64,
    /// The cost of a retry after a throttling.
    pub(super) throttled: u64,
    /// True if a retry that succeeds gives its cost back.
    pub(super) refunds: bool,
    /// True if an attempt that failed takes a token, the first one of a call included. A retry then
    /// needs more than half of the capacity.
    pub(super) counts_failures: bool,
}

impl Prices {
    pub(super) const DEFAULT: Self = Self {
        deposit: TOKEN / 10,
        failed: TOKEN,
        throttled: TOKEN,
        refunds: false,
        counts_failures: false,
    };

    pub(super) const fn of(self, cause: Cause) -> u64 {
        match cause {
            Cause::Failed => self.failed,
            Cause::Throttled => self.throttled,
        }
    }
}

/// The cause of a retry. It decides about the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Failed,
    Throttled,
}

impl Cause {
    /// Returns the cause of a retry after a failure. A cut counts as failed.
    pub(crate) fn of(verdict: Option<Verdict>) -> Self {
        match verdict.map(|verdict| verdict.health()) {
            Some(Health::Throttling) => Self::Throttled,
            _ => Self::Failed,
        }
    }
}
