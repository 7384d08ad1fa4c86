use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{HeaderMap, SET_COOKIE};
use ::http::{Response, StatusCode};

use super::StatusError;
use crate::observe::OneLine;
use crate::timeout::Elapsed;

/// The number of bytes that are kept of a body.
pub(super) const READ: usize = 1024;

/// The number of characters that `Display` shows of a body.
const SHOWN: usize = 200;

#[cfg_attr(feature = "reqwest", doc = "[`http::error_for_status`]: crate::http::error_for_status")]
#[cfg_attr(not(feature = "reqwest"), doc = "[`http::error_for_status`]: crate#features")]
#[doc = ""]
/// A failed HTTP request: a 4xx or 5xx answer, a redirect that the client did not follow, or the cause if
/// there is no answer or if the program does not understand the answer.
///
/// This is the error type for an operation over HTTP, and [`Classifier`](super::Classifier)
/// classifies it with the wait of the answer's `Retry-After`. Use [`http::error_for_status`] for
/// `reqwest`, and [`check`](Self::check) for other clients. A `reqwest::Error` is converted by `?`.
/// For the errors of another client use [`unanswered`](Self::unanswered),
/// [`not_sent`](Self::not_sent) and [`not_understood`](Self::not_understood).
///
/// `Display` writes one line: "503 Service Unavailable, retry after 2s: overloaded", or "no
/// connection" without the cause. A failure by `reqwest` has the URL too, as in "503 Service Unavailable
/// from `https://api.example/v1`, retry after 2s: overloaded". It shows at most 200 characters of the body
/// and escapes control characters. The alternate form (`{:#}`) omits the wait, because a log line and the
/// alternate form of a [`GaveUp`](crate::GaveUp) print the hint of the verdict. A failure is one pointer in
/// size.
///
/// The [`source`](Error::source) is the `io::Error` in the cause, or else its innermost error. So a
/// line of the log, the `{:#}` of a [`GaveUp`](crate::GaveUp) with a name and that of an `anyhow::Error`
/// print each text once, and the layers of the client are left out: "no connection to
/// `https://api.example/v1`: Connection refused". [`cause`](Self::cause) returns the error of the client,
/// and [`into_cause`](Self::into_cause) returns it by value.
///
/// # Examples
///
/// ```
/// use resile::http::{Classifier, Failure};
/// use resile::{Classify, Verdict};
/// use std::time::Duration;
///
/// let answer = http::Response::builder()
///     .status(503)
///     .header("retry-after", "2")
///     .body("Come back later.")
///     .unwrap();
/// let failure = Failure::check(answer).unwrap_err();
/// assert_eq!(
///     failure.to_string(),
///     "503 Service Unavailable, retry after 2s: Come back later."
/// );
/// let verdict = Classifier::idempotent().classify(&failure);
/// let two = Duration::from_secs(2);
/// assert_eq!(verdict, Some(Verdict::overloaded().idempotent().after(two)));
/// ```
#[derive(Clone, Debug)]
pub struct Failure(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    outcome: Outcome,
    headers: HeaderMap,
    body: String,
    /// The URL of the request or of its answer, if the client tells it. Empty otherwise.
    url: String,
    /// The box is what a failure without a clone gives away.
    cause: Option<Arc<Box<dyn Error + Send + Sync>>>,
}

/// The end of the request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// The server answered 4xx or 5xx, or a redirect that nobody followed.
    Refused(StatusError),
    /// No connection was made.
    NotSent,
    /// The request may have reached the server.
    Unanswered,
    /// The server answered, but the body broke off.
    #[cfg_attr(not(feature = "reqwest"), expect(dead_code, reason = "other clients do not tell"))]
    Incomplete,
    /// A limit of the operation cut the request, which may have reached the server.
    Cut,
    /// A limit of the operation cut the body of the answer.
    #[cfg_attr(not(feature = "reqwest"), expect(dead_code, reason = "other clients do not tell"))]
    CutBody,
    /// The whole answer arrived, but the program cannot read it.
    NotUnderstood,
    /// The request could not be built, so nothing was sent.
    #[cfg_attr(not(feature = "reqwest"), expect(dead_code, reason = "other clients do not tell"))]
    NotBuilt,
    /// The client did not follow the redirects to their end.
    #[cfg_attr(not(feature = "reqwest"), expect(dead_code, reason = "other clients do not tell"))]
    Redirected,
}

impl Outcome {
    /// Returns the status, such as "503", or one word for a request without an answer.
    pub(super) fn error_type(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Refused(refused) => return Cow::Owned(refused.status().as_str().to_owned()),
            Self::NotSent => "connect",
            Self::Unanswered => "no_answer",
            Self::Incomplete => "incomplete_answer",
            Self::Cut | Self::CutBody => "timeout",
            Self::NotUnderstood => "decode",
            Self::NotBuilt => "request",
            Self::Redirected => "redirect",
        })
    }
}

