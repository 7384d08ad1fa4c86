//! The programs of the chapter "migrating": that with `reqwest-retry`, and those with `resile`. The delays are
//! shorter here.

use std::time::{Duration, Instant, SystemTime};

use http::{Method, StatusCode};
use reqwest_middleware::ClientBuilder;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{
    RetryDecision, RetryTransientMiddleware, Retryable, default_on_request_success,
};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::http::{Classifier, Failure, error_for_status};
use resile_tower::resile::{Backoff, GaveUp, Never, RetryPolicy, StopReason, retry};

use super::server::{Does, Server};

const POLICY: RetryPolicy<Classifier> = RetryPolicy::new()
    .with_attempts(4)
    .with_attempt_timeout(Duration::from_secs(5))
    .with_total_timeout(Duration::from_secs(20))
    .with_classifier(Classifier::idempotent())
    .with_backoff(Backoff::fixed(Duration::from_millis(1)));

/// Returns the status and the body.
async fn old(method: Method, url: &str) -> reqwest_middleware::Result<(u16, String)> {
    let short = Duration::from_millis(1);
    let backoff = ExponentialBackoff::builder().retry_bounds(short, short);
    let backoff = backoff.build_with_max_retries(3);
    let http = ClientBuilder::new(reqwest::Client::new())
        .with(RetryTransientMiddleware::new_with_policy(backoff))
        .build();
    let answer = http.request(method, url).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

async fn fetch(http: &reqwest::Client, method: Method, url: &str) -> Result<String, Failure> {
    Ok(error_for_status(http.request(method, url).send().await?).await?.text().await?)
}

async fn new(method: Method, url: &str) -> Result<String, GaveUp<Failure>> {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    let policy = match method {
        Method::POST => POLICY.with_classifier(Classifier::non_idempotent()),
        _ => POLICY,
    };
    retry(|_| fetch(&http, method.clone(), url), policy, Never).on("weather").await
}

/// Sends the request through the middleware and returns the status.
async fn kept(method: Method, url: &str) -> u16 {
    let policy = RetryPolicy::new().with_attempts(4).with_backoff(POLICY.backoff());
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    let http = ClientBuilder::new(http).with(RetryMiddleware::new(policy)).build();
    http.request(method, url).send().await.unwrap().status().as_u16()
}

mod inner;
mod limits;
mod rows;
mod stack;
mod strategies;

/// The program with the middleware, as the chapter has it.
mod program {
    #![allow(dead_code, reason = "its `main` calls a real server")]
    include!("migrating/program.rs");

    use super::{Does, Server};

    #[tokio::test]
    async fn the_client_returns_the_answer() {
        let server = Server::start(&[Does::Answer(200)]).await;
        let answer = client().unwrap().get(server.url()).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "answer 1");
    }

    /// The delays of both are uniform from zero, so the longest ones and the means tell them.
    #[test]
    fn the_delays_are_those_of_reqwest_retry() {
        for (retry, longest) in (1..).zip([1, 2, 4].map(Duration::from_secs)) {
            let delay = |end: fn(_) -> u64| POLICY.backoff().delay(retry, Duration::ZERO, end);
            assert_eq!(delay(|range: std::ops::RangeInclusive<u64>| *range.end()), longest);
            assert_eq!(delay(|range| *range.start()), Duration::ZERO);
            let mean = super::mean_of_old(retry - 1);
            assert!(mean.abs_diff(longest / 2) < longest / 50, "{mean:?} before retry {retry}");
        }
    }
}

/// Returns the mean delay of the old program after so many retries.
fn mean_of_old(past: u32) -> Duration {
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let draws = 20_000;
    let delay = |_| {
        let now = SystemTime::now();
        match reqwest_retry::RetryPolicy::should_retry(&backoff, now, past) {
            RetryDecision::Retry { execute_after } => execute_after.duration_since(now).unwrap(),
            RetryDecision::DoNotRetry => panic!("no retry after {past}"),
        }
    };
    (0..draws).map(delay).sum::<Duration>() / draws
}

/// Returns the errors that are sent again by the one and not by the other: more here, and less here.
fn differences(classifier: Classifier, after: Option<Duration>) -> [Vec<u16>; 2] {
    let both = (400..600).map(|status| {
        let answer = http::Response::builder().status(status).body("").unwrap().into();
        let old = matches!(default_on_request_success(&answer), Some(Retryable::Transient));
        (status, old, classifier.verdict(StatusCode::from_u16(status).unwrap(), after).is_again())
    });
    let both = both.collect::<Vec<_>>();
    [(false, true), (true, false)].map(|(was, is)| {
        let other = both.iter().filter(|(_, old, new)| (*old, *new) == (was, is));
        other.map(|(status, ..)| *status).collect()
    })
}

