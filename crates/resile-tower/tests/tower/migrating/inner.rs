//! Errors of the middlewares below, which the program wrote itself or which pass one of `reqwest` on.

use std::error::Error as _;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use http::Method;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Error, Middleware, Next, Result};
use reqwest_retry::RetryTransientMiddleware;
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure};
use resile_tower::resile::{Breaker, Classify, GaveUp, Health, Never, StopReason, Upstream, retry};
use tokio::net::TcpSocket;

use super::rows::{BUSY, POLICY, backoff, client, peer, theirs};
use crate::server::refusing;

/// A middleware of the program that counts its calls. It fails before it sends.
#[derive(Clone)]
struct Fails<F>(F, Arc<AtomicUsize>);

/// One that sends, and returns an error of its own for that of `reqwest`.
#[derive(Clone)]
struct Wraps<F>(F, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl<F: Fn() -> Error + Send + Sync + 'static> Middleware for Fails<F> {
    async fn handle(&self, _: Request, _: &mut http::Extensions, _: Next<'_>) -> Result<Response> {
        self.1.fetch_add(1, SeqCst);
        Err(self.0())
    }
}

#[async_trait::async_trait]
impl<F: Fn(reqwest::Error) -> Error + Send + Sync + 'static> Middleware for Wraps<F> {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.1.fetch_add(1, SeqCst);
        match next.run(request, extensions).await {
            Ok(answer) => answer.error_for_status().map_err(&self.0),
            Err(Error::Reqwest(error)) => Err(self.0(error)),
            Err(error) => Err(error),
        }
    }
}

/// The error of a middleware of the program.
#[derive(Debug)]
struct NoToken;

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no token")
    }
}

impl std::error::Error for NoToken {}

fn no_token() -> Fails<fn() -> Error> {
    Fails(|| Error::middleware(NoToken), Arc::default())
}

/// Sends through a middleware and one below it. Returns the error.
async fn sent(above: impl Middleware, below: impl Middleware, method: &Method, url: &str) -> Error {
    let http = ClientBuilder::new(client(None)).with(above).with(below).build();
    http.request(method.clone(), url).send().await.unwrap_err()
}

/// Sends through `RetryMiddleware` and one below it. Returns the end of the call.
async fn ended(below: impl Middleware, method: &Method, url: &str) -> GaveUp<Boxed> {
    match sent(RetryMiddleware::new(POLICY), below, method, url).await {
        Error::Middleware(error) => error.downcast().unwrap(),
        Error::Reqwest(error) => panic!("{error}"),
    }
}

const URL: &str = "http://store.test/orders";

/// Returns a URL whose host refuses connections as long as the socket lives.
fn refused() -> (String, TcpSocket) {
    let (socket, address) = refusing();
    (format!("http://user:secret@{address}/orders?token=secret"), socket)
}

/// A middleware may also fail after the answer. So a `POST` is in doubt.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_middleware_is_final_as_with_reqwest_retry() {
    for method in [Method::GET, Method::POST] {
        let [old, new] = [no_token(), no_token()];
        sent(theirs(), old.clone(), &method, URL).await;
        let end = ended(new.clone(), &method, URL).await;
        assert_eq!([&old, &new].map(|below| below.1.load(SeqCst)), [1, 1], "{method}");
        assert_eq!((end.reason(), end.is_in_doubt()), (StopReason::Fatal, method == Method::POST));
        assert!(!end.is_without_effect());
        let failure = end.source().unwrap();
        assert_eq!(failure.to_string(), "a middleware failed");
        assert!(failure.source().unwrap().is::<NoToken>());
    }
}

/// The words of HTTP say that nothing was executed, so a middleware that has sent nothing may use them.
#[tokio::test(start_paused = true)]
async fn a_failure_of_a_401_by_a_middleware_is_without_effect() {
    let refuses = || {
        let answer = http::Response::builder().status(401).body("").unwrap();
        Error::middleware(Failure::check(answer).unwrap_err())
    };
    let below = Fails(refuses as fn() -> Error, Arc::default());
    let end = ended(below.clone(), &Method::POST, URL).await;
    assert_eq!((end.reason(), below.1.load(SeqCst)), (StopReason::Fatal, 1), "{end:?}");
    assert!(end.is_without_effect() && !end.is_in_doubt(), "{end:?}");
}

