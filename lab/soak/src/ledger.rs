//! The level of a quota as the charges say it: plain buckets, beside those of the crate.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use resile::quota::{Dimension, Rate};

/// The tokens of one attempt: its input and its output.
pub(crate) type Tokens = [u32; 2];

/// The four buckets of a quota.
pub(crate) struct Ledger {
    buckets: Mutex<[Bucket; 4]>,
    /// True if the provider charges the actual usage at the end.
    refunds: bool,
}

/// A bucket that counts in nanoseconds of its own refilling.
#[derive(Clone, Copy)]
struct Bucket {
    unit: i128,
    burst: i128,
    level: i128,
    at: Duration,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        let unit = i128::try_from(rate.period().as_nanos()).unwrap_or(0) / i128::from(rate.count());
        let burst = unit * i128::from(rate.burst());
        Self { unit, burst, level: burst, at: Duration::ZERO }
    }

    /// Adds units, or takes them.
    fn change(&mut self, now: Duration, units: i64) {
        let passed = now.saturating_sub(self.at).as_nanos();
        let refilled = self.level + i128::try_from(passed).unwrap_or(i128::MAX >> 1);
        self.level = (refilled.min(self.burst) + i128::from(units) * self.unit).min(self.burst);
        self.at = self.at.max(now);
    }
}

impl Ledger {
    pub(crate) fn new(rates: [Rate; 4], refunds: bool) -> Self {
        Self { buckets: Mutex::new(rates.map(Bucket::new)), refunds }
    }

    /// Charges an attempt that begins.
    pub(crate) fn take(&self, now: Duration, tokens: Tokens) {
        self.change(now, -1, [tokens, [0, 0]]);
    }

    /// Charges the actual tokens in place of the reserved ones.
    pub(crate) fn settle(&self, now: Duration, reserved: Tokens, actual: Tokens) {
        if self.refunds {
            self.change(now, 0, [actual, reserved]);
        }
    }

    /// Gives the tokens of a refused attempt back.
    pub(crate) fn refund(&self, now: Duration, reserved: Tokens) {
        self.change(now, 0, [[0, 0], reserved]);
    }

    /// Gives back an attempt that was not sent.
    pub(crate) fn withdraw(&self, now: Duration, reserved: Tokens) {
        self.change(now, 1, [[0, 0], reserved]);
    }

    /// Changes the charge of an attempt. `tokens` is the new charge and the old one.
    fn change(&self, now: Duration, requests: i64, tokens: [Tokens; 2]) {
        let [[input, output], [from_input, from_output]] =
            tokens.map(|tokens| tokens.map(i64::from));
        let (input, output) = (from_input - input, from_output - output);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (bucket, units) in buckets.iter_mut().zip([requests, input, output, input + output]) {
            bucket.change(now, units);
        }
    }

    /// Returns the whole units left.
    pub(crate) fn level(&self, dimension: Dimension, now: Duration) -> i64 {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Dimension::ALL.iter().position(|other| *other == dimension).unwrap_or_default();
        let bucket = &mut buckets[at];
        bucket.change(now, 0);
        i64::try_from(bucket.level.div_euclid(bucket.unit)).unwrap_or(i64::MIN)
    }

    /// Lowers a level to what the crate has learned.
    pub(crate) fn lower(&self, dimension: Dimension, now: Duration, units: i64) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Dimension::ALL.iter().position(|other| *other == dimension).unwrap_or_default();
        let bucket = &mut buckets[at];
        bucket.change(now, 0);
        // The rest of a unit stays: the crate may have it.
        let rest = bucket.unit - 1;
        bucket.level = bucket.level.min(i128::from(units) * bucket.unit + rest);
    }
}
