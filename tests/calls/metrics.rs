//! The published metrics and their names.

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use resile::classify::{Always, ClassifyExt};
use resile::fallback::Alternative;
use resile::fleet::State;
use resile::observe::{Log, Metrics};
use resile::quota::{self, Cost, Dimension, Limit, Limits, Rate, Usage};
use resile::stream::Resumption;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Classify, Cooldown, FallbackPolicy, GaveUp,
    HedgePolicy, Jitter, Never, Quota, RetryPolicy, Run, Throttle, Upstream, Verdict, fallback,
    hedge, retry, retry_stream,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step};

const SECOND: Duration = Duration::from_secs(1);

/// Creates an upstream that publishes metrics.
const fn published_as(name: &'static str) -> Upstream {
    Upstream::new(name).with_observer(&Metrics)
}

/// Runs `call` on a paused clock and records its metrics.
fn recorded<F: Future>(call: F) -> DebuggingRecorder {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(call);
    });
    recorder
}

/// Returns the series as `name{label=value}`, without the counters that have not counted yet.
fn published(recorder: &DebuggingRecorder) -> BTreeMap<String, String> {
    let mut published = registered(recorder);
    published.retain(|series, value| !(series.contains("_total") && value == "0"));
    published
}

/// Returns all series as `name{label=value}`. Checks the label `upstream` and leaves it out.
fn registered(recorder: &DebuggingRecorder) -> BTreeMap<String, String> {
    let rows = recorder.snapshotter().snapshot().into_vec();
    rows.into_iter()
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut labels =
                key.labels().map(|label| (label.key(), label.value())).collect::<BTreeMap<_, _>>();
            assert_eq!(labels.remove("upstream"), Some("weather"));
            let labels: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let value = match value {
                DebugValue::Counter(count) => count.to_string(),
                DebugValue::Gauge(level) => format!("{level}"),
                DebugValue::Histogram(times) => format!("{times:?}"),
            };
            (format!("{}{{{}}}", key.name(), labels.join(",")), value)
        })
        .collect()
}

fn all<const N: usize>(expected: [(&str, &str); N]) -> BTreeMap<String, String> {
    expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// A rate is a difference, so the first count of a new series would be lost.
#[test]
fn known_counters_are_zero_before_they_count() {
    let quota = Quota::new().with_requests(Rate::per_second(9)).with_tokens(Rate::per_second(9));
    let weather = published_as("weather")
        .with_breaker(Breaker::new())
        .with_bulkhead(Bulkhead::new(2))
        .with_quota(quota);
    let counters = |weather: &Upstream| {
        let recorder = recorded(async {
            retry(|_| async { Ok::<_, Down>(()) }, RetryPolicy::new(), Never)
                .on(weather)
                .await
                .unwrap();
        });
        let mut series = registered(&recorder);
        series.retain(|name, value| name.contains("_total") && value == "0");
        series.into_keys().collect::<Vec<_>>()
    };
    let bare = [
        "resile_attempts_total{outcome=failing}",
        "resile_attempts_total{outcome=healthy}",
        "resile_attempts_total{outcome=throttling}",
        "resile_attempts_total{outcome=timeout}",
        "resile_calls_in_doubt_total{}",
        "resile_calls_total{health=failing,outcome=attempts}",
        "resile_calls_total{health=failing,outcome=deadline}",
        "resile_nested_total{}",
        "resile_retries_total{}",
    ];
    assert_eq!(counters(&published_as("weather")), bare);
    let mut all: Vec<_> = bare.map(str::to_owned).into();
    all.extend(
        ["open", "half_open", "closed", "isolated"]
            .map(|to| format!("resile_breaker_transitions_total{{to={to}}}")),
    );
    all.extend(["bulkhead", "quota"].map(|by| format!("resile_held_total{{by={by}}}")));
    all.extend(["resile_bulkhead_cuts_total{}", "resile_quota_refused_total{}"].map(str::to_owned));
    all.extend(
        ["reserved", "returned", "overdrawn"]
            .map(|event| format!("resile_quota_tokens_total{{event={event}}}")),
    );
    for dimension in ["requests", "tokens"] {
        all.extend(
            ["reported", "refused", "accepted"]
                .map(|by| format!("resile_quota_findings_total{{by={by},dimension={dimension}}}")),
        );
    }
    all.sort();
    assert_eq!(counters(&weather), all);
    // Later calls do not pay for it.
    assert_eq!(counters(&weather), [""; 0]);
}

#[test]
fn calls_attempts_retries_waits_and_tokens_are_published() {
    let weather = published_as("weather").with_budget(Budget::new().with_capacity(5));
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(Duration::from_millis(250)).with_jitter(Jitter::None))
        .with_classifier(|e: &u32| match e {
            429 => Verdict::throttled(),
            503 => Verdict::transient(),
            _ => Verdict::fatal(),
        });
    let recorder = recorded(async {
        let call = async |errors: &[u32]| {
            let mut errors = errors.iter().copied();
            let attempt = |_| std::future::ready(errors.next().map_or(Ok(()), Err));
            let _ = retry(attempt, &policy, Never).on(&weather).await;
        };
        call(&[]).await;
        call(&[503, 429]).await;
        call(&[503, 400]).await;
        call(&[503, 503, 503]).await;
    });
    let expected = all([
        ("resile_attempt_duration_seconds{outcome=failing}", "[0.0, 0.0, 0.0, 0.0, 0.0]"),
        ("resile_attempt_duration_seconds{outcome=ok}", "[0.0, 0.0]"),
        ("resile_attempt_duration_seconds{outcome=throttling}", "[0.0]"),
        ("resile_attempt_duration_seconds{outcome=unknown}", "[0.0]"),
        ("resile_attempts_total{outcome=failing}", "5"),
        ("resile_attempts_total{outcome=ok}", "2"),
        ("resile_attempts_total{outcome=throttling}", "1"),
        ("resile_attempts_total{outcome=unknown}", "1"),
        ("resile_budget_tokens{}", "0"),
        ("resile_call_duration_seconds{outcome=attempts}", "[0.5]"),
        ("resile_call_duration_seconds{outcome=fatal}", "[0.25]"),
        ("resile_call_duration_seconds{outcome=ok}", "[0.0, 0.5]"),
        ("resile_calls_total{health=failing,outcome=attempts}", "1"),
        ("resile_calls_total{health=unknown,outcome=fatal}", "1"),
        ("resile_calls_total{health=healthy,outcome=ok}", "2"),
        ("resile_retries_total{}", "5"),
        ("resile_wait_duration_seconds{before=retry}", "[0.25, 0.25, 0.25, 0.25, 0.25]"),
    ]);
    assert_eq!(published(&recorder), expected);
}

