//! `resile::http` and `retry` over real sockets, on a manual clock.

use std::convert::Infallible;

use ::http::Response;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use resile::breaker::State;
use resile::http::{Classifier, StatusError};
use resile::observe::Event;
use resile::time::ManualTimer;
use resile::{Breaker, Classify, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

use super::script::advance_past_sleeps;

const POST: Classifier = Classifier::non_idempotent();

/// Starts a server that answers `first` to the first request and 200 to all others.
async fn serve(first: Response<Full<Bytes>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(Mutex::new(Some(first)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answers = answers.clone();
            let service = service_fn(move |_| {
                let answer =
                    answers.lock().unwrap().take().unwrap_or_else(|| Response::new("hello".into()));
                async move { Ok::<_, Infallible>(answer) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build().unwrap()
}

#[derive(Debug)]
enum CallError {
    Status(StatusError),
    Unanswered(reqwest::Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(refused) => refused.fmt(f),
            Self::Unanswered(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

async fn get(client: &reqwest::Client, address: SocketAddr) -> Result<String, CallError> {
    let response =
        client.get(format!("http://{address}/")).send().await.map_err(CallError::Unanswered)?;
    StatusError::check(response.status(), response.headers()).map_err(CallError::Status)?;
    response.text().await.map_err(CallError::Unanswered)
}

fn classify(error: &CallError) -> Verdict {
    match error {
        CallError::Status(refused) => POST.verdict(refused.status(), refused.retry_after()),
        CallError::Unanswered(error) => POST.classify(error).expect("a verdict"),
    }
}

#[tokio::test]
async fn a_429_is_waited_out_and_the_retry_succeeds() {
    let busy =
        Response::builder().status(429).header("retry-after", "20").body(Full::default()).unwrap();
    let address = serve(busy).await;
    let (client, timer) = (client(), ManualTimer::new());

    // No real sleep happens. Whenever the call waits, the clock advances to the end of the wait.
    let hands = advance_past_sleeps(&timer);

    let policy = RetryPolicy::new().with_classifier(classify);
    let events = Mutex::new(Vec::new());
    let upstream = Upstream::new("local").with_timer(&timer);
    let observer = |event: &Event<'_>| events.lock().unwrap().push(event.to_string());
    let answer =
        retry(|_| get(&client, address), &policy, Never).on(upstream.observed_by(&observer)).await;
    hands.abort();

    assert_eq!(answer.unwrap(), "hello");
    let events = events.into_inner().unwrap();
    assert_eq!(events.len(), 5, "{events:?}");
    let words = ", the upstream asked for a wait of 20.0s: 429 Too Many Requests";
    assert_eq!(events[1], format!("local: attempt 1 of 3 failed{words}"));
    assert!(events[2].starts_with("local: attempt 1 of 3 failed, retrying in 2"), "{events:?}");
    assert!(events[2].ends_with(words), "{events:?}");
    assert_eq!(events[4], "local: attempt 2 of 3 succeeded");
    let waited = resile::time::Timer::now(&timer);
    assert!(
        (20..=22).contains(&waited.as_secs()),
        "the wait is the hint and at most a tenth more: {waited:?}"
    );
}

#[tokio::test]
async fn a_503_to_a_post_is_fatal_and_counts_at_the_breaker() {
    let busy =
        Response::builder().status(503).header("retry-after", "20").body(Full::default()).unwrap();
    let (address, client, timer) = (serve(busy).await, client(), ManualTimer::new());
    let policy = RetryPolicy::new().with_classifier(classify);
    let upstream =
        Upstream::new("local").with_breaker(Breaker::new().with_consecutive(1)).with_timer(&timer);
    let gave_up = retry(|_| get(&client, address), &policy, Never).on(&upstream).await.unwrap_err();
    // A 503 with `Retry-After` asks for fewer requests, so the breaker does not count an outage.
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    assert_eq!(upstream.breaker().unwrap().state(), State::Closed);

    let broken = serve(Response::builder().status(503).body(Full::default()).unwrap()).await;
    let gave_up = retry(|_| get(&client, broken), &policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    assert_eq!(upstream.breaker().unwrap().state(), State::Open);
}

#[tokio::test]
async fn a_refused_connection_is_retried_even_for_a_post() {
    // The port is bound but does not listen, so no other process can take it and connections are
    // refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = get(&client(), socket.local_addr().unwrap()).await.unwrap_err();
    assert!(matches!(&error, CallError::Unanswered(error) if error.is_connect()), "{error:?}");
    assert_eq!(classify(&error), Verdict::transient().not_sent());
}
