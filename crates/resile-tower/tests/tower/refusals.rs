//! Refusals as answers.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http::{Request, Response};
use resile_tower::resile::classify::Always;
use resile_tower::resile::quota::{Cost, Rate};
use resile_tower::resile::{
    Attempt, Bulkhead, Cooldown, GaveUp, Never, Quota, ResilienceExt, RetryPolicy, Upstream,
    Verdict, retry,
};
use resile_tower::server::{Refusal, RefusalLayer};
use resile_tower::{BoxError, RetryLayer, UpstreamLayer};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

type Outcome = Result<(), GaveUp<io::Error>>;

/// Makes a call that ends with this verdict.
async fn ends(verdict: Verdict) -> Outcome {
    let fail = async || Err(io::Error::other("down"));
    let policy = RetryPolicy::none().with_classifier(move |_: &io::Error| verdict);
    retry(|_| fail(), policy, Never).await
}

fn seen(outcome: Outcome) -> Option<(u16, Option<String>)> {
    let answer: Response<String> = Refusal::of(&outcome.unwrap_err())?.response();
    let wait = answer.headers().get("retry-after");
    Some((answer.status().as_u16(), wait.map(|wait| wait.to_str().unwrap().to_owned())))
}

#[tokio::test(start_paused = true)]
async fn the_own_limit_is_a_429_and_any_other_refusal_a_503() {
    let wait = Duration::from_millis(1_200);
    let two = || Some("2".to_owned());
    for (verdict, want) in [
        (Verdict::throttled().after(wait), Some((429, two()))),
        (Verdict::throttled(), Some((429, None))),
        (Verdict::overloaded().after(wait), Some((503, two()))),
        (Verdict::overloaded().not_again(), Some((503, None))),
        (Verdict::transient(), None),
        (Verdict::fatal(), None),
    ] {
        assert_eq!(seen(ends(verdict).await), want, "{verdict:?}");
    }
}

/// A caller that reads a 429 sends its order again, because a 429 says that the order was not executed.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_had_an_effect_is_never_a_429() {
    for (first, status) in [
        (Verdict::transient().keyed(), 503),
        (Verdict::transient().keyed().not_sent(), 429),
        // A read.
        (Verdict::transient().idempotent(), 429),
    ] {
        let limited = Verdict::throttled().after(SECOND * 60).without_effect();
        let last = if first.is_keyed() { limited.keyed() } else { limited.idempotent() };
        let policy = RetryPolicy::new().with_total_timeout(SECOND * 5).with_classifier(
            |error: &io::Error| {
                if error.kind() == io::ErrorKind::Other { last } else { first }
            },
        );
        let fail = async |attempt: Attempt| {
            let reset = io::ErrorKind::ConnectionReset;
            Err::<(), _>(if attempt.is_first() { reset.into() } else { io::Error::other("busy") })
        };
        let (seen, wait) = seen(retry(fail, policy, Never).await).unwrap();
        assert_eq!((seen, wait.as_deref()), (status, Some("60")), "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_part_refuses_with_its_wait() {
    let work = async || Ok::<_, io::Error>(());
    let full = Upstream::named("a").with_bulkhead(Bulkhead::new(1).with_queue(0));
    let busy = full.try_admit().unwrap();
    assert_eq!(seen(full.call(work(), Always).await), Some((503, None)));
    drop(busy);
    let held = Upstream::named("b").with_cooldown(Cooldown::new());
    held.hold(SECOND * 40);
    let call = held.call(work(), Always).with_total_timeout(SECOND);
    let (status, wait) = seen(call.await).unwrap();
    assert_eq!(status, 503);
    assert!(wait.unwrap().parse::<u32>().unwrap() >= 40);
    let quota = Quota::new().with_tokens(Rate::per_minute(10));
    let quota = Upstream::named("c").with_quota(quota);
    let large = work().through(quota.at_cost(Cost::input(5_000)), Always).await;
    assert_eq!(seen(large), Some((429, None)));
}

/// No answer in time is not a refusal, and neither are retries that the budget or the deadline ended.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_is_no_refusal() {
    let hang = std::future::pending::<io::Result<()>>();
    let upstream = Upstream::new("store");
    assert_eq!(seen(upstream.call(hang, Always).with_total_timeout(SECOND).await), None);
    let fail = async || Err(io::Error::other("down"));
    let policy = RetryPolicy::new().with_total_timeout(Duration::from_nanos(9));
    assert_eq!(seen(retry(|_| fail(), policy, Never).await), None);
}

#[test]
fn the_status_can_be_set() {
    let upstream = Upstream::named("a").with_bulkhead(Bulkhead::new(1).with_queue(0));
    let _busy = upstream.try_admit().unwrap();
    let refusal = Refusal::of(&upstream.try_admit().unwrap_err()).unwrap();
    let caller = refusal.with_status(http::StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((refusal.status().as_u16(), caller.status().as_u16()), (503, 429));
}

/// The refusal of a call that the handler made, somewhere in the chain of its error.
#[tokio::test(start_paused = true)]
async fn the_layer_answers_for_the_calls_of_a_handler_too() {
    static STORE: Upstream = Upstream::new("store").with_bulkhead(Bulkhead::new(1).with_queue(0));
    let store = service_fn(async |_: u32| Ok::<_, Infallible>(7));
    let store = RetryLayer::new(RetryPolicy::none()).on(&STORE).layer(store);
    let handler = service_fn(move |_: Request<()>| {
        let store = store.clone();
        async move {
            let number = store.oneshot(1).await.map_err(io::Error::other)?;
            Ok::<_, BoxError>(Response::new(number.to_string()))
        }
    });
    let server = RefusalLayer::new().layer(handler);
    let busy = STORE.try_admit().unwrap();
    assert_eq!(server.clone().oneshot(Request::new(())).await.unwrap().status(), 503);
    drop(busy);
    assert_eq!(server.oneshot(Request::new(())).await.unwrap().into_body(), "7");
    let fails =
        service_fn(async |_: Request<()>| Err::<Response<String>, _>(io::Error::other("no disk")));
    let passed = RefusalLayer::new().layer(fails).oneshot(Request::new(())).await.unwrap_err();
    assert_eq!(passed.to_string(), "no disk");
}

/// A server that protects itself: the third request finds one in flight and one in the queue.
#[tokio::test(start_paused = true)]
async fn a_full_server_refuses_at_once() {
    static OWN: Upstream = Upstream::new("self").with_bulkhead(Bulkhead::new(1).with_queue(1));
    let handler = service_fn(async |_: Request<()>| {
        tokio::time::sleep(SECOND).await;
        Ok::<_, Infallible>(Response::new(String::from("done")))
    });
    let server = ServiceBuilder::new()
        .layer(RefusalLayer::new())
        .layer(UpstreamLayer::http(&OWN))
        .service(handler);
    let began = tokio::time::Instant::now();
    let calls = [(); 3].map(|()| {
        let call = server.clone().oneshot(Request::new(()));
        tokio::spawn(
            async move { (call.await.unwrap().status().as_u16(), began.elapsed().as_secs()) },
        )
    });
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.await.unwrap());
    }
    assert_eq!(seen, [(200, 1), (200, 2), (503, 0)]);
}
