use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use tracing::Level;

use super::event::{CallKind, Event, EventKind};
use super::held_by::HeldBy;
use crate::breaker::Transition;
use crate::policy::StopReason;
use crate::quota::Evidence;
use crate::verdict::Health;

/// Returns the level of the line of an event. `None` if it has none.
pub(super) fn level(event: &Event<'_>) -> Option<Level> {
    Some(match event.kind {
        EventKind::Nested { outer } => {
            let inner = event.call?.site;
            is_new_pair(outer, inner).then_some(Level::WARN)?
        }
        // The part that refuses has lines of its own, at its start and at its end. A cancellation
        // is the wish of the caller.
        EventKind::Waiting { failure, .. } if failure.is_refusal || failure.is_cancelled => {
            Level::DEBUG
        }
        // The store of the fleet has a line that names the process.
        EventKind::Limiting { by: HeldBy::Cooldown, .. } if event.gauges.is_joined() => {
            Level::DEBUG
        }
        // A collision with another caller, such as on a row or on a version. A busy row has hundreds in a
        // second, and nearly all of their calls succeed.
        EventKind::Waiting { failure, .. }
            if failure.health() == Health::Healthy
                && event.call.is_some_and(|call| call.kind != CallKind::Fallback) =>
        {
            Level::DEBUG
        }
        EventKind::Waiting { .. }
        | EventKind::Limiting { .. }
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
            _ => Level::WARN,
        },
        EventKind::Learned(_)
        | EventKind::Breaker { transition: Transition::Closed { .. }, .. }
        | EventKind::Relieved { .. } => Level::INFO,
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
    let EventKind::GaveUp { reason, attempts, failure, in_doubt, .. } = event.kind else {
        return None;
    };
    let is_fallback = event.call.is_some_and(|call| call.kind == CallKind::Fallback);
    let is_refusal = failure.is_refusal || reason.is_refusal(attempts, failure.cut.is_some());
    Some(match reason {
        // Also that of the last alternative.
        _ if failure.is_cancelled => Level::DEBUG,
        // A fallback is the last resort of its caller, so its end is no detail of an outage.
        _ if is_refusal && !is_fallback => Level::DEBUG,
        // Somebody must find out the outcome of a request in doubt.
        _ if in_doubt => Level::WARN,
        // The line of the fallback has the same words.
        _ if event.call.is_some_and(|call| call.is_told) => Level::DEBUG,
        StopReason::Cancelled => Level::DEBUG,
        _ if is_fallback => Level::WARN,
        // The caller counts on a retry and does not see that it got none.
        StopReason::Fatal if failure.verdict.is_some_and(|it| it.is_not_repeatable()) => {
            Level::WARN
        }
        StopReason::Fatal | StopReason::Unclassified if attempts <= 1 => Level::DEBUG,
        // There is no retry, so this error is the caller's like any other.
        StopReason::Attempts if event.call.is_some_and(|call| call.allowed == 1) => Level::DEBUG,
        _ => Level::WARN,
    })
}

/// Returns whether the store of a fleet answers, so that the limits are those of all members.
#[cfg(feature = "fleet")]
fn is_shared(event: &Event<'_>) -> bool {
    event.gauges.fleet.is_some_and(|fleet| fleet.state == crate::fleet::State::Shared)
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
