//! Conversions of answers, stream events and transport errors into a [`Failure`].

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use http::response::Parts;
use serde_json::error::Category;

use crate::failure::Failure;
use crate::finish::EMPTY;
use crate::kind::{Kind, Phase};
use crate::reply::Reply;
use crate::rule::Rule;
use resile::http::headers::now;
use resile::io::never_sent;
use resile::timeout::Elapsed;

/// These functions read the wall clock because an answer or an error's words may name a moment.
/// Moments in an answer with a `Date` are measured from the `Date` instead.
impl Failure {
    /// Creates a failure from an answer and its body.
    #[must_use]
    pub fn from_parts(parts: &Parts, body: impl AsRef<[u8]>) -> Self {
        let reply = Reply::new(body.as_ref())
            .with_status(parts.status.as_u16())
            .with_headers(&parts.headers);
        reply.classify(now())
    }

    /// Creates a failure from a status and a body without headers.
    #[must_use]
    pub fn from_text(status: u16, body: &str) -> Self {
        Reply::new(body.as_bytes()).with_status(status).classify(now())
    }

    /// Creates a failure from the text of an answer, or of an error that quotes one, if nothing else
    /// is left of it: no status, no headers and no body of its own.
    ///
    /// The text may be what `to_string()` returns for an SDK's error, or a line of a log. Statuses
    /// in words count ("403 status code (no body)", "got status: UNAVAILABLE"), as do objects of
    /// JSON inside the text. The names of exceptions before the text are weaker than its words. A
    /// text that says nothing is [`Kind::Unknown`], and such a failure is not retried.
    ///
    /// Use it only for the text of a failed call to a model. For an error of any origin use
    /// [`find_in_text`](Self::find_in_text), which has no opinion on most texts.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::{Failure, Kind};
    ///
    /// let text = "openai.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota'}}";
    /// assert_eq!(Failure::from_error_text(text).kind(), Kind::QuotaExhausted);
    ///
    /// let text = "The server is busy. Please try again later.";
    /// assert_eq!(Failure::from_error_text(text).kind(), Kind::Overloaded);
    /// ```
    #[must_use]
    pub fn from_error_text(text: &str) -> Self {
        Reply::new(text.as_bytes()).classify(now())
    }

    /// Creates a failure from the data of one stream event with or without `data:`. The stream's
    /// answer had a good status.
    #[must_use]
    pub fn from_event(data: &str, phase: Phase) -> Self {
        Reply::new(data.as_bytes()).with_status(200).with_phase(phase).classify(now())
    }

    /// Creates a failure from a stream event if the event is a failure. Returns `None` for content,
    /// for events around the content and for a good end.
    #[must_use]
    pub fn find_in_event(data: &str, phase: Phase) -> Option<Self> {
        if matches!(data.trim(), "" | "[DONE]" | "data: [DONE]") {
            return None;
        }
        let found = Reply::new(data.as_bytes()).with_status(200).with_phase(phase).find(now());
        // An answer without a choice is empty, but some events have none.
        found.filter(|failure| failure.rule() != Rule::Finish(EMPTY))
    }

