use std::fmt;
use std::time::Duration;

use super::TripReason;

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
        /// The open time.
        duration: Duration,
        /// The number of openings since the breaker was last closed.
        trips: u32,
    },
    /// The breaker lets probes through.
    HalfOpened,
    /// The breaker lets calls through.
    Closed,
    /// The breaker is held open by [`Upstream::isolate`](crate::Upstream::isolate).
    Isolated,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { reason, duration, .. } => {
                write!(f, "breaker opened for {duration:.1?}: {reason}")
            }
            Self::HalfOpened => f.write_str("breaker half-open, probing"),
            Self::Closed => f.write_str("breaker closed"),
            Self::Isolated => f.write_str("breaker isolated"),
        }
    }
}
