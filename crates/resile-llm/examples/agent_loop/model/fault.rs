//! Translates failures of the provider for the loop.

use std::time::Duration;

use resile::classify::Cut;
use resile::{GaveUp, StopReason};
use resile_llm::{Failure, Kind};

use crate::agent::{Event, Fault, ModelError, Who, millis};

/// Returns the event of a failed attempt.
pub(super) fn event(failure: &Failure, attempt: u32, of: u32) -> Event {
    Event::Failed {
        who: Who::Model,
        attempt,
        of,
        kind: failure.kind().to_string(),
        rule: failure.rule().to_string(),
        message: message(failure),
        asked_ms: failure.wait().map(millis),
    }
}

/// Returns the error of a call after its last attempt. `back` is the time until an open breaker
/// allows calls again.
pub(super) fn given_up(gave_up: &GaveUp<Failure>, back: Option<Duration>) -> ModelError {
    // If the last attempt was cut, `last` is the error of an earlier attempt.
    let failure = gave_up.last().filter(|_| gave_up.cut().is_none());
    let fault = match failure.map(Failure::kind) {
        _ if gave_up.reason() == StopReason::Cancelled => Fault::Stopped,
        Some(Kind::InvalidOutput) => Fault::Unusable,
        Some(Kind::ContextLength) => Fault::TooLong,
        // A provider that refuses a request for good is not down.
        Some(kind) if !kind.is_passing() => Fault::Failed,
        _ if back.is_some() => Fault::Down,
        _ => Fault::Failed,
    };
    let (kind, rule) = match (gave_up.cut(), failure) {
        (Some(Cut::Stream), _) => (Kind::Network.to_string(), "cut off".to_owned()),
        (Some(_), _) => (Kind::Timeout.to_string(), "limit".to_owned()),
        (None, Some(failure)) => (failure.kind().to_string(), failure.rule().to_string()),
        (None, None) => (gave_up.reason().as_str().to_owned(), "none".to_owned()),
    };
    let message = match failure {
        Some(failure) if fault == Fault::Unusable || gave_up.attempts() == 1 => message(failure),
        Some(failure) => format!(
            "gave up after {} attempts, {}: {}",
            gave_up.attempts(),
            gave_up.reason(),
            message(failure)
        ),
        None => gave_up.to_string(),
    };
    let retry_after = gave_up.retry_after().max(failure.and_then(Failure::wait)).max(back);
    ModelError { fault, kind, rule, message, retry_after }
}

/// Returns the words of the provider, or a description of the failure.
fn message(failure: &Failure) -> String {
    failure.message().map_or_else(|| failure.to_string(), str::to_owned)
}