/// Attempts and calls have their own durations, also if a timeout cut them. The duration of a call
/// includes its waits.
#[test]
fn attempts_and_calls_have_their_own_durations() {
    let weather = published_as("weather");
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None))
        .with_attempt_timeout(SECOND * 4);
    let op = |attempt: Attempt| async move {
        let (seconds, outcome) =
            [(9, Ok(())), (2, Err(Down(2))), (3, Ok(()))][attempt.number() as usize - 1];
        tokio::time::sleep(SECOND * seconds).await;
        outcome
    };
    let recorder = recorded(async {
        retry(op, policy, Never).on(&weather).await.unwrap();
        weather
            .call(
                async {
                    tokio::time::sleep(SECOND * 7).await;
                    Ok::<_, Down>(())
                },
                Always,
            )
            .await
            .unwrap();
    });
    let expected = all([
        ("resile_attempt_duration_seconds{outcome=failing}", "[2.0]"),
        ("resile_attempt_duration_seconds{outcome=ok}", "[3.0, 7.0]"),
        ("resile_attempt_duration_seconds{outcome=timeout}", "[4.0]"),
        ("resile_attempts_total{outcome=failing}", "1"),
        ("resile_attempts_total{outcome=ok}", "2"),
        ("resile_attempts_total{outcome=timeout}", "1"),
        ("resile_call_duration_seconds{outcome=ok}", "[11.0, 7.0]"),
        ("resile_calls_total{health=healthy,outcome=ok}", "2"),
        ("resile_retries_total{}", "2"),
        ("resile_wait_duration_seconds{before=retry}", "[1.0, 1.0]"),
    ]);
    assert_eq!(published(&recorder), expected);
}

/// A cut attempt has ended, no matter which timeout cut it.
#[test]
fn cut_attempts_are_published() {
    let weather = published_as("weather");
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let hangs = |_| std::future::pending::<Result<(), &str>>();
    let recorder = recorded(async {
        for policy in [policy.with_attempt_timeout(SECOND), policy.with_total_timeout(SECOND)] {
            retry(hangs, policy, Never).on(&weather).await.unwrap_err();
        }
    });
    let published = published(&recorder);
    assert_eq!(published["resile_attempts_total{outcome=timeout}"], "3");
    assert_eq!(published["resile_calls_total{health=failing,outcome=attempts}"], "1");
    assert_eq!(published["resile_calls_total{health=failing,outcome=deadline}"], "1");
}

