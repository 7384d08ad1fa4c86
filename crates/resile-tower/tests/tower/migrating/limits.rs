//! The limits of a request and of a connection, at a host that does not answer, and that of a whole call.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http::Method;
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure};
use resile_tower::resile::{Backoff, GaveUp, Never, retry};
use tokio::time::Instant;

use super::rows::{POLICY, theirs};

const URL: &str = "http://silent.test/";

const LIMIT: Duration = Duration::from_millis(500);

/// A host whose name is never resolved, so no connection is made. It counts those that were begun.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>);

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        self.0.fetch_add(1, SeqCst);
        Box::pin(pending())
    }
}

impl Silent {
    fn client(&self, connect: Option<Duration>) -> reqwest::Client {
        let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
        let client = client.dns_resolver(Arc::new(self.clone()));
        connect.into_iter().fold(client, reqwest::ClientBuilder::connect_timeout).build().unwrap()
    }

    fn begun(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Sends with a timeout of the request through the middleware. Returns the connections that were begun.
async fn limited(it: impl Middleware, method: &Method) -> usize {
    let silent = Silent::default();
    let http = ClientBuilder::new(silent.client(None)).with(it).build();
    http.request(method.clone(), URL).timeout(LIMIT).send().await.unwrap_err();
    silent.begun()
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_request_limits_each_attempt() {
    for (method, sent) in [(Method::GET, [4, 4, 4]), (Method::POST, [4, 1, 1])] {
        let old = limited(theirs(), &method).await;
        let began = Instant::now();
        let kept = limited(RetryMiddleware::new(POLICY), &method).await;
        let each = began.elapsed() / u32::try_from(kept).unwrap();
        assert!((LIMIT..LIMIT * 11 / 10).contains(&each), "{method}: {each:?} for each attempt");

        let silent = Silent::default();
        let http = silent.client(None);
        let policy = POLICY.with_classifier(Classifier::for_method(&method));
        let send = async |_| -> Result<_, Failure> {
            Ok(http.request(method.clone(), URL).timeout(LIMIT).send().await?)
        };
        let gave_up = retry(send, policy, Never).await.unwrap_err();
        assert_eq!(gave_up.is_in_doubt(), method == Method::POST);
        assert_eq!([old, kept, silent.begun()], sent, "{method}");
    }
}

/// Nothing was sent, but only the limit of the client says so.
#[tokio::test(start_paused = true)]
async fn a_post_is_in_doubt_if_the_attempt_timeout_ends_its_connecting() {
    let policy = POLICY.with_attempt_timeout(2 * LIMIT);
    for (connect, attempts, is_in_doubt) in [(Some(LIMIT), 4, false), (None, 1, true)] {
        let silent = Silent::default();
        let http = ClientBuilder::new(silent.client(connect)).with(RetryMiddleware::new(policy));
        let ended = http.build().post(URL).body("order").send().await.unwrap_err();
        let reqwest_middleware::Error::Middleware(ended) = ended else { panic!("{ended}") };
        let ended: GaveUp<Boxed> = ended.downcast().unwrap();
        assert_eq!((silent.begun(), ended.is_in_doubt()), (attempts, is_in_doubt), "{ended}");

        let silent = Silent::default();
        let http = silent.client(connect);
        let policy = policy.with_classifier(Classifier::non_idempotent());
        let send = async |_| -> Result<_, Failure> { Ok(http.post(URL).send().await?) };
        let ended = retry(send, policy, Never).await.unwrap_err();
        assert_eq!((silent.begun(), ended.is_in_doubt()), (attempts, is_in_doubt), "{ended}");
    }
}

/// A stand-in that answers with a 503 at once.
#[derive(Clone, Default)]
struct Busy(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Middleware for Busy {
    async fn handle(
        &self,
        _: reqwest::Request,
        _: &mut http::Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        self.0.fetch_add(1, SeqCst);
        Ok(http::Response::builder().status(503).body("").unwrap().into())
    }
}

/// Returns the number of requests to a stand-in.
async fn counted(it: impl Middleware) -> usize {
    let busy = Busy::default();
    let http = ClientBuilder::new(reqwest::Client::new()).with(it).with(busy.clone()).build();
    assert_eq!(http.get(URL).send().await.unwrap().status(), 503);
    busy.0.load(SeqCst)
}

/// The old program asks the clock of the system, which a paused clock of tokio does not move.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_reach_a_total_limit_of_reqwest_retry() {
    const DELAY: Duration = Duration::from_millis(20);
    const TOTAL: Duration = Duration::from_millis(50);
    let backoff = ExponentialBackoff::builder().retry_bounds(DELAY, DELAY).jitter(Jitter::None);
    let old = RetryTransientMiddleware::new_with_policy(
        backoff.build_with_total_retry_duration_and_max_retries(TOTAL, 9),
    );
    let policy = POLICY.with_attempts(10).with_backoff(Backoff::fixed(DELAY));
    let new = RetryMiddleware::new(policy.with_total_timeout(TOTAL));
    assert_eq!([counted(old).await, counted(new).await], [10, 3]);
}
