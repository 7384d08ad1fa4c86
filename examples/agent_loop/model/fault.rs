//! What a failure means for the loop.

use std::time::Duration;

use resile::llm::{Failure, Kind};
use resile::{Cut, GaveUp, StopReason};

use crate::agent::{Event, Fault, ModelError, Who, millis};

/// An attempt failed with an error of its own.
pub(super) fn event(failure: &Failure, attempt: u32, of: u32) -> Event {
    Event::Failed {
        who: Who::Model,
        attempt,
        of,
        kind: failure.kind().to_string(),
        rule: failure.rule().to_string(),
        message: failure.to_string(),
        asked_ms: failure.wait().map(millis),
    }
}

/// A call failed for good. `back` is when an open breaker lets calls through again.
pub(super) fn given_up(gave_up: &GaveUp<Failure>, back: Option<Duration>) -> ModelError {
    // Of an earlier attempt, where the last one was cut.
    let failure = gave_up.last().filter(|_| gave_up.cut().is_none());
    let fault = match failure.map(Failure::kind) {
        _ if gave_up.reason() == StopReason::Cancelled => Fault::Stopped,
        Some(Kind::InvalidOutput) => Fault::Unusable,
        Some(Kind::ContextLength) => Fault::TooLong,
        // A provider that refuses us for good is not down.
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
    let message = match (fault, failure) {
        (Fault::Unusable, Some(failure)) if failure.message().is_some() => {
            failure.message().unwrap_or_default().to_owned()
        }
        (_, Some(failure)) if gave_up.attempts() == 1 => failure.to_string(),
        (_, Some(failure)) => {
            format!("{failure}, after {} attempts ({})", gave_up.attempts(), gave_up.reason())
        }
        (_, None) => gave_up.to_string(),
    };
    let retry_after = gave_up.retry_after().max(failure.and_then(Failure::wait)).max(back);
    ModelError { fault, kind, rule, message, retry_after }
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