/// The deadline cuts the slowest attempts, so the histogram must have them too.
#[test]
fn attempts_that_a_deadline_cuts_have_a_duration() {
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(Always);
    let hangs = |_| std::future::pending::<Result<(), &str>>();
    let silent = |_| async { Ok::<_, &str>(stream::pending::<Result<u32, &str>>()) };
    let flowing =
        |_| async { Ok::<_, &str>(stream::iter([Ok::<_, &str>(1)]).chain(stream::pending())) };
    let durations = |call: &mut dyn FnMut()
        -> futures_util::future::LocalBoxFuture<'static, ()>| {
        let mut published = published(&recorded(call()));
        let attempts = published.remove("resile_attempts_total{outcome=timeout}");
        let took = published.remove("resile_attempt_duration_seconds{outcome=timeout}");
        (attempts.unwrap(), took.unwrap_or_default())
    };
    let one = ("1".to_owned(), "[1.0]".to_owned());
    let total = policy.with_total_timeout(SECOND);
    for policy in [
        policy.with_attempts(1).with_attempt_timeout(SECOND),
        total,
        total.with_attempt_timeout(5 * SECOND),
        policy.shortened_to(SECOND),
    ] {
        let retried = durations(&mut || {
            async move {
                retry(hangs, policy, Never).on(&WEATHER).await.unwrap_err();
            }
            .boxed_local()
        });
        assert_eq!(retried, one, "{policy:?}");
        let opened = durations(&mut || {
            async move {
                let items = retry_stream(silent, policy, Never).on(&WEATHER);
                items.try_collect::<Vec<_>>().await.unwrap_err();
            }
            .boxed_local()
        });
        assert_eq!(opened, one, "{policy:?}");
    }
    let called = durations(&mut || {
        async {
            let call = WEATHER.call(std::future::pending::<Result<(), &str>>(), Always);
            call.with_total_timeout(SECOND).await.unwrap_err();
        }
        .boxed_local()
    });
    assert_eq!(called, one);
    // Two attempts in flight at the deadline are one that ended, which is the longest.
    let hedged = durations(&mut || {
        async move {
            let policy = HEDGED.with_total_timeout(SECOND);
            hedge(hangs, policy, Never).on(&WEATHER).await.unwrap_err();
        }
        .boxed_local()
    });
    assert_eq!(hedged, one);
    let whole = durations(&mut || {
        async move {
            let items = retry_stream(flowing, policy, Never).on(&WEATHER);
            items.with_whole_timeout(SECOND).try_collect::<Vec<_>>().await.unwrap_err();
        }
        .boxed_local()
    });
    assert_eq!(whole, one);
}

/// Somebody must find out the outcome of such a request. A call within a call counts once.
#[test]
fn calls_in_doubt_are_counted() {
    let weather = published_as("weather");
    let not_again = Verdict::transient().not_again();
    let stated = (move |_: &Down| not_again).cut_is(not_again);
    let order = RetryPolicy::new().with_classifier(&stated as &dyn Classify<Down>);
    let outer = RetryPolicy::new().with_classifier(|end: &GaveUp<Down>| end.verdict());
    let down = |_| std::future::ready(Err::<(), _>(Down(1)));
    let recorder = recorded(async {
        retry(down, RetryPolicy::new(), Never).on(&weather).await.unwrap_err();
        retry(down, order, Never).on(&weather).await.unwrap_err();
        let within = |_| retry(down, order, Never).on(&weather);
        let end = retry(within, outer, Never).on(&weather).await.unwrap_err();
        assert!(end.is_in_doubt());
        // The token drops an order in flight.
        let token = CancellationToken::new();
        let dropped = async |_| {
            token.cancel();
            std::future::pending::<Result<(), Down>>().await
        };
        assert!(retry(dropped, order, &token).on(&weather).await.unwrap_err().is_in_doubt());
    });
    let published = published(&recorder);
    assert_eq!(published["resile_calls_in_doubt_total{}"], "3");
    assert_eq!(published["resile_calls_total{health=failing,outcome=fatal}"], "2");
}

/// The release makes a call wait several times. The counter counts it once, as the log does.
/// A dropped call is one call, and in doubt if its request must not be sent again.
#[test]
fn calls_that_the_program_drops_are_counted() {
    let weather = published_as("weather");
    let recorder = recorded(async {
        for verdict in [Verdict::transient(), Verdict::transient().not_again()] {
            let policy = RetryPolicy::new().with_classifier(Always.cut_is(verdict));
            let hang = |_| std::future::pending::<Result<(), Down>>();
            let call = retry(hang, policy, Never).on(&weather);
            tokio::time::timeout(SECOND, call).await.unwrap_err();
        }
    });
    let mut published = published(&recorder);
    published.retain(|series, _| series.contains("_call"));
    let expected = [
        ("resile_call_duration_seconds{outcome=dropped}", "[1.0, 1.0]"),
        ("resile_calls_in_doubt_total{}", "1"),
        ("resile_calls_total{health=unknown,outcome=dropped}", "2"),
    ];
    assert_eq!(published, all(expected));
}

/// Each of these calls asks about sixteen times during the release. It waits once.
#[test]
fn a_release_counts_no_waits() {
    let weather = published_as("weather").with_cooldown(Cooldown::new()).with_seed(1);
    let recorder = recorded(async {
        weather.hold(SECOND * 20);
        let call = || retry(|_| async { Ok::<_, Down>(()) }, RetryPolicy::new(), Never);
        let calls = (0..40).map(|_| call().on(&weather));
        futures_util::future::join_all(calls).await;
    });
    let published = published(&recorder);
    assert_eq!(published["resile_held_total{by=cooldown}"], "40");
    let waits = published["resile_wait_duration_seconds{before=cooldown}"].split(", ").count();
    assert_eq!(waits, 40);
}

