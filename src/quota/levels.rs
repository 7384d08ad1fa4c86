use std::sync::atomic::Ordering;

use super::{Dimension, Quota};

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
}

impl Quota {
    /// Returns the units left in a dimension at `now`. Negative units are a debt.
    pub(crate) fn level(&self, dimension: Dimension, now: u64) -> Option<i64> {
        Some(self.buckets[dimension.index()].as_ref()?.level(now))
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
