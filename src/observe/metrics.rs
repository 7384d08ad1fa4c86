use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::metrics::{
    SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::{CallKind, Event, EventKind, Observe};
use crate::breaker::{State, Transition};
use crate::verdict::Cut;

/// Publishes events through the `metrics` facade: `Upstream::new("weather").with_observer(&(Log, Metrics))`.
///
/// Each series has the label `upstream`, the name of the upstream. All are described, with units, at the first event.
///
/// | series | kind | labels | what |
/// |---|---|---|---|
/// | `resile_calls_total` | counter | `outcome`: `ok`, or why the call was given up, as [`StopReason::as_str`](crate::StopReason::as_str) | calls that ended |
/// | `resile_call_duration_seconds` | histogram | `outcome` | how long those calls took, waits included |
/// | `resile_attempts_total` | counter | `outcome`: `ok`, or the [health](crate::Health) that the verdict shows; `timeout` where a timeout cut the attempt | attempts that ended |
/// | `resile_attempt_duration_seconds` | histogram | `outcome` | how long those attempts took |
/// | `resile_retries_total` | counter | `health` | retries that were decided on |
/// | `resile_wait_duration_seconds` | histogram | `before`: `retry`, `cooldown` | delays before retries, and waits for a cooldown |
/// | `resile_held_total` | counter | `by`: `cooldown`, `bulkhead` | attempts that waited for their admission |
/// | `resile_hedges_total` | counter | `event`: `started`, `won`, `lost`, `denied` | attempts of a hedged call after the first |
/// | `resile_nested_total` | counter | | calls made within another one's attempt |
/// | `resile_breaker_transitions_total` | counter | `to`: `open`, `half_open`, `closed`, `isolated` | transitions of the breaker |
/// | `resile_breaker_open` | gauge | | 0 while the breaker admits all calls, 1 while it refuses calls |
/// | `resile_budget_tokens` | gauge | | retries that the budget can pay |
/// | `resile_bulkhead_in_flight` | gauge | | attempts in the bulkhead |
/// | `resile_bulkhead_waiting` | gauge | | attempts that wait for the bulkhead |
///
/// The gauges are those of the upstream's parts, set at every event, so they are there from the first call on. Give the
/// histograms buckets in the exporter: without, the one for Prometheus makes them summaries.
///
/// # Calls within calls
///
/// A call that runs within an attempt of another call on the same upstream is a part of that call. `resile_calls_total`
/// and the durations of calls count the outer one alone. So the sum of `resile_calls_total` over all outcomes is the
/// number of calls that the program made on that upstream, whether it retries a hedge, hedges a retry, or has a fallback
/// over retries. `resile_attempts_total` counts the attempts of the outer one alone, too; where that is a fallback, those
/// of the calls within it. The other series count what happens at every level.
///
/// That a call runs within another is known while an attempt of the other one is polled. So a call counts by itself in a
/// task that an attempt spawns, in the closure that makes an attempt, as a stream that is read after the attempt which
/// returned it, and in an attempt of a [`Run`](crate::Run) by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics;

impl Observe for Metrics {
    fn observe(&self, event: &Event<'_>) {
        static DESCRIBED: AtomicBool = AtomicBool::new(false);
        if !DESCRIBED.swap(true, Ordering::Relaxed) {
            describe();
        }
        let Some(name) = event.upstream else { return };
        let name = SharedString::from(name.to_owned());
        publish(event, &name);
        gauges(event, &name);
    }
}

fn publish(event: &Event<'_>, name: &SharedString) {
    let count = |series: &'static str, key: &'static str, value: &'static str| {
        counter!(series, "upstream" => name.clone(), key => value).increment(1);
    };
    let time = |series: &'static str, key: &'static str, value: &'static str, took: Duration| {
        histogram!(series, "upstream" => name.clone(), key => value).record(took.as_secs_f64());
    };
    let is_part = event.call.is_some_and(|call| call.is_part);
    let attempt_ended = |outcome: &'static str, took: Option<Duration>| {
        if !event.call.is_some_and(|call| call.counts_attempts) {
            return;
        }
        count("resile_attempts_total", "outcome", outcome);
        if let Some(took) = took {
            time("resile_attempt_duration_seconds", "outcome", outcome, took);
        }
    };
    let call_ended = |outcome: &'static str, took: Duration| {
        if !is_part {
            count("resile_calls_total", "outcome", outcome);
            time("resile_call_duration_seconds", "outcome", outcome, took);
        }
    };
    let is_hedge = event.call.is_some_and(|call| call.kind == CallKind::Hedge);
    match event.kind {
        EventKind::Nested { .. } => {
            counter!("resile_nested_total", "upstream" => name.clone()).increment(1)
        }
        EventKind::Started { attempt } if is_hedge && !attempt.is_first() => {
            count("resile_hedges_total", "event", "started");
        }
        EventKind::Held { by, delay, .. } => {
            count("resile_held_total", "by", by.as_str());
            if let Some(delay) = delay {
                time("resile_wait_duration_seconds", "before", by.as_str(), delay);
            }
        }
        EventKind::Failed { failure, latency, .. } => {
            attempt_ended(
                if failure.cut.is_some() { "timeout" } else { failure.health().as_str() },
                latency,
            );
        }
        EventKind::Waiting { failure, delay, .. } => {
            count("resile_retries_total", "health", failure.health().as_str());
            time("resile_wait_duration_seconds", "before", "retry", delay);
        }
        EventKind::Denied { .. } => count("resile_hedges_total", "event", "denied"),
        EventKind::Lost { attempt } if is_hedge && attempt > 1 => {
            count("resile_hedges_total", "event", "lost")
        }
        EventKind::Succeeded { attempt, elapsed, latency, .. } => {
            if is_hedge && attempt > 1 {
                count("resile_hedges_total", "event", "won");
            }
            attempt_ended("ok", latency);
            call_ended("ok", elapsed);
        }
        EventKind::GaveUp { reason, elapsed, failure, .. } => {
            // What the call's own timeout cuts has no event of its own.
            if failure.cut == Some(Cut::Deadline) {
                attempt_ended("timeout", None);
            }
            call_ended(reason.as_str(), elapsed);
        }
        EventKind::Breaker(transition) => {
            let to = match transition {
                Transition::Opened { .. } => "open",
                Transition::HalfOpened => "half_open",
                Transition::Closed => "closed",
                Transition::Isolated => "isolated",
            };
            count("resile_breaker_transitions_total", "to", to);
        }
        EventKind::Started { .. } | EventKind::Lost { .. } => {}
    }
}

