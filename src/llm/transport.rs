//! Ways from what people have in their hands to a [`Failure`].

use std::error::Error;
use std::io::{self, ErrorKind};

use http::response::Parts;

use super::failure::Failure;
use super::kind::{Kind, Phase};
use super::reply::Reply;
use super::rule::Rule;
use crate::http::wall_clock;
use crate::timeout::Elapsed;

/// The ways that read the wall clock do so because an answer, or the words of an error, may name a moment. Of an answer
/// with a `Date` that one counts instead.
impl Failure {
    /// From an answer and its body.
    #[must_use]
    pub fn from_parts(parts: &Parts, body: impl AsRef<[u8]>) -> Self {
        let reply = Reply::new(body.as_ref())
            .with_status(parts.status.as_u16())
            .with_headers(&parts.headers);
        reply.classify(wall_clock())
    }

    /// From a status and a body, where that is all there is.
    #[must_use]
    pub fn from_text(status: u16, body: &str) -> Self {
        Reply::new(body.as_bytes()).with_status(status).classify(wall_clock())
    }

    /// From the data of one event of a stream (with or without `data:`), whose answer had a good status.
    #[must_use]
    pub fn from_event(data: &str, phase: Phase) -> Self {
        Reply::new(data.as_bytes()).with_status(200).with_phase(phase).classify(wall_clock())
    }

    /// The same, if the event is a failure: `None` for content, for what comes around it, and for a good end.
    #[must_use]
    pub fn find_in_event(data: &str, phase: Phase) -> Option<Self> {
        if matches!(data.trim(), "" | "[DONE]" | "data: [DONE]") {
            return None;
        }
        Reply::new(data.as_bytes()).with_status(200).with_phase(phase).find(wall_clock())
    }

    /// From a transport's error: by the types in its chain of sources, and where they say nothing by their words. An
    /// error that nothing is known of is [`Kind::Network`], as there was no answer.
    ///
    /// For an error that is to be kept as the source as well, see [`with_source`](Self::with_source).
    #[must_use]
    pub fn from_transport(error: &(dyn Error + 'static)) -> Self {
        let mut words = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some((kind, name)) = by_type(error) {
                let mut failure = Self::bare(kind, Rule::Transport(name), Phase::Connect);
                failure.0.message = Some(error.to_string());
                return failure;
            }
            if words.len() < 4_096 {
                words.push_str(&error.to_string());
                words.push_str(": ");
            }
            next = error.source();
        }
        let words = words.trim_end_matches(": ");
        // Not read as an answer: an error's words may quote whatever was sent.
        Reply::new(words.as_bytes()).with_phase(Phase::Connect).classify(wall_clock())
    }
}

/// What an error's type says.
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

/// Whether this is a client's error that we know the type of.
pub(super) fn is_known(error: &(dyn Error + 'static)) -> bool {
    known(error).is_some()
}

#[cfg(not(feature = "reqwest"))]
fn known(_: &(dyn Error + 'static)) -> Option<(Kind, &'static str)> {
    None
}

#[cfg(feature = "reqwest")]
use super::reqwest::known;

/// An attempt that did not end within its limit: so that `Failure` is all the error type that an operation under
/// [`timeout`](crate::ResilienceExt::timeout) needs.
impl From<Elapsed> for Failure {
    fn from(elapsed: Elapsed) -> Self {
        let mut failure = Self::bare(Kind::Timeout, Rule::Transport("elapsed"), Phase::Connect);
        failure.0.message = Some(elapsed.to_string());
        failure.with_source(elapsed)
    }
}

/// As [`from_transport`](Failure::from_transport), with the error as the source.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from_transport(&error).with_source(error)
    }
}
