use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::metrics::{
    SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::{CallKind, Event, EventKind, HeldBy, Observe, series};
use crate::breaker::{State, Transition};
#[cfg(feature = "fleet")]
use crate::fleet;
use crate::quota::{Dimension, Finding};
use crate::verdict::{Cut, Health};

/// An observer that publishes events through the `metrics` facade. Usage:
/// `Upstream::new("weather").with_observer(&(Log, Metrics))`.
///
/// Each series has the label `upstream`, the name of the upstream. The first event describes all
/// series with their units.
///
/// | series | kind | labels | value |
/// |---|---|---|---|
/// | `resile_calls_total` | counter | `outcome`: `ok`, `dropped` after [`EventKind::Dropped`](super::EventKind::Dropped), or the reason for giving up, as [`StopReason::as_str`](crate::StopReason::as_str); `health`: that of the last verdict, `healthy` after a success | calls that ended |
/// | `resile_calls_in_doubt_total` | counter | | calls among these that ended [in doubt](crate::GaveUp::is_in_doubt): the request may have been executed and must not be sent again, so somebody must find out |
/// | `resile_call_duration_seconds` | histogram | `outcome` | duration of these calls, waits included |
/// | `resile_attempts_total` | counter | `outcome`: `ok`, or the [health](crate::Health) of the verdict; `timeout` or `truncated` if the attempt was [cut](crate::classify::Cut) | attempts that ended |
/// | `resile_attempt_duration_seconds` | histogram | `outcome` | duration of these attempts. That of an attempt that a limit cut ends at the cut. Attempts that are in flight together at the deadline count as the longest one |
/// | `resile_retries_total` | counter | | attempts after the first one of their call, without hedges. A retry that was scheduled but never began does not count |
/// | `resile_wait_duration_seconds` | histogram | `before`: `retry`, `cooldown`, `quota` | scheduled delays before retries, and waits of a known length for admission. Of a cooldown it is the least one, without the rest of its release |
/// | `resile_held_total` | counter | `by`: `cooldown`, `bulkhead`, `quota` | waits of attempts for their admission, as many as lines at DEBUG. A cooldown counts the waits for its hold and not the short ones of its release |
/// | `resile_limiting` | gauge | `by`: as above, `budget`, `throttle` | 1 while a part makes calls wait or refuses them, until the first report ten seconds after the last of them. Without a further attempt it stays 1, although the part may have room: an alert needs a counter beside it |
/// | `resile_hedges_total` | counter | `event`: `started`, `won`, `lost`, `denied` | hedges, by what happened to them |
/// | `resile_nested_total` | counter | | calls made within an attempt of another call |
/// | `resile_breaker_transitions_total` | counter | `to`: `open`, `half_open`, `closed`, `isolated` | transitions of the breaker |
/// | `resile_breaker_open` | gauge | | 0 while the breaker is closed; 1 while it is open, half-open or isolated |
/// | `resile_budget_tokens` | gauge | | retries that the budget can pay for. In a fleet those of the lease of this process: the tokens of all are `resile_fleet_level` with `limit="budget"` |
/// | `resile_bulkhead_limit` | gauge | | limit of the bulkhead, the one of now if it is learned |
/// | `resile_bulkhead_cuts_total` | counter | | refusals that lowered the learned limit, once for all attempts that began before |
/// | `resile_bulkhead_in_flight` | gauge | | attempts in the bulkhead |
/// | `resile_bulkhead_waiting` | gauge | | attempts in the bulkhead's queue |
/// | `resile_quota_level` | gauge | `dimension`: `requests`, `input`, `output`, `tokens` | units left of the quota; a debt is negative |
/// | `resile_quota_reserved` | gauge | `dimension`: `output` | tokens reserved by attempts in flight |
/// | `resile_quota_in_flight` | gauge | | attempts in flight, with a limit of concurrency |
/// | `resile_quota_waiting` | gauge | | calls in the quota's queue |
/// | `resile_quota_tokens_total` | counter | `event`: `reserved`, `returned`, `overdrawn` | tokens; used are reserved − returned + overdrawn |
/// | `resile_throttle_refused_share` | gauge | | chance of an attempt to be refused by the throttle, from 0 to 0.9 |
/// | `resile_fleet_members` | gauge | | processes that share the upstream, as last known. NaN after this process has left |
/// | `resile_fleet_shared` | gauge | | 1 while the store of the fleet answers; 0 while it does not, and after this process has left |
/// | `resile_fleet_age_seconds` | gauge | | time since the store last answered. NaN after this process has left |
/// | `resile_fleet_transitions_total` | counter | `to`: `joining`, `shared`, `coasting`, `safe`, `learning`, `left` | changes of the fleet's state |
/// | `resile_quota_findings_total` | counter | `dimension`: as above; `by`: `reported`, `refused`, `accepted` | signs that a limit of the provider is not the configured one |
/// | `resile_quota_shadow_total` | counter | `event`: `attempted`, `delayed`, `refused` | attempts on a quota in shadow mode, and those that it would have delayed or refused |
/// | `resile_quota_used_share` | gauge | `dimension`: as above | share of the configured limit that the quota uses, 1 without a sign |
/// | `resile_quota_refused_total` | counter | | attempts that the caller's own limit refused |
///
/// The gauges show the parts of the upstream. Each event sets them, so they exist from the first
/// event on. The counters whose labels are known exist with 0 from the first call on, because a rate cannot
/// see the first count of a new series: retries, nested calls, calls in doubt and the most common outcomes of
/// attempts and calls, and the counters of a breaker, a bulkhead, a quota and a fleet if the upstream has them, and those
/// of hedges if that call is a hedge. Configure buckets for the histograms in the exporter, because the Prometheus exporter
/// turns histograms without buckets into summaries.
///
/// # Calls within calls
///
/// A call within an attempt of another call on the same upstream is a part of that call:
///
/// * `resile_calls_total`, `resile_calls_in_doubt_total` and `resile_call_duration_seconds` count only the
///   outer call. The sum of
///   `resile_calls_total` over all outcomes is therefore the number of calls made by the program on
///   this upstream, even if a retry contains a hedge, a hedge contains a retry, or a fallback
///   contains retries.
/// * `resile_attempts_total` and `resile_attempt_duration_seconds` count only the attempts of the
///   outer call. If the outer call is a fallback, they count the attempts of the calls within it.
/// * `resile_quota_refused_total` counts each request that was refused once.
/// * The other series count the events of every level.
///
/// A call is recognised as a part only while an attempt of the outer call is polled. So a call
/// counts separately if it is made:
///
/// * in a task spawned by an attempt,
/// * in the closure that creates an attempt,
/// * by a stream that is read after the end of its attempt,
/// * in an attempt of a [`Run`](crate::Run) driven with [`next`](crate::Run::next).
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
        series::register(event, &name);
        publish(event, &name);
        gauges(event, &name);
    }
}