impl Failure {
    /// Turns an answer of 4xx or 5xx into a failure, and one of 301, 302, 307 or 308 that nobody followed. Returns
    /// the others unchanged. A 303 is one of them because the server has executed the request.
    ///
    /// The failure keeps the headers and the first KiB of the body. This function does not read a body, so
    /// limit the size where you read it.
    ///
    /// # Errors
    ///
    /// Returns a failure for 4xx, 5xx, 301, 302, 307 and 308.
    pub fn check<B: AsRef<[u8]>>(answer: Response<B>) -> Result<Response<B>, Self> {
        match StatusError::check_followed(answer.status(), answer.headers()) {
            Ok(()) => Ok(answer),
            Err(refused) => {
                let (parts, body) = answer.into_parts();
                Err(Self::refused(refused, parts.headers, body.as_ref()))
            }
        }
    }

    /// Creates a failure of a request that may have reached the server: a reset, a truncated answer
    /// or a timeout. In case of doubt use this function, because only an idempotent request is then
    /// sent again.
    #[must_use]
    pub fn unanswered(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::caused(Outcome::Unanswered, cause.into())
    }

    /// Creates a failure of a request for which no connection was made. The server did not see the
    /// request, so any request may be sent again.
    #[must_use]
    pub fn not_sent(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::caused(Outcome::NotSent, cause.into())
    }

    /// Creates a failure of a request whose whole answer arrived, but the program cannot read it:
    /// the JSON has another form than the type. No request is sent again, because the next answer
    /// has the same form. The server is healthy and may have executed the request, so a call that is not
    /// idempotent is [in doubt](crate::GaveUp::is_in_doubt).
    #[must_use]
    pub fn not_understood(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::caused(Outcome::NotUnderstood, cause.into())
    }

    pub(super) fn refused(refused: StatusError, mut headers: HeaderMap, body: &[u8]) -> Self {
        // `Debug` must not print the session of a user.
        for (name, value) in &mut headers {
            if name == SET_COOKIE {
                value.set_sensitive(true);
            }
        }
        let (outcome, body) = (Outcome::Refused(refused), text(body));
        Self(Box::new(Inner { outcome, headers, body, url: String::new(), cause: None }))
    }

    pub(super) fn caused(outcome: Outcome, cause: Box<dyn Error + Send + Sync>) -> Self {
        let (headers, body, url) = (HeaderMap::new(), String::new(), String::new());
        Self(Box::new(Inner { outcome, headers, body, url, cause: Some(Arc::new(cause)) }))
    }

    /// Adds the URL of the request or of its answer.
    #[cfg(feature = "reqwest")]
    pub(super) fn at(mut self, url: String) -> Self {
        self.0.url = url;
        self
    }

    pub(super) const fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Returns the status of the answer, which is 301, 302, 307, 308, 4xx or 5xx. `None` means that there is no
    /// answer, that it broke off, or that the program does not understand it.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        match &self.0.outcome {
            Outcome::Refused(refused) => Some(refused.status()),
            _ => None,
        }
    }

    /// Returns the wait that the answer asks for. See [`retry_after`](super::headers::retry_after).
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match &self.0.outcome {
            Outcome::Refused(refused) => refused.retry_after(),
            _ => None,
        }
    }

    /// Returns the headers of the answer, such as the `x-request-id` that the support of a service asks for.
    /// They are empty without an answer, and if the failure was made of an error that has lost them.
    ///
    /// `Debug` omits the values of `set-cookie` and those that are [sensitive][::http::HeaderValue::set_sensitive].
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Returns the error that the failure was made of, such as the `reqwest::Error`. A failure made of an
    /// answer has none.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + 'static)> {
        let cause = self.0.cause.as_deref()?;
        Some(&**cause)
    }

    /// Returns the [cause](Self::cause) by value if it is an `E`, such as the `reqwest::Error` for a variant of your
    /// own error. The URL of a `reqwest::Error` has lost its query, its fragment and its credentials.
    ///
    /// # Errors
    ///
    /// Returns the failure itself, unchanged, in these cases:
    /// * It was made of an answer, so it has no cause.
    /// * The cause is of another type.
    /// * A clone of the failure exists. All clones share the cause, and only the last one can give it away.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::http::Failure;
    /// use std::io;
    ///
    /// enum ApiError {
    ///     Transport(io::Error), // with `reqwest` a `reqwest::Error`
    ///     Refused(Failure),
    /// }
    ///
    /// impl From<Failure> for ApiError {
    ///     fn from(failure: Failure) -> Self {
    ///         failure.into_cause().map_or_else(Self::Refused, Self::Transport)
    ///     }
    /// }
    ///
    /// let lost = Failure::unanswered(io::Error::from(io::ErrorKind::ConnectionReset));
    /// assert!(matches!(lost.into(), ApiError::Transport(e) if e.kind() == io::ErrorKind::ConnectionReset));
    ///
    /// let busy = http::Response::builder().status(503).body("").unwrap();
    /// let busy = Failure::check(busy).unwrap_err();
    /// assert!(matches!(busy.into(), ApiError::Refused(failure) if failure.status().unwrap() == 503));
    /// ```
    pub fn into_cause<E: Error + 'static>(mut self) -> Result<E, Self> {
        match self.0.cause.take().map(Arc::try_unwrap) {
            None => {}
            Some(Err(shared)) => self.0.cause = Some(shared),
            Some(Ok(cause)) => match cause.downcast() {
                Ok(cause) => return Ok(*cause),
                Err(other) => self.0.cause = Some(Arc::new(other)),
            },
        }
        Err(self)
    }

    /// Returns the first KiB of the answer's body, or an empty text without an answer.
    ///
    /// Bytes that are not UTF-8 are replaced by U+FFFD, and a character that the limit cuts is left
    /// out. The text may have control characters.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.0.body
    }

    /// Returns whether the server certainly did not see the request, because no connection was made or
    /// because the request could not be built. False means that nobody knows.
    #[must_use]
    pub const fn is_not_sent(&self) -> bool {
        matches!(self.0.outcome, Outcome::NotSent | Outcome::NotBuilt)
    }
}