/// A token that is missing says nothing of the store.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_middleware_opens_no_breaker() {
    let store = Upstream::new("store").with_breaker(Breaker::new().with_consecutive(1));
    let ours = RetryMiddleware::new(POLICY).on(Arc::new(store));
    let no_file = || Error::middleware(io::Error::from(ErrorKind::NotFound));
    let no_file = Fails(no_file as fn() -> Error, Arc::default());
    for below in [no_token(), no_file, no_token()] {
        for method in [Method::GET, Method::POST] {
            let before = below.1.load(SeqCst);
            sent(ours.clone(), below.clone(), &method, URL).await;
            assert!(below.1.load(SeqCst) > before, "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_io_error_of_a_middleware_says_whether_a_repetition_helps() {
    for (kind, get) in [
        (ErrorKind::ConnectionReset, 4),
        (ErrorKind::ConnectionRefused, 4), // maybe by the log of a middleware, after the answer
        (ErrorKind::PermissionDenied, 1),
    ] {
        for (method, calls) in [(Method::GET, get), (Method::POST, 1)] {
            let below = Fails(move || Error::middleware(io::Error::from(kind)), Arc::default());
            let end = ended(below.clone(), &method, URL).await;
            assert_eq!(below.1.load(SeqCst), calls, "{method} {end:?}");
            assert_eq!(end.is_in_doubt(), method == Method::POST, "{method} {end:?}");
        }
    }
}

/// Adds words to an error.
fn signed(error: Error) -> Error {
    match error {
        Error::Middleware(error) => Error::Middleware(error.context("signed")),
        Error::Reqwest(error) => error.into(),
    }
}

#[tokio::test]
async fn an_error_of_reqwest_within_that_of_a_middleware_counts_as_itself() {
    let (refused, _socket) = refused();
    let (busy, _) = peer(BUSY).await;
    let busy = format!("http://user:secret@{busy}/orders?token=secret");
    for wrap in [
        (|error| Error::middleware(error)) as fn(reqwest::Error) -> Error,
        |error| Error::middleware(Error::Reqwest(error)),
        |error| signed(Error::middleware(error)),
        |error| signed(Error::middleware(Error::Reqwest(error))),
        |error| Error::middleware(Failure::from(error)),
        |error| Error::middleware(io::Error::other(Failure::from(error))),
    ] {
        for (url, calls) in [(&refused, [4, 4]), (&busy, [4, 1])] {
            for (method, calls) in [Method::GET, Method::POST].into_iter().zip(calls) {
                let below = Wraps(wrap, Arc::default());
                let end = ended(below.clone(), &method, url).await;
                assert_eq!(below.1.load(SeqCst), calls, "{method} {url} {end:?}");
                assert_eq!(end.is_in_doubt(), calls == 1, "{method} {url} {end:?}");
                let words = format!("{end:#} {end:?}");
                assert!(!words.contains("secret") && !words.contains("a middleware"), "{words}");
            }
        }
    }
}

/// A call of this crate, and one of `reqwest-retry`.
#[tokio::test]
async fn the_end_of_a_call_below_counts_as_that_of_its_attempts() {
    let (refused, _socket) = refused();
    let end = ended(RetryMiddleware::new(POLICY), &Method::POST, &refused).await;
    assert_eq!((end.attempts(), end.is_in_doubt()), (4, false), "{end:?}");
    let old = RetryTransientMiddleware::new_with_policy(backoff());
    let end = ended(old, &Method::POST, &refused).await;
    assert_eq!((end.attempts(), end.is_in_doubt()), (4, false), "{end:?}");

    let below = no_token();
    let http = ClientBuilder::new(client(None)).with(RetryMiddleware::new(POLICY));
    let http = http.with(RetryMiddleware::new(POLICY)).with(below.clone()).build();
    let Error::Middleware(end) = http.get(URL).send().await.unwrap_err() else { panic!() };
    let end: GaveUp<Boxed> = end.downcast().unwrap();
    assert_eq!((end.reason(), below.1.load(SeqCst)), (StopReason::Fatal, 1), "{end:?}");
    assert!(end.source().unwrap().is::<GaveUp<Boxed>>(), "{end:?}");
}

/// The error of the closure around the client with its middlewares.
#[derive(Debug)]
enum CallError {
    Http(Failure),
    Middleware(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(failure) => failure.fmt(f),
            Self::Middleware(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

fn own(error: Error) -> CallError {
    match error {
        Error::Reqwest(error) => CallError::Http(error.into()),
        Error::Middleware(_) => CallError::Middleware(error),
    }
}

/// Sends by the closure. Returns the end of the call, and whether the next call finds the breaker open.
async fn called(below: impl Middleware, method: &Method, url: &str) -> (GaveUp<CallError>, bool) {
    let http = ClientBuilder::new(client(None)).with(below).build();
    let send = async |_| http.request(method.clone(), url).send().await.map_err(own);
    let classifier = Classifier::for_method(method).over(|http, error: &CallError| match error {
        CallError::Http(failure) => http.classify(failure),
        CallError::Middleware(_) => {
            let verdict = http.unanswered().not_again();
            Some(verdict.with_health(Health::Unknown).on_cut())
        }
    });
    let store = Upstream::new("store").with_breaker(Breaker::new().with_consecutive(1));
    let policy = POLICY.with_classifier(classifier);
    let end = retry(send, policy, Never).on(&store).await.unwrap_err();
    let next = retry(send, policy, Never).on(&store).await.unwrap_err();
    (end, next.reason() == StopReason::Open)
}

/// A middleware of the program that fails after a good answer, as one that checks a signature does.
#[derive(Clone)]
struct FailsAfter(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Middleware for FailsAfter {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let answer = next.run(request, extensions).await?;
        self.0.fetch_add(1, SeqCst);
        Err(Error::middleware(io::Error::other(format!("no signature on {}", answer.status()))))
    }
}

/// An order may have been executed, as with the middleware. A read does no harm.
#[tokio::test]
async fn the_closure_ends_after_an_error_of_a_middleware_too() {
    let (refused, _socket) = refused();
    for method in [Method::GET, Method::POST] {
        let (address, requests) = peer(Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
        let url = format!("http://{address}/orders");
        let after = FailsAfter(Arc::default());
        for (end, is_open) in
            [called(no_token(), &method, URL).await, called(after.clone(), &method, &url).await]
        {
            assert_eq!((end.reason(), end.attempts()), (StopReason::Fatal, 1), "{method} {end:?}");
            assert_eq!(end.is_in_doubt(), method == Method::POST, "{method} {end:?}");
            assert!(!is_open, "{method} {end:?}");
        }
        assert_eq!((after.0.load(SeqCst), requests.load(SeqCst)), (2, 2), "{method}");
        let passed = Wraps(Error::Reqwest as fn(_) -> _, Arc::default());
        assert!(called(passed, &method, &refused).await.1, "{method}");
    }
}