    /// Creates a failure from a transport's error. The types in the chain of sources decide first,
    /// then their words. An unknown error is [`Kind::Network`] because there was no answer.
    ///
    /// Words that read like an answer are read like one: an SDK's error may quote it. If only the
    /// text of an answer is left, call [`from_error_text`](Self::from_error_text) instead. It reads
    /// more words, and it does not take an unknown text for a broken connection. If no type and no
    /// words decided, the failure is [unsure](Self::is_by_status_alone).
    ///
    /// The chain also says whether the request surely [never left](Self::is_not_sent).
    ///
    /// Use [`with_source`](Self::with_source) to keep the error as the source too.
    #[must_use]
    pub fn from_transport(error: &(dyn Error + 'static)) -> Self {
        Self::found_in(error, error)
    }

    /// Creates a failure from a transport's error that was found in a chain of sources. Errors around
    /// it may know that the request never left.
    pub(crate) fn found_in(chain: &(dyn Error + 'static), error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::meaning_of(error);
        failure.0.not_sent = is_not_sent(chain);
        failure
    }

    /// Creates a failure from the types of a chain of sources, and then from their words.
    fn meaning_of(error: &(dyn Error + 'static)) -> Self {
        let mut words = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some((kind, name)) = by_type(error) {
                let mut failure = Self::bare(kind, Rule::Transport(name), Phase::Connect);
                failure.0.message = Some(told(error).unwrap_or_else(|| error.to_string()));
                return failure;
            }
            if words.len() < 4_096 {
                words.push_str(&error.to_string());
                words.push_str(": ");
            }
            next = error.source();
        }
        let words = words.trim_end_matches(": ");
        // There may have been no answer, so the phase is `Connect`. The words may quote anything
        // that was sent.
        Reply::new(words.as_bytes()).with_phase(Phase::Connect).classify(now())
    }
}

/// Returns the kind that the type of an error implies and the name of the rule.
fn by_type(error: &(dyn Error + 'static)) -> Option<(Kind, &'static str)> {
    if error.is::<Elapsed>() {
        return Some((Kind::Timeout, "elapsed"));
    }
    if let Some(known) = known(error) {
        return Some(known);
    }
    let kind = error.downcast_ref::<io::Error>()?.kind();
    Some(match kind {
        ErrorKind::TimedOut => (Kind::Timeout, "timed out"),
        ErrorKind::ConnectionRefused => (Kind::Network, "connection refused"),
        ErrorKind::ConnectionReset => (Kind::Network, "connection reset"),
        ErrorKind::ConnectionAborted => (Kind::Network, "connection aborted"),
        ErrorKind::NotConnected => (Kind::Network, "not connected"),
        ErrorKind::BrokenPipe => (Kind::Network, "broken pipe"),
        ErrorKind::UnexpectedEof => (Kind::Network, "cut short"),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            (Kind::Network, "unreachable")
        }
        _ => return None,
    })
}

/// Returns whether this is an HTTP client's error of a known type.
pub(crate) fn is_known(error: &(dyn Error + 'static)) -> bool {
    known(error).is_some()
}

/// Returns whether the request surely never left.
fn is_not_sent(error: &(dyn Error + 'static)) -> bool {
    never_sent(error) || iter::successors(Some(error), |&error| error.source()).any(never_left)
}

#[cfg(not(feature = "reqwest"))]
fn never_left(_: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(not(feature = "reqwest"))]
fn known(_: &(dyn Error + 'static)) -> Option<(Kind, &'static str)> {
    None
}

#[cfg(not(feature = "reqwest"))]
fn told(_: &(dyn Error + 'static)) -> Option<String> {
    None
}

#[cfg(feature = "reqwest")]
use crate::reqwest::{known, never_left, told};

/// Converts a timeout. An operation under [`timeout`](resile::ResilienceExt::timeout) then needs no
/// error type other than `Failure`.
impl From<Elapsed> for Failure {
    fn from(elapsed: Elapsed) -> Self {
        let mut failure = Self::bare(Kind::Timeout, Rule::Transport("elapsed"), Phase::Connect);
        failure.0.message = Some(elapsed.to_string());
        failure.with_source(elapsed)
    }
}

/// Converts like [`from_transport`](Failure::from_transport) and keeps the error as the source.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from_transport(&error).with_source(error)
    }
}

/// Converts the error of an answer that is no JSON, or not the expected one, into
/// [`Kind::InvalidOutput`]. Its words are the line and the column and never those of the error, because an
/// error about a type quotes the value. So the error is not kept as the source either.
///
/// An error of a reader is converted like an [`io::Error`]. If the program cannot write the JSON of its
/// own request, the kind is wrong: map such an error by hand.
///
/// # Examples
///
/// ```
/// use resile_llm::{Failure, Kind};
///
/// fn read(body: &[u8]) -> Result<u32, Failure> {
///     Ok(serde_json::from_slice(body)?)
/// }
/// let failure = read(br#""My PIN is 4711""#).unwrap_err();
/// assert_eq!(failure.kind(), Kind::InvalidOutput);
/// assert_eq!(failure.message(), Some("another type at line 1 column 16"));
/// ```
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        let fault = match error.classify() {
            Category::Io => return Self::from(io::Error::from(error)),
            Category::Eof => "its JSON ends",
            Category::Syntax => "its JSON is broken",
            Category::Data => "another type",
        };
        let (line, column) = (error.line(), error.column());
        Self::invalid_output(if line == 0 {
            format!("{fault}, at an unknown place") // of a `Value`
        } else {
            format!("{fault} at line {line} column {column}")
        })
    }
}
