use std::fmt;
use std::time::Duration;

use super::one_line::OneLine;
use crate::time::Limit;
use crate::verdict::Cut;

/// The time of a call whose deadline cut an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allotted {
    /// The total timeout, or the limit on the whole stream if that ends first.
    pub(crate) call: Duration,
    /// The time from the start of the attempt to the deadline. `None` if the start is unknown.
    pub(crate) attempt: Option<Duration>,
}

/// The facts about an attempt beside its error. A cut or dropped one has no error.
#[derive(Clone, Copy, Default)]
pub(crate) struct InFlight<'a> {
    /// The place that its request goes to, as the classifier says.
    pub(crate) place: Option<&'a str>,
    /// True if the call ended with an attempt in flight that its token or its caller dropped.
    pub(crate) is_dropped: bool,
    /// True if that attempt had surely not sent its request.
    pub(crate) is_dropped_unsent: bool,
    /// True if the call has ended and any attempt of it may have had an effect.
    pub(crate) has_effect: bool,
    /// The time of the call whose deadline cut the attempt.
    pub(crate) allotted: Option<Allotted>,
    /// The reason of the end of a call within the attempt.
    #[cfg(feature = "tracing")]
    pub(crate) inner: Option<crate::policy::StopReason>,
    /// The error of an earlier attempt, if this one was cut.
    pub(crate) earlier: Option<&'a dyn fmt::Display>,
}

/// Writes that an attempt was cut, with the place of its request and with the time that it had.
/// `effect` is what is known of its effect.
pub(crate) fn write_cut(
    f: &mut fmt::Formatter<'_>,
    cut: Cut,
    place: Option<&str>,
    allotted: Option<Allotted>,
    effect: &str,
) -> fmt::Result {
    place.map_or(Ok(()), |place| write!(f, "{}: ", OneLine(place)))?;
    write!(f, "{cut}")?;
    if let Some(Allotted { call, attempt }) = allotted.filter(|_| cut == Cut::Deadline) {
        write!(f, " after {}", Limit(call))?;
        match attempt {
            // Without this number a late start reads like a slow upstream.
            Some(attempt)
                if attempt < call && format!("{attempt:.1?}") != format!("{call:.1?}") =>
            {
                write!(f, ", and had only {attempt:.1?}")?;
            }
            _ => {}
        }
    }
    f.write_str(effect)
}
