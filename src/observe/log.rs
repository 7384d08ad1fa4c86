use super::{Event, Observe};

/// An observer that writes events to the log. The default observer of an upstream.
///
/// With the feature `tracing` events go to the `tracing` target `resile`. Without this feature
/// nothing is logged. The message is the event in one line: the upstream, the attempt, the error
/// and the next step.
///
/// | level | event |
/// |---|---|
/// | WARN | a retry; giving up after a retry, or for a reason other than the error itself; a breaker that opens or is isolated; a fleet in safe mode; nested calls, once for each pair of call sites |
/// | INFO | a breaker that closes; a fleet whose store answers |
/// | DEBUG | a call that recovered; a final error of a first attempt, because the caller gets it; refusals by an open breaker or a full bulkhead; cancellation; waits for admission; hedges |
///
/// Fields, if known: `upstream`, `at` (the call site), `attempt`, `attempts_allowed`, `delay`,
/// `hint`, `health`, `reason`.
///
/// # Spans
///
/// A call that was retried or that failed also records fields on the current `tracing` span. Their
/// names are those of OpenTelemetry: `http.request.resend_count` (the number of retries) and
/// `error.type`. A span takes only declared fields, so declare both as empty:
///
/// ```
/// # #[cfg(feature = "tracing")] {
/// use tracing::field::Empty;
///
/// let span = tracing::info_span!(
///     "ask",
///     http.request.resend_count = Empty,
///     error.type = Empty,
/// );
/// # drop(span);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log;

impl Observe for Log {
    #[inline]
    fn is_enabled(&self) -> bool {
        #[cfg(feature = "tracing")]
        return tracing::level_enabled!(tracing::Level::WARN);
        #[cfg(not(feature = "tracing"))]
        return false;
    }

    #[inline]
    fn wants_all(&self) -> bool {
        false
    }

    #[inline]
    fn observe(&self, event: &Event<'_>) {
        #[cfg(feature = "tracing")]
        write::event(event);
        #[cfg(not(feature = "tracing"))]
        let _ = event;
    }
}

#[cfg(feature = "tracing")]
mod write {
    use std::collections::BTreeSet;
    use std::panic::Location;
    use std::sync::{Mutex, PoisonError};

    use tracing::{Level, Span};

    use super::Event;
    use crate::breaker::Transition;
    use crate::fleet::State;
    use crate::observe::{CallKind, EventKind};
    use crate::policy::StopReason;

    /// Records the event on the span. Writes the event to the log if its kind is logged.
    #[cold]
    pub(super) fn event(event: &Event<'_>) {
        record(event);
        match level(event) {
            Some(Level::WARN) => line!(warn, event),
            Some(Level::INFO) => line!(info, event),
            Some(_) => line!(debug, event),
            None => {}
        }
    }

    macro_rules! line {
        ($level:ident, $event:expr) => {{
            let (event, fields) = ($event, Fields::of($event));
            tracing::$level!(
                target: "resile",
                upstream = event.upstream,
                at = event.call.map(|call| tracing::field::display(call.site)),
                attempt = fields.attempt,
                attempts_allowed = event.call.map(|call| call.allowed),
                delay = fields.delay.map(tracing::field::debug),
                hint = fields.hint.map(tracing::field::debug),
                health = fields.health,
                reason = fields.reason,
                "{event}"
            );
        }};
    }
    use line;

    #[derive(Default)]
    struct Fields {
        attempt: Option<u32>,
        delay: Option<std::time::Duration>,
        hint: Option<std::time::Duration>,
        health: Option<&'static str>,
        reason: Option<&'static str>,
    }

    impl Fields {
        fn of(event: &Event<'_>) -> Self {
            let fields = Self::default();
            match event.kind {
                EventKind::Started { attempt, .. } => {
                    Self { attempt: Some(attempt.number()), ..fields }
                }
                EventKind::Held { attempt, delay, .. } => {
                    Self { attempt: Some(attempt), delay, ..fields }
                }
                EventKind::Waiting { attempt, failure, delay, .. } => Self {
                    attempt: Some(attempt.number()),
                    delay: Some(delay),
                    hint: failure.verdict.and_then(|verdict| verdict.hint()),
                    health: Some(failure.health().as_str()),
                    ..fields
                },
                EventKind::Denied { attempts } | EventKind::Succeeded { attempts, .. } => {
                    Self { attempt: Some(attempts), ..fields }
                }
                EventKind::GaveUp { reason, attempts, failure, retry_after, .. } => Self {
                    attempt: Some(attempts),
                    hint: retry_after.filter(|after| !reason.is_floor(failure.verdict, *after)),
                    health: failure.verdict.map(|verdict| verdict.health().as_str()),
                    reason: Some(reason.as_str()),
                    ..fields
                },
                EventKind::Breaker(Transition::Opened { reason, duration, .. }) => {
                    Self { delay: Some(duration), reason: Some(reason.as_str()), ..fields }
                }
                _ => fields,
            }
        }
    }

    fn level(event: &Event<'_>) -> Option<Level> {
        Some(match event.kind {
            EventKind::Nested { outer } => {
                let inner = event.call?.site;
                is_new_pair(outer, inner).then_some(Level::WARN)?
            }
            EventKind::Waiting { .. }
            | EventKind::Breaker(Transition::Opened { .. } | Transition::Isolated) => Level::WARN,
            EventKind::GaveUp { reason, attempts, .. } => match reason {
                StopReason::Open | StopReason::Full | StopReason::Cancelled => Level::DEBUG,
                StopReason::Fatal | StopReason::Unclassified if attempts <= 1 => Level::DEBUG,
                _ => Level::WARN,
            },
            EventKind::Fleet(status) => match status.state {
                State::Safe => Level::WARN,
                State::Shared => Level::INFO,
                _ => Level::DEBUG,
            },
            EventKind::Breaker(Transition::Closed) => Level::INFO,
            EventKind::Started { attempt, .. } => {
                let is_hedge = event.call.is_some_and(|call| call.kind == CallKind::Hedge)
                    && !attempt.is_first();
                is_hedge.then_some(Level::DEBUG)?
            }
            EventKind::Succeeded { attempts, .. } => (attempts > 1).then_some(Level::DEBUG)?,
            EventKind::Held { .. } | EventKind::Denied { .. } | EventKind::Breaker(_) => {
                Level::DEBUG
            }
            EventKind::Settled { .. } | EventKind::Failed { .. } | EventKind::Lost { .. } => {
                return None;
            }
        })
    }

    /// Records the fields named by OpenTelemetry on the caller's span.
    fn record(event: &Event<'_>) {
        let (attempts, error_type) = match event.kind {
            EventKind::Succeeded { attempts, .. } => (attempts, None),
            EventKind::GaveUp { attempts, error_type, .. } => (attempts, Some(error_type)),
            _ => return,
        };
        let span = Span::current();
        if attempts > 1 {
            span.record("http.request.resend_count", attempts - 1);
        }
        if let Some(error_type) = error_type {
            span.record("error.type", error_type);
        }
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
}
