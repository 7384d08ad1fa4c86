//! `RetryMiddleware` on real sockets, beside `reqwest-retry`.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Extension, Middleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use resile_tower::reqwest_middleware_0_5::{RetryMiddleware, gave_up};
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure};
use resile_tower::resile::{
    Backoff, Breaker, GaveUp, Health, Never, RetryPolicy, StopReason, Upstream, Verdict,
};
use tokio_util::sync::CancellationToken;

use super::server::{Does, Server};

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(4)
    .with_backoff(Backoff::none())
    .with_total_timeout(Duration::from_secs(20));

fn client(middleware: impl Middleware) -> ClientWithMiddleware {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    ClientBuilder::new(http).with(middleware).build()
}

/// Returns `reqwest-retry` as its documentation sets it up, with short delays.
fn theirs() -> ClientWithMiddleware {
    let short = Duration::from_millis(1);
    let backoff = ExponentialBackoff::builder().retry_bounds(short, short);
    client(RetryTransientMiddleware::new_with_policy(backoff.build_with_max_retries(3)))
}

fn ours() -> ClientWithMiddleware {
    client(RetryMiddleware::new(POLICY))
}

/// A 500 does not prove that nothing was booked. `reqwest-retry` 0.9.1 sends the `POST` again.
#[tokio::test]
async fn a_post_is_sent_once_after_a_500_where_reqwest_retry_sends_it_again() {
    let server = Server::start(&[Does::Answer(500), Does::Answer(200)]).await;
    let answer = theirs().post(server.url()).body("book").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), server.got().len()), (200, 2), "reqwest-retry");
    assert!(server.got().iter().all(|got| got.body.as_deref() == Some(b"book")), "booked twice");

    let server = Server::start(&[Does::Answer(500), Does::Answer(200)]).await;
    let answer = ours().post(server.url()).body("book").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), server.got().len()), (500, 1), "resile-tower");
    let end = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
    assert!(end.is_in_doubt() && end.attempts() == 1, "{end:?}");
}

/// An answer and an error have the end of their call at one place.
#[tokio::test]
async fn an_outcome_has_the_end_of_its_call() {
    let server = Server::start(&[Does::Answer(500)]).await;
    let answer = ours().post(server.url()).send().await;
    assert_eq!(answer.as_ref().unwrap().status().as_u16(), 500);
    let end = gave_up(&answer).unwrap();
    assert!(end.is_in_doubt() && end.attempts() == 1, "{end:?}");

    let server = Server::start(&[Does::Answer(200)]).await;
    let answer = ours().get(server.url()).send().await;
    assert!(answer.is_ok() && gave_up(&answer).is_none());

    let server = Server::start(&[Does::Close]).await;
    let error = ours().get(server.url()).send().await;
    let end = gave_up(&error).unwrap();
    assert_eq!((end.reason(), end.attempts()), (StopReason::Attempts, 4));
    // An error of the client itself, without a call.
    let error = theirs().get("nowhere").send().await;
    assert!(error.is_err() && gave_up(&error).is_none());
}

/// `reqwest-retry` 0.9.1 does not read the header.
#[tokio::test]
async fn retry_after_is_honoured_where_reqwest_retry_comes_back_at_once() {
    let server = Server::start(&[Does::Later("1"), Does::Answer(200)]).await;
    let began = Instant::now();
    assert_eq!(theirs().get(server.url()).send().await.unwrap().status(), 200);
    assert!(began.elapsed() < Duration::from_secs(1), "reqwest-retry");

    let server = Server::start(&[Does::Later("1"), Does::Answer(200)]).await;
    let began = Instant::now();
    assert_eq!(ours().get(server.url()).send().await.unwrap().status(), 200);
    assert!(began.elapsed() >= Duration::from_secs(1), "resile-tower");
}

#[tokio::test]
async fn a_key_makes_a_post_repeatable_and_is_the_same_in_each_attempt() {
    let server = Server::start(&[Does::Answer(500), Does::Close, Does::Answer(200)]).await;
    let post = ours().post(server.url()).header("idempotency-key", "8e03978e").body("book");
    assert_eq!(post.send().await.unwrap().status(), 200);
    let got = server.got();
    assert_eq!(got.len(), 3);
    for got in &got {
        assert_eq!(
            (&got.method, &got.headers["idempotency-key"]),
            (&Method::POST, &"8e03978e".parse().unwrap())
        );
    }
    assert_eq!(got[2].body.as_deref(), Some(&b"book"[..]));
}

#[tokio::test]
async fn an_extension_replaces_the_rule_by_the_method() {
    let server = Server::start(&[Does::Answer(500), Does::Answer(200)]).await;
    let search = ours().post(server.url()).with_extension(Classifier::idempotent());
    assert_eq!(search.send().await.unwrap().status(), 200);
    assert_eq!(server.got().len(), 2);
}

#[tokio::test]
async fn an_extension_of_the_client_gives_way_to_that_of_the_request() {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    let reads = Extension(Classifier::idempotent());
    let http = ClientBuilder::new(http).with_init(reads).with(RetryMiddleware::new(POLICY)).build();
    for (own, requests) in [(None, 2), (Some(Classifier::non_idempotent()), 1)] {
        let server = Server::start(&[Does::Answer(500), Does::Answer(200)]).await;
        let search = http.post(server.url());
        let search =
            own.into_iter().fold(search, reqwest_middleware::RequestBuilder::with_extension);
        search.send().await.unwrap();
        assert_eq!(server.got().len(), requests);
    }
}

