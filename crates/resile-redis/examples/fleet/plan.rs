//! The runs and their numbers.

use std::time::Duration;

use resile::quota::Rate;

/// The number of processes.
pub(crate) const PROCESSES: usize = 8;
/// The requests per second that the provider accepts.
pub(crate) const LIMIT: u32 = 200;
/// The requests that the provider accepts at once after a pause: those of a quarter of a second.
pub(crate) const PROVIDER_BURST: u32 = LIMIT / 4;
/// The calls of a process that may wait for its quota. Further calls end at once.
pub(crate) const QUEUE: u32 = 16;
/// The time that a call may take, with its waits and retries.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The time at the beginning of a run that the figures leave out: all buckets are full then.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// The way in which the processes share the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Each process takes the whole limit for its own.
    Alone,
    /// Each process takes an eighth of the limit.
    Split,
    /// The processes are a fleet.
    Fleet,
    /// The processes are a fleet, and Redis is away for a while.
    Outage,
}

impl Scheme {
    pub(crate) const ALL: [Self; 4] = [Self::Alone, Self::Split, Self::Fleet, Self::Outage];

    /// Returns the word for the command line of a worker.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Split => "split",
            Self::Fleet => "fleet",
            Self::Outage => "outage",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.word() == word)
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Alone => "each alone, the whole limit",
            Self::Split => "each alone, an eighth of it",
            Self::Fleet => "a fleet",
            Self::Outage => "a fleet, Redis killed",
        }
    }

    /// Returns whether the processes share through Redis.
    pub(crate) const fn shares(self) -> bool {
        matches!(self, Self::Fleet | Self::Outage)
    }

    /// Returns the limit that each process is given. Its burst is a tenth of a second.
    pub(crate) const fn rate(self) -> Rate {
        let count = match self {
            Self::Split => LIMIT / PROCESSES as u32,
            Self::Alone | Self::Fleet | Self::Outage => LIMIT,
        };
        Rate::per_second(count as u64).with_burst((count / 10) as u64)
    }
}

/// The times of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) scheme: Scheme,
    pub(crate) length: Duration,
    /// The times at which Redis is killed and started again.
    pub(crate) outage: Option<(Duration, Duration)>,
}

impl Plan {
    pub(crate) fn new(scheme: Scheme, is_quick: bool) -> Self {
        let seconds = |full, quick| Duration::from_secs(if is_quick { quick } else { full });
        match scheme {
            Scheme::Outage => {
                let outage = Some((seconds(3, 2), seconds(6, 3)));
                Self { scheme, length: seconds(11, 7), outage }
            }
            _ => Self { scheme, length: seconds(6, 3), outage: None },
        }
    }

    pub(crate) fn describe() -> String {
        format!(
            "{PROCESSES} processes want {} calls a second. The provider accepts {LIMIT}.",
            2 * LIMIT
        )
    }
}
