use std::fmt;
use std::time::Duration;

use super::held_by::HeldBy;

/// The wait before the next attempt that was too long, with its numbers. See
/// [`StopReason::HintTooLong`](crate::StopReason::HintTooLong) and
/// [`StopReason::Deadline`](crate::StopReason::Deadline).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TooLong {
    /// The wait was above the policy's [hint cap](crate::RetryPolicy::with_hint_cap).
    #[non_exhaustive]
    Hint {
        /// The wait that the upstream asked for or that the classifier
        /// [demands](crate::Verdict::at_least).
        wait: Duration,
        /// The hint cap.
        cap: Duration,
        /// True if the upstream asked for the wait.
        is_asked: bool,
    },
    /// The wait was longer than the time left.
    #[non_exhaustive]
    Delay {
        /// The delay before the next attempt, or the time for which a part holds it. Zero if the
        /// time was over when the attempt was due.
        wait: Duration,
        /// The part of the upstream for which the attempt would wait or has waited.
        by: Option<HeldBy>,
        /// The time left.
        left: Duration,
        /// The total timeout, or the limit on the whole stream if that ends first. `None` for an
        /// admission that may not wait.
        total: Option<Duration>,
    },
}

impl TooLong {
    /// Returns whether the words have the wait before the next call already.
    pub(crate) fn tells(&self, retry_after: Option<Duration>) -> bool {
        let (Self::Hint { wait, .. } | Self::Delay { wait, .. }) = self;
        retry_after == Some(*wait)
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Hint { wait, cap, is_asked } => {
                f.write_str(if is_asked {
                    "the upstream asks for"
                } else {
                    "the classifier demands"
                })?;
                write!(f, " a wait of {wait:.1?}, more than the hint cap of {cap:?} ")?;
                f.write_str("(`with_hint_cap`)")
            }
            Self::Delay { wait, by, left, total } => {
                let by = by.map(HeldBy::as_str);
                match (by, total) {
                    (None, Some(total)) if wait.is_zero() => {
                        return write!(f, "no time of {total:?} is left for the next attempt");
                    }
                    (Some(by), Some(total)) if wait.is_zero() => {
                        write!(f, "the next attempt waited for the {by} ")?;
                        return write!(f, "until no time of {total:?} was left");
                    }
                    (None, _) => write!(f, "the next attempt would start in {wait:.1?}, ")?,
                    (Some(by), _) => write!(f, "the {by} holds the next attempt for {wait:.1?}, ")?,
                }
                match total {
                    Some(total) => write!(f, "but {left:.1?} of {total:?} are left"),
                    None => f.write_str("and the call may not wait"),
                }
            }
        }
    }
}
