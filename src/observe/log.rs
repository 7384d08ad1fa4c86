use super::{Event, Observe};

/// An observer that writes events to the log. The default observer of an upstream.
///
/// With the feature `tracing` events go to the `tracing` target `resile`, and without it nothing is
/// logged. The message is the event in one line: the upstream, the attempt, the next step, and the
/// error with its sources.
///
/// | level | event |
/// |---|---|
/// | WARN | a retry, unless the upstream is healthy or its breaker is open; giving up after a retry or at the deadline, unless a part of the upstream, or of that of a call within, refused it; the end of a fallback without an answer, unless it was cancelled or a part of an upstream refused its last alternative; giving up or dropping a request that may have been executed and must not be sent again; a final error of one with a key that may have been executed; giving up one that cannot be made again or of which the upstream asks for no retry; giving up a stream after a part of the answer; a budget that is spent, a bulkhead that is full, a quota that is used up or a cooldown that holds calls, a throttle that refuses, at its start and once a minute, a budget with the failure whose retry was not made; a later hold of a cooldown that is more than twice as long as the last one with a line and a second longer at least; a limit of the provider below that of the quota; a breaker that opens, with the failure that opened it, or is isolated; nested calls, once for each pair of call sites; a surge of failures, ten attempts that announce a retry within ten seconds on one upstream, at its start and once a minute; the same of ten calls that give up in an alternative of a fallback, and of ten calls in a row that end at their first attempt while no attempt shows a healthy upstream, also because they have no time for a retry |
/// | INFO | the end of such a budget, bulkhead, quota, cooldown or throttle, at the first report after ten seconds without a further wait or refusal; a limit of the provider far above that of the quota, or accepted again; a breaker that closes; the end of a surge, at the first report after ten seconds without such a failure; ten retries on a healthy upstream within ten seconds, at their start and once a minute, and their end |
/// | DEBUG | a retry after a collision or another error of a healthy upstream, and a retry in a surge or beside an open breaker; an alternative that fails in a surge, and a call without time for a retry in a surge of such ends; a call that recovered; any other final error of a first attempt or error of a call without retries, because the caller gets it; each refusal and each wait between these lines, but not the short waits of a cooldown's release; a refusal that lowers the learned limit of a bulkhead; the end of a call within an alternative of a fallback that writes lines too, because the line of the fallback has the same words, unless the request may have been executed and must not be sent again; cancellation; a call that the program drops in flight; hedges; each state of a fleet, because the crate of its store tells operators of an outage with the reason; a limit of the provider that a fleet uses, because one of its members tells operators; a hold that another process of a fleet was asked for |
///
/// Fields, if known, with times rounded to milliseconds:
///
/// | field | value |
/// |---|---|
/// | `upstream` | the name |
/// | `at` | the call site |
/// | `call` | a number that tells the calls on one upstream apart. It does not count the calls, because a call gets it with its first event, also one at DEBUG. After 65,535 it starts again at 1 |
/// | `attempt`, `attempts_allowed` | numbers. A policy without a limit, with `u32::MAX` attempts, has no `attempts_allowed`. It is the highest number that an attempt may have, so it grows after [`Run::progressed`](crate::Run::progressed): with four attempts and progress in the last one from 4 to 8 |
/// | `delay_ms` | the delay before the retry, the wait for admission, the hold of a cooldown or the open time of a breaker, in milliseconds |
/// | `hint_ms` | the wait that the upstream asked for |
/// | `retry_after_ms` | the recommended wait before the next call, as [`GaveUp::retry_after`](crate::GaveUp::retry_after) has it |
/// | `elapsed_ms` | the time since the start of the call, the length of a strain on a part or of a surge of failures, or the time from the opening of a breaker to its closing. A time below 1 ms is left out, because a call whose [clock does not run](crate::Attempt::elapsed) has the time zero |
/// | `error.type` | the type of the error, also of the one that opened a breaker, in one word: see [`AttemptFailure::error_type`](super::AttemptFailure::error_type) |
/// | `health` | the [health](crate::Health) of the upstream, `unknown` if the deadline cut an attempt after too short a time to count. A fallback has none, because it asks several |
/// | `place` | the [place](crate::Classify::place) that the requests go to, as the classifier knows it: of a failed attempt, of a wait for a part, of the end of a call, of a surge and of an opened breaker. A fallback has none |
/// | `reason` | the reason for giving up or for opening, or the evidence for another limit. A fallback that tries no other alternative has the reason of the call within the last one, as its [flattened](crate::GaveUp::flatten) error does |
/// | `by` | the part that makes calls wait or refuses them |
/// | `times` | the number of attempts that waited or were refused, or that announced a retry in a surge, or of the calls that ended in it. An attempt counts once for a cooldown, also if it comes during the release |
///
/// # Secrets
///
/// The user, the query and the fragment of each URL in an error are cut: `https://…@host/path?…`.
/// To see them, read [`AttemptFailure::source`](super::AttemptFailure::source) in an observer of
/// your own, or the error that the call returns. Other secrets in the words of an error are not
/// known, so they are not cut.
///
/// # Spans
///
/// A call that was retried or that failed also records fields on the current `tracing` span. Their
/// names are those of OpenTelemetry: `http.request.resend_count` (the number of retries that began) and
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
// The words of a line are in `sentence.rs` and `strain.rs`, and its level is in `level.rs`.
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

    #[inline]
    fn writes_log(&self) -> bool {
        self.is_enabled()
    }
}

