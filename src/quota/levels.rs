use std::sync::atomic::Ordering;

use super::{Dimension, Quota, Shadow};

/// The state of a quota. A negative level is a debt. A level without a limit is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Levels {
    /// The number of requests left.
    pub requests: Option<i64>,
    /// The number of input tokens left.
    pub input: Option<i64>,
    /// The number of output tokens left.
    pub output: Option<i64>,
    /// The number of tokens left.
    pub tokens: Option<i64>,
    /// The output tokens that attempts in flight have reserved.
    pub reserved: u64,
    /// The number of attempts in flight. `None` without a limit of concurrency.
    pub in_flight: Option<u32>,
    /// The number of calls in the queue.
    pub waiting: u32,
    /// The refusals and delays that the quota left out. `None` if it is not in shadow mode.
    pub shadow: Option<Shadow>,
    /// The used shares of the configured limits in thousandths. 0 without a limit.
    used: [u16; 4],
}

impl Levels {
    /// Returns the share of the configured limit that the quota uses, in steps of a thousandth. It
    /// is 1 unless the quota has learned of another limit. `None` without a limit.
    #[must_use]
    pub fn used_share(&self, dimension: Dimension) -> Option<f64> {
        let used = self.used[dimension.index()];
        (used > 0).then(|| f64::from(used) / 1_000.0)
    }
}

impl Quota {
    /// Returns the units left in a dimension at `now`. Negative units are a debt.
    pub(crate) fn level(&self, dimension: Dimension, now: u64) -> Option<i64> {
        Some(self.buckets[dimension.index()].as_ref()?.level(now))
    }

    /// Returns whether a dimension lacks units at `now` because a refusal of the provider has emptied it.
    pub(crate) fn is_emptied(&self, now: u64) -> bool {
        self.buckets.iter().flatten().any(|bucket| bucket.is_emptied(now))
    }

    /// Returns the state of the quota at `now`.
    pub(crate) fn levels(&self, now: u64) -> Levels {
        let level = |dimension| self.level(dimension, now);
        Levels {
            requests: level(Dimension::Requests),
            input: level(Dimension::Input),
            output: level(Dimension::Output),
            tokens: level(Dimension::Tokens),
            reserved: self.reserved(),
            in_flight: self.in_flight(),
            waiting: self.waiting(),
            shadow: self.shadow(),
            used: std::array::from_fn(|index| {
                self.buckets[index].as_ref().map_or(0, |bucket| thousandths(bucket.pace().share()))
            }),
        }
    }

    /// Returns the number of attempts in flight. Without a limit it is not counted.
    #[must_use]
    pub fn in_flight(&self) -> Option<u32> {
        self.concurrency().map(|_| count(self.in_flight.load(Ordering::Relaxed)))
    }

    /// Returns the number of output tokens that attempts in flight have reserved.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that wait now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        count(self.line.len())
    }
}

fn count(all: u64) -> u32 {
    u32::try_from(all).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "is at most 16,000")]
fn thousandths(share: f64) -> u16 {
    ((share * 1_000.0).round() as u16).max(1)
}
