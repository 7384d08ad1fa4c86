//! `resile::http` and `retry` over real sockets, under a clock that is moved by hand.

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
use resile::{Breaker, ManualTimer, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const BOOK: Classifier = Classifier::non_idempotent();

/// A server whose first answer is `first`, and all others 200.
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

async fn get(client: &reqwest::Client, address: SocketAddr) -> Result<String, CallError> {
    let response =
        client.get(format!("http://{address}/")).send().await.map_err(CallError::Unanswered)?;
    StatusError::check(response.status(), response.headers()).map_err(CallError::Status)?;
    response.text().await.map_err(CallError::Unanswered)
}

fn judge(error: &CallError) -> Verdict {
    match error {
        CallError::Status(refused) => BOOK.verdict(refused.status(), refused.retry_after()),
        CallError::Unanswered(error) => BOOK.unanswered(!error.is_connect()),
    }
}

#[tokio::test]
async fn a_429_is_waited_out_and_mended() {
    let busy =
        Response::builder().status(429).header("retry-after", "20").body(Full::default()).unwrap();
    let address = serve(busy).await;
    let (client, timer) = (client(), ManualTimer::new());

    // Nothing sleeps: whenever the call waits, the clock is moved to where the wait ends.
    let clock = timer.clone();
    let hands = tokio::spawn(async move {
        loop {
            match clock.until_next() {
                Some(left) => clock.advance(left),
                None => tokio::task::yield_now().await,
            }
        }
    });

    let policy = RetryPolicy::new().with_classifier(judge);
    let told = Mutex::new(Vec::new());
    let upstream = Upstream::new("local").with_timer(&timer);
    let observer = |event: &Event<'_>| told.lock().unwrap().push(event.to_string());
    let answer =
        retry(|_| get(&client, address), &policy, Never).on(upstream.observed_by(&observer)).await;
    hands.abort();

    assert_eq!(answer.unwrap(), "hello");
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), 5, "{told:?}");
    let words = "429 Too Many Requests (asked to wait 20.0s)";
    assert_eq!(told[1], format!("local: attempt 1 of 3 failed: {words}"));
    assert!(told[2].starts_with("local: attempt 1 of 3 failed, retrying in 2"), "{told:?}");
    assert!(told[2].ends_with(words), "{told:?}");
    assert_eq!(told[4], "local: attempt 2 of 3 succeeded");
    let waited = resile::Timer::now(&timer);
    assert!(
        (20..=22).contains(&waited.as_secs()),
        "the hint, and a tenth of it at most on top: {waited:?}"
    );
}

#[tokio::test]
async fn a_503_to_a_booking_is_final_and_counts_at_the_breaker() {
    let busy =
        Response::builder().status(503).header("retry-after", "20").body(Full::default()).unwrap();
    let (address, client, timer) = (serve(busy).await, client(), ManualTimer::new());
    let policy = RetryPolicy::new().with_classifier(judge);
    let upstream =
        Upstream::new("local").with_breaker(Breaker::new().with_consecutive(1)).with_timer(&timer);
    let gave_up = retry(|_| get(&client, address), &policy, Never).on(&upstream).await.unwrap_err();
    // A 503 with `Retry-After` asks for fewer requests: the breaker does not take it for an outage.
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    assert_eq!(upstream.breaker().unwrap().state(), State::Closed);

    let broken = serve(Response::builder().status(503).body(Full::default()).unwrap()).await;
    let gave_up = retry(|_| get(&client, broken), &policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    assert_eq!(upstream.breaker().unwrap().state(), State::Open);
}

#[tokio::test]
async fn nobody_listens_so_nothing_was_booked() {
    // The port is bound and does not listen: nobody else can take it, and to connect is refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = get(&client(), socket.local_addr().unwrap()).await.unwrap_err();
    assert!(matches!(&error, CallError::Unanswered(error) if error.is_connect()), "{error:?}");
    assert_eq!(judge(&error), Verdict::transient());
}
