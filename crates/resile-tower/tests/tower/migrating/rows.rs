//! Rows of the chapter whose requests have no answer, or no end of one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::Method;
use reqwest_middleware::{ClientBuilder, Middleware};
use reqwest_retry::{
    RetryDecision, RetryError, RetryTransientMiddleware, Retryable, RetryableStrategy,
    default_on_request_failure, default_on_request_success, policies::ExponentialBackoff,
};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure, error_for_status};
use resile_tower::resile::{
    Backoff, Breaker, GaveUp, Health, Never, RetryPolicy, Upstream, Verdict, retry,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fetch;
use crate::server::{refusing, streamed};

const SHORT: Duration = Duration::from_millis(1);

pub(super) const POLICY: RetryPolicy =
    RetryPolicy::new().with_attempts(4).with_backoff(Backoff::fixed(SHORT));

/// Starts a peer that answers each connection with these bytes and closes it. `None` is silence.
pub(super) async fn peer(answer: Option<&'static str>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 2048]).await;
                count.fetch_add(1, SeqCst);
                match answer {
                    Some(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap(),
                    None => std::future::pending().await,
                }
            });
        }
    });
    (address, requests)
}

pub(super) fn client(limit: Option<Duration>) -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
    let client = client.pool_max_idle_per_host(0);
    limit.into_iter().fold(client, reqwest::ClientBuilder::timeout).build().unwrap()
}

/// Sends through the middleware and reads the body. Returns the error.
async fn sent(
    it: impl Middleware,
    (method, address): (&Method, SocketAddr),
    limit: Option<Duration>,
) -> reqwest_middleware::Error {
    let http = ClientBuilder::new(client(limit)).with(it).build();
    match http.request(method.clone(), format!("http://{address}/")).send().await {
        Ok(answer) => answer.text().await.unwrap_err().into(),
        Err(error) => error,
    }
}

pub(super) fn backoff() -> ExponentialBackoff {
    ExponentialBackoff::builder().retry_bounds(SHORT, SHORT).build_with_max_retries(3)
}

pub(super) fn theirs() -> impl Middleware {
    RetryTransientMiddleware::new_with_policy(backoff())
}

/// Calls as the chapter does. Returns the end of the call.
async fn called(method: &Method, address: SocketAddr, limit: Option<Duration>) -> GaveUp<Failure> {
    let policy = POLICY.with_classifier(Classifier::for_method(method));
    let (http, url) = (client(limit), format!("http://{address}/"));
    retry(|_| fetch(&http, method.clone(), &url), policy, Never).on("weather").await.unwrap_err()
}

/// Returns the number of requests of the old program, of the call and of the middleware.
async fn requests(
    method: Method,
    answer: Option<&'static str>,
    limit: Option<Duration>,
) -> [usize; 3] {
    let [old, call, middleware] = [peer(answer).await, peer(answer).await, peer(answer).await];
    sent(theirs(), (&method, old.0), limit).await;
    called(&method, call.0, limit).await;
    sent(RetryMiddleware::new(POLICY), (&method, middleware.0), limit).await;
    [old, call, middleware].map(|(_, requests)| requests.load(SeqCst))
}

#[tokio::test]
async fn a_body_that_breaks_off_is_sent_again_by_the_call_only() {
    let broken = Some("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc");
    assert_eq!(requests(Method::GET, broken, None).await, [1, 4, 1]);
    assert_eq!(requests(Method::POST, broken, None).await, [1, 1, 1]);
}

/// `reqwest` follows ten redirects.
#[tokio::test]
async fn a_circle_of_redirects_is_followed_once() {
    let circle = Some("HTTP/1.1 307 On\r\nlocation: /\r\ncontent-length: 0\r\n\r\n");
    for method in [Method::GET, Method::POST] {
        assert_eq!(requests(method, circle, None).await, [11; 3]);
    }
}

#[tokio::test]
async fn a_timeout_of_the_client_is_no_answer() {
    let limit = Some(Duration::from_millis(200));
    let (get, post) =
        tokio::join!(requests(Method::GET, None, limit), requests(Method::POST, None, limit));
    assert_eq!((get, post), ([4, 4, 4], [4, 1, 1]));
}

