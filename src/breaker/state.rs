use std::fmt;
use std::time::Duration;

#[cfg(doc)]
use super::Breaker;

/// The state of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The breaker admits calls.
    Closed,
    /// The breaker refuses calls until its open time is over.
    Open,
    /// The breaker admits a few calls as probes.
    HalfOpen,
    /// The breaker is held open by hand.
    Isolated,
}

/// The words for a breaker that is half-open and admits no further probe.
const HALF_OPEN: &str = "the circuit breaker is half-open and its probes have not ended";

/// The words for a breaker that is open for as long as another process probes. Nobody knows when that ends.
const PROBED: &str = "the circuit breaker is open while another process has the turn to probe";

impl State {
    /// Returns the words for a breaker that refuses calls without a known end, if this process knows why.
    /// `is_probed` tells that the breaker is open for as long as another process probes.
    pub(crate) const fn endless_in_words(self, is_probed: bool) -> Option<&'static str> {
        match self {
            Self::HalfOpen => Some(HALF_OPEN),
            Self::Open if is_probed => Some(PROBED),
            _ => None,
        }
    }
}

/// The reason for the opening of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TripReason {
    /// Too many failures in a row.
    Consecutive,
    /// Too large a share of failures.
    FailureRate,
    /// Too large a share of slow calls.
    SlowRate,
    /// Too many probes failed.
    Probes,
}

impl TripReason {
    /// Returns a stable word for logs and metrics: `consecutive`, `failure_rate`, `slow_rate` or
    /// `probes`.
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
            Self::FailureRate => "too large a share of attempts failed",
            Self::SlowRate => "too large a share of attempts was slow",
            Self::Probes => "too many probes failed",
        })
    }
}

/// A snapshot of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state of the breaker.
    pub state: State,
    /// The reason for the last opening, or `None` if there was none since the breaker was last
    /// closed.
    pub reason: Option<TripReason>,
    /// The number of openings since the breaker was last closed.
    pub trips: u32,
    /// The number of failures in a row, while closed.
    pub streak: u32,
    /// The number of calls within the window. Exact up to `u32::MAX` calls of one kind in a
    /// sixteenth of the window.
    pub calls: u64,
    /// The number of failed calls among them.
    pub failures: u64,
    /// The number of slow calls among them.
    pub slow: u64,
    /// The number of probes that run within their lease. It is 0 unless the breaker is half-open. A
    /// half-open breaker without a probe waits for a call and learns nothing meanwhile.
    pub probes: u32,
    /// The time from now in which an open breaker refuses each call: the rest of the open time, or
    /// of a pause that other processes advise if that is longer. `None` if the breaker is not open, or
    /// if this time is over, also while another process probes: nobody knows when that ends.
    pub retry_after: Option<Duration>,
}
