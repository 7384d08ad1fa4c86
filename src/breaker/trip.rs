use std::fmt;

use super::TripReason;

/// The ground for an opening: the reason, with the numbers that reached the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    pub(super) reason: TripReason,
    /// The failures in a row, the failed or slow calls, or the failed probes.
    pub(super) times: u32,
    /// The calls or probes among which they were counted.
    pub(super) of: u32,
}

impl Trip {
    pub(super) fn new(reason: TripReason, times: u64, of: u64) -> Self {
        let limited = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { reason, times: limited(times), of: limited(of) }
    }
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, times, of } = self;
        write!(f, "{reason} ({times}")?;
        if *reason != TripReason::Consecutive {
            write!(f, " of {of}")?;
        }
        f.write_str(")")
    }
}
