use crate::observe::{Allotted, CallKind};
use crate::policy::Sending;
use crate::verdict::Cut;

/// The facts about the last attempt of a call that gave up, beside its error.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LastAttempt {
    /// The kind of the call that made it, which is the inner one in a flat error.
    pub(crate) kind: CallKind,
    pub(crate) cut: Option<Cut>,
    /// True if it was a stream and was cut before its first content.
    pub(crate) awaits_content: bool,
    /// The time of the call whose deadline was the cut.
    pub(crate) allotted: Option<Allotted>,
    /// The place of its request, unless that was dropped, as the classifier says.
    pub(crate) place: Option<Box<str>>,
    /// What is known of its request if it was cut.
    pub(crate) sending: Sending,
    /// The request that the token or the caller dropped in flight, if its place is known.
    pub(crate) dropped: Option<Dropped>,
    /// True if it returned the last error. One that was cut or dropped returned none, so the last error is
    /// that of an earlier attempt.
    pub(crate) has_error: bool,
}

/// A request that was dropped in flight.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) place: Box<str>,
    pub(crate) sending: Sending,
}

impl LastAttempt {
    /// Returns the last attempt of an inner call, after which the outer call may have dropped another one.
    pub(super) fn then_dropped(self, dropped: Option<Dropped>) -> Self {
        Self { dropped: dropped.or(self.dropped), ..self }
    }
}
