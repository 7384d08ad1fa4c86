//! What is published, under which names.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use resile::observe::Metrics;
use resile::{Backoff, Breaker, Budget, Cooldown, Jitter, ManualTimer, Never, RetryPolicy, Verdict, retry};
use std::collections::BTreeMap;
use std::time::Duration;

/// Series as `name{label=value}`, with the label `name` checked and left out.
fn published(recorder: &DebuggingRecorder) -> BTreeMap<String, String> {
    let rows = recorder.snapshotter().snapshot().into_vec();
    rows.into_iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut labels = key.labels().map(|label| (label.key(), label.value())).collect::<BTreeMap<_, _>>();
            assert_eq!(labels.remove("name"), Some("weather"));
            let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let value = match value {
                DebugValue::Counter(count) => count.to_string(),
                DebugValue::Gauge(level) => format!("{level}"),
                DebugValue::Histogram(times) => format!("{times:?}"),
            };
            (format!("{}{{{}}}", key.name(), labels.join(",")), value)
        })
        .collect()
}

#[test]
fn calls_attempts_retries_waits_and_tokens_are_published() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let budget = Budget::new().with_capacity(5);
            let policy = RetryPolicy::new()
                .with_backoff(Backoff::fixed(Duration::from_millis(250)).with_jitter(Jitter::None))
                .with_classify(|e: &u32| match e {
                    429 => Verdict::throttled(None),
                    503 => Verdict::retry(),
                    _ => Verdict::Fail,
                });
            let call = async |errors: &[u32]| {
                let mut errors = errors.iter().copied();
                let attempt = |_| std::future::ready(errors.next().map_or(Ok(()), Err));
                let _ =
                    retry(attempt, &policy, Never).with_budget(&budget).with_observer(Metrics::new("weather")).await;
            };
            call(&[]).await;
            call(&[503, 429]).await;
            call(&[503, 400]).await;
            call(&[503, 503, 503]).await;
        });
    });
    let expected = [
        ("resile_attempts_total{outcome=ok}", "2"),
        ("resile_attempts_total{outcome=permanent}", "1"),
        ("resile_attempts_total{outcome=throttled}", "1"),
        ("resile_attempts_total{outcome=transient}", "5"),
        ("resile_budget_tokens{}", "0"),
        ("resile_calls_total{outcome=attempts}", "1"),
        ("resile_calls_total{outcome=fatal}", "1"),
        ("resile_calls_total{outcome=ok}", "2"),
        ("resile_retries_total{cause=throttled}", "1"),
        ("resile_retries_total{cause=transient}", "4"),
        ("resile_wait_seconds{}", "[0.25, 0.25, 0.25, 0.25, 0.25]"),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(published(&recorder), expected);
}

#[test]
fn holds_are_published() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
            cooldown.hold(Duration::from_secs(2));
            let policy = RetryPolicy::new();
            let call = retry(|_| async { Ok::<_, ()>(()) }, &policy, Never).with_cooldown(&cooldown);
            call.with_observer(Metrics::new("weather")).await.unwrap();
        });
    });
    let published = published(&recorder);
    assert_eq!(published["resile_holds_total{by=cooldown}"], "1");
    assert_eq!(published["resile_wait_seconds{}"], "[2.0]");
}

#[test]
fn a_breaker_publishes_its_state_and_trips() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let breaker =
            Breaker::new().with_consecutive(1).with_observer(Metrics::new("weather")).with_timer(ManualTimer::new());
        breaker.permit().unwrap().failure(Verdict::retry());
    });
    let published = published(&recorder);
    assert_eq!(published["resile_breaker_state{}"], "2");
    assert_eq!(published["resile_breaker_trips_total{why=consecutive}"], "1");
}
