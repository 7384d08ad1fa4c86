use std::time::Duration;

use resile::{Backoff, Jitter};
use serde::Deserialize;

use crate::script::{Difference, same};

/// Delays that grow by a factor. The settings are in nanoseconds, and the delays in seconds.
#[derive(Deserialize)]
pub(crate) struct Delays {
    pub(crate) original: String,
    base: u64,
    factor: f64,
    cap: u64,
    retries: Vec<u32>,
    longest: Vec<f64>,
}

/// The share by which a delay may differ, because both sides round each step of floating point.
const ERROR: f64 = 1e-12;
/// A delay of the crate is a whole number of nanoseconds.
const NANOSECOND: f64 = 1e-9;

impl Delays {
    /// Compares the delays without jitter, or their upper ends with it.
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        let Self { base, factor, cap, .. } = *self;
        let backoff = Backoff::exponential(Duration::from_nanos(base))
            .with_factor(factor)
            .with_cap(Duration::from_nanos(cap))
            .with_jitter(Jitter::Full);
        let ours: Vec<_> = self.retries.iter().map(|retry| longest(&backoff, *retry)).collect();
        same(&near(&ours, &self.longest), &self.longest, &(base, factor, cap, &self.retries))
    }
}

/// Returns the upper end of the delay before a retry, in seconds.
fn longest(backoff: &Backoff, retry: u32) -> f64 {
    backoff.delay(retry, Duration::ZERO, |range| *range.end()).as_secs_f64()
}

/// Returns the delays, and in place of each that is near enough to that of the original, the latter.
pub(crate) fn near(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    let or_theirs = |(nth, &ours): (usize, &f64)| {
        let same = theirs.get(nth).filter(|it| (**it - ours).abs() <= ERROR * **it + NANOSECOND);
        same.copied().unwrap_or(ours)
    };
    ours.iter().enumerate().map(or_theirs).collect()
}
