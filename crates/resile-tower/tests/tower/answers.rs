//! `RetryLayer::http`: methods, statuses, `Retry-After`, and the errors of clients.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::{Method, Request, Response};
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::Classifier;
use resile_tower::resile::quota::Rate;
use resile_tower::resile::{Breaker, GaveUp, Health, Quota, StopReason, Upstream, Verdict};
use resile_tower::{BoxError, RetryLayer, UpstreamLayer};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::retries::AT_ONCE;

type Ask = Request<String>;

fn request(method: &Method) -> Ask {
    Request::builder().method(method).uri("/").body("body".to_owned()).unwrap()
}

/// Returns the status that the caller gets, and the number of requests that the server got.
async fn asked(statuses: &'static [u16], request: Ask) -> (u16, u32) {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |request: Ask| async move {
        assert_eq!(request.body(), "body");
        let at = calls.fetch_add(1, Relaxed) as usize;
        let status = statuses[at.min(statuses.len() - 1)];
        Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
    });
    let answer = RetryLayer::http(AT_ONCE).layer(server).oneshot(request).await.unwrap();
    (answer.status().as_u16(), calls.load(Relaxed))
}

#[tokio::test(start_paused = true)]
async fn method_and_status_decide_together() {
    for (method, statuses, seen) in [
        (Method::GET, &[503, 502, 200][..], (200, 3)),
        (Method::PUT, &[500, 200], (200, 2)),
        (Method::POST, &[500, 200], (500, 1)),
        (Method::PATCH, &[503, 200], (503, 1)),
        (Method::POST, &[429, 200], (200, 2)),
        (Method::GET, &[404, 200], (404, 1)),
        (Method::GET, &[501, 200], (501, 1)),
        (Method::GET, &[503], (503, 4)),
    ] {
        assert_eq!(asked(statuses, request(&method)).await, seen, "{method} {statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_or_an_extension_says_that_a_request_may_be_executed_twice() {
    let mut keyed = request(&Method::POST);
    keyed.headers_mut().insert("idempotency-key", "8e03978e".parse().unwrap());
    assert_eq!(asked(&[500, 200], keyed).await, (200, 2));
    let mut search = request(&Method::POST);
    search.extensions_mut().insert(Classifier::idempotent());
    assert_eq!(asked(&[500, 200], search).await, (200, 2));
    let mut get = request(&Method::GET);
    get.extensions_mut().insert(Classifier::non_idempotent());
    assert_eq!(asked(&[500, 200], get).await, (500, 1));
}

/// The caller of a request with a key, or of one with the classifier for it, learns whether the request may have
/// been executed. The caller of a read does not ask.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_keyed_request_tells_its_effect() {
    let mut keyed = request(&Method::POST);
    keyed.headers_mut().insert("idempotency-key", "8e03978e".parse().unwrap());
    let mut marked = request(&Method::PATCH);
    marked.extensions_mut().insert(Classifier::keyed());
    let (may, read) =
        (", the request may have been executed and may be sent again with its key", "");
    for (request, words) in [(keyed, may), (marked, may), (request(&Method::PUT), read)] {
        let server = service_fn(|_: Ask| async {
            Ok::<_, Infallible>(Response::builder().status(500).body(()).unwrap())
        });
        let answer = RetryLayer::http(AT_ONCE).layer(server).oneshot(request).await.unwrap();
        let gave_up = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
        assert_eq!(gave_up.to_string(), format!("service: gave up after 4 attempts{words}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_that_of_retry_after() {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |_: Ask| async move {
        let status = if calls.fetch_add(1, Relaxed) == 0 { 429 } else { 200 };
        let answer = Response::builder().status(status).header("retry-after", "20");
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let began = Instant::now();
    let service = RetryLayer::http(AT_ONCE).layer(server);
    assert_eq!(service.oneshot(request(&Method::POST)).await.unwrap().status(), 200);
    assert!(began.elapsed() >= Duration::from_secs(20));
}

/// Returns the number of requests that end with this error.
async fn failed(error: fn() -> BoxError, method: Method) -> u32 {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |_: Ask| async move {
        calls.fetch_add(1, Relaxed);
        Err::<Response<()>, _>(error())
    });
    let gave_up = RetryLayer::http(AT_ONCE).layer(server).oneshot(request(&method)).await;
    assert_eq!(gave_up.unwrap_err().attempts(), calls.load(Relaxed));
    calls.load(Relaxed)
}

#[tokio::test(start_paused = true)]
async fn an_error_is_judged_by_the_chain_of_its_sources() {
    for (error, get, post) in [
        ((|| io::Error::from(ErrorKind::ConnectionRefused).into()) as fn() -> BoxError, 4, 4),
        (|| io::Error::other(io::Error::from(ErrorKind::ConnectionReset)).into(), 4, 1),
        (|| "the client does not say".into(), 4, 1),
        (|| io::Error::from(ErrorKind::InvalidInput).into(), 1, 1),
    ] {
        assert_eq!(failed(error, Method::GET).await, get, "{:?}", error());
        assert_eq!(failed(error, Method::POST).await, post, "{:?}", error());
    }
}

/// The call below was refused, so even a `POST` was not sent. The wait is that of the breaker.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_layer_below_is_known() {
    static STORE: Upstream =
        Upstream::new("store").with_breaker(Breaker::new().with_consecutive(1));
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |_: Ask| async move {
        let status = if calls.fetch_add(1, Relaxed) == 0 { 500 } else { 200 };
        Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
    });
    let below = UpstreamLayer::http(&STORE).layer(server);
    let mut service = RetryLayer::http(AT_ONCE).layer(below);
    let mut post = async || service.ready().await.unwrap().call(request(&Method::POST)).await;
    assert_eq!(post().await.unwrap().status(), 500);
    let began = Instant::now();
    assert_eq!(post().await.unwrap().status(), 200);
    assert!(began.elapsed() > Duration::from_secs(1), "the pause of the breaker");
}

#[tokio::test(start_paused = true)]
async fn the_quota_learns_from_the_headers_of_an_answer() {
    static STORE: Upstream =
        Upstream::new("store").with_quota(Quota::new().with_requests(Rate::per_minute(100)));
    let server = service_fn(async |_: Ask| {
        let answer = Response::builder().header("x-ratelimit-remaining", "3");
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let service = RetryLayer::http(AT_ONCE).on(&STORE).layer(server);
    service.oneshot(request(&Method::GET)).await.unwrap();
    let level = STORE.quota_level(resile_tower::resile::quota::Dimension::Requests).unwrap();
    assert!(level <= 3, "{level}");
}

/// `None` of the function leaves the answer to its status.
#[tokio::test(start_paused = true)]
async fn a_function_judges_some_answers_and_the_status_the_others() {
    static STORE: Upstream =
        Upstream::new("store").with_quota(Quota::new().with_requests(Rate::per_minute(100)));
    let own = |answer: &Response<()>| match answer.status().as_u16() {
        404 => Some(Verdict::transient()),
        500 => Some(Verdict::fatal().with_health(Health::Healthy)),
        _ => None,
    };
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |_: Ask| async move {
        let status = [503, 404, 500, 200][calls.fetch_add(1, Relaxed) as usize];
        let answer = Response::builder().status(status).header("x-ratelimit-remaining", "3");
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let service = RetryLayer::http(AT_ONCE).judging(own).on(&STORE).layer(server);
    let answer = service.oneshot(request(&Method::GET)).await.unwrap();
    assert_eq!((answer.status().as_u16(), calls.load(Relaxed)), (500, 3));
    assert!(answer.extensions().is_empty(), "a good answer has no end of a failed call");
    let level = STORE.quota_level(resile_tower::resile::quota::Dimension::Requests).unwrap();
    assert!(level <= 3, "{level}");
}

#[tokio::test(start_paused = true)]
async fn a_post_that_was_cut_is_not_sent_again() {
    let hang = service_fn(async |_: Ask| {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let policy = AT_ONCE.with_attempt_timeout(Duration::from_secs(1));
    let service = RetryLayer::http(policy).layer(hang);
    let post = service.clone().oneshot(request(&Method::POST)).await.unwrap_err();
    assert_eq!((post.reason(), post.attempts()), (StopReason::Fatal, 1));
    let get = service.oneshot(request(&Method::GET)).await.unwrap_err();
    assert_eq!((get.reason(), get.attempts()), (StopReason::Attempts, 4));
}
