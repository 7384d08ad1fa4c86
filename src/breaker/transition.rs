use std::fmt;
use std::time::Duration;

use super::TripReason;
use super::trip::Trip;
use crate::time::Rounded;

/// A transition of a [`Breaker`](super::Breaker). The upstream's observer gets transitions in
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transition {
    /// The breaker opened and refuses calls.
    #[non_exhaustive]
    Opened {
        /// The reason for the opening.
        reason: TripReason,
        /// The number of failures in a row, of failed or slow calls, or of failed probes. At most 2³² - 1.
        times: u32,
        /// The number of calls or probes among which they were counted.
        of: u32,
        /// The open time.
        duration: Duration,
        /// The number of openings since the breaker was last closed.
        trips: u32,
    },
    /// The breaker lets probes through.
    HalfOpened,
    /// The breaker lets calls through.
    #[non_exhaustive]
    Closed {
        /// The number of refused attempts since the breaker was last closed.
        refused: u64,
        /// The time since the breaker first opened. `None` if it was closed by hand.
        lasted: Option<Duration>,
    },
    /// The breaker is held open by [`Upstream::isolate`](crate::Upstream::isolate).
    Isolated,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { reason, times, of, duration, .. } => {
                let (duration, trip) =
                    (Rounded(*duration), Trip { reason: *reason, times: *times, of: *of });
                write!(f, "breaker opened for {duration}, all attempts are refused: {trip}")
            }
            Self::HalfOpened => f.write_str("breaker half-open, probing"),
            Self::Closed { refused, lasted } => {
                let plural = if *refused == 1 { "" } else { "s" };
                write!(f, "breaker closed: {refused} attempt{plural} refused")?;
                lasted.map_or(Ok(()), |lasted| write!(f, " within {}", Rounded(lasted)))
            }
            Self::Isolated => f.write_str("breaker isolated"),
        }
    }
}
