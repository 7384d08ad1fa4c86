//! The counters of an upstream that are known before they count.

use ::metrics::{SharedString, counter};

use super::{CallKind, Event};
use crate::quota::Dimension;

/// Registers them at 0 with the events of the first call on the upstream.
///
/// A counter that begins at 1 hides its first event, because a rate is a difference of two values. The
/// number of a call begins again after 65,535 calls, and to register a series again changes nothing.
pub(super) fn register(event: &Event<'_>, name: &SharedString) {
    let Some(call) = event.call.filter(|call| call.number == 1) else { return };
    let plain = ["resile_calls_in_doubt_total", "resile_retries_total", "resile_nested_total"];
    for series in plain {
        counter!(series, "upstream" => name.clone()).increment(0);
    }
    let each = |series: &'static str, key: &'static str, values: &[&'static str]| {
        for value in values {
            counter!(series, "upstream" => name.clone(), key => *value).increment(0);
        }
    };
    let outcomes = ["ok", "healthy", "throttling", "failing", "timeout"];
    each("resile_attempts_total", "outcome", &outcomes);
    for (outcome, health) in [("ok", "healthy"), ("attempts", "failing"), ("deadline", "failing")] {
        let series = "resile_calls_total";
        counter!(series, "upstream" => name.clone(), "outcome" => outcome, "health" => health)
            .increment(0);
    }
    if call.kind == CallKind::Hedge {
        each("resile_hedges_total", "event", &["started", "won", "lost", "denied"]);
    }
    let gauges = event.gauges;
    if gauges.breaker.is_some() {
        let states = ["open", "half_open", "closed", "isolated"];
        each("resile_breaker_transitions_total", "to", &states);
    }
    if gauges.limit.is_some() {
        each("resile_held_total", "by", &["bulkhead"]);
        counter!("resile_bulkhead_cuts_total", "upstream" => name.clone()).increment(0);
    }
    #[cfg(feature = "fleet")]
    if gauges.fleet.is_some() {
        let states = ["joining", "shared", "coasting", "safe", "learning", "left"];
        each("resile_fleet_transitions_total", "to", &states);
    }
    let Some(quota) = gauges.quota else { return };
    each("resile_held_total", "by", &["quota"]);
    counter!("resile_quota_refused_total", "upstream" => name.clone()).increment(0);
    let dimensions = Dimension::ALL.into_iter().filter(|it| quota.used_share(*it).is_some());
    for dimension in dimensions.map(Dimension::as_str) {
        if dimension != "requests" {
            each("resile_quota_tokens_total", "event", &["reserved", "returned", "overdrawn"]);
        }
        for by in ["reported", "refused", "accepted"] {
            let series = "resile_quota_findings_total";
            counter!(series, "upstream" => name.clone(), "dimension" => dimension, "by" => by)
                .increment(0);
        }
    }
}
