//! `resile::http` and `retry` over real sockets, on a manual clock.

use std::convert::Infallible;

use ::http::Response;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use resile::breaker::State;
use resile::http::{Classifier, Failure, StatusError, error_for_status};
use resile::observe::Event;
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Classify, Health, Never, RetryPolicy, StopReason, Upstream, Verdict, retry,
};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

use super::refusing::refusing;
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
    let (_socket, address) = refusing();
    let error = get(&client(), address).await.unwrap_err();
    assert!(matches!(&error, CallError::Unanswered(error) if error.is_connect()), "{error:?}");
    assert_eq!(classify(&error), Verdict::transient().not_sent());
}

/// The error of an operation whose answer may be bad although its status is good.
#[derive(Debug)]
enum BookError {
    Http(Failure),
    NotYet,
}

impl From<Failure> for BookError {
    fn from(failure: Failure) -> Self {
        Self::Http(failure)
    }
}

async fn book(client: &reqwest::Client, address: SocketAddr) -> Result<String, BookError> {
    let url = format!("http://{address}/");
    let answer = client.post(url).send().await.map_err(Failure::from)?;
    let answer = error_for_status(answer).await?;
    if answer.status() == 202 {
        return Err(BookError::NotYet);
    }
    Ok(answer.text().await.map_err(Failure::from)?)
}

#[tokio::test]
async fn a_bad_answer_is_a_variant_beside_the_failure() {
    let post = POST.over(|post, error: &BookError| match error {
        BookError::Http(failure) => post.classify(failure),
        BookError::NotYet => Some(Verdict::transient().with_health(Health::Healthy)),
    });
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(post);
    let end = async |address| {
        let client = client();
        let end = retry(|_| book(&client, address), policy, Never).await;
        end.map_err(|gave_up| (gave_up.attempts(), gave_up.into_last()))
    };
    let [not_yet, failed] = [202, 500].map(|status| {
        let answer = Response::builder().status(status).body(Full::default()).unwrap();
        serve(answer)
    });
    assert_eq!(end(not_yet.await).await.unwrap(), "hello");
    // A `POST` with a 500 may have been executed, and one to a closed port was never sent.
    let (attempts, last) = end(failed.await).await.unwrap_err();
    assert!(matches!(last, Some(BookError::Http(failure)) if failure.status().unwrap() == 500));
    assert_eq!(attempts, 1);
    let (_socket, closed) = refusing();
    let (attempts, last) = end(closed).await.unwrap_err();
    assert!(matches!(last, Some(BookError::Http(failure)) if failure.status().is_none()));
    assert_eq!(attempts, 3);
}