/// Returns the word for the state of a breaker after a transition.
fn state_after(transition: Transition) -> &'static str {
    match transition {
        Transition::Opened { .. } => "open",
        Transition::HalfOpened => "half_open",
        Transition::Closed { .. } => "closed",
        Transition::Isolated => "isolated",
    }
}

fn publish(event: &Event<'_>, name: &SharedString) {
    let bump = |series: &'static str| counter!(series, "upstream" => name.clone()).increment(1);
    let count = |series: &'static str, key: &'static str, value: &'static str| {
        counter!(series, "upstream" => name.clone(), key => value).increment(1);
    };
    let time = |series: &'static str, key: &'static str, value: &'static str, took: Duration| {
        histogram!(series, "upstream" => name.clone(), key => value).record(took.as_secs_f64());
    };
    let tokens = |kind: &'static str, tokens: u64| {
        if tokens > 0 {
            let series = "resile_quota_tokens_total";
            counter!(series, "upstream" => name.clone(), "event" => kind).increment(tokens);
        }
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
    let call_ended = |outcome: &'static str, health: Health, took: Duration| {
        if !is_part {
            let (upstream, health) = (name.clone(), health.as_str());
            let series = "resile_calls_total";
            counter!(series, "upstream" => upstream, "outcome" => outcome, "health" => health)
                .increment(1);
            time("resile_call_duration_seconds", "outcome", outcome, took);
        }
    };
    let limiting = |by: HeldBy, value: f64| {
        gauge!("resile_limiting", "upstream" => name.clone(), "by" => by.as_str()).set(value);
    };
    let is_hedge = event.call.is_some_and(|call| call.kind == CallKind::Hedge);
    match event.kind {
        EventKind::Nested { .. } => bump("resile_nested_total"),
        EventKind::Started { attempt, reserved } => {
            if is_hedge && !attempt.is_first() {
                count("resile_hedges_total", "event", "started");
            } else if !attempt.is_first() {
                bump("resile_retries_total");
            }
            tokens("reserved", reserved.unwrap_or_default());
        }
        EventKind::Settled { before, charged, .. } => {
            tokens("returned", before.saturating_sub(charged));
            tokens("overdrawn", charged.saturating_sub(before));
        }
        EventKind::Held { by, delay, .. } => held(event, name, by, delay),
        EventKind::Failed { failure, latency, is_counted, .. } => {
            let own_limit = failure.verdict.is_some_and(|verdict| verdict.is_own_limit());
            if own_limit && is_counted && event.gauges.quota.is_some() {
                bump("resile_quota_refused_total");
            }
            let outcome = failure.cut.map_or(failure.health().as_str(), |cut| cut.as_str());
            attempt_ended(outcome, latency);
        }
        EventKind::Waiting { delay, .. } => {
            time("resile_wait_duration_seconds", "before", "retry", delay);
        }
        EventKind::Denied { .. } => count("resile_hedges_total", "event", "denied"),
        EventKind::Lost { attempt } if is_hedge && attempt > 1 => {
            count("resile_hedges_total", "event", "lost");
        }
        EventKind::Succeeded { attempt, elapsed, latency, .. } => {
            if is_hedge && attempt > 1 {
                count("resile_hedges_total", "event", "won");
            }
            attempt_ended("ok", latency);
            call_ended("ok", Health::Healthy, elapsed);
        }
        EventKind::GaveUp { reason, elapsed, failure, in_doubt, .. } => {
            // An attempt cut by the deadline of the call has no `Failed` event.
            if failure.cut == Some(Cut::Deadline) {
                attempt_ended(Cut::Deadline.as_str(), failure.cut_latency());
            }
            call_ended(reason.as_str(), failure.health(), elapsed);
            doubt(name, in_doubt && !is_part);
        }
        EventKind::Dropped { elapsed, in_doubt, .. } => {
            call_ended("dropped", Health::Unknown, elapsed);
            doubt(name, in_doubt);
        }
        EventKind::Breaker { transition, .. } => {
            let to = state_after(transition);
            count("resile_breaker_transitions_total", "to", to);
        }
        EventKind::Limiting { by, .. } => limiting(by, 1.0),
        EventKind::Relieved { by, .. } => limiting(by, 0.0),
        #[cfg(feature = "fleet")]
        EventKind::Fleet(status) => moved(name, status.state),
        EventKind::Lowered { .. } => bump("resile_bulkhead_cuts_total"),
        EventKind::Learned(finding) => found(name, &finding),
        EventKind::Lost { .. }
        | EventKind::StillLimiting { .. }
        | EventKind::Surge { .. }
        | EventKind::SurgeOver { .. } => {}
    }
}