#[test]
fn holds_are_published() {
    let cooldown = Cooldown::new().with_jitter(0.0);
    let weather = published_as("weather").with_cooldown(cooldown).with_bulkhead(Bulkhead::new(1));
    let recorder = recorded(async {
        weather.hold(SECOND * 2);
        let call =
            || retry(|_| async { Ok::<_, Down>(()) }, RetryPolicy::new(), Never).on(&weather);
        call().await.unwrap();
        let permit = weather.try_admit().unwrap();
        tokio::join!(call(), async { drop(permit) }).0.unwrap();
    });
    let published = published(&recorder);
    assert_eq!(published["resile_held_total{by=cooldown}"], "1");
    assert_eq!(published["resile_held_total{by=bulkhead}"], "1");
    assert_eq!(published["resile_wait_duration_seconds{before=cooldown}"], "[2.0]");
    assert_eq!(published["resile_call_duration_seconds{outcome=ok}"], "[2.0, 0.0]");
    assert_eq!(published["resile_bulkhead_in_flight{}"], "0");
    assert_eq!(published["resile_bulkhead_waiting{}"], "0");
}

#[test]
fn a_throttle_and_a_cut_are_published() {
    let weather = published_as("weather").with_throttle(Throttle::new()).with_seed(1);
    let weather = weather.with_bulkhead(Bulkhead::learned(50));
    let recorder = recorded(async {
        let busy = |_: &Down| Verdict::throttled();
        for _ in 0..200 {
            tokio::time::sleep(SECOND / 100).await;
            let _ = weather.call(async { Err::<(), _>(Down(1)) }, busy).await;
        }
    });
    let published = published(&recorder);
    let share: f64 = published["resile_throttle_refused_share{}"].parse().unwrap();
    assert!((0.85..=0.9).contains(&share), "{share}");
    assert_eq!(published["resile_limiting{by=throttle}"], "1");
    assert!(published["resile_calls_total{health=unknown,outcome=throttled}"].len() == 3);
}

#[test]
fn a_quota_publishes_its_levels_and_its_tokens() {
    let rate = Rate::per_second(1_000).with_burst(200);
    let quota = Quota::new().with_requests(Rate::per_second(10)).with_tokens(rate);
    let weather = published_as("weather").with_quota(quota.with_concurrency(3));
    let recorder = recorded(async {
        let target = weather.at_cost(Cost::input(100).with_max_output(50));
        let ask = |_| async {
            quota::record(Usage::new().with_input(100).with_output(20));
            Ok::<_, Down>(())
        };
        retry(ask, RetryPolicy::new(), Never).on(target).await.unwrap();
        // 80 tokens are left. The second call waits for 70 more.
        let refused = |_: &Down| Verdict::throttled();
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(refused);
        retry(|_| async { Err::<(), _>(Down(1)) }, policy, Never).on(target).await.unwrap_err();
    });
    let published = published(&recorder);
    let of_the_quota: BTreeMap<_, _> =
        published.into_iter().filter(|(name, _)| name.contains("quota")).collect();
    let expected = all([
        ("resile_held_total{by=quota}", "1"),
        ("resile_limiting{by=quota}", "1"),
        ("resile_quota_in_flight{}", "0"),
        // The first refusal leaves nothing for a sixteenth of the second, and takes the burst. The
        // tokens have none, so their limit is 150 per 10 s lower.
        ("resile_quota_level{dimension=requests}", "-1"),
        ("resile_quota_level{dimension=tokens}", "0"),
        ("resile_quota_refused_total{}", "1"),
        ("resile_quota_reserved{dimension=output}", "0"),
        ("resile_quota_tokens_total{event=reserved}", "300"),
        ("resile_quota_tokens_total{event=returned}", "30"),
        ("resile_quota_used_share{dimension=requests}", "1"),
        ("resile_quota_used_share{dimension=tokens}", "0.985"),
        ("resile_quota_waiting{}", "0"),
        ("resile_wait_duration_seconds{before=quota}", "[0.07]"),
    ]);
    assert_eq!(of_the_quota, expected);
}

#[test]
fn a_quota_publishes_what_it_has_learned() {
    let quota = Quota::new().with_requests(Rate::per_minute(60));
    let weather = published_as("weather").with_quota(quota);
    let limit = Limit::of(15, Some(SECOND * 60));
    let recorder = recorded(async {
        let limits = Limits::new().with(Dimension::Requests, limit);
        weather.try_admit().unwrap().learn(limits);
    });
    let published = published(&recorder);
    let name = "resile_quota_findings_total{by=reported,dimension=requests}";
    assert_eq!(published[name], "1", "{published:?}");
    assert_eq!(published["resile_quota_used_share{dimension=requests}"], "0.25");
}

#[test]
fn a_quota_in_shadow_mode_publishes_what_it_would_have_done() {
    let quota = Quota::new().with_requests(Rate::per_minute(60).with_burst(1)).with_queue(1);
    let weather = published_as("weather").with_quota(quota.with_shadow(true));
    let recorder = recorded(async {
        for _ in 0..4 {
            let call = || async { Ok::<_, Down>(()) };
            retry(|_| call(), RetryPolicy::new(), Never).on(&weather).await.unwrap();
        }
    });
    let published = published(&recorder);
    for (event, count) in [("attempted", "4"), ("delayed", "1"), ("refused", "2")] {
        assert_eq!(published[&format!("resile_quota_shadow_total{{event={event}}}")], count);
    }
}

