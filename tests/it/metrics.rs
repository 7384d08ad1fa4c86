//! What is published, under which names.

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use resile::observe::Metrics;
use resile::stream::Mend;
use resile::{
    Alternative, Attempt, Backoff, Breaker, Budget, Cooldown, FallbackPolicy, HedgePolicy, Jitter, ManualTimer, Never,
    RetryPolicy, Verdict, fallback, hedge, retry, retry_stream,
};
use std::collections::BTreeMap;
use std::time::Duration;

use super::script::{Down, Script, Step};

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

const WEATHER: Metrics = Metrics::new("weather");
static THRICE: RetryPolicy = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::none());
static HEDGED: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(50));

/// Ends in another turn than it began, and succeeds the third time.
static THIRD: &[Step] = &[Step::Pend(1, false), Step::Pend(1, false), Step::Pend(1, true)];

/// What `call` adds to the two series, as in "weather calls ok 1".
fn counted<F: Future>(call: F) -> Vec<String> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(call);
    });
    let mut counted = Vec::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let key = key.key();
        let label = |name| key.labels().find(|label| label.key() == name).map_or("", |label| label.value());
        let series = key.name().trim_start_matches("resile_").trim_end_matches("_total");
        if let (DebugValue::Counter(count), "calls" | "attempts") = (value, series) {
            counted.push(format!("{} {series} {} {count}", label("name"), label("outcome")));
        }
    }
    counted.sort();
    counted
}

#[test]
fn a_retry_of_hedges_is_one_call() {
    let script = Script::new(THIRD);
    let hedged = |_| hedge(|_| script.play(), &HEDGED, Never).with_observer(WEATHER);
    let call = retry(hedged, &THRICE, Never).with_observer(WEATHER);
    assert_eq!(counted(call), ["weather attempts ok 1", "weather attempts transient 2", "weather calls ok 1"]);
    let script = Script::new(&[Step::Pend(1, false)]);
    let hedged = |_| hedge(|_| script.play(), &HEDGED, Never).with_observer(WEATHER);
    let call = retry(hedged, &THRICE, Never).with_observer(WEATHER);
    assert_eq!(counted(call), ["weather attempts transient 3", "weather calls attempts 1"]);
}