/// Counts a call if it ended in doubt.
fn doubt(name: &SharedString, in_doubt: bool) {
    let calls = u64::from(in_doubt);
    counter!("resile_calls_in_doubt_total", "upstream" => name.clone()).increment(calls);
}

/// Publishes a wait for the admission. A call that comes after the hold of a cooldown, during its release, is not
/// counted.
fn held(event: &Event<'_>, name: &SharedString, by: HeldBy, delay: Option<Duration>) {
    let (series, upstream) = ("resile_held_total", name.clone());
    if by != HeldBy::Cooldown || event.gauges.holds() {
        counter!(series, "upstream" => upstream, "by" => by.as_str()).increment(1);
    }
    if let Some(delay) = delay {
        let (series, upstream) = ("resile_wait_duration_seconds", name.clone());
        histogram!(series, "upstream" => upstream, "before" => by.as_str())
            .record(delay.as_secs_f64());
    }
}

/// Counts a change of the state of the fleet. A gauge cannot be taken back, and the last numbers are not those
/// of now if this process has left.
#[cfg(feature = "fleet")]
fn moved(name: &SharedString, to: fleet::State) {
    let (series, upstream) = ("resile_fleet_transitions_total", name.clone());
    counter!(series, "upstream" => upstream, "to" => to.as_str()).increment(1);
    if to != fleet::State::Left {
        return;
    }
    gauge!("resile_fleet_shared", "upstream" => name.clone()).set(0.0);
    for series in ["resile_fleet_members", "resile_fleet_age_seconds"] {
        gauge!(series, "upstream" => name.clone()).set(f64::NAN);
    }
}