fn gauges(event: &Event<'_>, name: &SharedString) {
    let set = |series: &'static str, value: Option<u32>| {
        if let Some(value) = value {
            gauge!(series, "upstream" => name.clone()).set(f64::from(value));
        }
    };
    let gauges = event.gauges;
    set("resile_breaker_open", gauges.breaker.map(|state| u32::from(state != State::Closed)));
    set("resile_budget_tokens", gauges.tokens);
    set("resile_bulkhead_in_flight", gauges.in_flight);
    set("resile_bulkhead_waiting", gauges.waiting);
}

/// Describes every series, for the recorder that is installed by then.
fn describe() {
    describe_counter!("resile_calls_total", "Calls that ended, by outcome.");
    describe_histogram!(
        "resile_call_duration_seconds",
        Unit::Seconds,
        "How long calls took, pending included."
    );
    describe_counter!("resile_attempts_total", "Attempts that ended, by outcome.");
    describe_histogram!(
        "resile_attempt_duration_seconds",
        Unit::Seconds,
        "How long attempts took."
    );
    describe_counter!(
        "resile_retries_total",
        "Retries that were decided on, by the health of the upstream."
    );
    describe_histogram!("resile_wait_duration_seconds", Unit::Seconds, "Delays before attempts.");
    describe_counter!("resile_held_total", "Attempts that waited for their admission.");
    describe_counter!("resile_hedges_total", "Attempts of hedged calls after the first.");
    describe_counter!("resile_nested_total", "Calls made within an attempt of another call.");
    describe_counter!("resile_breaker_transitions_total", "Transitions of the breaker.");
    describe_gauge!(
        "resile_breaker_open",
        "0 while the breaker admits all calls, 1 while it refuses calls."
    );
    describe_gauge!("resile_budget_tokens", "Retries that the budget can pay.");
    describe_gauge!("resile_bulkhead_in_flight", "Attempts in the bulkhead.");
    describe_gauge!("resile_bulkhead_waiting", "Attempts that wait for the bulkhead.");
}
