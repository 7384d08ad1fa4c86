use std::borrow::Cow;
use std::time::Duration;

use ::http::{Method, Response, StatusCode, response::Parts};

use super::failure::Outcome;
use super::{Failure, StatusError};
use crate::classify::{Classify, Opinion, Over, note_error_type};
use crate::verdict::{Cut, Health, Verdict};

#[cfg_attr(feature = "reqwest", doc = "[`http::error_for_status`]: crate::http::error_for_status")]
#[cfg_attr(not(feature = "reqwest"), doc = "[`http::error_for_status`]: crate#features")]
#[doc = ""]
/// A classifier of HTTP answers by status and idempotency. The [table](super) gives the reasons.
///
/// The classifier has an opinion on every [`Failure`] and [`StatusError`], and on attempts that
/// were cut ([`classify_cut`](Classify::classify_cut)): a request that is not idempotent is not
/// sent again after a timeout. Pass the classifier itself, and for an error type of your own use
/// [`over`](Self::over), because both keep this opinion.
///
/// A classifier judges errors only, and a client returns an answer of 4xx or 5xx as `Ok`. So the operation
/// must make an error of such an answer, by [`http::error_for_status`] for `reqwest` or by
/// [`Failure::check`]. Without it the program compiles, but a 503 counts as a success and is not retried.
///
/// To treat a status differently, put your own classifier first:
/// `(mine, Classifier::idempotent())`. The opinion on cuts stays.
///
/// # Health
///
/// * [`Failing`](Health::Failing): the server failed (5xx, no answer), even if the request must not
///   be sent again, so a breaker sees the failures of `POST`s.
/// * [`Healthy`](Health::Healthy): the answer is not a failure of the server (404, 401, 501, or a
///   body that does not fit the type of the program).
/// * [`Throttling`](Health::Throttling): 429, and 503 or 403 with `Retry-After`. A 429 and a 403
///   are [limits of the caller](Verdict::is_own_limit), while a 503 is an overload by all callers.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | idempotent | none: the constructor decides | a wrong guess executes a request twice |
/// | conflict | retried | most conflicts pass: a lock, a version just written, or a request in progress with the same idempotency key |
/// | place | none | the log names the upstream, and a failure has its URL but not its [method](Self::with_place). A cut attempt and an error of your own may have none |
///
/// # Examples
///
/// ```
/// use ::http::{Method, StatusCode};
/// use resile::{Verdict, http::Classifier};
///
/// let booking = Classifier::for_method(&Method::POST);
/// let verdict = booking.verdict(StatusCode::TOO_MANY_REQUESTS, None);
/// assert_eq!(verdict, Verdict::throttled());
/// let verdict = booking.verdict(StatusCode::BAD_GATEWAY, None);
/// assert_eq!(verdict, Verdict::transient().not_again());
///
/// // The request has an `Idempotency-Key`:
/// let verdict = Classifier::keyed().verdict(StatusCode::BAD_GATEWAY, None);
/// assert_eq!(verdict, Verdict::transient().idempotent());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Classifier {
    idempotent: bool,
    keyed: bool,
    conflict: bool,
    place: Option<&'static str>,
}

impl Classifier {
    /// Creates a classifier for requests that may be executed twice.
    pub const fn idempotent() -> Self {
        Self { idempotent: true, keyed: false, conflict: true, place: None }
    }

    /// Creates a classifier for requests that must not be executed twice. A request is only sent
    /// again if it is known not to have been executed. The client must follow no redirects, because the classifier
    /// sees only the answer of their target: see [Redirects](super#redirects).
    pub const fn non_idempotent() -> Self {
        Self { idempotent: false, keyed: false, conflict: true, place: None }
    }

    /// Creates a classifier for requests that have an effect and an `Idempotency-Key`, such as the `POST` of a
    /// payment. The error of the call [says](Verdict::keyed) whether the request may have been executed.
    pub const fn keyed() -> Self {
        Self { keyed: true, ..Self::idempotent() }
    }

    /// Creates a classifier for the idempotency of `method`.
    ///
    /// GET, HEAD, OPTIONS, TRACE, PUT and DELETE are idempotent (RFC 9110 §9.2.2), and so are the
    /// methods known as idempotent to the crate `http`. POST, PATCH, CONNECT and custom methods are
    /// not.
    pub fn for_method(method: &Method) -> Self {
        if method.is_idempotent() { Self::idempotent() } else { Self::non_idempotent() }
    }

    /// Treats the request as idempotent regardless of its method, such as a `POST` that only reads. For a
    /// request with an idempotency key use [`keyed`](Self::keyed).
    pub const fn assume_idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets whether 409 Conflict is retried. Pass false if a conflict lasts until someone resolves
    /// it: "name already taken" or an edit of an old version.
    pub const fn with_conflict(mut self, retried: bool) -> Self {
        self.conflict = retried;
        self
    }