#[tokio::test]
async fn a_refused_connection_is_made_again_for_a_post() {
    let (_socket, closed) = refusing();
    let post = (&Method::POST, closed);
    let reqwest_middleware::Error::Middleware(old) = sent(theirs(), post, None).await else {
        panic!("no retry")
    };
    let (short, long) = (old.to_string(), format!("{old:#}"));
    assert!(!short.contains("refused") && long.contains("Connection refused"), "{short}, {long}");
    let retries = match old.downcast::<RetryError>().unwrap() {
        RetryError::WithRetries { retries, .. } => retries,
        RetryError::Error(error) => panic!("{error}"),
    };
    assert_eq!((retries, called(post.0, closed, None).await.attempts()), (3, 4));
    let ours = sent(RetryMiddleware::new(POLICY), post, None).await;
    // The last error is in the alternate form only, as in the old program.
    let (short, long) = (ours.to_string(), format!("{ours:#}"));
    let last = format!(": no connection to http://{closed}/: Connection refused");
    assert!(!short.contains("refused") && long.contains(&last), "{short}, {long}");
    let reqwest_middleware::Error::Middleware(ours) = ours else { panic!("{ours}") };
    let failure = ours.chain().find_map(|e| e.downcast_ref::<Failure>()).unwrap();
    assert_eq!(failure.status(), None);
    let ours = ours.downcast::<GaveUp<Boxed>>().unwrap();
    assert_eq!(ours.attempts(), 4);
    assert!(format!("{ours:#}").contains(&last), "{ours:#}");
    let failure = ours.into_last().unwrap().into_inner().downcast::<Failure>().unwrap();
    assert!(failure.into_cause::<reqwest::Error>().unwrap().is_connect());
}

pub(super) const BUSY: Option<&str> = Some("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");

/// Returns a body that cannot be cloned.
fn stream() -> reqwest::Body {
    reqwest::Body::wrap(streamed(2, 9))
}

/// Sends a `PUT` through the middleware. Returns the status of the last answer, or `None` without one.
async fn put(it: impl Middleware, address: SocketAddr, body: reqwest::Body) -> Option<u16> {
    let http = ClientBuilder::new(client(None)).with(it).build();
    let answer = http.put(format!("http://{address}/")).body(body).send().await;
    answer.ok().map(|answer| answer.status().as_u16())
}

