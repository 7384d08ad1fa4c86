//! `UpstreamLayer`: one attempt.

use std::sync::Arc;
use std::time::Duration;

use resile_tower::UpstreamLayer;
use resile_tower::resile::classify::Always;
use resile_tower::resile::observe::{Event, Observe};
use resile_tower::resile::quota::Rate;
use resile_tower::resile::{
    Breaker, Budget, Bulkhead, Cooldown, Quota, StopReason, Upstream, Verdict,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service, ServiceExt};

use super::script::{Script, Step};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_once_and_takes_no_token() {
    static STORE: Upstream = Upstream::new("store").with_budget(Budget::new().with_capacity(5));
    let script = Script::new(&[Step::Fail]);
    let service = UpstreamLayer::new(&STORE, Always).layer(script.watch());
    let failed = service.oneshot(7).await.unwrap_err();
    assert_eq!((failed.reason(), failed.attempts()), (StopReason::Attempts, 1));
    assert_eq!(script.seen().requests, [7]);
    assert_eq!(STORE.budget().unwrap().available(), 5);
}

/// A refusal is an error. `poll_ready` does not wait for the upstream, and the service is not called.
#[tokio::test(start_paused = true)]
async fn each_part_refuses_with_an_error() {
    let bulkhead = Upstream::named("a").with_bulkhead(Bulkhead::new(1).with_queue(0));
    let breaker = Upstream::named("b").with_breaker(Breaker::new());
    let quota = Quota::new().with_requests(Rate::per_minute(1));
    let quota = Upstream::named("c").with_quota(quota);
    let cooldown = Upstream::named("d").with_cooldown(Cooldown::new());
    for (upstream, reason) in [
        (Arc::new(bulkhead), StopReason::Full),
        (Arc::new(breaker), StopReason::Open),
        (Arc::new(quota), StopReason::Deadline),
        (Arc::new(cooldown), StopReason::Deadline),
    ] {
        let used = upstream.admit(resile_tower::resile::Never).await.unwrap();
        upstream.hold(SECOND * 60);
        let isolated = upstream.isolate();
        let script = Script::new(&[Step::Answer(200)]);
        let mut service = UpstreamLayer::new(Arc::clone(&upstream), Always)
            .with_total_timeout(SECOND)
            .layer(script.watch());
        let began = Instant::now();
        let refused = service.ready().await.unwrap().call(7).await.unwrap_err();
        assert_eq!((refused.reason(), refused.attempts()), (reason, 0));
        assert!(began.elapsed() <= SECOND);
        assert_eq!(script.seen().requests.len(), 0, "{reason}");
        assert_eq!(script.seen().alive, 0, "{reason}");
        drop(isolated);
        drop(used);
    }
}

/// The claim of a waiter is that of the bulkhead: one request is in flight at a time.
#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_admission_within_the_future() {
    static STORE: Upstream = Upstream::new("store").with_bulkhead(Bulkhead::new(1).with_queue(9));
    let script = Script::new(&[Step::After(SECOND)]);
    let service = UpstreamLayer::new(&STORE, Always).layer(script.watch());
    let began = Instant::now();
    let calls = (0..3).map(|number| tokio::spawn(service.clone().oneshot(number)));
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap(), 200);
    }
    assert_eq!(began.elapsed(), SECOND * 3);
}

#[tokio::test(start_paused = true)]
async fn limits_and_the_token_cut_the_attempt() {
    let token = CancellationToken::new();
    let layer = UpstreamLayer::new("store", Always);
    for (layer, reason, after) in [
        (layer.clone().with_total_timeout(SECOND), StopReason::Deadline, 1),
        (layer.clone().with_attempt_timeout(SECOND * 2), StopReason::Attempts, 2),
        (layer, StopReason::Cancelled, 3),
    ] {
        let script = Script::new(&[Step::Hang]);
        let service = layer.with_token(token.clone()).layer(script.watch());
        let began = Instant::now();
        let cancel = async {
            tokio::time::sleep(SECOND * 3).await;
            if reason == StopReason::Cancelled {
                token.cancel();
            }
        };
        let call = async { (service.oneshot(7).await.unwrap_err().reason(), began.elapsed()) };
        let (ended, ()) = tokio::join!(call, cancel);
        assert_eq!(ended, (reason, SECOND * after));
        assert_eq!(script.seen().alive, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_fails_is_reported_and_returned() {
    static STORE: Upstream =
        Upstream::new("store").with_breaker(Breaker::new().with_consecutive(1));
    let judge = |answer: &u16| (*answer >= 500).then(Verdict::transient);
    let script = Script::new(&[Step::Answer(502)]);
    let layer = UpstreamLayer::new(&STORE, Always).judging(judge);
    let mut service = layer.layer(script.watch());
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 502);
    let refused = service.ready().await.unwrap().call(7).await.unwrap_err();
    assert_eq!(refused.reason(), StopReason::Open);
}

/// The log names the place that made the layer, and not a line of this crate.
#[tokio::test(start_paused = true)]
async fn the_site_of_a_call_is_that_of_its_layer() {
    use std::sync::Mutex;

    static SITES: Mutex<Vec<(&str, u32)>> = Mutex::new(Vec::new());
    struct Sites;
    impl Observe for Sites {
        fn observe(&self, event: &Event<'_>) {
            if let Some(call) = &event.call {
                SITES.lock().unwrap().push((call.site.file(), call.site.line()));
            }
        }
    }
    static STORE: Upstream = Upstream::new("store").with_observer(&Sites);
    let script = Script::new(&[Step::Fail, Step::Fail]);
    let layer = UpstreamLayer::new(&STORE, Always);
    let made = line!() - 1;
    layer.layer(script.watch()).oneshot(7).await.unwrap_err();
    let sites = SITES.lock().unwrap().clone();
    assert!(!sites.is_empty() && sites.iter().all(|site| *site == (file!(), made)), "{sites:?}");
}
