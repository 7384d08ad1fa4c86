use std::fmt;
use std::time::Duration;

use crate::time::Limit;

/// The queue that had no room for an attempt, with its numbers. See
/// [`StopReason::Full`](crate::StopReason::Full).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoRoom {
    /// The bulkhead and its queue were full.
    #[non_exhaustive]
    Bulkhead {
        /// The number of attempts in flight.
        in_flight: u32,
        /// The number of attempts in the queue.
        queued: u32,
    },
    /// The attempt waited in the bulkhead's queue for the
    /// [longest wait](crate::Bulkhead::with_max_wait).
    #[non_exhaustive]
    BulkheadWait {
        /// The longest wait.
        limit: Duration,
    },
    /// The queue of the quota was full.
    #[non_exhaustive]
    Quota {
        /// The number of calls in the queue.
        queued: u32,
    },
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It is full with nothing in flight.
            Self::Bulkhead { in_flight: 0, .. } => f.write_str("bulkhead with a limit of 0"),
            Self::Bulkhead { in_flight, queued } => {
                write!(f, "bulkhead full: {in_flight} in flight, {queued} queued")
            }
            Self::BulkheadWait { limit } => {
                write!(f, "no permit of the bulkhead was free within {}", Limit(*limit))
            }
            Self::Quota { queued } => write!(f, "the queue of the quota is full: {queued} queued"),
        }
    }
}
