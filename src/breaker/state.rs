use std::fmt;
use std::time::Duration;

#[cfg(doc)]
use super::Breaker;

/// The states of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Calls pass.
    Closed,
    /// Calls are refused until its time is over.
    Open,
    /// A few calls pass, as probes.
    HalfOpen,
    /// It is held open by hand.
    Isolated,
}

/// What opened a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TripReason {
    /// So many failures in a row.
    Consecutive,
    /// Such a share of failures.
    FailureRate,
    /// Such a share of slow calls.
    SlowRate,
    /// Too many probes failed.
    Probes,
}

impl TripReason {
    /// Returns a stable word for logs and metrics: `consecutive`, `failure_rate`, `slow_rate`, `probes`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Consecutive => "consecutive",
            Self::FailureRate => "failure_rate",
            Self::SlowRate => "slow_rate",
            Self::Probes => "probes",
        }
    }
}

impl fmt::Display for TripReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consecutive => "too many failures in a row",
            Self::FailureRate => "too large a share of calls failed",
            Self::SlowRate => "too large a share of calls was slow",
            Self::Probes => "too many probes failed",
        })
    }
}

/// What a [`Breaker`] knows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its state.
    pub state: State,
    /// What opened it last; `None` since it was last closed.
    pub why: Option<TripReason>,
    /// How often it opened since it was last closed.
    pub trips: u32,
    /// Failures in a row, while closed.
    pub streak: u32,
    /// Calls within the window: all of them, as long as each kind is at most `u32::MAX` in a sixteenth of the window.
    pub calls: u64,
    /// Failed ones among them.
    pub failures: u64,
    /// Slow ones among them.
    pub slow: u64,
    /// How long until it lets a call through, while it refuses all of them; `None` while it does not, or is isolated.
    pub retry_after: Option<Duration>,
}