/// The first retry gives up while the second, which joined it, is in flight; the second wins.
#[test]
fn a_hedge_of_retries_is_one_call() {
    let twice =
        THRICE.with_attempts(2).with_backoff(Backoff::fixed(Duration::from_millis(60)).with_jitter(Jitter::None));
    let op = |hedge: Attempt| async move {
        if hedge.is_first() {
            return Err(Down(1));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    };
    let retried = |hedge| retry(move |_| op(hedge), &twice, Never).with_observer(WEATHER);
    let call = hedge(retried, &HEDGED, Never).with_observer(WEATHER);
    assert_eq!(counted(call), ["weather attempts ok 1", "weather attempts transient 1", "weather calls ok 1"]);
    let retried = |_| retry(|_| async { Err::<(), _>(Down(1)) }, &THRICE, Never).with_observer(WEATHER);
    let call = hedge(retried, &HEDGED, Never).with_observer(WEATHER);
    assert_eq!(counted(call), ["weather attempts transient 1", "weather calls attempts 1"]);
}

/// The inner one succeeds on its third attempt; the outer one fails once after it, then succeeds.
#[test]
fn a_retry_within_a_retry_is_part_of_it() {
    let later = |attempt: Attempt| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if attempt.is_first() { Err("the rest failed") } else { Ok(()) }
    };
    let expected = ["weather attempts ok 1", "weather attempts transient 1", "weather calls ok 1"];

    let inner = |script| async move { retry(|_| Script::play(script), &THRICE, Never).with_observer(WEATHER).await };
    let script = Script::new(THIRD);
    let outer = |attempt| {
        let inner = inner(&script);
        async move {
            inner.await.map_err(|_| "gave up")?;
            later(attempt).await
        }
    };
    assert_eq!(counted(retry(outer, &THRICE, Never).with_observer(WEATHER)), expected);

    // A run by `attempt` around a run by hand.
    let script = Script::new(THIRD);
    let by_hand = async || {
        let mut run = THRICE.start(Never).with_observer(WEATHER);
        loop {
            match script.play().await {
                Ok(value) => return Ok::<_, &str>(run.success(value)),
                Err(error) => run.again(error).await.map_err(|_| "gave up")?,
            }
        }
    };
    let call = async {
        let mut run = THRICE.start(Never).with_observer(WEATHER);
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
fn a_stream_is_one_call_and_what_runs_within_it_is_part_of_it() {
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    let within = || retry(|_| script.play(), &THRICE, Never).with_observer(WEATHER);
    let open = |attempt: Attempt| async move {
        within().await.map_err(|_| "not opened")?;
        let items = stream::iter([Ok(1), if attempt.is_first() { Err("broken") } else { Ok(2) }]);
        Ok(Box::pin(items.then(move |item| async move { within().await.map_err(|_| "not read").and(item) })))
    };
    let call = retry_stream(open, &THRICE, Never).with_mend(|_| Mend::Restart(0)).with_observer(WEATHER);
    let expected = ["weather attempts ok 1", "weather attempts transient 1", "weather calls ok 1"];
    assert_eq!(counted(call.try_collect::<Vec<_>>().map(|items| assert_eq!(items.unwrap(), [1, 0, 1, 2]))), expected);
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
        async move { retry(op, &THRICE, Never).with_observer(WEATHER).await }
    };
    let call = |models| fallback(models, ask, &ELSEWHERE, Never).with_observer(WEATHER);
    // It has no attempts, so those of the retries count.
    let expected = ["weather attempts ok 1", "weather attempts transient 6", "weather calls ok 1"];
    assert_eq!(counted(call(&MODELS)), expected);
    assert_eq!(counted(call(&[])), ["weather calls alternatives 1"]);
    let around = |_| call(&MODELS);
    let expected = ["weather attempts ok 1", "weather calls ok 1"];
    assert_eq!(counted(retry(around, &THRICE, Never).with_observer(WEATHER)), expected);
}

#[test]
fn calls_of_another_name_or_beside_each_other_count_each() {
    let script = Script::new(THIRD);
    let inner = |_| retry(|_| script.play(), &THRICE, Never).with_observer(Metrics::new("wind"));
    let call = retry(inner, &THRICE, Never).with_observer((WEATHER, Metrics::new("rain")));
    let outer = |name: &str| [format!("{name} attempts ok 1"), format!("{name} calls ok 1")];
    let inner = ["wind attempts ok 1", "wind attempts transient 2", "wind calls ok 1"].map(str::to_owned);
    assert_eq!(counted(call), [&outer("rain")[..], &outer("weather"), &inner].concat());

    // The name that they share is not that of the call between them.
    let script = Script::new(THIRD);
    let inner = || retry(|_| script.play(), &THRICE, Never).with_observer(WEATHER);
    let between = |_| async { retry(|_| inner(), &THRICE, Never).with_observer(Metrics::new("wind")).await };
    let call = retry(between, &THRICE, Never).with_observer((Metrics::new("rain"), WEATHER));
    assert_eq!(counted(call), [outer("rain"), outer("weather"), outer("wind")].concat());

    let (first, second) = (Script::new(THIRD), Script::new(THIRD));
    let beside = async {
        let call = |script| async move { retry(|_| Script::play(script), &THRICE, Never).with_observer(WEATHER).await };
        tokio::join!(call(&first), call(&second))
    };
    assert_eq!(counted(beside), ["weather attempts ok 2", "weather attempts transient 4", "weather calls ok 2"]);
}

/// What is polled by itself, or in no attempt, is a call of its own, and so is a run that goes on after its end: as the
/// page says.
#[test]
fn what_is_not_polled_within_an_attempt_counts_by_itself() {
    let inner = || retry(|_| async { Ok::<_, Down>(()) }, &THRICE, Never).with_observer(WEATHER);
    let call = retry(|_| async { tokio::spawn(inner()).await.unwrap() }, &THRICE, Never).with_observer(WEATHER);
    assert_eq!(counted(call), ["weather attempts ok 2", "weather calls ok 2"]);
    let by_hand = async {
        let run = THRICE.start::<Down, _>(Never).with_observer(WEATHER);
        inner().await.unwrap();
        let () = run.success(());
    };
    assert_eq!(counted(by_hand), ["weather attempts ok 2", "weather calls ok 2"]);
    let after_its_end = async {
        let policy = RetryPolicy::none();
        let mut run = policy.start(Never).with_observer(WEATHER);
        run.again(Down(1)).await.unwrap_err();
        run.again(Down(2)).await.unwrap_err();
    };
    assert_eq!(counted(after_its_end), ["weather attempts transient 2", "weather calls attempts 2"]);
}

#[test]
fn a_panic_in_an_attempt_leaves_no_trace() {
    let panics = async {
        let call = retry(|_| async { panic!("in an attempt") as Result<(), Down> }, &THRICE, Never);
        tokio::spawn(call.with_observer(WEATHER)).await.unwrap_err();
        retry(|_| async { Ok::<_, Down>(()) }, &THRICE, Never).with_observer(WEATHER).await.unwrap();
    };
    assert_eq!(counted(panics), ["weather attempts ok 1", "weather calls ok 1"]);
}

#[test]
fn a_run_that_has_succeeded_succeeds_once() {
    let budget = Budget::new().with_capacity(5).with_deposit(1.0);
    while let Some(token) = budget.withdraw() {
        token.spend();
    }
    let call = async {
        let mut run = THRICE.start(Never).with_observer(WEATHER).with_budget(&budget);
        let value = run.attempt(async { Ok::<_, Down>(7) }).await.unwrap().unwrap();
        assert_eq!(run.success(value), 7);
    };
    assert_eq!(counted(call), ["weather attempts ok 1", "weather calls ok 1"]);
    assert_eq!(budget.available(), 1);
}
