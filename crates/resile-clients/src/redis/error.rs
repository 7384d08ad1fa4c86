use std::borrow::Cow;
use std::error::Error;

use ::redis::{ErrorKind, RedisError};
use resile::Verdict;
use resile::io::error_type;

use super::prefix;
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy, Unknown};
use crate::rule::{always, if_idempotent, never};

/// Returns the verdict on an error of the client `redis`.
///
/// A reply of the server is classified by [`prefix`]. An error of a pipeline is that of its first
/// command that failed. Its other commands may have been executed, so it is repeated only if it is
/// idempotent as a whole.
///
/// An `io::Error` is classified by `resile::io`. The client advises an immediate retry after a
/// timeout, also of an `INCR` that the server has executed. This function does not.
///
/// # Examples
///
/// ```
/// use redis::{ErrorKind, RedisError};
/// use resile_clients::Idempotency::NotIdempotent;
///
/// fn classify(error: &RedisError) -> Option<resile::Verdict> {
///     resile_clients::redis::error(error, NotIdempotent)
/// }
/// let no_node = (ErrorKind::ClusterConnectionNotFound, "no node");
/// assert!(classify(&no_node.into()).unwrap().is_again());
/// ```
#[must_use]
pub fn error(error: &RedisError, idempotency: Idempotency) -> Option<Verdict> {
    let rule = match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let code = error.code().unwrap_or_default();
            let reply = format!("{code} {}", error.detail().unwrap_or_default());
            let verdict = prefix(&reply, idempotency)?;
            // A pipeline and a transaction have no source.
            let is_whole = error.source().is_some() || idempotency == Idempotency::Idempotent;
            return Some(if is_whole { verdict } else { verdict.not_again() });
        }
        ErrorKind::Io => {
            let classifier = idempotency.io();
            return Some(classifier.verdict(error).unwrap_or(classifier.unanswered()));
        }
        ErrorKind::Parse => if_idempotent(Failing),
        ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::ClusterConnectionNotFound => always(Failing),
        ErrorKind::AuthenticationFailed => never(Unknown),
        ErrorKind::UnexpectedReturnType
        | ErrorKind::InvalidClientConfig
        | ErrorKind::Client
        | ErrorKind::EmptySentinelList
        | ErrorKind::RESP3NotSupported => never(Healthy),
        _ => return None,
    };
    Some(rule.verdict(idempotency))
}

classifies!(RedisError => error, word);

/// Returns the first word of the reply, the word for an `io::Error`, or the kind.
fn word(error: &RedisError) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => return error.code().map(Cow::Borrowed),
        ErrorKind::Io => error_type(error)?,
        ErrorKind::Parse => "Parse",
        ErrorKind::MasterNameNotFoundBySentinel => "MasterNameNotFoundBySentinel",
        ErrorKind::NoValidReplicasFoundBySentinel => "NoValidReplicasFoundBySentinel",
        ErrorKind::ClusterConnectionNotFound => "ClusterConnectionNotFound",
        ErrorKind::AuthenticationFailed => "AuthenticationFailed",
        ErrorKind::UnexpectedReturnType => "UnexpectedReturnType",
        ErrorKind::InvalidClientConfig => "InvalidClientConfig",
        ErrorKind::Client => "Client",
        ErrorKind::EmptySentinelList => "EmptySentinelList",
        ErrorKind::RESP3NotSupported => "RESP3NotSupported",
        _ => return None,
    }))
}
