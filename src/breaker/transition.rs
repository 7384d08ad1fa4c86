use std::fmt;
use std::time::Duration;

use super::TripReason;

/// A transition of a [`Breaker`](super::Breaker). Its upstream's observer gets them in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transition {
    /// It refuses calls.
    #[non_exhaustive]
    Opened {
        /// What opened it.
        why: TripReason,
        /// For how long.
        duration: Duration,
        /// How often it opened since it was last closed.
        trips: u32,
    },
    /// It lets probes through.
    HalfOpened,
    /// It lets calls through.
    Closed,
    /// It is held open by [`Upstream::isolate`](crate::Upstream::isolate).
    Isolated,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { why, duration, .. } => {
                write!(f, "breaker opened for {duration:.1?}: {why}")
            }
            Self::HalfOpened => f.write_str("breaker half-open, probing"),
            Self::Closed => f.write_str("breaker closed"),
            Self::Isolated => f.write_str("breaker isolated"),
        }
    }
}