#[test]
fn a_refusal_of_a_call_within_a_call_is_published_once() {
    let quota = Quota::new().with_requests(Rate::per_minute(60));
    let weather = published_as("weather").with_quota(quota);
    let refused = |_: &Down| Verdict::throttled();
    let passed = |gave_up: &resile::GaveUp<Down>| gave_up.verdict();
    let recorder = recorded(async {
        let inner = || async { weather.call(async { Err::<(), _>(Down(1)) }, refused).await };
        let policy = RetryPolicy::none().with_classifier(passed);
        retry(|_| inner(), policy, Never).on(&weather).await
    });
    let published = published(&recorder);
    assert_eq!(published["resile_quota_refused_total{}"], "1");
}

#[test]
fn a_breaker_publishes_its_transitions() {
    let open = Backoff::fixed(SECOND * 30).with_jitter(Jitter::None);
    let breaker = Breaker::new().with_consecutive(1).with_open_time(open).with_probes(1.0, 1);
    let weather = published_as("weather").with_breaker(breaker);
    let gauge = "resile_breaker_open{}";
    let opens = recorded(async { weather.try_admit().unwrap().settle(&Verdict::transient()) });
    let published_open = published(&opens);
    assert_eq!(published_open[gauge], "1");
    assert_eq!(published_open["resile_breaker_transitions_total{to=open}"], "1");

    let closes = recorded(async {
        // The paused clock of this runtime begins later than the other.
        tokio::time::advance(SECOND * 60).await;
        drop(weather.try_admit().unwrap());
    });
    let half_open = published(&closes);
    assert_eq!(
        (&*half_open[gauge], &*half_open["resile_breaker_transitions_total{to=half_open}"]),
        ("1", "1")
    );
    let isolated = recorded(async {
        weather.reset();
        drop(weather.isolate());
    });
    let isolated = published(&isolated);
    assert_eq!(isolated[gauge], "0");
    assert_eq!(isolated["resile_breaker_transitions_total{to=closed}"], "2");
    assert_eq!(isolated["resile_breaker_transitions_total{to=isolated}"], "1");
}

/// Gauges exist from the first call and are updated after each success. Updates on failures alone
/// would keep the worst values.
#[test]
fn gauges_exist_from_the_first_call_and_are_updated_by_success() {
    let budget = Budget::new().with_capacity(3).with_deposit(1.0);
    let weather = published_as("weather")
        .with_budget(budget)
        .with_breaker(Breaker::new())
        .with_bulkhead(Bulkhead::new(2));
    let gauges = |calls: &'static [Step]| {
        let script = Script::new(calls);
        let recorder = recorded(async {
            retry(|_| script.play(), THRICE, Never).on(&weather).await.unwrap();
        });
        let mut published = published(&recorder);
        published.retain(|series, _| series.contains("{}"));
        published
    };
    let expected = all([
        ("resile_breaker_open{}", "0"),
        ("resile_budget_tokens{}", "3"),
        ("resile_bulkhead_in_flight{}", "0"),
        ("resile_bulkhead_limit{}", "2"),
        ("resile_bulkhead_waiting{}", "0"),
    ]);
    assert_eq!(gauges(&[Step::Succeed]), expected);
    // Two retries spend two tokens, and the success deposits one.
    let after = gauges(&[Step::Fail, Step::Fail, Step::Succeed]);
    assert_eq!(after["resile_budget_tokens{}"], "2");
    assert_eq!(gauges(&[Step::Succeed]), expected);
}

/// Attempts that start, lose and win, and a hedge that the budget denies.
#[test]
fn hedges_are_published() {
    let weather = published_as("weather").with_budget(Budget::new().with_capacity(2));
    let op = |attempt: Attempt| async move {
        tokio::time::sleep(if attempt.number() == 2 { SECOND } else { SECOND * 9 }).await;
        Ok::<_, Down>(())
    };
    let recorder = recorded(async {
        let policy = HedgePolicy::new().with_delay(SECOND / 2).with_hedges(3);
        hedge(op, policy, Never).on(&weather).await.unwrap();
    });
    let published = published(&recorder);
    let hedges: Vec<_> =
        published.iter().filter(|(series, _)| series.starts_with("resile_hedges")).collect();
    // The second attempt wins after 1.5 s. The third started and lost. The fourth would start at
    // that same instant.
    let hedges: Vec<_> =
        hedges.into_iter().map(|(series, count)| format!("{series} {count}")).collect();
    assert_eq!(
        hedges,
        [
            "resile_hedges_total{event=lost} 1",
            "resile_hedges_total{event=started} 2",
            "resile_hedges_total{event=won} 1"
        ]
    );
    assert_eq!(published["resile_attempts_total{outcome=ok}"], "1");
    assert_eq!(published["resile_attempt_duration_seconds{outcome=ok}"], "[1.0]");
    assert_eq!(published["resile_call_duration_seconds{outcome=ok}"], "[1.5]");
    let denied = recorded(async {
        hedge(op, HedgePolicy::new().with_delay(SECOND), Never).on(&weather).await.unwrap();
    });
    assert_eq!(self::published(&denied)["resile_hedges_total{event=denied}"], "1");
}