#[cfg(feature = "tracing")]
mod write {
    use std::time::Duration;

    use tracing::{Level, Span};

    use super::Event;
    use crate::breaker::Transition;
    use crate::observe::level::level;
    use crate::observe::{AttemptFailure, CallKind, EventKind, HeldBy};
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
                call = event.call.map(|call| call.number),
                attempt = fields.attempt,
                attempts_allowed =
                    event.call.map(|call| call.allowed).filter(|allowed| *allowed != u32::MAX),
                delay_ms = fields.delay.map(ms),
                hint_ms = fields.hint.map(ms),
                retry_after_ms = fields.retry_after.map(ms),
                elapsed_ms = fields.elapsed.map(ms),
                error.type = fields.error_type,
                health = fields.health,
                place = event.place().as_deref(), // asked only for a line that is written
                reason = fields.reason,
                by = fields.by,
                times = fields.times,
                "{event}" // the words are in `sentence.rs`
            );
        }};
    }
    use line;

    /// Returns the nearest number of milliseconds, at most `u64::MAX`. The words of the line are rounded
    /// too.
    fn ms(time: Duration) -> u64 {
        let rounded = time.saturating_add(Duration::from_micros(500));
        u64::try_from(rounded.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns a time of at least 1 ms. A call whose clock did not run has the time zero, so a shorter time
    /// would look like it.
    fn known(elapsed: Duration) -> Option<Duration> {
        Some(elapsed).filter(|elapsed| *elapsed >= Duration::from_millis(1))
    }

    /// Returns the reason of an end. A fallback that tries no other alternative has that of its last one,
    /// as its flattened error does.
    fn told(reason: StopReason, failure: &AttemptFailure<'_>, is_fallback: bool) -> StopReason {
        let inner = failure.in_flight.and_then(|in_flight| in_flight.inner);
        inner.filter(|_| is_fallback && reason == StopReason::Fatal).unwrap_or(reason)
    }

    #[derive(Default)]
    struct Fields<'a> {
        attempt: Option<u32>,
        delay: Option<Duration>,
        hint: Option<Duration>,
        retry_after: Option<Duration>,
        elapsed: Option<Duration>,
        error_type: Option<&'a str>,
        health: Option<&'static str>,
        reason: Option<&'static str>,
        by: Option<&'static str>,
        times: Option<u64>,
    }

    impl<'a> Fields<'a> {
        /// Adds those of a failure.
        fn with(self, failure: Option<AttemptFailure<'a>>) -> Self {
            let (error_type, health) =
                failure.map(|it| (it.error_type, it.health().as_str())).unzip();
            Self { error_type: error_type.flatten(), health, ..self }
        }

        fn of(event: &Event<'a>) -> Self {
            let fields = Self::default();
            let is_fallback = event.call.is_some_and(|it| it.kind == CallKind::Fallback);
            match event.kind {
                EventKind::Started { attempt, .. } => {
                    Self { attempt: Some(attempt.number()), ..fields }
                }
                EventKind::Held { attempt, delay, by } => {
                    Self { attempt: Some(attempt), delay, by: Some(by.as_str()), ..fields }
                }
                EventKind::Waiting { attempt, failure, delay, held, .. } => Self {
                    attempt: Some(attempt.number()),
                    // A fallback goes on at once. A part may hold the attempt for longer.
                    delay: Some(held.unwrap_or(delay)).filter(|_| !is_fallback),
                    hint: failure.verdict.and_then(|verdict| verdict.hint()),
                    elapsed: known(attempt.elapsed()),
                    error_type: failure.error_type,
                    health: Some(failure.health().as_str()).filter(|_| !is_fallback),
                    ..fields
                },
                EventKind::Denied { attempts, by } => {
                    Self { attempt: Some(attempts), by: by.map(HeldBy::as_str), ..fields }
                }
                EventKind::Dropped { attempts, elapsed, .. }
                | EventKind::Succeeded { attempts, elapsed, .. } => {
                    Self { attempt: Some(attempts), elapsed: known(elapsed), ..fields }
                }
                EventKind::GaveUp {
                    reason,
                    attempts,
                    failure,
                    retry_after,
                    elapsed,
                    error_type,
                    too_long,
                    ..
                } => Self {
                    attempt: Some(attempts),
                    retry_after,
                    elapsed: known(elapsed),
                    error_type: Some(error_type),
                    health: failure
                        .verdict
                        .filter(|_| !is_fallback)
                        .map(|verdict| verdict.health().as_str()),
                    reason: Some(told(reason, &failure, is_fallback).as_str()),
                    by: too_long
                        .filter(|_| retry_after.is_some())
                        .and_then(|too_long| too_long.by())
                        .map(HeldBy::as_str),
                    ..fields
                },
                EventKind::Limiting { by, hold, failure, .. } => Self {
                    by: Some(by.as_str()),
                    delay: hold.and_then(known),
                    ..fields.with(failure)
                },
                EventKind::StillLimiting { by, lasted, times, failure, .. } => Self {
                    by: Some(by.as_str()),
                    elapsed: known(lasted),
                    times: Some(times),
                    ..fields.with(failure)
                },
                EventKind::Relieved { by, lasted, times, .. } => Self {
                    by: Some(by.as_str()),
                    elapsed: known(lasted),
                    times: Some(times),
                    ..fields
                },
                EventKind::Surge { failures, lasted, failure, .. } => Self {
                    elapsed: known(lasted),
                    error_type: failure.error_type,
                    health: Some(failure.health().as_str()),
                    times: Some(failures),
                    ..fields
                },
                EventKind::SurgeOver { failures, lasted, .. } => {
                    Self { elapsed: known(lasted), times: Some(failures), ..fields }
                }
                EventKind::Lowered { .. } => Self { by: Some("bulkhead"), ..fields },
                EventKind::Learned(finding) => {
                    Self { reason: Some(finding.by.as_str()), by: Some("quota"), ..fields }
                }
                EventKind::Breaker {
                    transition: Transition::Opened { reason, duration, .. },
                    failure,
                } => Self {
                    delay: Some(duration),
                    hint: failure.and_then(|failure| failure.verdict?.hint()),
                    error_type: failure.and_then(|failure| failure.error_type),
                    health: failure.map(|failure| failure.health().as_str()),
                    reason: Some(reason.as_str()),
                    ..fields
                },
                EventKind::Breaker {
                    transition: Transition::Closed { refused, lasted }, ..
                } => Self { elapsed: lasted.and_then(known), times: Some(refused), ..fields },
                _ => fields,
            }
        }
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
}
