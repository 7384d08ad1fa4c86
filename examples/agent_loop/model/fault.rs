//! What a call that failed for good means for the loop.

use std::time::Duration;

use resile::llm::{Failure, Kind};
use resile::{Error, GaveUp, Stop};

use super::CallError;
use crate::agent::{Fault, ModelError, Told};

/// What an error says of itself.
pub(super) fn describe(error: &CallError) -> Told {
    let (kind, rule) = match error {
        Error::Operation(failure) => (failure.kind().to_string(), failure.rule().to_string()),
        Error::Elapsed(_) => (Kind::Timeout.to_string(), "elapsed".to_owned()),
        Error::Open(_) => ("breaker_open".to_owned(), "breaker".to_owned()),
        Error::CutOff(_) => (Kind::Network.to_string(), "cut off".to_owned()),
        _ => (Kind::Unknown.to_string(), "none".to_owned()),
    };
    let asked = match error {
        Error::Operation(failure) => failure.wait(),
        _ => None,
    };
    Told { kind, rule, message: error.to_string(), asked }
}

/// `back` is when an open breaker lets calls through again, `cause` what the provider last failed with: where the breaker
/// had the last word, that is what a person wants to hear first.
pub(super) fn given_up(gave_up: &GaveUp<CallError>, back: Option<Duration>, cause: Option<Told>) -> ModelError {
    let last = gave_up.last();
    let failure = match last {
        Some(Error::Operation(failure)) => Some(failure),
        _ => None,
    };
    let fault = match failure.map(Failure::kind) {
        _ if gave_up.stop() == Stop::Cancelled => Fault::Stopped,
        Some(Kind::InvalidOutput) => Fault::Unusable,
        Some(Kind::ContextLength) => Fault::TooLong,
        // A provider that refuses us for good is not down.
        Some(kind) if !kind.is_passing() => Fault::Failed,
        _ if back.is_some() => Fault::Down,
        _ => Fault::Failed,
    };
    let Told { kind, rule, message: words, .. } = match (last, cause) {
        (Some(refused @ Error::Open(_)), Some(cause)) => {
            Told { message: format!("{}; then {refused}", cause.message), ..cause }
        }
        (last, _) => last.map_or_else(unknown, describe),
    };
    let words = if words.is_empty() { gave_up.to_string() } else { words };
    let message = match (fault, gave_up.attempts()) {
        (Fault::Unusable, _) => failure.and_then(Failure::message).map_or(words, ToOwned::to_owned),
        (_, 1) => words,
        (_, attempts) => format!("{words}, after {attempts} attempts ({})", gave_up.stop()),
    };
    let retry_after = gave_up.retry_after().max(failure.and_then(Failure::wait)).max(back);
    ModelError { fault, kind, rule, message, retry_after }
}

/// No attempt came to an error.
fn unknown() -> Told {
    Told { kind: Kind::Unknown.to_string(), rule: "none".to_owned(), ..Told::default() }
}

/// The whole call took too long.
pub(super) fn too_slow(total: Duration) -> ModelError {
    ModelError {
        fault: Fault::Failed,
        kind: Kind::Timeout.to_string(),
        rule: "total limit".to_owned(),
        message: format!("no whole answer within {total:?}"),
        retry_after: None,
    }
}
