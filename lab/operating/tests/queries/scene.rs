//! Calls that publish each series with each of its values.

use std::future::{pending, ready};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use resile::fleet::State;
use resile::observe::Metrics;
use resile::quota::{Cost, Dimension, Limit, Limits, Rate, Usage};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Health, HedgePolicy, Never, Quota,
    RetryPolicy, Throttle, Upstream, Verdict, hedge, retry,
};

const SECOND: Duration = Duration::from_secs(1);

/// Runs all calls and returns the metrics as Prometheus reads them.
pub(crate) fn text() -> String {
    text_of(async {
        calls().await;
        strains().await;
        hedges().await;
        Box::pin(limits()).await;
        breaker_and_fleet().await;
    })
}

/// Returns the metrics of an upstream that has collisions and refusals alone.
pub(crate) fn text_of_collisions() -> String {
    text_of(async { collisions(&upstream()).await })
}

fn text_of(calls: impl Future<Output = ()>) -> String {
    let durations = Matcher::Suffix("_duration_seconds".to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(durations, &[0.1, 1.0, 10.0])
        .unwrap()
        .build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(calls));
    recorder.handle().render()
}

fn upstream() -> Upstream {
    Upstream::new("weather").with_observer(&Metrics)
}

const POLICY: RetryPolicy = RetryPolicy::new();

async fn calls() {
    let upstream = upstream();
    let twice = |attempt: Attempt| ready(if attempt.is_first() { Err("down") } else { Ok(()) });
    retry(twice, POLICY, Never).on(&upstream).await.unwrap();
    retry(|_| retry(twice, POLICY, Never).on(&upstream), POLICY, Never)
        .on(&upstream)
        .await
        .unwrap();
    let hang = |_| pending::<Result<(), &str>>();
    let policy = POLICY.with_attempt_timeout(SECOND).with_total_timeout(SECOND * 10);
    retry(hang, policy, Never).on(&upstream).await.unwrap_err();
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    retry(hang, POLICY, token).on(&upstream).await.unwrap_err();
    let dropped = retry(hang, POLICY, Never).on(&upstream);
    tokio::time::timeout(SECOND, dropped).await.unwrap_err();
    let fatal = POLICY.with_classifier(|_: &&str| Verdict::fatal());
    retry(|_| ready(Err::<(), _>("404")), fatal, Never).on(&upstream).await.unwrap_err();
    collisions(&upstream).await;
}

/// Calls on a healthy upstream: some succeed after collisions, one has only collisions, and two end with a refusal.
async fn collisions(upstream: &Upstream) {
    let healthy = |verdict: Verdict| verdict.with_health(Health::Healthy);
    let collides =
        POLICY.with_attempts(4).with_classifier(move |_: &&str| healthy(Verdict::transient()));
    for successful in [1, 3, 4, 9] {
        let row = |attempt: Attempt| {
            ready(if attempt.number() < successful { Err("40001") } else { Ok(()) })
        };
        let _ = retry(row, collides, Never).on(upstream).await;
    }
    let refuses = POLICY.with_classifier(move |_: &&str| healthy(Verdict::fatal()));
    for _ in 0..2 {
        let poor = |_| ready(Err::<(), _>("poor"));
        retry(poor, refuses, Never).on(upstream).await.unwrap_err();
    }
}

/// Each part makes calls wait or refuses them.
async fn strains() {
    let call = async |upstream: &Upstream| {
        let fails = |attempt: Attempt| async move {
            tokio::time::sleep(SECOND).await;
            if attempt.is_first() { Err("busy") } else { Ok(()) }
        };
        let busy = |_: &&str| Verdict::throttled().after(SECOND);
        let policy = POLICY.with_classifier(busy).with_total_timeout(SECOND * 100);
        let calls = (retry(fails, policy, Never), retry(fails, policy, Never));
        let _ = tokio::join!(calls.0.on(upstream), calls.1.on(upstream));
    };
    call(&upstream().with_budget(Budget::new().with_capacity(0))).await;
    call(&upstream().with_cooldown(Cooldown::new())).await;
    call(&upstream().with_bulkhead(Bulkhead::new(1))).await;
    call(&upstream().with_quota(Quota::new().with_requests(Rate::per_second(1)))).await;
    call(&upstream().with_bulkhead(Bulkhead::learned(20))).await; // a refusal lowers its limit
    let overloaded = upstream().with_throttle(Throttle::new());
    while let Ok(admission) = overloaded.try_admit() {
        admission.settle(&Verdict::throttled());
    }
}

async fn hedges() {
    let policy = HedgePolicy::new().with_hedges(2).with_delay(SECOND);
    for fastest in 1..=3 {
        let race = |attempt: Attempt| async move {
            let is_fast = attempt.number() == fastest;
            tokio::time::sleep(SECOND * if is_fast { 3 } else { 9 }).await;
            Ok::<_, &str>(())
        };
        let budget = Budget::new().with_capacity(fastest);
        hedge(race, policy, Never).on(&upstream().with_budget(budget)).await.unwrap();
    }
}

async fn limits() {
    let rate = Rate::per_minute(600);
    let quota = || Quota::new().with_requests(rate).with_tokens(rate).with_output(rate);
    let model = upstream().with_quota(quota().with_input(rate).with_concurrency(4));
    for used in [1, 50] {
        let target = model.at_cost(Cost::input(10).with_max_output(20));
        let call = retry(
            |attempt: Attempt| {
                resile::quota::record(Usage::new().with_input(10).with_output(used));
                ready(if attempt.is_first() { Err("down") } else { Ok(()) })
            },
            POLICY,
            Never,
        );
        call.on(target).await.unwrap();
    }
    let refused = POLICY.with_classifier(|_: &&str| Verdict::throttled());
    let call = retry(|_| ready(Err::<(), _>("429")), refused, Never).on(&model);
    call.await.unwrap_err();
    let limit = Limit::of(300, Some(SECOND * 60));
    let model = upstream().with_quota(quota());
    model.try_admit().unwrap().learn(Limits::new().with(Dimension::Tokens, limit));

    let shadow = upstream().with_quota(quota().with_shadow(true));
    shadow.call(ready(Ok::<_, &str>(())), resile::classify::Always).await.unwrap();
}

async fn breaker_and_fleet() {
    let open = Backoff::fixed(SECOND);
    let breaker = Breaker::new().with_consecutive(1).with_open_time(open).with_probes(1.0, 1);
    let upstream = upstream().with_breaker(breaker);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    tokio::time::sleep(SECOND * 2).await;
    upstream.try_admit().unwrap().succeeded();
    drop(upstream.isolate());

    let shared = upstream.share().unwrap();
    shared.report(State::Shared, 3);
    shared.answered();
    shared.report(State::Safe, 3);
}