    /// Sets the [place](Classify::place) that the requests go to, such as `POST /orders`. A second call
    /// replaces the first one.
    ///
    /// The log prints the place before the words of a cut attempt, and so does the error of the call,
    /// because such an attempt has no error with a URL. They print it before the words of an error too, unless
    /// these have the method and the path: a [`Failure`](super::Failure) has its URL only, so `GET` and `POST` would
    /// look alike. It is not part of a verdict. A pair of classifiers has the place of its first
    /// member that knows one.
    ///
    /// The place is `&'static str`, so that a policy may be a `const`. For a path with an id use its pattern, such as
    /// `GET /items/{id}`. All places share one policy, because a change of its classifier makes a copy:
    /// `POLICY.with_classifier(Classifier::idempotent().with_place("GET /items/{id}"))`. A classifier
    /// of your own can return a `String` from [`place`](Classify::place).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::http::{Classifier, Failure};
    /// use resile::{Never, RetryPolicy, retry};
    /// use std::time::Duration;
    ///
    /// const ORDERS: RetryPolicy<Classifier> = RetryPolicy::new()
    ///     .with_attempt_timeout(Duration::from_secs(2))
    ///     .with_classifier(Classifier::non_idempotent().with_place("POST /orders"));
    ///
    /// # async fn order() -> Result<(), Failure> { std::future::pending().await }
    /// let gave_up = retry(|_| order(), ORDERS, Never).await.unwrap_err();
    /// let end = "(last failure: POST /orders: did not finish within 2s)";
    /// assert!(gave_up.to_string().ends_with(end));
    /// # }
    /// ```
    pub const fn with_place(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns whether requests count as idempotent.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Returns whether 409 Conflict is retried.
    #[must_use]
    pub const fn conflict(&self) -> bool {
        self.conflict
    }

    /// Returns the verdict on an answer with `status` and a `Retry-After` of `after`.
    pub fn verdict(&self, status: StatusCode, after: Option<Duration>) -> Verdict {
        note_error_type(|| Some(Cow::Borrowed(status.as_str())));
        self.answered(status, after)
    }

    const fn answered(self, status: StatusCode, after: Option<Duration>) -> Verdict {
        let verdict = match status.as_u16() {
            429 => Verdict::throttled(),
            403 if after.is_some() => Verdict::throttled(),
            413 if after.is_some() => Verdict::transient(),
            408 | 425 => Verdict::transient(),
            409 if self.conflict => Verdict::transient().with_health(Health::Healthy),
            511 => Verdict::fatal(), // a network on the way answered
            501 | 505 | 506 | 508 | 510 => Verdict::fatal().with_health(Health::Healthy),
            507 if after.is_none() => Verdict::transient().not_again(),
            503 if after.is_some() => self.unless_repeatable(Verdict::overloaded()),
            500..=599 => self.unless_repeatable(Verdict::transient()),
            _ => Verdict::fatal().with_health(Health::Healthy),
        };
        let verdict = self.with_idempotency(verdict);
        let verdict = match status.as_u16() {
            // The server, or a network on the way, says that it does not execute the request.
            307 | 308 | 400..=498 | 501 | 505 | 506 | 508 | 510 | 511 => verdict.without_effect(),
            // A proxy says that its caller has gone. Many services send a 302 in place of a 303, and others
            // redirect before they execute anything.
            301 | 302 | 499 => verdict.not_told(),
            _ => verdict,
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

    /// States that the request is idempotent or has a key, if so.
    const fn with_idempotency(self, verdict: Verdict) -> Verdict {
        match (self.keyed, self.idempotent) {
            (true, _) => verdict.keyed(),
            (false, true) => verdict.idempotent(),
            (false, false) => verdict,
        }
    }

    /// Forbids a repetition if the request is not idempotent. The health stays.
    const fn unless_repeatable(self, verdict: Verdict) -> Verdict {
        if self.idempotent { verdict } else { verdict.not_again() }
    }

    /// Returns the verdict on a request that may have reached the server but has no answer: a
    /// reset, a truncated answer or a timeout. In case of doubt use this verdict.
    pub const fn unanswered(&self) -> Verdict {
        self.with_idempotency(self.unless_repeatable(Verdict::transient()))
    }

    /// Returns the verdict on a request for which no connection was made. The server did not see the
    /// request, so any request may be sent again, and a quota [gives its reservation
    /// back](Verdict::not_sent).
    pub const fn not_sent(&self) -> Verdict {
        self.with_idempotency(Verdict::transient().not_sent())
    }

    /// Makes a classifier for an error type of your own. `map` finds the part of the error that this
    /// classifier knows, and asks it. The opinion on cut attempts, the [place](Self::with_place) and the
    /// word of `error.type` remain those of this classifier.
    ///
    /// An operation with the error [`Failure`] needs no such classifier.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::http::{Classifier, Failure};
    /// use resile::classify::Cut;
    /// use resile::Classify;
    ///
    /// enum CallError {
    ///     Http(Failure),
    ///     NoToken,
    /// }
    ///
    /// let post = Classifier::non_idempotent()
    ///     .over(|post, error: &CallError| match error {
    ///         CallError::Http(failure) => post.classify(failure),
    ///         CallError::NoToken => None,
    ///     });
    /// assert!(!post.classify_cut(Cut::Deadline).unwrap().is_again());
    /// # let refused = ::http::Response::builder().status(429).body("").unwrap();
    /// # let refused = CallError::Http(Failure::check(refused).unwrap_err());
    /// # assert!(post.classify(&refused).unwrap().is_again());
    /// # assert!(post.classify(&CallError::NoToken).is_none());
    /// ```
    pub const fn over<E, F, V>(self, map: F) -> Over<Self, F>
    where
        E: ?Sized,
        F: Fn(&Self, &E) -> V,
        V: Opinion,
    {
        Over::new(self, self.unanswered(), map).with_place(self.place)
    }

    /// Returns the place that the requests go to.
    pub(super) fn known_place(&self) -> Option<Cow<'_, str>> {
        self.place.map(Cow::Borrowed)
    }

    /// Returns the verdict on the end of a request.
    pub(super) fn judge(self, outcome: Outcome) -> Verdict {
        note_error_type(|| Some(outcome.error_type()));
        let final_but_healthy = Verdict::fatal().with_health(Health::Healthy);
        let verdict = match outcome {
            Outcome::Refused(refused) => self.answered(refused.status(), refused.retry_after()),
            Outcome::NotSent => self.not_sent(),
            Outcome::Unanswered | Outcome::Incomplete => self.unanswered(),
            Outcome::Cut | Outcome::CutBody => self.unanswered().on_cut(),
            // Nothing was sent, so the upstream is not to blame.
            Outcome::NotBuilt => Verdict::fatal().not_sent(),
            // The whole answer arrived, so the upstream works. Its status promises the execution, but nobody
            // can read the rest. A redirect promises it if it is a 303, and the error does not tell it
            // from a 307.
            Outcome::NotUnderstood | Outcome::Redirected => final_but_healthy.not_told(),
        };
        self.with_idempotency(verdict)
    }
}

impl Classify<Failure> for Classifier {
    fn classify(&self, failure: &Failure) -> Option<Verdict> {
        Some(self.judge(failure.outcome()))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.known_place()
    }

    /// Returns the status, such as "503", or without an answer `connect`, `no_answer` or `timeout`. An
    /// answer whose body broke off is `incomplete_answer`, and one that the program does not understand is
    /// `decode`. A request that cannot be built is `request`, and one whose redirects were not followed to
    /// their end is `redirect`.
    fn error_type<'e>(&self, failure: &'e Failure) -> Option<Cow<'e, str>> {
        Some(failure.outcome().error_type())
    }
}

