//! The client `tokio-postgres` 0.7 (feature `tokio-postgres-0_7`).

use std::borrow::Cow;
use std::error::Error as _;
use std::io::{self, ErrorKind};

use ::tokio_postgres::Error;
use resile::Verdict;
use resile::io::{Classifier, error_type};

use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy, Unknown};
use crate::rule::{always, if_idempotent, never};
use crate::{Idempotency, postgres};

/// Returns the verdict on an error of the client `tokio-postgres`.
///
/// | error | again |
/// |---|---|
/// | an error of the server | as its SQLSTATE says |
/// | no connection was made | always: nothing was sent |
/// | the connection is closed | if idempotent. It reads the same before and after the execution, and also if the server closed an idle session |
/// | communication, timeout | as `resile::io` says |
/// | authentication, parameters, configuration | never: the program is at fault |
/// | an answer that is not as expected | never |
///
/// The client tells its kinds by their words alone, and this function reads them. An error with other
/// words is judged by the `io::Error` in it.
///
/// The unit is the transaction: begin it in the attempt, on a client that is connected. After a closed
/// connection connect again, because a `Client` never does. An error of `connect` comes before the work,
/// so it may be classified as [`Idempotent`](Idempotency::Idempotent).
///
/// # Examples
///
/// ```
/// use resile::RetryPolicy;
/// use resile_clients::Classifier;
///
/// // An attempt that a timeout cuts is not repeated either.
/// let policy = RetryPolicy::contention().with_classifier(Classifier::non_idempotent());
/// # let _ = policy;
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    if let Some(error) = error.as_db_error() {
        return postgres::error(error.code().code(), error.routine(), idempotency);
    }
    let words = error.to_string();
    let is = |kind: &&str| words.starts_with(*kind);
    let rule = if error.is_closed() {
        if_idempotent(Failing)
    } else if is(&"timeout waiting for server") {
        return Some(if_idempotent(Failing).verdict(idempotency).on_cut());
    } else if is(&"error connecting to server") {
        // Nothing was sent, so any request may come again, if a repetition can help at all.
        let told = Classifier::idempotent().verdict(error).filter(|_| !is_other_session(error));
        return Some(told.unwrap_or(always(Failing).verdict(idempotency)));
    } else if is(&"error performing TLS handshake") {
        let told = Classifier::idempotent().verdict(error);
        return Some(told.unwrap_or(never(Unknown).verdict(idempotency)));
    } else if GARBLED.iter().any(is) {
        never(Failing)
    } else if OWN.iter().any(is) {
        never(Unknown)
    } else if READING.iter().any(is) {
        never(Healthy)
    } else {
        let classifier = idempotency.io();
        let told = classifier.verdict(error);
        let is_io = is(&"error communicating with the server");
        return told.or(is_io.then(|| classifier.unanswered()));
    };
    Some(rule.verdict(idempotency))
}

/// The bytes of the server are not those of its protocol.
const GARBLED: [&str; 2] = ["unexpected message from server", "error parsing response from server"];

/// The program is at fault. The last one counts parameters.
const OWN: [&str; 6] = [
    "authentication error",
    "invalid configuration",
    "invalid connection string",
    "error serializing parameter",
    "error encoding message to server",
    "expected ",
];

/// The answer has come, and the program cannot read it.
const READING: [&str; 3] =
    ["error deserializing column", "invalid column", "query returned an unexpected number of"];

/// Returns whether a server lacks the rights that `target_session_attrs` asks for, as a standby does. An
/// error of the system has a number.
fn is_other_session(error: &Error) -> bool {
    let error = error.source().and_then(|error| error.downcast_ref::<io::Error>());
    error.is_some_and(|it| it.kind() == ErrorKind::PermissionDenied && it.raw_os_error().is_none())
}

classifies!(Error => error, word);

/// Returns the SQLSTATE of the server, the word for an `io::Error`, or that of a closed connection.
fn word(error: &Error) -> Option<Cow<'_, str>> {
    match error.code() {
        Some(state) => Some(state.code().into()),
        None if error.is_closed() => Some("closed".into()),
        None => error_type(error).map(Cow::Borrowed),
    }
}
