use std::fmt;
use std::time::Duration;

use super::held_by::HeldBy;
use crate::time::{Limit, Rounded};

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
        /// [sets](crate::Verdict::at_least).
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
        /// True if the upstream asked for the wait.
        is_asked: bool,
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
    /// Returns the part of the upstream that makes the wait too long.
    #[cfg(feature = "tracing")]
    pub(super) fn by(&self) -> Option<HeldBy> {
        match self {
            Self::Hint { .. } => None,
            Self::Delay { by, .. } => *by,
        }
    }

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
                if is_asked {
                    write!(f, "the upstream asks for a wait of {}", Rounded(wait))?;
                } else {
                    write!(f, "a wait of at least {} is set for this error", Rounded(wait))?;
                }
                write!(f, ", more than the hint cap of {} (`with_hint_cap`)", Limit(cap))
            }
            Self::Delay { wait, is_asked, by, left, total } => {
                let by = by.map(HeldBy::as_str);
                let (wait_text, left_text) = apart(wait, left);
                match (by, total) {
                    (None, Some(Duration::ZERO)) if wait.is_zero() => {
                        f.write_str("the limit on the call is 0, ")?;
                        return f.write_str("so no time is left for the next attempt");
                    }
                    (None, Some(total)) if wait.is_zero() => {
                        return write!(
                            f,
                            "no time of {} is left for the next attempt",
                            Limit(total)
                        );
                    }
                    (Some(by), Some(total)) if wait.is_zero() => {
                        write!(f, "the next attempt waited for the {by} ")?;
                        return write!(f, "until too little of {} was left", Limit(total));
                    }
                    (None, _) if is_asked => {
                        write!(f, "the upstream asks for a wait of {wait_text}, ")?;
                    }
                    (None, _) => {
                        write!(f, "the next attempt would start in {wait_text}, ")?;
                    }
                    (Some(by), _) => {
                        write!(f, "the {by} holds the next attempt for {wait_text}, ")?;
                    }
                }
                match total {
                    Some(total) if total.is_zero() => f.write_str("but the limit on the call is 0"),
                    Some(total) if wait == left => {
                        write!(f, "just when the {left_text} left of {} end", Limit(total))
                    }
                    Some(total) if wait < left => {
                        let rest = Rounded(left.saturating_sub(wait));
                        write!(f, "so only {rest} of {} would be left", Limit(total))
                    }
                    Some(total) => write!(f, "but {} are left", left_of(left, &left_text, total)),
                    None => f.write_str("and the call may not wait"),
                }
            }
        }
    }
}

/// Returns the time left of the total timeout. It says "only" if nothing is used, or if the timeout was computed,
/// such as from the time that a caller has left.
fn left_of(left: Duration, text: &str, total: Duration) -> String {
    let limit = Limit(total);
    if left.is_zero() {
        format!("0s of {limit}")
    } else if Rounded(left).to_string() != Rounded(total).to_string() {
        format!("{text} of {limit}")
    } else if limit.is_computed() {
        format!("only {text}") // the text has the digits that tell it apart from the wait
    } else if left == total {
        format!("only {limit}")
    } else {
        format!("less than {limit}")
    }
}

/// Returns both times with one digit behind the point, or with as many as tell them apart.
fn apart(wait: Duration, left: Duration) -> (String, String) {
    let text = |time, digits| format!("{:.digits$}", Rounded(time));
    (1..=9)
        .map(|digits| (text(wait, digits), text(left, digits)))
        .find(|(wait_text, left_text)| wait_text != left_text || wait == left)
        .unwrap_or_else(|| (format!("{wait:?}"), format!("{left:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that has used little of its time does not read as if it had all of it.
    #[test]
    fn the_time_left_is_told_apart_from_the_whole_time() {
        let second = Duration::from_secs(1);
        let total = second * 15;
        let computed = Duration::from_micros(14_996_543); // nobody has set this timeout
        for (left, total, words) in [
            (15_000, total, "but only 15s are left"),
            (14_965, total, "but less than 15s are left"),
            (14_999, total, "but less than 15s are left"),
            (12_000, total, "but 12.0s of 15s are left"),
            (14_995, computed, "but only 15.0s are left"),
            (0, total, "but 0s of 15s are left"),
            (0, computed, "but 0s of 15.0s are left"),
        ] {
            let left = Duration::from_millis(left);
            let (wait, total) = (second * 60, Some(total));
            let too_long = TooLong::Delay { wait, is_asked: true, by: None, left, total };
            let words = format!("the upstream asks for a wait of 60.0s, {words}");
            assert_eq!(too_long.to_string(), words);
        }
    }
}