impl Classify<StatusError> for Classifier {
    fn classify(&self, refused: &StatusError) -> Option<Verdict> {
        Some(self.verdict(refused.status(), refused.retry_after()))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.known_place()
    }

    /// Returns the status, such as "503".
    fn error_type<'e>(&self, refused: &'e StatusError) -> Option<Cow<'e, str>> {
        Some(Cow::Owned(refused.status().as_str().to_owned()))
    }
}

/// Has no opinion on an answer that is neither 4xx nor 5xx.
impl Classify<Parts> for Classifier {
    fn classify(&self, parts: &Parts) -> Option<Verdict> {
        StatusError::check(parts.status, &parts.headers)
            .err()
            .and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.known_place()
    }

    /// Returns the status, such as "503".
    fn error_type<'e>(&self, parts: &'e Parts) -> Option<Cow<'e, str>> {
        Some(Cow::Borrowed(parts.status.as_str()))
    }
}

/// Has no opinion on an answer that is neither 4xx nor 5xx.
impl<B> Classify<Response<B>> for Classifier {
    fn classify(&self, response: &Response<B>) -> Option<Verdict> {
        StatusError::check(response.status(), response.headers())
            .err()
            .and_then(|refused| self.classify(&refused))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.known_place()
    }

    /// Returns the status, such as "503".
    fn error_type<'e>(&self, response: &'e Response<B>) -> Option<Cow<'e, str>> {
        Some(Cow::Owned(response.status().as_str().to_owned()))
    }
}
