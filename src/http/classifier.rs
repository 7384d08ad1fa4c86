use std::time::Duration;

use ::http::{Method, Response, StatusCode, response::Parts};

use super::Refused;
use crate::classify::{Classify, Verdict};

/// Judges HTTP answers by status and idempotency; the [table](super) says how, and why.
///
/// It has an opinion on every [`Refused`], and on attempts that were cut off ([`classify_cut`](Classify::classify_cut)):
/// under [`Lift`](crate::Lift), a request that is not idempotent is not sent again after a timeout. A closure that asks
/// this classifier inside loses that opinion, so give the classifier itself.
///
/// To except a status, ask your own classifier first, with [`or_else`](Classify::or_else) this one.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | idempotent | none: a constructor says it | a wrong guess does a thing twice |
/// | conflict | retried | a lock, a version just written, or the same idempotency key still in work: most pass |
///
/// # Examples
///
/// ```
/// use ::http::{Method, StatusCode};
/// use resile::{Verdict, http::Classifier};
///
/// let booking = Classifier::for_method(&Method::POST);
/// assert_eq!(booking.verdict(StatusCode::TOO_MANY_REQUESTS, None), Verdict::throttled(None));
/// assert_eq!(booking.verdict(StatusCode::BAD_GATEWAY, None), Verdict::fail());
///
/// let keyed = booking.assume_idempotent(); // the request has an `Idempotency-Key`
/// assert_eq!(keyed.verdict(StatusCode::BAD_GATEWAY, None), Verdict::retry());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Classifier {
    idempotent: bool,
    conflict: bool,
}

impl Classifier {
    /// For requests that may be executed twice.
    pub const fn idempotent() -> Self {
        Self { idempotent: true, conflict: true }
    }

    /// For requests that must not be executed twice: retries only where it is known that the request was not executed.
    pub const fn non_idempotent() -> Self {
        Self { idempotent: false, conflict: true }
    }

    /// As the method is defined: idempotent are GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110 §9.2.2), and what
    /// else the crate `http` knows to be. POST, PATCH, CONNECT and methods of one's own are not.
    pub fn for_method(method: &Method) -> Self {
        if method.is_idempotent() { Self::idempotent() } else { Self::non_idempotent() }
    }

    /// The same for a request that the caller knows to be idempotent whatever its method: it has an idempotency key, or
    /// only asks.
    pub const fn assume_idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Whether 409 Conflict is retried. Switch it off where a conflict lasts until somebody resolves it: "name already
    /// taken", an edit of an old version.
    pub const fn with_conflict(mut self, retried: bool) -> Self {
        self.conflict = retried;
        self
    }

    /// Whether requests are taken as idempotent.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether 409 Conflict is retried.
    #[must_use]
    pub const fn conflict(&self) -> bool {
        self.conflict
    }

    /// The verdict on an answer of that status, which asked to wait for `after`.
    #[must_use]
    pub const fn verdict(&self, status: StatusCode, after: Option<Duration>) -> Verdict {
        let throttled = match status.as_u16() {
            429 => true,
            403 if after.is_some() => true,
            413 if after.is_some() => false,
            408 | 425 => false,
            409 if self.conflict => false,
            501 | 505 | 506 | 508 | 510 | 511 => return Verdict::Fail,
            507 if after.is_none() => return Verdict::Fail,
            503 if self.idempotent => after.is_some(),
            500..=599 if self.idempotent => false,
            _ => return Verdict::Fail,
        };
        match after {
            _ if throttled => Verdict::throttled(after),
            Some(after) => Verdict::retry_after(after),
            None => Verdict::retry(),
        }
    }

    /// The verdict on a request that failed without an answer.
    ///
    /// `reached`: whether any of it may have reached the server. False only where no connection came about: with
    /// `reqwest`, `!error.is_connect()`. A reset, an answer cut off and a timeout are true, and so is whatever is in
    /// doubt.
    #[must_use]
    pub const fn unanswered(&self, reached: bool) -> Verdict {
        if reached && !self.idempotent { Verdict::Fail } else { Verdict::retry() }
    }
}

impl Classify<Refused> for Classifier {
    fn classify(&self, refused: &Refused) -> Option<Verdict> {
        Some(self.verdict(refused.status(), refused.retry_after()))
    }

    fn classify_cut(&self) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}

/// No opinion on what is neither 4xx nor 5xx.
impl Classify<Parts> for Classifier {
    fn classify(&self, parts: &Parts) -> Option<Verdict> {
        Refused::check(parts.status, &parts.headers).err().and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}

/// No opinion on what is neither 4xx nor 5xx.
impl<B> Classify<Response<B>> for Classifier {
    fn classify(&self, response: &Response<B>) -> Option<Verdict> {
        Refused::check(response.status(), response.headers()).err().and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}