/// Counts a sign that a limit is not the configured one.
fn found(name: &SharedString, finding: &Finding) {
    let (dimension, by) = (finding.dimension.as_str(), finding.by.as_str());
    let (series, upstream) = ("resile_quota_findings_total", name.clone());
    counter!(series, "upstream" => upstream, "dimension" => dimension, "by" => by).increment(1);
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
    set("resile_bulkhead_limit", gauges.limit);
    set("resile_bulkhead_in_flight", gauges.in_flight);
    set("resile_bulkhead_waiting", gauges.waiting);
    if let Some(percent) = gauges.throttled {
        gauge!("resile_throttle_refused_share", "upstream" => name.clone())
            .set(f64::from(percent) / 100.0);
    }
    #[cfg(feature = "fleet")]
    if let Some(status) = gauges.fleet {
        set("resile_fleet_members", Some(status.members));
        set("resile_fleet_shared", Some(u32::from(status.state.shares())));
        if let Some(age) = status.age {
            gauge!("resile_fleet_age_seconds", "upstream" => name.clone()).set(age.as_secs_f64());
        }
    }
    let Some(quota) = gauges.quota else { return };
    set("resile_quota_waiting", Some(quota.waiting));
    set("resile_quota_in_flight", quota.in_flight);
    #[expect(clippy::cast_precision_loss, reason = "a level is shown to people")]
    let show = |series: &'static str, dimension: &'static str, level: Option<i64>| {
        if let Some(level) = level {
            gauge!(series, "upstream" => name.clone(), "dimension" => dimension).set(level as f64);
        }
    };
    show("resile_quota_level", "requests", quota.requests);
    show("resile_quota_level", "input", quota.input);
    show("resile_quota_level", "output", quota.output);
    show("resile_quota_level", "tokens", quota.tokens);
    if let Some(shadow) = quota.shadow {
        let counts = [("attempted", shadow.attempts), ("delayed", shadow.delayed)];
        for (event, count) in counts.into_iter().chain([("refused", shadow.refused)]) {
            counter!("resile_quota_shadow_total", "upstream" => name.clone(), "event" => event)
                .absolute(count);
        }
    }
    for dimension in Dimension::ALL {
        if let Some(share) = quota.used_share(dimension) {
            let (series, dimension) = ("resile_quota_used_share", dimension.as_str());
            gauge!(series, "upstream" => name.clone(), "dimension" => dimension).set(share);
        }
    }
    let reserved = i64::try_from(quota.reserved).unwrap_or(i64::MAX);
    show("resile_quota_reserved", "output", Some(reserved));
}

