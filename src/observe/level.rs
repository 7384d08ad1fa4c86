use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use tracing::Level;

use super::event::{CallKind, Event, EventKind};
use super::failure::AttemptFailure;
use super::held_by::HeldBy;
use crate::breaker::Transition;
use crate::policy::StopReason;
use crate::quota::Evidence;

/// Returns the level of the line of an event. `None` if it has none.
pub(super) fn level(event: &Event<'_>) -> Option<Level> {
    Some(match event.kind {
        EventKind::Nested { outer } => {
            let inner = event.call?.site;
            is_new_pair(outer, inner).then_some(Level::WARN)?
        }
        // The store of the fleet has a line that names the process.
        EventKind::Limiting { by: HeldBy::Cooldown, .. }
        | EventKind::StillLimiting { by: HeldBy::Cooldown, .. }
            if event.gauges.is_joined() =>
        {
            Level::DEBUG
        }
        // No call waits. The line of the end has the numbers.
        EventKind::StillLimiting { by: HeldBy::Quota, .. } if event.gauges.is_shadowed() => {
            Level::DEBUG
        }
        // A batch job waits for them as intended. The line of the start was the warning.
        EventKind::StillLimiting { by: HeldBy::Bulkhead | HeldBy::Quota, .. } => Level::INFO,
        EventKind::Waiting { failure, .. } if failure.is_elsewhere() => Level::DEBUG,
        // The upstream of the alternative has told of its surge.
        EventKind::Waiting { .. } if event.call.is_some_and(|it| it.surges) => Level::DEBUG,
        // A fallback has one line for each of its alternatives.
        EventKind::Waiting { .. } if event.call.is_some_and(|it| it.kind == CallKind::Fallback) => {
            Level::WARN
        }
        // The line of the breaker has told, and hardly any of these retries is sent.
        EventKind::Waiting { .. } if event.gauges.is_open() => Level::DEBUG,
        // A busy row has hundreds of collisions in a second, and nearly all of their calls succeed. Many of
        // them, and a surge, have lines of their own, at the start, once a minute and at the end.
        EventKind::Waiting { failure, .. } if failure.is_of_healthy() || event.gauges.is_surge => {
            Level::DEBUG
        }
        EventKind::Surge { failure, in_fallback: false, .. } if failure.is_of_healthy() => {
            Level::INFO
        }
        EventKind::Waiting { .. }
        | EventKind::Surge { .. }
        | EventKind::Limiting { .. }
        | EventKind::StillLimiting { .. }
        | EventKind::Breaker {
            transition: Transition::Opened { .. } | Transition::Isolated, ..
        } => Level::WARN,
        EventKind::GaveUp { .. } => level_of_end(event)?,
        // The crate of the store knows the reason, so it has the lines for operators.
        #[cfg(feature = "fleet")]
        EventKind::Fleet(_) => Level::DEBUG,
        // All members hear of the same limit. The store lets one of them tell operators.
        #[cfg(feature = "fleet")]
        EventKind::Learned(finding) if finding.is_used && is_shared(event) => Level::DEBUG,
        EventKind::Learned(finding) if finding.is_lower() => match finding.by {
            Evidence::Accepted => Level::INFO,
            // The setting may be right, and then nothing could end the line.
            Evidence::Reported if !finding.has_window => Level::INFO,
            _ => Level::WARN,
        },
        EventKind::Learned(_)
        | EventKind::Breaker { transition: Transition::Closed { .. }, .. }
        | EventKind::Relieved { .. }
        | EventKind::SurgeOver { .. } => Level::INFO,
        // Nobody has an error, and somebody must find out the outcome.
        EventKind::Dropped { in_doubt: true, .. } => Level::WARN,
        EventKind::Started { attempt, .. } => {
            let is_hedge =
                event.call.is_some_and(|call| call.kind == CallKind::Hedge) && !attempt.is_first();
            is_hedge.then_some(Level::DEBUG)?
        }
        EventKind::Succeeded { attempts, .. } => (attempts > 1).then_some(Level::DEBUG)?,
        // After a hold its calls ask again and again until they may go. The end of the strain tells
        // of the release.
        EventKind::Held { by: HeldBy::Cooldown, .. } if !event.gauges.holds() => {
            return None;
        }
        EventKind::Held { .. }
        | EventKind::Dropped { .. }
        | EventKind::Denied { .. }
        | EventKind::Lowered { .. }
        | EventKind::Breaker { .. } => Level::DEBUG,
        EventKind::Settled { .. } | EventKind::Failed { .. } | EventKind::Lost { .. } => {
            return None;
        }
    })
}