/// A name may be made at run time, and `Metrics` works together with `Log`. A call on no upstream
/// publishes nothing.
#[test]
fn series_have_the_name_of_the_upstream() {
    let host = format!("host {}", 7);
    let upstream = Upstream::named(&*host).with_observer(&(Log, Metrics));
    let call = async {
        upstream.call(async { Ok::<_, Down>(()) }, Always).await.unwrap();
        retry(|_| async { Ok::<_, Down>(()) }, THRICE, Never).await.unwrap();
        retry(|_| async { Ok::<_, Down>(()) }, THRICE, Never).on("a name").await.unwrap();
    };
    assert_eq!(counted(call), ["host 7 attempts ok 1", "host 7 calls ok 1"]);
}

static WEATHER: Upstream = published_as("weather");
static WIND: Upstream = published_as("wind");
static RAIN: Upstream = published_as("rain");
static THRICE: RetryPolicy = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::none());
static HEDGED: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(50));

/// Each attempt ends in a later poll than it began, and the third succeeds.
static THIRD: &[Step] = &[Step::Pend(1, false), Step::Pend(1, false), Step::Pend(1, true)];

/// Returns the additions of `call` to the two series, such as "weather calls ok 1".
fn counted<F: Future>(call: F) -> Vec<String> {
    let recorder = recorded(call);
    let mut counted = Vec::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let key = key.key();
        let label =
            |name| key.labels().find(|label| label.key() == name).map_or("", |label| label.value());
        let series = key.name().trim_start_matches("resile_").trim_end_matches("_total");
        if let (DebugValue::Counter(count @ 1..), "calls" | "attempts") = (value, series) {
            counted.push(format!("{} {series} {} {count}", label("upstream"), label("outcome")));
        }
    }
    counted.sort();
    counted
}

#[test]
fn a_retry_of_hedges_is_one_call() {
    let script = Script::new(THIRD);
    let hedged = |_| hedge(|_| script.play(), &HEDGED, Never).on(&WEATHER);
    let call = retry(hedged, &THRICE, Never).on(&WEATHER);
    assert_eq!(
        counted(call),
        ["weather attempts failing 2", "weather attempts ok 1", "weather calls ok 1"]
    );
    let script = Script::new(&[Step::Pend(1, false)]);
    let hedged = |_| hedge(|_| script.play(), &HEDGED, Never).on(&WEATHER);
    let call = retry(hedged, &THRICE, Never).on(&WEATHER);
    assert_eq!(counted(call), ["weather attempts failing 3", "weather calls attempts 1"]);
}

/// The first retry gives up while the second is in flight. The second one wins.
#[test]
fn a_hedge_of_retries_is_one_call() {
    let twice = THRICE
        .with_attempts(2)
        .with_backoff(Backoff::fixed(Duration::from_millis(60)).with_jitter(Jitter::None));
    let op = |hedge: Attempt| async move {
        if hedge.is_first() {
            return Err(Down(1));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    };
    let retried = |hedge| retry(move |_| op(hedge), &twice, Never).on(&WEATHER);
    let call = hedge(retried, &HEDGED, Never).on(&WEATHER);
    assert_eq!(
        counted(call),
        ["weather attempts failing 1", "weather attempts ok 1", "weather calls ok 1"]
    );
    let retried = |_| retry(|_| async { Err::<(), _>(Down(1)) }, &THRICE, Never).on(&WEATHER);
    let call = hedge(retried, &HEDGED, Never).on(&WEATHER);
    assert_eq!(counted(call), ["weather attempts failing 1", "weather calls attempts 1"]);
}

/// The inner retry succeeds on its third attempt. The outer retry fails once after it, then
/// succeeds.
#[test]
fn a_retry_within_a_retry_on_the_same_upstream_is_part_of_it() {
    let later = |attempt: Attempt| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if attempt.is_first() { Err("the rest failed") } else { Ok(()) }
    };
    let expected = ["weather attempts failing 1", "weather attempts ok 1", "weather calls ok 1"];

    let inner =
        |script| async move { retry(|_| Script::play(script), &THRICE, Never).on(&WEATHER).await };
    let script = Script::new(THIRD);
    let outer = |attempt| {
        let inner = inner(&script);
        async move {
            inner.await.map_err(|_| "gave up")?;
            later(attempt).await
        }
    };
    assert_eq!(counted(retry(outer, &THRICE, Never).on(&WEATHER)), expected);

    // A run by `attempt` around a run by `next`.
    let script = Script::new(THIRD);
    let by_hand = async || {
        let mut run = Run::new(&THRICE, Never).on(&WEATHER);
        loop {
            run.next().await.map_err(|_| "gave up")?;
            match script.play().await {
                Ok(value) => return Ok::<_, &str>(run.succeeded(value)),
                Err(error) => run.failed(error).map_err(|_| "gave up")?,
            }
        }
    };
    let call = async {
        let mut run = Run::new(&THRICE, Never).on(&WEATHER);
        loop {
            let attempt = Attempt::new(run.attempts() + 1);
            let operation = async {
                by_hand().await?;
                later(attempt).await
            };
            if run.attempt(operation).await.unwrap().is_some() {
                break;
            }
        }
    };
    assert_eq!(counted(call), expected);
}