/// A wait of zero and a date in the past count as no `Retry-After`.
#[tokio::test]
async fn a_retry_after_that_is_over_counts_as_none() {
    for (answer, sent) in [
        ("HTTP/1.1 403 No\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n", [1, 1, 1]),
        (
            "HTTP/1.1 413 Big\r\nretry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n\
             content-length: 0\r\n\r\n",
            [1, 1, 1],
        ),
        ("HTTP/1.1 507 Full\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n", [4, 1, 1]),
    ] {
        let answer = Some(answer);
        let [old, call, middleware] = [peer(answer).await, peer(answer).await, peer(answer).await];
        put(theirs(), old.0, "words".into()).await.unwrap();
        called(&Method::PUT, call.0, None).await;
        put(RetryMiddleware::new(POLICY), middleware.0, "words".into()).await.unwrap();
        let requests = [old, call, middleware].map(|(_, requests)| requests.load(SeqCst));
        assert_eq!(requests, sent, "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_a_stream_is_sent_again_by_the_call_only() {
    let [old, call, middleware] = [peer(BUSY).await, peer(BUSY).await, peer(BUSY).await];
    assert_eq!(put(theirs(), old.0, stream()).await, None);
    assert_eq!(put(RetryMiddleware::new(POLICY), middleware.0, stream()).await, Some(503));
    let (http, url) = (client(None), format!("http://{}/", call.0));
    let send = async |_| error_for_status(http.put(&url).body(stream()).send().await?).await;
    let policy = POLICY.with_classifier(Classifier::idempotent());
    assert_eq!(retry(send, policy, Never).await.unwrap_err().attempts(), 4);
    let requests = [old, call, middleware].map(|(_, requests)| requests.load(SeqCst));
    assert_eq!(requests, [0, 4, 1]);
}

/// Returns the wait of the program before that retry.
fn wait(retry: u32) -> Duration {
    SHORT * retry
}

/// A policy of the program, with the numbers of past retries that it was given.
struct Own(Arc<Mutex<Vec<u32>>>);

impl reqwest_retry::RetryPolicy for Own {
    fn should_retry(&self, _: SystemTime, past: u32) -> RetryDecision {
        self.0.lock().unwrap().push(past);
        match past {
            0..3 => RetryDecision::Retry { execute_after: SystemTime::now() + wait(past + 1) },
            _ => RetryDecision::DoNotRetry,
        }
    }
}

#[tokio::test]
async fn a_policy_of_the_program_is_custom_with_a_number_of_attempts() {
    let [old, new] = [peer(BUSY).await, peer(BUSY).await];
    let past = Arc::default();
    let theirs = RetryTransientMiddleware::new_with_policy(Own(Arc::clone(&past)));
    assert_eq!(put(theirs, old.0, "words".into()).await, Some(503));
    assert_eq!(*past.lock().unwrap(), [0, 1, 2, 3]);
    let policy = POLICY.with_backoff(Backoff::custom(wait));
    assert_eq!(put(RetryMiddleware::new(policy), new.0, "words".into()).await, Some(503));
    assert_eq!([old, new].map(|(_, requests)| requests.load(SeqCst)), [4, 4]);
    let delays: Vec<_> = policy.backoff().schedule().take(3).collect();
    assert_eq!(delays, [0, 1, 2].map(|past| wait(past + 1)));
}

/// The strategy of the program: a replica that lags does not find an entry, or a 201 means "not yet".
struct Lagging;

impl RetryableStrategy for Lagging {
    fn handle(&self, end: &reqwest_middleware::Result<reqwest::Response>) -> Option<Retryable> {
        match end {
            Ok(answer) if [201, 404].contains(&answer.status().as_u16()) => {
                Some(Retryable::Transient)
            }
            Ok(answer) => default_on_request_success(answer),
            Err(error) => default_on_request_failure(error),
        }
    }
}

/// A replica that lags works.
const LAGGING: Verdict = Verdict::transient().with_health(Health::Healthy);

fn lagging(answer: &reqwest::Response) -> Option<Verdict> {
    [201, 404].contains(&answer.status().as_u16()).then_some(LAGGING)
}

/// The function of the first form.
fn mine(failure: &Failure) -> Option<Verdict> {
    (failure.status()? == 404).then_some(LAGGING)
}

#[tokio::test]
async fn a_strategy_of_the_program_is_a_function_that_judges() {
    // A 201 is a good answer in the first form, because a `Failure` has none.
    for (answer, status, first, sent) in [
        ("HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n", 201, Ok(()), [4, 4, 1]),
        ("HTTP/1.1 404 None\r\ncontent-length: 0\r\n\r\n", 404, Err(Some(404)), [4, 4, 4]),
        ("HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n", 400, Err(Some(400)), [1, 1, 1]),
        (BUSY.unwrap(), 503, Err(Some(503)), [4, 4, 4]),
    ] {
        let answer = Some(answer);
        let [old, kept, call] = [peer(answer).await, peer(answer).await, peer(answer).await];
        let theirs = RetryTransientMiddleware::new_with_policy_and_strategy(backoff(), Lagging);
        assert_eq!(put(theirs, old.0, "words".into()).await, Some(status));
        let ours = RetryMiddleware::new(POLICY).judging(lagging);
        assert_eq!(put(ours, kept.0, "words".into()).await, Some(status));
        let (http, url) = (client(None), format!("http://{}/", call.0));
        let send = async |_| error_for_status(http.put(&url).send().await?).await;
        let policy = POLICY.with_classifier((mine, Classifier::idempotent()));
        let end = retry(send, policy, Never).await.map(drop);
        let end = end.map_err(|gave_up| gave_up.last()?.status().map(|status| status.as_u16()));
        assert_eq!(end, first);
        assert_eq!([old, kept, call].map(|(_, requests)| requests.load(SeqCst)), sent, "{status}");
    }
}

/// Without `Healthy` the answers of a replica that lags open the breaker.
#[tokio::test]
async fn a_replica_that_lags_opens_no_breaker() {
    let missing = Some("HTTP/1.1 404 None\r\ncontent-length: 0\r\n\r\n");
    for (verdict, sent) in [(LAGGING, 8), (Verdict::transient(), 3)] {
        let (address, requests) = peer(missing).await;
        let replica = Upstream::new("replica").with_breaker(Breaker::new().with_consecutive(3));
        let retries = RetryMiddleware::new(POLICY).on(Arc::new(replica));
        let retries = retries.judging(move |answer| (answer.status() == 404).then_some(verdict));
        for _ in 0..2 {
            put(retries.clone(), address, "words".into()).await;
        }
        assert_eq!(requests.load(SeqCst), sent, "{verdict:?}");
    }
}