/// Returns the level of the line of a call that gave up.
fn level_of_end(event: &Event<'_>) -> Option<Level> {
    let EventKind::GaveUp { reason, attempts, failure, in_doubt, is_partial, .. } = event.kind
    else {
        return None;
    };
    let allowed = event.call.map_or(u32::MAX, |call| call.allowed);
    let is_fallback = event.call.is_some_and(|call| call.kind == CallKind::Fallback);
    Some(match reason {
        // Also that of the last alternative.
        _ if failure.is_cancelled => Level::DEBUG,
        // The part has a line at its start, and its refusals would flood the log.
        _ if failure.is_refused(reason, attempts) => Level::DEBUG,
        // Somebody must find out the outcome of a request in doubt.
        _ if in_doubt => Level::WARN,
        // The line of the fallback has the same words.
        _ if event.call.is_some_and(|call| call.is_told) => Level::DEBUG,
        StopReason::Cancelled => Level::DEBUG,
        // A fallback is the last resort of its caller, so its end is no detail of an outage.
        _ if is_fallback => Level::WARN,
        // The consumer has a part of an answer, and nobody repeats the call.
        _ if is_partial => Level::WARN,
        // The same error would come again, so somebody must find out whether an order with a key was executed.
        StopReason::Fatal if is_keyed_in_doubt(&failure) => Level::WARN,
        // The caller has the error. Many of them have a line of their own.
        _ if failure.ends_at_first(reason, attempts, allowed) => Level::DEBUG,
        // In an outage each of its callers may have too little time for a retry. The surge has a line.
        _ if event.gauges.is_surge_of_ends && reason.lacks_time(attempts) => Level::DEBUG,
        StopReason::Fatal if failure.lacks_retry(allowed) => Level::WARN,
        // The attempts before collided with other callers and did nothing, so the error is not about their
        // traces, but the caller's own.
        StopReason::Fatal if is_without_effect(&failure) && !has_failed(event) => Level::DEBUG,
        _ => Level::WARN,
    })
}

/// Returns whether a request with a key may have been executed.
fn is_keyed_in_doubt(failure: &AttemptFailure<'_>) -> bool {
    failure.in_flight.is_some_and(|it| it.effect.is_keyed_in_doubt())
}

/// Returns whether surely no attempt of the call had an effect.
fn is_without_effect(failure: &AttemptFailure<'_>) -> bool {
    failure.in_flight.is_some_and(|it| !it.effect.may_have)
}

/// Returns whether an attempt of the call failed other than by an error of a healthy upstream. The line of its retry
/// is at WARN, so a reader would take a call without a line of its end for one that has recovered.
fn has_failed(event: &Event<'_>) -> bool {
    event.call.is_some_and(|call| call.has_failed)
}

/// Returns whether the store of a fleet answers, so that the limits are those of all members.
#[cfg(feature = "fleet")]
fn is_shared(event: &Event<'_>) -> bool {
    event.gauges.fleet.is_some_and(|it| it.state.shares())
}

type Site = &'static Location<'static>;

/// A call site as a key: file, line and column.
type Key = (&'static str, u32, u32);

/// The logged pairs of nested calls. The number of call sites in the source bounds them.
static PAIRS: Mutex<BTreeSet<(Key, Key)>> = Mutex::new(BTreeSet::new());

fn is_new_pair(outer: Site, inner: Site) -> bool {
    let key = |site: Site| (site.file(), site.line(), site.column());
    PAIRS.lock().unwrap_or_else(PoisonError::into_inner).insert((key(outer), key(inner)))
}
