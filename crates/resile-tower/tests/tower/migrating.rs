//! The programs of the chapter "migrating": that with `reqwest-retry`, and that with `resile`. The delays are
//! shorter here.

use std::time::{Duration, Instant};

use http::Method;
use reqwest_middleware::ClientBuilder;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use resile_tower::resile::http::{Classifier, Failure, error_for_status};
use resile_tower::resile::{Backoff, GaveUp, Never, RetryPolicy, retry};

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

/// What does not change.
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
