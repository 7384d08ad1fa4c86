use std::fmt;

use super::{Cost, Dimension, Quota, Rate};

/// The limit of a quota that holds an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scarce {
    /// A rate, and its units as far as they are used.
    Rate { dimension: Dimension, rate: Rate, used: u32 },
    /// The number of attempts in flight.
    InFlight(u32),
}

impl Scarce {
    /// Returns whether the output that attempts in flight reserve counts for the limit.
    pub(crate) const fn has_output(&self) -> bool {
        matches!(self, Self::Rate { dimension: Dimension::Output | Dimension::Tokens, .. })
    }
}

/// "the limit is 100 requests per 1s and now 80".
impl fmt::Display for Scarce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { dimension, rate, used } => {
                let (count, period) = (rate.count(), rate.period());
                let noun = dimension.noun();
                let noun = if count == 1 { noun.trim_end_matches('s') } else { noun };
                write!(f, "the limit is {count} {noun} per {period:?}")?;
                if *used == count { Ok(()) } else { write!(f, " and now {used}") }
            }
            Self::InFlight(1) => f.write_str("the limit is 1 attempt in flight"),
            Self::InFlight(limit) => write!(f, "the limit is {limit} attempts in flight"),
        }
    }
}

impl Quota {
    /// Returns the limit that holds an attempt of this cost at `now`: the one in which the missing units take
    /// longest, or else the one of which the least is left.
    #[cold]
    pub(crate) fn scarce(&self, cost: &Cost<'_>, now: u64) -> Option<Scarce> {
        let amounts = self.price(cost).amounts(cost);
        let limits = Dimension::ALL.into_iter().zip(amounts).filter_map(|(dimension, amount)| {
            let bucket = self.buckets[dimension.index()].as_ref()?;
            let (rate, level) = (bucket.limit(), bucket.level(now));
            let missing = i64::from(amount).saturating_sub(level).max(0).unsigned_abs();
            let missing = if amount > 0 { rate.time_of(missing) } else { 0 };
            let left = i128::from(level) * 1_000 / i128::from(rate.burst().max(1));
            let used = rate.scaled(bucket.pace().share()).count();
            Some(((missing, -left), Scarce::Rate { dimension, rate, used }))
        });
        let scarce = limits.max_by_key(|(order, _)| *order);
        let fits = scarce.is_none_or(|((missing, _), _)| missing == 0);
        let in_flight = self.concurrency().filter(|limit| fits && self.in_flight() >= Some(*limit));
        in_flight.map(Scarce::InFlight).or(scarce.map(|(_, scarce)| scarce))
    }
}