/// Returns the start of a body as text.
fn text(body: &[u8]) -> String {
    let (start, is_cut) = match body.get(..READ) {
        Some(start) => (start, body.len() > READ),
        None => (body, false),
    };
    // A character has at most four bytes. The rest of a character at the end is not a separate error.
    let whole = |start: &[u8]| match std::str::from_utf8(start) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => start.len(),
    };
    let mut end = start.len();
    if is_cut {
        let tail = start.len().saturating_sub(4);
        let boundary = |at: &usize| start.get(*at).is_some_and(|byte| byte & 0xC0 != 0x80);
        if let Some(at) = (tail..start.len()).rev().find(boundary) {
            end = at + start.get(at..).map_or(0, whole);
        }
    }
    String::from_utf8_lossy(start.get(..end).unwrap_or_default()).into_owned()
}

/// Prints the first [`SHOWN`] characters of a text in one line.
struct Short<'t>(&'t str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = SHOWN;
        for (at, word) in self.0.split_whitespace().enumerate() {
            if at > 0 {
                f.write_char(' ')?;
                left = left.saturating_sub(1);
            }
            let count = word.chars().count();
            if count > left {
                let end = word.char_indices().nth(left).map_or(word.len(), |(end, _)| end);
                return write!(f, "{}…", OneLine(&word[..end]));
            }
            OneLine(word).fmt(f)?;
            left -= count;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.outcome {
            Outcome::Refused(refused) => {
                write!(f, "{refused:#}")?; // without the wait, which follows the URL
                if !self.0.url.is_empty() {
                    write!(f, " from {}", OneLine(&self.0.url))?;
                }
                // A failure of an answer has its headers, and the error of the client has not.
                let status = refused.status();
                let may_wait = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
                if self.0.cause.is_some() && may_wait {
                    f.write_str(", its headers are lost (use `resile::http::error_for_status`)")?;
                }
                match refused.retry_after() {
                    Some(after) if !f.alternate() => write!(f, ", retry after {after:?}")?,
                    _ => {}
                }
                let body = self.0.body.trim();
                return if body.is_empty() { Ok(()) } else { write!(f, ": {}", Short(body)) };
            }
            Outcome::NotSent => f.write_str("no connection")?,
            Outcome::NotUnderstood => f.write_str("answer not understood")?,
            Outcome::NotBuilt => f.write_str("request not built")?,
            Outcome::Redirected => f.write_str("redirect not followed")?,
            Outcome::Incomplete | Outcome::CutBody => f.write_str("incomplete answer")?,
            Outcome::Unanswered | Outcome::Cut => f.write_str("no answer")?,
        }
        if self.0.url.is_empty() {
            return Ok(());
        }
        let word = match self.0.outcome {
            Outcome::NotSent => "to",
            Outcome::NotBuilt => "for",
            _ => "from",
        };
        write!(f, " {word} {}", OneLine(&self.0.url))
    }
}

/// The source is the last `io::Error` of the [cause](Failure::cause) and its sources, or else the
/// innermost one. The words of the layers of a client between them tell no more. A refusal has no source.
impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Outcome::Refused(_) = self.0.outcome {
            return None;
        }
        // A chain that does not end is followed for a while.
        let links = std::iter::successors(self.cause(), |&error| error.source()).take(64);
        links.reduce(
            |kept, link| {
                if kept.is::<io::Error>() && !link.is::<io::Error>() { kept } else { link }
            },
        )
    }
}

impl From<StatusError> for Failure {
    fn from(refused: StatusError) -> Self {
        Self::refused(refused, HeaderMap::new(), &[])
    }
}

/// Converts a timeout, so an operation under [`timeout`](crate::ResilienceExt::timeout) may have this
/// error. The request may have reached the server.
impl From<Elapsed> for Failure {
    fn from(elapsed: Elapsed) -> Self {
        Self::caused(Outcome::Cut, elapsed.into())
    }
}
