//! What a `RetryableStrategy` returns, and the verdict in its place.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use http::Method;
use reqwest_middleware::{ClientBuilder, Middleware, RequestBuilder};
use reqwest_retry::{RetryTransientMiddleware, Retryable, RetryableStrategy};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure, error_for_status};
use resile_tower::resile::{Breaker, GaveUp, Never, Upstream, Verdict, retry};

use super::rows::{BUSY, POLICY, backoff, client, peer};

/// A strategy that says the same of each answer.
struct Says(fn() -> Option<Retryable>);

impl RetryableStrategy for Says {
    fn handle(&self, _: &reqwest_middleware::Result<reqwest::Response>) -> Option<Retryable> {
        (self.0)()
    }
}

/// Sends through the middleware to a peer that answers so. Returns the requests and whether the answer
/// is a failure that the middleware has noted.
async fn sent(it: impl Middleware, method: &Method, answer: Option<&'static str>) -> (usize, bool) {
    let (address, requests) = peer(answer).await;
    let http = ClientBuilder::new(client(None)).with(it).build();
    let answer = http.request(method.clone(), format!("http://{address}/")).send().await.unwrap();
    (requests.load(SeqCst), answer.extensions().get::<Arc<GaveUp<Boxed>>>().is_some())
}

/// `None` of a strategy is "do not retry", and `None` of the function is "by the status".
#[tokio::test]
async fn none_of_a_strategy_is_fatal_after_a_bad_answer() {
    for (old, new, [was, is]) in [
        ((|| Some(Retryable::Transient)) as fn() -> _, Some(Verdict::transient()), [4, 4]),
        (|| Some(Retryable::Fatal), Some(Verdict::fatal()), [1, 1]),
        (|| None, Some(Verdict::fatal()), [1, 1]),
        (|| None, Some(Verdict::transient().not_again()), [1, 1]),
        (|| None, None, [1, 4]),
    ] {
        for method in [Method::GET, Method::PUT] {
            let theirs =
                RetryTransientMiddleware::new_with_policy_and_strategy(backoff(), Says(old));
            assert_eq!(sent(theirs, &method, BUSY).await.0, was, "{new:?}");
            let ours = RetryMiddleware::new(POLICY).judging(move |_| new);
            assert_eq!(sent(ours, &method, BUSY).await, (is, true), "{new:?}");
            // The first form.
            let (address, requests) = peer(BUSY).await;
            let (http, url) = (client(None), format!("http://{address}/"));
            let send =
                async |_| error_for_status(http.request(method.clone(), &url).send().await?).await;
            let policy = POLICY.with_classifier((move |_: &Failure| new, Classifier::idempotent()));
            let ended = retry(send, policy, Never).await.unwrap_err();
            assert_eq!((requests.load(SeqCst), ended.is_in_doubt()), (is, false), "{new:?}");
        }
    }
}

/// A good answer needs no verdict: any that does not say `Healthy` makes a failure of it.
#[tokio::test]
async fn none_stays_none_after_a_good_answer() {
    let good = Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    for (verdict, is_failure) in [(None, false), (Some(Verdict::fatal()), true)] {
        let ours = RetryMiddleware::new(POLICY).judging(move |_| verdict);
        assert_eq!(sent(ours, &Method::GET, good).await, (1, is_failure));
    }
}

/// `fatal()` says nothing about the health of the upstream.
#[tokio::test]
async fn an_answer_that_is_not_sent_again_counts_at_the_breaker_by_its_health() {
    for (verdict, attempts) in [(Verdict::fatal(), 3), (Verdict::transient().not_again(), 2)] {
        let (address, requests) = peer(BUSY).await;
        let upstream = Upstream::new("shop").with_breaker(Breaker::new().with_consecutive(2));
        let ours = RetryMiddleware::new(POLICY).on(Arc::new(upstream));
        let ours = ours.judging(move |_| Some(verdict));
        let http = ClientBuilder::new(client(None)).with(ours).build();
        for _ in 0..3 {
            let _ = http.get(format!("http://{address}/")).send().await;
        }
        assert_eq!(requests.load(SeqCst), attempts, "{verdict:?}");
    }
}

/// A verdict of the function says nothing about the request. The method does, or the classifier of the request.
#[tokio::test]
async fn a_read_that_is_not_sent_again_is_not_in_doubt() {
    let read = Some(Classifier::idempotent());
    for (method, own, is_in_doubt) in [
        (Method::GET, None, false),
        (Method::POST, None, true),
        (Method::POST, read, false),
        (Method::GET, Some(Classifier::non_idempotent()), true),
    ] {
        for answer in [BUSY, Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")] {
            let (address, requests) = peer(answer).await;
            let ours = RetryMiddleware::new(POLICY);
            let ours = ours.judging(|_| Some(Verdict::transient().not_again()));
            let http = ClientBuilder::new(client(None)).with(ours).build();
            let request = http.request(method.clone(), format!("http://{address}/"));
            let request = own.into_iter().fold(request, RequestBuilder::with_extension);
            let answer = request.send().await.unwrap();
            let end = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
            assert_eq!(end.is_in_doubt(), is_in_doubt, "{method} {}", answer.status());
            assert_eq!(requests.load(SeqCst), 1);
        }
    }
}
