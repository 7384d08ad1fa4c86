//! Counts the calls by their end.

use std::fmt;

use resile::StopReason;

use crate::call::End;

const REASONS: [StopReason; 13] = [
    StopReason::Fatal,
    StopReason::Unclassified,
    StopReason::Attempts,
    StopReason::Deadline,
    StopReason::Budget,
    StopReason::Open,
    StopReason::Throttled,
    StopReason::Full,
    StopReason::TooLarge,
    StopReason::HintTooLong,
    StopReason::Alternatives,
    StopReason::Partial,
    StopReason::Cancelled,
];

/// The calls by their end.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) started: u64,
    succeeded: u64,
    gave_up: [u64; REASONS.len()],
    left: u64,
    pub(crate) dropped: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, end: End) {
        match end {
            End::Succeeded => self.succeeded += 1,
            End::Left => self.left += 1,
            End::GaveUp(reason) => {
                let known = REASONS.iter().position(|other| *other == reason);
                // A reason that is missing above shows as a call without an end.
                if let Some(at) = known {
                    self.gave_up[at] += 1;
                }
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.gave_up.iter_mut().zip(other.gave_up).for_each(|(mine, theirs)| *mine += theirs);
        self.left += other.left;
        self.dropped += other.dropped;
        self.panicked += other.panicked;
        self.cancelled += other.cancelled;
    }

    /// Returns the number of calls that ended in some way.
    pub(crate) fn ended(&self) -> u64 {
        let gave_up: u64 = self.gave_up.iter().sum();
        self.succeeded + gave_up + self.left + self.dropped + self.panicked
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gave_up: u64 = self.gave_up.iter().sum();
        writeln!(f, "started    {}", self.started)?;
        writeln!(f, "ended      {}", self.ended())?;
        writeln!(f, "  succeeded {}, gave up {gave_up}, left {}", self.succeeded, self.left)?;
        writeln!(f, "  dropped {}, panicked {}", self.dropped, self.panicked)?;
        write!(f, "gave up   ")?;
        for (reason, calls) in REASONS.iter().zip(self.gave_up) {
            write!(f, " {} {calls}", reason.as_str())?;
        }
        Ok(())
    }
}