/// A status that the service means otherwise. `None` leaves the answer to its status.
fn own(answer: &reqwest::Response) -> Option<Verdict> {
    match answer.status().as_u16() {
        201 | 404 => Some(Verdict::transient()),
        502 => Some(Verdict::fatal().with_health(Health::Healthy)),
        _ => None,
    }
}

#[tokio::test]
async fn a_function_judges_some_answers_and_the_status_the_others() {
    for (steps, seen) in [
        (&[Does::Answer(201), Does::Answer(404), Does::Answer(503), Does::Answer(200)], (200, 4)),
        (&[Does::Answer(503), Does::Answer(404), Does::Answer(502), Does::Answer(200)], (502, 3)),
        (&[Does::Answer(404), Does::Answer(404), Does::Answer(400), Does::Answer(200)], (400, 3)),
    ] {
        let server = Server::start(steps).await;
        let http = client(RetryMiddleware::new(POLICY).judging(own));
        let answer = http.get(server.url()).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), server.got().len()), seen, "{steps:?}");
        assert!(answer.extensions().get::<Arc<GaveUp<Boxed>>>().is_none(), "{steps:?}");
    }
}

#[tokio::test]
async fn an_answer_that_a_function_judged_is_named_by_its_status() {
    for (step, words) in [
        (&[Does::Answer(201)], "201 Created counts as a failure"),
        (&[Does::Answer(404)], "404 Not Found"),
    ] {
        let server = Server::start(step).await;
        let http = client(RetryMiddleware::new(POLICY).judging(own).with_token(Never));
        let answer = http.post(server.url()).send().await.unwrap();
        let end = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
        assert_eq!((end.source().unwrap().to_string().as_str(), end.attempts()), (words, 4));
        assert_eq!(server.got().len(), 4);
    }
}

/// A body that is a stream.
fn stream() -> reqwest::Body {
    reqwest::Body::wrap(super::server::streamed(4, 16))
}

/// `reqwest-retry` refuses such a request before it is sent.
#[tokio::test]
async fn a_body_that_cannot_be_cloned_is_sent_once_and_the_error_says_so() {
    let server = Server::start(&[Does::Answer(200)]).await;
    let refused = theirs().put(server.url()).body(stream()).send().await;
    assert!(refused.is_err() && server.got().is_empty(), "reqwest-retry");
    assert_eq!(ours().put(server.url()).body(stream()).send().await.unwrap().status(), 200);
    assert_eq!(server.got().len(), 1);

    let server = Server::start(&[Does::Close]).await;
    let failed = ours().put(server.url()).body(stream()).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(failed) = failed else { panic!("{failed}") };
    let gave_up: GaveUp<Boxed> = failed.downcast().unwrap();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    let words = gave_up.source().unwrap().to_string();
    assert!(words.ends_with("(sent once: its body is a stream)"), "{words}");
    assert!(gave_up.to_string().ends_with(", the request cannot be made again"), "{gave_up}");
    assert_eq!(server.got().len(), 1);
}

#[tokio::test]
async fn the_last_answer_and_the_last_error_come_back() {
    let server = Server::start(&[Does::Answer(503)]).await;
    assert_eq!(ours().get(server.url()).send().await.unwrap().status(), 503);
    assert_eq!(server.got().len(), 4);

    let server = Server::start(&[Does::Close]).await;
    let url = format!("http://user:secret@{}/?key=secret", server.address);
    let failed = ours().get(url).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(failed) = failed else { panic!("{failed}") };
    let failure = failed.chain().find_map(|error| error.downcast_ref::<Failure>()).unwrap();
    assert!(failure.cause().unwrap().is::<reqwest::Error>());
    assert!(!format!("{failed:?}").contains("secret"), "{failed:?}");
    assert_eq!(server.got().len(), 4);
}

#[tokio::test]
async fn all_requests_share_the_upstream_and_the_token() {
    static STORE: Upstream =
        Upstream::new("store").with_breaker(Breaker::new().with_consecutive(1));
    let server = Server::start(&[Does::Answer(500)]).await;
    let token = CancellationToken::new();
    let http = client(RetryMiddleware::new(POLICY).on(&STORE).with_token(token.clone()));
    assert_eq!(http.post(server.url()).send().await.unwrap().status(), 500);
    token.cancel();
    let ended = |error: reqwest_middleware::Error| match error {
        reqwest_middleware::Error::Middleware(error) => {
            error.downcast::<GaveUp<Boxed>>().unwrap().reason()
        }
        reqwest_middleware::Error::Reqwest(error) => panic!("{error}"),
    };
    assert_eq!(ended(http.get(server.url()).send().await.unwrap_err()), StopReason::Cancelled);
    let once = client(RetryMiddleware::new(POLICY.with_attempts(1)).on(&STORE));
    assert_eq!(ended(once.get(server.url()).send().await.unwrap_err()), StopReason::Open);
    assert_eq!(server.got().len(), 1);
}