#[test]
fn a_stream_is_one_call_and_calls_within_it_are_part_of_it() {
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    let within = || retry(|_| script.play(), &THRICE, Never).on(&WEATHER);
    let open = |attempt: Attempt| async move {
        within().await.map_err(|_| "not opened")?;
        let items = stream::iter([Ok(1), if attempt.is_first() { Err("broken") } else { Ok(2) }]);
        Ok(Box::pin(
            items.then(move |item| async move { within().await.map_err(|_| "not read").and(item) }),
        ))
    };
    let call =
        retry_stream(open, &THRICE, Never).with_resumption(|_| Resumption::Restart(0)).on(&WEATHER);
    let expected = ["weather attempts failing 1", "weather attempts ok 1", "weather calls ok 1"];
    assert_eq!(
        counted(call.try_collect::<Vec<_>>().map(|items| assert_eq!(items.unwrap(), [1, 0, 1, 2]))),
        expected
    );
}

#[test]
fn a_fallback_over_retries_is_one_call() {
    static MODELS: [&str; 3] = ["large", "medium", "small"];
    static ELSEWHERE: FallbackPolicy = FallbackPolicy::new();
    let ask = |model: Alternative<'static, &'static str>| {
        let answers = model.is_last();
        let op = move |_| async move {
            tokio::task::yield_now().await;
            if answers { Ok(()) } else { Err("down") }
        };
        async move { retry(op, &THRICE, Never).on(&WEATHER).await }
    };
    let call = |models| fallback(models, ask, &ELSEWHERE, Never).on(&WEATHER);
    // A fallback on its own has no attempts, so the attempts of the retries count.
    let expected = ["weather attempts failing 6", "weather attempts ok 1", "weather calls ok 1"];
    assert_eq!(counted(call(&MODELS)), expected);
    assert_eq!(counted(call(&[])), ["weather calls alternatives 1"]);
    let around = |_| call(&MODELS);
    let expected = ["weather attempts ok 1", "weather calls ok 1"];
    assert_eq!(counted(retry(around, &THRICE, Never).on(&WEATHER)), expected);
}

#[test]
fn calls_on_another_upstream_or_side_by_side_count_separately() {
    let script = Script::new(THIRD);
    let inner = |_| retry(|_| script.play(), &THRICE, Never).on(&WIND);
    let call = retry(inner, &THRICE, Never).on(&WEATHER);
    let outer = |name: &str| [format!("{name} attempts ok 1"), format!("{name} calls ok 1")];
    let inner =
        ["wind attempts failing 2", "wind attempts ok 1", "wind calls ok 1"].map(str::to_owned);
    assert_eq!(counted(call), [&outer("weather")[..], &inner].concat());

    // The call in the middle is on another upstream, so it is not part of them.
    let script = Script::new(THIRD);
    let inner = || retry(|_| script.play(), &THRICE, Never).on(&WEATHER);
    let between = |_| async { retry(|_| inner(), &THRICE, Never).on(&WIND).await };
    let call = retry(between, &THRICE, Never).on(&WEATHER);
    assert_eq!(counted(call), [outer("weather"), outer("wind")].concat());

    // Two upstreams around one call: the inner call is part of every call on its own upstream.
    let script = Script::new(THIRD);
    let inner = || retry(|_| script.play(), &THRICE, Never).on(&WEATHER);
    let between = |_| async { retry(|_| inner(), &THRICE, Never).on(&RAIN).await };
    let call = WEATHER.call(retry(between, &THRICE, Never).on(&WIND), Always);
    assert_eq!(counted(call), [outer("rain"), outer("weather"), outer("wind")].concat());

    let (first, second) = (Script::new(THIRD), Script::new(THIRD));
    let side_by_side = async {
        let call = |script| async move {
            retry(|_| Script::play(script), &THRICE, Never).on(&WEATHER).await
        };
        tokio::join!(call(&first), call(&second))
    };
    assert_eq!(
        counted(side_by_side),
        ["weather attempts failing 4", "weather attempts ok 2", "weather calls ok 2"]
    );
}

/// A call in its own task, a call outside an attempt, and a run that goes on after its end count
/// separately, as documented.
#[test]
fn a_call_outside_an_attempt_counts_separately() {
    let inner = || retry(|_| async { Ok::<_, Down>(()) }, &THRICE, Never).on(&WEATHER);
    let call =
        retry(|_| async { tokio::spawn(inner()).await.unwrap() }, &THRICE, Never).on(&WEATHER);
    assert_eq!(counted(call), ["weather attempts ok 2", "weather calls ok 2"]);
    let by_hand = async {
        let mut run = Run::<Down, _, _>::new(&THRICE, Never).on(&WEATHER);
        run.next().await.unwrap();
        inner().await.unwrap();
        let () = run.succeeded(());
    };
    assert_eq!(counted(by_hand), ["weather attempts ok 2", "weather calls ok 2"]);
    let after_its_end = async {
        let policy = RetryPolicy::none();
        let mut run = Run::new(policy, Never).on(&WEATHER);
        run.next().await.unwrap();
        run.failed(Down(1)).unwrap_err();
        // No attempt is left, so the run ends again without a new attempt.
        run.next().await.unwrap_err();
    };
    // The second end has no verdict, and so another health.
    let ends =
        ["weather attempts failing 1", "weather calls attempts 1", "weather calls attempts 1"];
    assert_eq!(counted(after_its_end), ends);
}

