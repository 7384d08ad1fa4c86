use std::borrow::Cow;
use std::error::Error as _;
use std::time::Duration;

use ::mongodb::error::{Error, ErrorKind, SYSTEM_OVERLOADED_ERROR, WriteFailure};
use resile::Verdict;
use resile::io::error_type;

use super::{by_label, kind, rule};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::Failing;
use crate::rule::{Rule, always, if_idempotent};

/// The base that the server means if it names none.
const BASE: Duration = Duration::from_millis(100);

/// Returns the verdict on an error of the driver `mongodb`.
///
/// The evidence counts in this order: the labels, also those of a source; the code of the server; the
/// `io::Error`; the kind. A write whose concern failed was written, and of many writes some were. So
/// under `NotIdempotent` neither comes again, unless a label says so.
///
/// An overload sets the base of the backoff: twice that of the server, or 200 ms. The drivers of MongoDB
/// double it before the first retry too, by its specification of client backpressure. At most two
/// retries are meant for it, and a policy with three attempts has them.
///
/// The driver has one kind for a pool that was cleared, before a command and during it. Its words
/// tell them apart, and this function reads them.
///
/// # Examples
///
/// ```
/// use resile::RetryPolicy;
/// use resile_clients::Classifier;
///
/// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
/// # let _ = policy;
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    let by_code = by_code(error);
    let found = by_label(|label| error.contains_label(label), by_code).or(by_code);
    let Some(rule) = found else { return by_kind(error, idempotency) };
    let verdict = rule.verdict(idempotency);
    Some(if verdict.is_again() && error.contains_label(SYSTEM_OVERLOADED_ERROR) {
        verdict.with_base(error.base_backoff().unwrap_or(BASE).saturating_mul(2))
    } else {
        verdict
    })
}

/// Returns the rule of the code, of the error or of its nearest source with one.
fn by_code(error: &Error) -> Option<Rule> {
    match &*error.kind {
        ErrorKind::Command(error) => rule(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => rule(error.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => in_part(error.code),
        ErrorKind::InsertMany(error) => {
            let concern = error.write_concern_error.iter().map(|error| error.code);
            let mut codes = concern.chain(error.write_errors.iter().flatten().map(|it| it.code));
            codes.next().and_then(in_part)
        }
        ErrorKind::BulkWrite(error) => {
            let concern = error.write_concern_errors.iter().map(|error| error.code);
            let mut codes = concern.chain(error.write_errors.values().map(|error| error.code));
            codes.next().and_then(in_part)
        }
        _ => error.source().and_then(|it| it.downcast_ref()).and_then(by_code),
    }
}

/// Returns the rule of a code of something that was written, or in part.
fn in_part(code: i32) -> Option<Rule> {
    let rule = rule(code)?;
    Some(if rule.is_always() { if_idempotent(rule.state()) } else { rule })
}

fn by_kind(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    match &*error.kind {
        ErrorKind::Io(error) => {
            let told = idempotency.io().verdict(&**error);
            told.or_else(|| kind("Io", idempotency))
        }
        ErrorKind::ConnectionPoolCleared { message, .. }
            if message.starts_with("Connection pool for ") =>
        {
            Some(always(Failing).verdict(idempotency))
        }
        other => kind(name(other)?, idempotency),
    }
}

/// Returns the name of a kind without a code.
fn name(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Io(_) => "Io",
        ErrorKind::ConnectionPoolCleared { .. } => "ConnectionPoolCleared",
        ErrorKind::ServerSelection { .. } => "ServerSelection",
        ErrorKind::DnsResolve { .. } => "DnsResolve",
        ErrorKind::InvalidResponse { .. } => "InvalidResponse",
        ErrorKind::Authentication { .. } => "Authentication",
        ErrorKind::InvalidTlsConfig { .. } => "InvalidTlsConfig",
        ErrorKind::InvalidArgument { .. } => "InvalidArgument",
        ErrorKind::IncompatibleServer { .. } => "IncompatibleServer",
        ErrorKind::SessionsNotSupported => "SessionsNotSupported",
        ErrorKind::Transaction { .. } => "Transaction",
        ErrorKind::Shutdown => "Shutdown",
        _ => return None,
    })
}

classifies!(Error => error, word);

/// Returns the name of the code, its number, the word for an `io::Error`, or the kind.
fn word(error: &Error) -> Option<Cow<'_, str>> {
    match &*error.kind {
        ErrorKind::Command(error) if !error.code_name.is_empty() => {
            Some(Cow::Borrowed(&error.code_name))
        }
        ErrorKind::Command(error) => Some(error.code.to_string().into()),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code.to_string().into()),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
            Some(Cow::Borrowed(&error.code_name))
        }
        ErrorKind::Io(error) => Some(error_type(&**error).unwrap_or("Io").into()),
        kind => name(kind).map(Cow::Borrowed),
    }
}