/// Describes every series to the recorder installed at that time.
fn describe() {
    describe_counter!("resile_calls_total", "Calls that ended, by outcome and health.");
    describe_counter!(
        "resile_calls_in_doubt_total",
        "Calls that ended in doubt: the request may have been executed, and must not be sent again."
    );
    describe_histogram!(
        "resile_call_duration_seconds",
        Unit::Seconds,
        "Duration of calls that ended, waits included."
    );
    describe_counter!("resile_attempts_total", "Attempts that ended, by outcome.");
    describe_histogram!(
        "resile_attempt_duration_seconds",
        Unit::Seconds,
        "Duration of attempts that ended."
    );
    describe_counter!(
        "resile_retries_total",
        "Retries that began: attempts after the first one of their call."
    );
    describe_histogram!(
        "resile_wait_duration_seconds",
        Unit::Seconds,
        "Delays before retries, and waits of a known length for admission."
    );
    describe_counter!(
        "resile_held_total",
        "Waits of attempts for a cooldown, a bulkhead, a quota or a budget."
    );
    describe_gauge!("resile_limiting", "1 while a part makes calls wait or refuses them.");
    describe_counter!("resile_hedges_total", "Hedges that started, won, lost or were denied.");
    describe_counter!("resile_nested_total", "Calls made within an attempt of another call.");
    describe_counter!("resile_breaker_transitions_total", "Transitions of the breaker.");
    describe_gauge!(
        "resile_breaker_open",
        "0 while the breaker is closed, 1 while it is open, half-open or isolated."
    );
    describe_gauge!(
        "resile_budget_tokens",
        "Retries that the budget can pay for. In a fleet those of the lease of this process."
    );
    describe_gauge!("resile_bulkhead_limit", "Limit of the bulkhead.");
    describe_counter!(
        "resile_bulkhead_cuts_total",
        "Refusals that lowered the learned limit of the bulkhead."
    );
    describe_gauge!("resile_bulkhead_in_flight", "Attempts in the bulkhead.");
    describe_gauge!("resile_bulkhead_waiting", "Attempts in the bulkhead's queue.");
    describe_gauge!(
        "resile_throttle_refused_share",
        "Chance of an attempt to be refused by the throttle."
    );
    describe_counter!(
        "resile_quota_tokens_total",
        "Tokens reserved, returned after a smaller usage, and overdrawn by a larger usage."
    );
    describe_counter!("resile_quota_refused_total", "Attempts refused by the caller's own limit.");
    describe_counter!(
        "resile_quota_findings_total",
        "Signs that a limit of the provider is not the configured one."
    );
    describe_counter!(
        "resile_quota_shadow_total",
        "Attempts on a quota in shadow mode, and those it would have delayed or refused."
    );
    describe_gauge!(
        "resile_quota_used_share",
        "Share of the configured limit that the quota uses."
    );
    describe_gauge!("resile_quota_level", "Units left of the quota. Negative units are a debt.");
    describe_gauge!("resile_quota_reserved", "Tokens reserved by attempts in flight.");
    describe_gauge!("resile_quota_in_flight", "Attempts in flight under the quota.");
    describe_gauge!("resile_quota_waiting", "Calls in the quota's queue.");
    #[cfg(feature = "fleet")]
    describe_fleet();
}

#[cfg(feature = "fleet")]
fn describe_fleet() {
    describe_gauge!("resile_fleet_members", "Processes that share the upstream, as last known.");
    describe_gauge!(
        "resile_fleet_shared",
        "1 while the store of the fleet answers, 0 while it does not."
    );
    describe_gauge!(
        "resile_fleet_age_seconds",
        Unit::Seconds,
        "Time since the store of the fleet last answered."
    );
    describe_counter!("resile_fleet_transitions_total", "Changes of the fleet's state.");
}
