use std::time::Duration;

use ::http::{Method, Response, StatusCode, response::Parts};

use super::StatusError;
use crate::classify::Classify;
use crate::verdict::{Cut, Health, Verdict};

/// Classifies HTTP answers by status and idempotency; the [table](super) says how, and why.
///
/// It has an opinion on every [`StatusError`], and on attempts that were cut ([`classify_cut`](Classify::classify_cut)): a
/// request that is not idempotent is not sent again after a timeout. A closure that asks this classifier inside loses that
/// opinion, so give the classifier itself.
///
/// To except a status, put your own classifier first: `(mine, Classifier::idempotent())`.
///
/// # Health
///
/// A failure of the server (5xx, no answer) is [`Failing`](Health::Failing) also where the request must not be sent again,
/// so a breaker sees the failures of `POST`s. An answer that is no failure of the server (404, 401, 501) is
/// [`Healthy`](Health::Healthy). 429, and 503 or 403 with `Retry-After`, are [`Throttling`](Health::Throttling).
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
/// assert_eq!(booking.verdict(StatusCode::TOO_MANY_REQUESTS, None), Verdict::throttled());
/// assert_eq!(booking.verdict(StatusCode::BAD_GATEWAY, None), Verdict::transient().not_again());
///
/// let keyed = booking.assume_idempotent(); // the request has an `Idempotency-Key`
/// assert_eq!(keyed.verdict(StatusCode::BAD_GATEWAY, None), Verdict::transient());
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

    /// Returns the verdict on an answer of that status, which asked to wait for `after`.
    pub const fn verdict(&self, status: StatusCode, after: Option<Duration>) -> Verdict {
        let verdict = match status.as_u16() {
            429 => Verdict::throttled(),
            403 if after.is_some() => Verdict::throttled(),
            413 if after.is_some() => Verdict::transient(),
            408 | 425 => Verdict::transient(),
            409 if self.conflict => Verdict::transient().with_health(Health::Healthy),
            511 => Verdict::fatal(), // a network in between answered
            501 | 505 | 506 | 508 | 510 => Verdict::fatal().with_health(Health::Healthy),
            507 if after.is_none() => Verdict::transient().not_again(),
            503 if after.is_some() => self.once(Verdict::throttled()),
            500..=599 => self.once(Verdict::transient()),
            _ => Verdict::fatal().with_health(Health::Healthy),
        };
        match after {
            Some(after)
                if verdict.is_again()
                    || matches!(verdict.health(), Health::Throttling | Health::Failing) =>
            {
                verdict.after(after)
            }
            _ => verdict,
        }
    }

    /// Keeps a request that is not idempotent from being sent again. What it shows of the upstream stays.
    const fn once(self, verdict: Verdict) -> Verdict {
        if self.idempotent { verdict } else { verdict.not_again() }
    }

    /// Returns the verdict on a request that failed without an answer.
    ///
    /// `reached`: whether any of it may have reached the server. False only where no connection came about: with
    /// `reqwest`, `!error.is_connect()`. A reset, an answer cut off and a timeout are true, and so is whatever is in
    /// doubt.
    pub const fn unanswered(&self, reached: bool) -> Verdict {
        if reached { self.once(Verdict::transient()) } else { Verdict::transient() }
    }
}

impl Classify<StatusError> for Classifier {
    fn classify(&self, refused: &StatusError) -> Option<Verdict> {
        Some(self.verdict(refused.status(), refused.retry_after()))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}

/// No opinion on what is neither 4xx nor 5xx.
impl Classify<Parts> for Classifier {
    fn classify(&self, parts: &Parts) -> Option<Verdict> {
        StatusError::check(parts.status, &parts.headers)
            .err()
            .and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}

/// No opinion on what is neither 4xx nor 5xx.
impl<B> Classify<Response<B>> for Classifier {
    fn classify(&self, response: &Response<B>) -> Option<Verdict> {
        StatusError::check(response.status(), response.headers())
            .err()
            .and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}