#[test]
fn a_panic_in_an_attempt_does_not_affect_the_next_call() {
    let panics = async {
        let call = retry(|_| async { panic!("in an attempt") as Result<(), Down> }, &THRICE, Never);
        tokio::spawn(call.on(&WEATHER)).await.unwrap_err();
        retry(|_| async { Ok::<_, Down>(()) }, &THRICE, Never).on(&WEATHER).await.unwrap();
    };
    assert_eq!(counted(panics), ["weather attempts ok 1", "weather calls ok 1"]);
}

#[test]
fn a_run_reports_its_success_once() {
    let weather =
        published_as("weather").with_budget(Budget::new().with_capacity(5).with_deposit(1.0));
    let budget = weather.budget().unwrap();
    while budget.withdraw() {}
    let call = async {
        let mut run = Run::new(&THRICE, Never).on(&weather);
        let value = run.attempt(async { Ok::<_, Down>(7) }).await.unwrap().unwrap();
        assert_eq!(run.succeeded(value), 7);
    };
    assert_eq!(counted(call), ["weather attempts ok 1", "weather calls ok 1"]);
    assert_eq!(budget.available(), 1);
}

/// A stream that ends too early is no timeout.
#[test]
fn a_stream_that_ends_too_early_counts_as_truncated() {
    static WEATHER: Upstream = published_as("weather");
    let recorder = recorded(async {
        let open = |_: Attempt| async { Ok::<_, Down>(stream::empty::<Result<u32, Down>>()) };
        let policy = RetryPolicy::new().with_attempts(1);
        let call = retry_stream(open, policy, Never).with_required_end().on(&WEATHER);
        std::pin::pin!(call).try_next().await.unwrap_err();
    });
    let published = published(&recorder);
    let attempts: Vec<_> =
        published.iter().filter(|(name, _)| name.starts_with("resile_attempts_total")).collect();
    let truncated = ("resile_attempts_total{outcome=truncated}".to_owned(), "1".to_owned());
    assert_eq!(attempts, [(&truncated.0, &truncated.1)]);
}

#[test]
fn a_fleet_is_published_with_each_event() {
    let weather = published_as("weather");
    let recorder = recorded(async {
        let shared = weather.share().unwrap();
        shared.report(State::Joining, 1);
        shared.answered();
        shared.report(State::Shared, 3);
        shared.report(State::Shared, 4);
        tokio::time::advance(SECOND * 7).await;
        shared.report(State::Coasting, 4);
        shared.report(State::Safe, 4);
        shared.report(State::Learning, 5);
        shared.report(State::Safe, 6);
        std::mem::forget(shared); // it has not left
    });
    let series = |to| format!("resile_fleet_transitions_total{{to={to}}}");
    let published = published(&recorder);
    let count = |to| published.get(&series(to)).map(String::as_str);
    let counts = ["joining", "shared", "coasting", "safe", "learning", "left"].map(count);
    assert_eq!(counts, [None, Some("1"), Some("1"), Some("2"), Some("1"), None]);
    let gauge = |name: &str| published[&format!("resile_fleet_{name}{{}}")].as_str();
    let gauges = ["members", "shared", "age_seconds"].map(gauge);
    assert_eq!(gauges, ["6", "0", "7"]);
    assert_eq!(published.len(), 7);
}

#[test]
fn a_call_shows_the_state_of_the_fleet() {
    let weather = published_as("weather");
    let recorder = recorded(async {
        let shared = weather.share().unwrap();
        weather.call(async { Ok::<_, Down>(()) }, Always).await.unwrap();
        assert_eq!(weather.fleet().unwrap().age, None);
        shared.report(State::Shared, 3);
        shared.report(State::Shared, 2);
        weather.call(async { Ok::<_, Down>(()) }, Always).await.unwrap();
        std::mem::forget(shared); // it has not left
    });
    let published = published(&recorder);
    assert_eq!(published["resile_fleet_members{}"], "2");
    assert_eq!(published["resile_fleet_shared{}"], "1");
    assert!(!published.contains_key("resile_fleet_age_seconds{}"), "no answer has an age");
}

/// A gauge cannot be taken back, so it must not have the last number of a process that has left.
#[test]
fn a_process_that_has_left_its_fleet_is_published() {
    let weather = published_as("weather");
    let recorder = recorded(async {
        let shared = weather.share().unwrap();
        shared.answered();
        shared.report(State::Shared, 3);
        drop(shared);
        weather.call(async { Ok::<_, Down>(()) }, Always).await.unwrap();
    });
    let published = published(&recorder);
    let series = ["members", "shared", "age_seconds", "transitions_total"];
    let values = series.map(|name| {
        let labels = if name == "transitions_total" { "to=left" } else { "" };
        published[&format!("resile_fleet_{name}{{{labels}}}")].as_str()
    });
    assert_eq!(values, ["NaN", "0", "NaN", "1"]);
}
