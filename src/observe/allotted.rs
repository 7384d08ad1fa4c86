use std::fmt;
use std::time::Duration;

use super::one_line::OneLine;
use crate::policy::{Effect, Sending};
use crate::quota::Lack;
use crate::time::{Limit, Rounded};
use crate::verdict::Cut;

/// The time of a call whose deadline cut an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allotted {
    /// The total timeout, or the limit on the whole stream if that ends first.
    pub(crate) call: Duration,
    /// True if that is what the caller had left, which no setting names.
    pub(crate) is_shortened: bool,
    /// True if that is the total timeout of the policy.
    pub(crate) is_total: bool,
    /// True for the limit on a whole stream whose answer has begun.
    pub(crate) is_whole: bool,
    /// The time from the start of the attempt to the deadline. `None` if the start is unknown.
    pub(crate) attempt: Option<Duration>,
}

impl Allotted {
    /// Returns this time without that of the attempt, if an earlier error says why the attempt began late.
    pub(crate) fn after_error(self, has_earlier: bool) -> Self {
        Self { attempt: self.attempt.filter(|_| !has_earlier), ..self }
    }
}

/// The facts about an attempt beside its error. A cut or dropped one has no error.
#[derive(Clone, Copy, Default)]
pub(crate) struct InFlight<'a> {
    /// The place that its request goes to, as the classifier says, or the name of the call in an alternative
    /// that the deadline of its fallback has cut.
    pub(crate) place: Option<&'a str>,
    /// True if the call ended with an attempt in flight that its token or its caller dropped.
    pub(crate) is_dropped: bool,
    /// The state of the request of an attempt that was cut or dropped, as far as it is known.
    pub(crate) sending: Sending,
    /// The effect of the call, if that has ended.
    pub(crate) effect: Effect,
    /// True if the deadline cut it, and the classifier has no opinion on that, so the request is in doubt.
    pub(crate) has_no_opinion: bool,
    /// The time of the call whose deadline cut the attempt.
    pub(crate) allotted: Option<Allotted>,
    /// The duration of the attempt that the deadline cut, or of the longest one. `None` if it is unknown.
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "only the metrics have it"))]
    pub(crate) latency: Option<Duration>,
    /// The words for a fallback that ends because of what a call in its last alternative did.
    pub(crate) ended_by: Option<&'static str>,
    /// The cost of the next attempt, if the quota held it until the end of the call.
    pub(crate) lack: Option<Lack>,
    /// The time for which the quota holds the next attempt, if that is longer than its delay.
    pub(crate) held: Option<Duration>,
    /// True if the attempt is a stream that has no content yet. Its timeouts limit the wait for that.
    pub(crate) awaits_content: bool,
    /// The reason of the end of a call within the attempt.
    #[cfg(feature = "tracing")]
    pub(crate) inner: Option<crate::policy::StopReason>,
    /// The wait before the next call of a fallback that has ended, as its flat error has it, and whether it
    /// is that of another alternative than the last one.
    pub(crate) again: Option<(Duration, bool)>,
    /// The error of an earlier attempt, if this one was cut.
    pub(crate) earlier: Option<&'a dyn fmt::Display>,
}

/// The words for a call without time.
pub(super) const NO_TOTAL: &str = "the total timeout is 0 (`with_total_timeout`)";

/// Writes that an attempt was cut, with the place of its request and with the time that it had.
/// `awaits_content` tells that the attempt is a stream without content, and `effect` is what is known of its
/// effect.
pub(crate) fn write_cut(
    f: &mut fmt::Formatter<'_>,
    cut: Cut,
    awaits_content: bool,
    place: Option<&str>,
    allotted: Option<Allotted>,
    effect: &str,
) -> fmt::Result {
    place.map_or(Ok(()), |place| write!(f, "{}: ", OneLine(place)))?;
    let allotted = allotted.filter(|_| cut == Cut::Deadline);
    let is_shortened = allotted.is_some_and(|allotted| allotted.is_shortened);
    let whose = if is_shortened { "its caller" } else { "the call" };
    match cut {
        // The total timeout gave the attempt one poll. No time has passed.
        Cut::Deadline if allotted.is_some_and(|it| it.call.is_zero() && it.is_total) => {
            let missed = if awaits_content { "no content" } else { "did not finish" };
            return write!(f, "{missed} at the first poll, and {NO_TOTAL}{effect}");
        }
        Cut::AttemptTimeout(limit) if awaits_content => {
            write!(f, "no content within {}", Limit(limit))?;
        }
        Cut::Deadline if awaits_content => {
            write!(f, "no content before the deadline of {whose}")?;
        }
        Cut::Deadline if allotted.is_some_and(|allotted| allotted.is_whole) => {
            f.write_str("the stream did not end before ")?;
            f.write_str(if is_shortened {
                "the deadline of its caller"
            } else {
                "the limit on the whole (`with_whole_timeout`)"
            })?;
        }
        Cut::Deadline if is_shortened => {
            write!(f, "did not finish before the deadline of {whose}")?;
        }
        _ => write!(f, "{cut}")?,
    }
    if let Some(Allotted { call, attempt, .. }) = allotted {
        write!(f, " after {}", Limit(call))?;
        match attempt {
            // Without this number a late start reads like a slow upstream.
            Some(attempt) if attempt < call && !Rounded(attempt).reads_like(call) => {
                write!(f, ", in the {} left for it", Rounded(attempt))?;
            }
            _ => {}
        }
    }
    f.write_str(effect)
}
