use std::fmt;
use std::time::Duration;

use super::Trip;
use crate::observe::{Figure, Line, Report};

/// What a [`Breaker`](super::Breaker) tells its observer: its moves, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It refuses calls.
    #[non_exhaustive]
    Opened {
        /// What opened it.
        why: Trip,
        /// For how long.
        duration: Duration,
        /// How often it opened since it was last closed.
        trips: u32,
    },
    /// It lets probes through.
    HalfOpened,
    /// It lets calls through.
    Closed,
    /// Somebody holds it open.
    Isolated,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { why, duration, .. } => write!(f, "breaker opened for {duration:.1?}: {why}"),
            Self::HalfOpened => f.write_str("breaker half-open"),
            Self::Closed => f.write_str("breaker closed"),
            Self::Isolated => f.write_str("breaker isolated"),
        }
    }
}

impl Report for Event {
    fn is_reported(&self) -> bool {
        true
    }

    fn report(&self) -> Line {
        match *self {
            Self::Opened { why, duration, .. } => Line {
                warn: true,
                message: "breaker opened",
                delay: Some(duration),
                stop: Some(why.as_str()),
                ..Line::default()
            },
            Self::HalfOpened => Line { message: "breaker half-open", ..Line::default() },
            Self::Closed => Line { message: "breaker closed", ..Line::default() },
            Self::Isolated => Line { warn: true, message: "breaker isolated", ..Line::default() },
        }
    }

    fn figures(&self, put: &mut dyn FnMut(Figure)) {
        let state = match self {
            Self::Closed => 0.0,
            Self::HalfOpened => 1.0,
            Self::Opened { .. } => 2.0,
            Self::Isolated => 3.0,
        };
        put(Figure::Level { name: "resile_breaker_state", value: state });
        if let Self::Opened { why, .. } = self {
            put(Figure::Count { name: "resile_breaker_trips_total", key: "why", value: why.as_str() });
        }
    }
}
