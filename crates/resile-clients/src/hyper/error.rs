use std::borrow::Cow;
use std::error::Error;
use std::io::{self, ErrorKind};

use resile::Verdict;
use resile::io::{Classifier, error_type};

use super::kind;
use crate::chain::links;
use crate::classifier::classifies;
use crate::rule::State::Unknown;
use crate::rule::never;
use crate::{Idempotency, http2};

/// Returns the verdict on an error of `hyper`, or of a client on it, by the chain of its sources.
///
/// | evidence in the chain | again | health |
/// |---|---|---|
/// | no connection was made: "client error (Connect)" of `hyper-util` | always | failing |
/// | … and TLS refused the peer, or the name does not exist, or the URL is wrong | never | unknown |
/// | the connection closed before the request began: `is_canceled` | always | unknown |
/// | a frame of the peer: `REFUSED_STREAM`, a `GOAWAY` before the stream | as [`http2`] says | |
/// | the answer is missing or ends too early, a reset, a timeout of `keep_alive` | if idempotent | failing |
/// | the answer is not HTTP | never | failing |
/// | the body of the request fails, or the request is wrong | never | unknown |
///
/// A chain without such evidence has no verdict: a redirect, a URL that cannot be read, JSON that is
/// wrong, and a timeout of `reqwest`. So the classifier of `resile::http` comes second for an error of
/// `reqwest`. Alone it sends a request again whose certificate is wrong, and it does not know
/// `REFUSED_STREAM`.
///
/// # Examples
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// use resile_clients::{Idempotency::NotIdempotent, hyper};
///
/// // With `reqwest`: `(|it: &reqwest::Error| hyper::error(it, NotIdempotent),
/// // resile::http::Classifier::non_idempotent())`.
/// let refused = Error::from(ErrorKind::ConnectionRefused);
/// assert!(hyper::error(&refused, NotIdempotent).unwrap().is_again());
/// let reset = Error::from(ErrorKind::ConnectionReset);
/// assert!(!hyper::error(&reset, NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn error(error: &(dyn Error + 'static), idempotency: Idempotency) -> Option<Verdict> {
    let mut is_known = false;
    for link in links(error) {
        if let Some(error) = link.downcast_ref::<::hyper::Error>() {
            is_known = true;
            if let Some(name) = name(error) {
                return kind(name, idempotency);
            }
        } else if let Some(error) = link.downcast_ref::<h2::Error>() {
            is_known = true;
            if let Some(verdict) = http2::frame(error, idempotency) {
                return Some(verdict);
            }
        } else if let Some(error) = link.downcast_ref::<io::Error>() {
            // A chunk that is wrong, below an error of `hyper`.
            if is_known && matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData)
            {
                return kind("parse", idempotency);
            }
        } else {
            match link.to_string().as_str() {
                "client error (Connect)" => return Some(connect(error, idempotency)),
                "client error (Canceled)" | "client error (ChannelClosed)" => {
                    return kind("canceled", idempotency);
                }
                text if text.starts_with("client error (User") => return kind("user", idempotency),
                _ => {}
            }
        }
    }
    let classifier = idempotency.io();
    classifier.verdict(error).or_else(|| is_known.then(|| classifier.unanswered()))
}

/// Returns the name of a kind. The other ones are told by their sources.
fn name(error: &::hyper::Error) -> Option<&'static str> {
    Some(if error.is_canceled() {
        "canceled"
    } else if error.is_user() {
        "user"
    } else if error.is_incomplete_message() {
        "incomplete_message"
    } else if error.is_closed() {
        "closed"
    } else if error.is_timeout() {
        "timeout"
    } else if error.is_parse() {
        "parse"
    } else {
        return None;
    })
}

/// Returns the verdict on a connection that was not made. Nothing was sent, so any request may come again,
/// if a repetition can help at all.
fn connect(error: &(dyn Error + 'static), idempotency: Idempotency) -> Verdict {
    // The words of `hyper-util`.
    if links(error).any(|link| link.to_string().starts_with("invalid URL, ")) {
        return never(Unknown).verdict(idempotency);
    }
    let told = Classifier::idempotent().verdict(error);
    told.or_else(|| kind("connect", idempotency)).unwrap_or(Verdict::transient())
}

classifies!(::hyper::Error => error, word);

/// Returns the name of the kind, or the word for the `io::Error` in the chain.
pub(crate) fn word(error: &(dyn Error + 'static)) -> Option<Cow<'static, str>> {
    let name = links(error).find_map(|link| link.downcast_ref().and_then(name));
    name.or_else(|| error_type(error)).map(Cow::Borrowed)
}