/// The table of the chapter.
#[test]
fn these_statuses_are_sent_again_more_or_less_often() {
    let (get, post) = (Classifier::idempotent(), Classifier::non_idempotent());
    let never = vec![501, 505, 506, 507, 508, 510, 511];
    assert_eq!(differences(get, None), [vec![409, 425], never]);
    assert_eq!(differences(post, None), [vec![409, 425], (500..600).collect()]);
    let later = Some(Duration::from_secs(1));
    let [more, less] = differences(get, later);
    assert_eq!(more, [403, 409, 413, 425]);
    assert_eq!(less, [501, 505, 506, 508, 510, 511]);
    let [more, less] = differences(post, later);
    assert_eq!((more, less), (vec![403, 409, 413, 425], (500..600).collect()));
    let lasting = post.with_conflict(false);
    assert_eq!(differences(lasting, None)[0], [425]);
}

#[tokio::test]
async fn the_call_and_the_middleware_send_as_often() {
    for method in [Method::GET, Method::POST] {
        for (steps, was, is) in [
            (&[Does::Answer(409)], 1, 4),
            (&[Does::Answer(425)], 1, 4),
            (&[Does::Answer(501)], 4, 1),
            (&[Does::Answer(507)], 4, 1),
        ] {
            let [old_server, call, middleware] = [
                Server::start(steps).await,
                Server::start(steps).await,
                Server::start(steps).await,
            ];
            old(method.clone(), &old_server.url()).await.unwrap();
            new(method.clone(), &call.url()).await.unwrap_err();
            kept(method.clone(), &middleware.url()).await;
            let sent = [old_server, call, middleware].map(|server| server.got().len());
            assert_eq!(sent, [was, is, is], "{method} {steps:?}");
        }
    }
}

/// The call sends a `GET` as often as `reqwest-retry` does.
#[tokio::test]
async fn a_get_is_sent_as_often() {
    for (steps, requests) in [
        (&[Does::Answer(200)][..], 1),
        (&[Does::Answer(503), Does::Answer(500), Does::Answer(200)], 3),
        (&[Does::Answer(408), Does::Answer(429), Does::Answer(200)], 3),
        (&[Does::Close, Does::Answer(200)], 2),
    ] {
        let [was, is] = [Server::start(steps).await, Server::start(steps).await];
        let (status, body) = old(Method::GET, &was.url()).await.unwrap();
        assert_eq!(status, 200);
        assert_eq!(new(Method::GET, &is.url()).await.unwrap(), body, "{steps:?}");
        assert_eq!((was.got().len(), is.got().len()), (requests, requests), "{steps:?}");
    }
}

/// The last answer is an error, and the caller finds its status there.
#[tokio::test]
async fn a_bad_answer_is_no_longer_ok() {
    for (status, requests) in [(503, 4), (400, 1)] {
        let steps = if status == 503 { &[Does::Answer(503)] } else { &[Does::Answer(400)] };
        let [was, is] = [Server::start(steps).await, Server::start(steps).await];
        assert_eq!(old(Method::GET, &was.url()).await.unwrap().0, status);
        let gave_up = new(Method::GET, &is.url()).await.unwrap_err();
        let found = gave_up.last().unwrap().status().unwrap();
        assert_eq!(found.as_u16(), status);
        assert_eq!((was.got().len(), is.got().len()), (requests, requests));
    }
}

#[tokio::test]
async fn a_post_is_sent_once() {
    for steps in [&[Does::Answer(503)][..], &[Does::Close]] {
        let [was, is] = [Server::start(steps).await, Server::start(steps).await];
        let _ = old(Method::POST, &was.url()).await;
        let gave_up = new(Method::POST, &is.url()).await.unwrap_err();
        assert!(gave_up.is_in_doubt());
        assert_eq!((was.got().len(), is.got().len()), (4, 1), "{steps:?}");
    }
}

#[tokio::test]
async fn retry_after_is_kept() {
    let steps = &[Does::Later("1"), Does::Answer(200)];
    let [was, is] = [Server::start(steps).await, Server::start(steps).await];
    let second = Duration::from_secs(1);
    let began = Instant::now();
    old(Method::GET, &was.url()).await.unwrap();
    assert!(began.elapsed() < second);
    let began = Instant::now();
    new(Method::GET, &is.url()).await.unwrap();
    assert!(began.elapsed() >= second);
}

/// The longest wait of a policy is two minutes.
#[tokio::test]
async fn a_longer_retry_after_ends_the_call() {
    let steps = &[Does::Later("180")];
    let [was, is, middleware] =
        [Server::start(steps).await, Server::start(steps).await, Server::start(steps).await];
    old(Method::GET, &was.url()).await.unwrap();
    let gave_up = new(Method::GET, &is.url()).await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::HintTooLong);
    assert_eq!(gave_up.retry_after(), Some(Duration::from_secs(180)));
    assert_eq!(kept(Method::GET, &middleware.url()).await, 429);
    assert_eq!([was, is, middleware].map(|server| server.got().len()), [4, 1, 1]);
}
