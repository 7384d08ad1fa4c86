use crate::verdict::{Cut, Verdict};

/// The effect of a call on its upstream, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// True if any attempt may have had an effect.
    pub(crate) may_have: bool,
    /// True if the attempt that began last had none then. Its failure is the one that an end names.
    pub(crate) is_earlier: bool,
    pub(crate) request: Request,
    /// True if any failure stated a key of the request, also if the call is in doubt.
    pub(crate) states_key: bool,
}

/// States whether the request may have been executed and must not be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    #[default]
    No,
    /// Nobody knows it, because the classifier does not state it. The caller learns of it.
    Unstated,
    /// The classifier states it. The operator learns of it too.
    Stated,
}

impl Doubt {
    /// Returns the doubt that the drop of an attempt in flight leaves, by the verdict on a cut attempt.
    pub(crate) const fn of_drop(on_cut: Verdict) -> Self {
        match (on_cut.is_in_doubt(Some(Cut::Deadline)), on_cut.is_stated()) {
            (true, true) => Self::Stated,
            (true, false) => Self::Unstated,
            (false, _) => Self::No,
        }
    }
}

/// The kind of a request, as the classifier states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Request {
    /// Nobody has stated it.
    #[default]
    Unknown,
    /// It may be executed twice and has no key, such as a read, so nobody asks for its effect.
    Idempotent,
    /// It may be executed twice because of its [key](Verdict::keyed).
    Keyed,
    /// It must not be executed twice.
    NotIdempotent,
}

/// The knowledge about the request of the attempt that is being dropped. A later one of these states replaces an
/// earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sending {
    /// No call asks.
    Unasked,
    #[default]
    Unknown,
    /// The part before it has ended, so it was sent.
    Begun,
    /// The same of the `COMMIT` of a transaction.
    CommitBegun,
    NotSent,
    /// An attempt of an inner call may have sent it.
    Sent,
}

impl Request {
    /// Returns the kind by the verdict on a cut attempt, which is about the request alone. That on the `last`
    /// failure counts if the other one does not state it: any request may be repeated after some failures.
    ///
    /// `is_keyed` is true if the verdict on any failure states a key. A key is one of the request, so a later failure
    /// that says nothing of it changes nothing.
    pub(crate) fn of(on_cut: Verdict, last: Option<Verdict>, is_keyed: bool) -> Self {
        if is_keyed || on_cut.is_keyed() {
            Self::Keyed
        } else if on_cut.is_idempotent() {
            Self::Idempotent
        } else if on_cut.is_stated() && !on_cut.is_again() {
            Self::NotIdempotent
        } else if last.is_some_and(|last| last.is_idempotent()) {
            Self::Idempotent
        } else {
            Self::Unknown
        }
    }
}

impl Effect {
    /// Returns the verdict on a call with what is known of its request: that it has a key, or may be executed twice. A
    /// classifier may state these of its errors only, so nothing is known unless it `has_judged` one. Then the verdict
    /// of an inner call may still say that nothing is known.
    pub(crate) const fn told_in(self, verdict: Verdict, has_judged: bool) -> Verdict {
        match self.request {
            Request::Keyed => verdict.keyed(),
            Request::Idempotent => verdict.idempotent(),
            Request::NotIdempotent => verdict.with_unknown_key(false),
            Request::Unknown if has_judged => verdict,
            Request::Unknown => verdict.with_unknown_key(true),
        }
    }

    /// Returns the effect of a call that knows it of all its inner calls, with what the `last` one of these knows. A key
    /// does not resolve the doubt that one of them leaves.
    pub(crate) const fn over(self, last: Self, is_in_doubt: bool) -> Self {
        let has_key = self.is_keyed() || self.states_key;
        Self {
            may_have: self.may_have,
            is_earlier: self.is_earlier || last.is_earlier,
            request: match (is_in_doubt, has_key) {
                (true, _) => Request::Unknown,
                (false, true) => Request::Keyed,
                (false, false) => last.request,
            },
            states_key: self.states_key || last.states_key,
        }
    }

    /// Returns whether the request has a key.
    pub(crate) const fn is_keyed(self) -> bool {
        matches!(self.request, Request::Keyed)
    }

    /// Returns whether the request has a key and may have been executed.
    #[cfg(feature = "tracing")]
    pub(crate) const fn is_keyed_in_doubt(self) -> bool {
        self.is_keyed() && self.may_have
    }

    /// Returns the words for the end of a call that has made an attempt and is not in doubt. That of a read says
    /// nothing of its effect, and the last error says what it was if the request must not be executed twice.
    pub(crate) const fn at_end(self) -> &'static str {
        match (self.request, self.may_have) {
            (Request::Keyed | Request::NotIdempotent, false) => NONE,
            (Request::Keyed, true) if self.is_earlier => EARLIER_MAY_BE_SENT_AGAIN,
            (Request::Keyed, true) => MAY_BE_SENT_AGAIN,
            _ => "",
        }
    }

    /// Returns the words for an attempt that was cut or dropped. One that was not sent ended without effect, unless
    /// the end of the call has said it.
    pub(crate) const fn of_attempt(self, sending: Sending) -> &'static str {
        match (sending, self.request, self.may_have) {
            (Sending::Begun, ..) => SENT,
            (Sending::CommitBegun, ..) => COMMIT_SENT,
            (Sending::NotSent, Request::Unknown, false) => NONE,
            (Sending::NotSent, Request::Unknown | Request::NotIdempotent, true) => NONE_AT_LAST,
            _ => "",
        }
    }
}

/// The words for an attempt that had sent nothing, or nothing that the upstream keeps.
const NONE: &str = ", without effect";

/// The words for such an attempt after one that may have had an effect.
const NONE_AT_LAST: &str = ", without effect, but an earlier attempt may have had one";

/// The words for an attempt whose part before sending had ended.
const SENT: &str = ", its request was sent";

/// The same words for the `COMMIT` of a transaction.
const COMMIT_SENT: &str = ", its COMMIT was sent";

const MAY_BE_SENT_AGAIN: &str =
    ", the request may have been executed and may be sent again with its key";

/// The same words if the last attempt had no effect.
const EARLIER_MAY_BE_SENT_AGAIN: &str =
    ", an earlier attempt may have been executed, the request may be sent again with its key";
