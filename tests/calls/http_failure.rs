//! `http::Failure` and `http::error_for_status`, with real bytes over real sockets.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ::http::{Response, StatusCode};
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use proptest::prelude::*;
use resile::classify::{Always, ClassifyExt};
use resile::http::{Classifier, Failure, StatusError, error_for_status};
use resile::time::ManualTimer;
use resile::timeout::Elapsed;
use resile::{
    Backoff, Classify, Health, Never, ResilienceExt, RetryPolicy, StopReason, Upstream, Verdict,
    retry,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::refusing::refusing;
use super::script::advance_past_sleeps;

const SECOND: Duration = Duration::from_secs(1);
const GET: Classifier = Classifier::idempotent();
const POST: Classifier = Classifier::non_idempotent();

/// What a connection does after the request.
#[derive(Clone)]
pub(super) enum Does {
    /// Sends these bytes and closes the connection.
    Answer(Vec<u8>),
    /// Sends these bytes, then `x` for ever.
    Endless(&'static str),
    /// Resets the connection.
    Reset,
    /// Sends these bytes and keeps silent.
    Silent(&'static str),
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

pub(super) fn text(answer: &str) -> Does {
    Does::Answer(answer.as_bytes().to_vec())
}

/// Starts a server. The n-th connection does the n-th of `script`. Later ones say hello. Returns the
/// address, the number of requests, and a signal for the end of an endless answer.
pub(super) async fn serve(script: &[Does]) -> (SocketAddr, Arc<AtomicU32>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let script = script.to_vec();
    let (counted, end) = (requests.clone(), ended.clone());
    tokio::spawn(async move {
        let mut script = script.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            let does = script.next().unwrap_or_else(|| text(HELLO));
            tokio::spawn(answer(stream, does, counted.clone(), end.clone()));
        }
    });
    (address, requests, ended)
}

async fn answer(mut stream: TcpStream, does: Does, requests: Arc<AtomicU32>, end: Arc<Notify>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    requests.fetch_add(1, SeqCst);
    match does {
        Does::Answer(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Does::Endless(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            end.notify_one();
        }
        Does::Reset => {
            #[allow(deprecated, reason = "`set_zero_linger` needs tokio 1.50; zero does not block")]
            let _ = stream.set_linger(Some(Duration::ZERO));
        }
        Does::Silent(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            std::future::pending::<()>().await;
        }
    }
}

pub(super) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .retry(reqwest::retry::never())
        .build()
        .unwrap()
}

/// The operation that the guide teaches.
async fn send(client: &reqwest::Client, address: SocketAddr) -> Result<String, Failure> {
    let request = client.post(format!("http://{address}/book?key=secret"));
    Ok(error_for_status(request.send().await?).await?.text().await?)
}

async fn failure_of(does: Does) -> Failure {
    let (address, ..) = serve(&[does]).await;
    send(&client(), address).await.unwrap_err()
}

#[tokio::test]
async fn a_refusal_keeps_its_status_its_hint_and_its_body() {
    let body = "{\"error\": \"busy\"}";
    let head = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-length: 17\r\n\r\n";
    let failure = failure_of(text(&format!("{head}{body}"))).await;
    assert_eq!(failure.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(failure.retry_after(), Some(SECOND * 2));
    assert_eq!(failure.body(), body);
    assert!(failure.source().is_none() && !failure.is_not_sent());
    let read = Verdict::overloaded().after(SECOND * 2).idempotent();
    assert_eq!(GET.classify(&failure), Some(read));
    assert_eq!(POST.classify(&failure), Some(Verdict::overloaded().not_again().after(SECOND * 2)));
    let words = "503 Service Unavailable, retry after 2s: {\"error\": \"busy\"}";
    assert_eq!(without_url(&failure.to_string()), words);
    assert_eq!(without_url(&format!("{failure:#}")), words.replace(", retry after 2s", ""));
}

/// The clock of tokio goes on as soon as nothing else happens, so the server need not be waited for.
#[tokio::test(start_paused = true)]
async fn a_refusal_whose_body_stays_silent_keeps_its_status_and_its_hint() {
    let start = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\ncontent-length: 9\r\n\r\n";
    for (answer, body) in [(start.to_owned(), ""), (format!("{start}busy"), "busy")] {
        let before = tokio::time::Instant::now();
        let failure = failure_of(Does::Silent(answer.leak())).await;
        assert!((500..=501).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
        assert_eq!(failure.status(), Some(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!((failure.retry_after(), failure.body()), (Some(SECOND * 2), body));
        assert!(POST.classify(&failure).is_some_and(|verdict| verdict.is_again()), "{failure:?}");
    }
}

/// The head has told what matters, so a body that comes byte by byte costs no more time than a silent one.
#[tokio::test(start_paused = true)]
async fn a_refusal_whose_body_trickles_is_read_for_500_ms() {
    for (gap, body) in [(300, "b"), (100, "bbbb"), (1, "b".repeat(499).as_str())] {
        let byte = move |()| async move {
            tokio::time::sleep(Duration::from_millis(gap)).await;
            Some((Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"b"))), ()))
        };
        let trickle = reqwest::Body::wrap(StreamBody::new(stream::unfold((), byte)));
        let head = Response::builder().status(429).header("retry-after", "2");
        let before = tokio::time::Instant::now();
        let answer = reqwest::Response::from(head.body(trickle).unwrap());
        let failure = error_for_status(answer).await.unwrap_err();
        assert!((500..=501).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
        assert_eq!(failure.status(), Some(StatusCode::TOO_MANY_REQUESTS));
        let kept = (failure.retry_after(), failure.body().len().abs_diff(body.len()));
        assert!(kept.0 == Some(SECOND * 2) && kept.1 <= 1, "{gap} ms: {failure:?}");
    }
}

/// The wait stands behind the URL, so nobody takes it for a part of the URL.
#[tokio::test]
async fn the_wait_of_a_refusal_is_told_once_in_each_form() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 20\r\ncontent-length: 4\r\n\r\n";
    let failure = failure_of(text(&format!("{head}busy"))).await;
    let words = failure.to_string();
    let (start, end) =
        ("429 Too Many Requests from http://127.0.0.1:", "/book, retry after 20s: busy");
    assert!(words.starts_with(start) && words.ends_with(end), "{words}");

    let policy = RetryPolicy::new().with_classifier(GET);
    let upstream = Upstream::new("shop").with_observer(&());
    let once = [
        // The reason names the wait.
        (policy.with_hint_cap(SECOND), ", the upstream asks for a wait of 20.0s, more than"),
        (policy.with_attempts(1), "gave up after 1 attempt, try again in 20.0s: 429"),
    ];
    for (policy, wait) in once {
        let fails = |_| std::future::ready(Err::<(), _>(failure.clone()));
        let gave_up = retry(fails, policy, Never).on(&upstream).await.unwrap_err();
        let line = format!("{gave_up:#}");
        assert!(line.contains(wait) && line.ends_with("/book: busy"), "{line}");
        // The port of the server may hold the digits too.
        assert_eq!(without_url(&line).matches("20").count(), 1, "{line}");
        let chain = format!("{:#}", anyhow::Error::from(gave_up));
        assert!(chain.contains(wait) && chain.ends_with(end), "{chain}");
    }

    // Nothing else names it.
    let order = policy.with_classifier(|_: &Failure| Verdict::fatal().after(SECOND * 20));
    let fails = |_| std::future::ready(Err::<(), _>(failure.clone()));
    let gave_up = retry(fails, order, Never).on(&upstream).await.unwrap_err();
    let line = format!("{gave_up:#}");
    let start = "shop: gave up after 1 attempt, the error is final, \
                 the upstream asked for a wait of 20.0s: 429 Too Many Requests from http";
    assert!(line.starts_with(start) && line.ends_with("/book: busy"), "{line}");
    // So does the level of the call, because the error of another client may have no wait in its words.
    let chain = format!("{:#}", anyhow::Error::from(gave_up));
    assert!(chain.starts_with(start) && chain.ends_with(end), "{chain}");
}

/// Returns the words of a refusal without the URL that they must name.
fn without_url(words: &str) -> String {
    let (before, url) = words.split_once(" from http://127.0.0.1:").unwrap();
    let (_, after) = url.split_once("/book").unwrap();
    format!("{before}{after}")
}

/// The log must not have the keys that a URL may hold.
#[tokio::test]
async fn the_url_of_a_refusal_holds_no_secret() {
    let (address, ..) = serve(&[text("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")]).await;
    let url = format!("http://user:word@{address}/book?key=secret#part");
    let answer = client().get(url).send().await.unwrap();
    let failure = error_for_status(answer).await.unwrap_err();
    assert_eq!(failure.to_string(), format!("404 Not Found from http://{address}/book"));
}

#[tokio::test]
async fn a_hint_may_be_a_date() {
    let failure = failure_of(text(
        "HTTP/1.1 429 Too Many Requests\r\ndate: Fri, 31 Dec 1999 23:59:50 GMT\r\n\
         retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\ncontent-length: 0\r\n\r\n",
    ))
    .await;
    assert_eq!(failure.retry_after(), Some(SECOND * 9));
    assert_eq!(POST.classify(&failure), Some(Verdict::throttled().after(SECOND * 9)));
    assert_eq!(without_url(&failure.to_string()), "429 Too Many Requests, retry after 9s");
}

/// The hint is honoured: the retry waits for it.
#[tokio::test]
async fn a_retry_waits_for_the_hint() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    let ((address, requests, _), timer) = (serve(&[text(busy)]).await, ManualTimer::new());
    let (client, hands) = (client(), advance_past_sleeps(&timer));
    let policy = RetryPolicy::new().with_classifier(POST);
    let upstream = Upstream::new("local").with_timer(&timer);
    let answer = retry(|_| send(&client, address), policy, Never).on(&upstream).await;
    hands.abort();
    assert_eq!((answer.unwrap().as_str(), requests.load(SeqCst)), ("hello", 2));
    assert!((20..=22).contains(&resile::time::Timer::now(&timer).as_secs()));
}

#[tokio::test]
async fn a_good_answer_is_untouched() {
    let (address, ..) = serve(&[]).await;
    let answer = client().get(format!("http://{address}/")).send().await.unwrap();
    let answer = error_for_status(answer).await.unwrap();
    assert_eq!((answer.status(), answer.content_length()), (StatusCode::OK, Some(5)));
    assert_eq!(answer.text().await.unwrap(), "hello");
    let (address, ..) = serve(&[text("HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n")]).await;
    let answer = client().get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(error_for_status(answer).await.unwrap().headers()["etag"], "x");
}

/// An endless body ends after its first KiB, and the connection with it.
#[tokio::test]
async fn the_body_of_a_refusal_is_read_no_further_than_its_first_kib() {
    for head in [
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 10000000\r\n\r\n",
        "HTTP/1.1 500 Internal Server Error\r\n\r\n",
    ] {
        let (address, _, ended) = serve(&[Does::Endless(head)]).await;
        let failure = send(&client(), address).await.unwrap_err();
        assert_eq!(failure.body(), "x".repeat(1024));
        let words = format!("500 Internal Server Error: {}…", "x".repeat(200));
        assert_eq!(without_url(&failure.to_string()), words);
        // The connection is gone, or the server would wait for its reader for ever.
        tokio::time::timeout(SECOND * 30, ended.notified()).await.expect("the answer ends");
    }
}

/// A service names its request in a header. The cookie of a session is no text for a log.
#[tokio::test]
async fn a_refusal_keeps_its_headers_and_debug_hides_its_cookies() {
    let head = "HTTP/1.1 503 Busy\r\nx-request-id: r-17\r\nset-cookie: session=hidden\r\n";
    let failure = failure_of(text(&format!("{head}content-length: 0\r\n\r\n"))).await;
    let answer = Response::builder().status(503).header("x-request-id", "r-17");
    let answer = answer.header("set-cookie", "session=hidden").body("").unwrap();
    for failure in [failure, Failure::check(answer).unwrap_err()] {
        assert_eq!(failure.headers()["x-request-id"], "r-17");
        assert_eq!(failure.headers()["set-cookie"], "session=hidden");
        let printed = format!("{failure:?} {failure}");
        assert!(printed.contains("r-17") && !printed.contains("hidden"), "{printed}");
    }
    assert!(Failure::unanswered("reset").headers().is_empty());
}

/// A reset within the body of a refusal leaves the status and the part that arrived.
#[tokio::test]
async fn a_refusal_that_breaks_off_is_still_a_refusal() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 99\r\n\r\nslow";
    let failure = failure_of(text(head)).await;
    assert_eq!((failure.body(), failure.retry_after()), ("slow", Some(SECOND * 3)));
    assert!(POST.classify(&failure).unwrap().is_again());
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_readable_and_cannot_forge_a_line() {
    let mut answer = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    answer.extend(b"\xff caf\xc3\xa9\nWARN forged\x1b[31m\r\n\xe2\x80\xa8next");
    let failure = failure_of(Does::Answer(answer)).await;
    assert!(failure.body().starts_with("\u{fffd} café\nWARN forged"), "{:?}", failure.body());
    let words = without_url(&failure.to_string());
    assert_eq!(words, "400 Bad Request: \u{fffd} café WARN forged\\u{1b}[31m next");
}

/// A refused connection is no request, so even a POST is sent again.
#[tokio::test]
async fn a_refused_connection_is_not_sent_and_a_post_is_repeated() {
    let (client, (_socket, address)) = (client(), refusing());
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(POST);
    let gave_up = retry(|_| send(&client, address), policy, Never).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 3));
    let failure = gave_up.into_last().unwrap();
    assert!(failure.is_not_sent() && failure.status().is_none());
    assert_eq!(POST.classify(&failure), Some(Verdict::transient().not_sent()));
    assert_eq!(failure.to_string(), format!("no connection to http://{address}/book"));
    assert!(failure.cause().unwrap().is::<reqwest::Error>());
    assert_no_secret(&failure);
}

/// The words of a failure, of a line of the log and of anyhow: the cause stands there once, without the
/// layers of the client, and a walk along the sources finds the `io::Error`.
#[tokio::test]
async fn each_text_of_a_failure_is_printed_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("booking failed: {0}")]
    struct Booking(#[from] Failure);

    let (client, (_socket, address)) = (client(), refusing());
    let upstream = Upstream::new("shop").with_observer(&());
    let policy = RetryPolicy::new().with_attempts(1).with_classifier(POST);
    let gave_up = retry(|_| send(&client, address), policy, Never).on(&upstream).await.unwrap_err();
    let failure = gave_up.last().unwrap();
    let source = failure.source().unwrap();
    let refused = source.downcast_ref::<io::Error>().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(source.source().is_none());
    let words = format!("no connection to http://{address}/book");
    assert_eq!(failure.to_string(), words);
    let whole = format!("{words}: {refused}");
    assert!(format!("{gave_up:#}").ends_with(&format!(": {whole}")), "{gave_up:#}");
    let any = anyhow::Error::from(gave_up.clone());
    assert_eq!(format!("{any:#}"), format!("{gave_up}: {whole}"));
    assert_eq!(format!("{:#}", anyhow::Error::from(failure.clone())), whole);

    // The log writes the same of an error that holds the failure.
    let policy = RetryPolicy::new().with_attempts(1).with_classifier(Always);
    let book = async |_| Ok::<_, Booking>(send(&client, address).await?);
    let gave_up = retry(book, policy, Never).on(&upstream).await.unwrap_err();
    let end = format!(": booking failed: {whole}");
    assert!(format!("{gave_up:#}").ends_with(&end), "{gave_up:#}");
    let book = async |_| send(&client, address).await.map_err(anyhow::Error::from);
    let gave_up = retry(book, policy, Never).on(&upstream).await.unwrap_err();
    assert!(format!("{gave_up:#}").ends_with(&format!(": {whole}")), "{gave_up:#}");
}

/// The words of a refusal are its own, whoever made it.
#[tokio::test]
async fn a_refusal_has_no_source_that_says_it_again() {
    let (address, ..) = serve(&[text("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")]).await;
    let answer = client().get(format!("http://{address}/")).send().await.unwrap();
    let failure = Failure::from(answer.error_for_status().unwrap_err());
    assert!(failure.source().is_none());
    assert!(failure.cause().unwrap().is::<reqwest::Error>());
    let words = format!("404 Not Found from http://{address}/");
    assert_eq!(format!("{:#}", anyhow::Error::from(failure)), words);
}

/// An `io::Error` is found although it has a source itself, and a chain without an end ends.
#[test]
fn the_source_is_the_last_io_error_or_else_the_innermost_cause() {
    #[derive(Debug, thiserror::Error)]
    #[error("layer")]
    struct Layer(#[source] Box<dyn Error + Send + Sync>);

    /// An error that is its own source.
    #[derive(Debug)]
    struct Circle;

    impl std::fmt::Display for Circle {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("circle")
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }

    let layers = Layer(Layer("broken".into()).into());
    assert_eq!(Failure::unanswered(layers).source().unwrap().to_string(), "broken");
    let reset = io::Error::new(io::ErrorKind::ConnectionReset, Layer("broken".into()));
    let failure = Failure::unanswered(Layer(reset.into()));
    let source = failure.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
    assert!(failure.cause().unwrap().is::<Layer>());
    assert_eq!(format!("{:#}", anyhow::Error::from(failure)), "no answer: layer: broken");
    assert!(Failure::unanswered(Circle).source().unwrap().is::<Circle>());
}

/// Returns whether the words of a failure begin so. The first versions of `reqwest` do not know the URL of
/// a body.
fn has_start(words: &str, start: &str) -> bool {
    words
        .strip_prefix(start)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(" from http://127.0.0.1:"))
}

/// A reset after the request may be a lost answer. A POST is sent once, a GET is sent again.
#[tokio::test]
async fn a_reset_after_the_request_is_not_repeated_for_a_post() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhel";
    for does in [Does::Reset, text(cut), Does::Answer(Vec::new())] {
        for (classifier, sends) in [(POST, 1), (GET, 2)] {
            let (address, requests, _) = serve(std::slice::from_ref(&does)).await;
            let client = client();
            let policy =
                RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier);
            let outcome = retry(|_| send(&client, address), policy, Never).await;
            assert_eq!(requests.load(SeqCst), sends);
            let Err(gave_up) = outcome else { continue };
            assert_eq!(gave_up.reason(), StopReason::Fatal);
            let failure = gave_up.into_last().unwrap();
            assert!(!failure.is_not_sent() && failure.status().is_none());
            let words = if matches!(&does, Does::Answer(cut) if !cut.is_empty()) {
                "incomplete answer"
            } else {
                "no answer"
            };
            assert!(has_start(&failure.to_string(), words), "{failure}");
            assert_no_secret(&failure);
        }
    }
}

/// An attempt timeout that comes before the end of the silence cuts the attempt, and the cut counts as one.
#[tokio::test]
async fn a_silent_body_is_cut_by_the_attempt_timeout() {
    let silent = Does::Silent("HTTP/1.1 503 Service Unavailable\r\n\r\nbus");
    for (classifier, sends) in [(POST, 1), (GET, 2)] {
        let (address, requests, _) = serve(std::slice::from_ref(&silent)).await;
        let client = client();
        let policy = RetryPolicy::new()
            .with_attempt_timeout(SECOND / 4)
            .with_backoff(Backoff::none())
            .with_classifier(classifier);
        let outcome = retry(|_| send(&client, address), policy, Never).await;
        assert_eq!((outcome.is_ok(), requests.load(SeqCst)), (sends == 2, sends));
        let cut = outcome.err().map(|gave_up| gave_up.cut().is_some());
        assert_ne!(cut, Some(false), "the status is lost");
    }
}

/// The client's own timeout is a cut too: no classifier before the one of a POST repeats the request.
#[tokio::test]
async fn a_timeout_of_the_client_is_a_cut() {
    let silent = Does::Silent("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel");
    let (address, requests, _) = serve(&[silent]).await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .retry(reqwest::retry::never())
        .timeout(SECOND / 4)
        .build()
        .unwrap();
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let policy = policy.with_classifier((Always, POST));
    let gave_up = retry(|_| send(&client, address), policy, Never).await.unwrap_err();
    assert_eq!((gave_up.reason(), requests.load(SeqCst)), (StopReason::Fatal, 1));
    let failure = gave_up.last().unwrap();
    assert_eq!(POST.error_type(failure).as_deref(), Some("timeout"));
    // The status had come.
    assert!(has_start(&failure.to_string(), "incomplete answer"), "{failure}");
}

fn assert_no_secret(failure: &Failure) {
    let below = std::iter::successors(failure.cause(), |&error| error.source());
    for error in below.chain([failure as &dyn Error]) {
        let words = format!("{error} {error:#} {error:?}");
        assert!(!words.contains("secret") && !words.contains("key="), "{words}");
    }
}

/// The URL of an error loses what may be a key. The rest says where the request went.
#[tokio::test]
async fn a_url_in_an_error_has_no_query_and_no_credentials() {
    let (_socket, address) = refusing();
    let url = format!("http://key=secret:secret@{address}/v1/book?key=secret#secret");
    let failure = Failure::from(client().get(url).send().await.unwrap_err());
    assert_no_secret(&failure);
    let cause = failure.cause().unwrap().to_string();
    assert!(cause.contains(&format!("http://{address}/v1/book")), "{cause}");
}

/// A request that cannot be built is no fault of the server, and no repetition helps.
#[tokio::test]
async fn a_request_that_cannot_be_built_is_never_in_doubt() {
    let error = client().get("no url").send().await.unwrap_err();
    let never = Some(Verdict::fatal().not_sent());
    let never_read = never.map(Verdict::idempotent);
    assert_eq!((POST.classify(&error), GET.classify(&error)), (never, never_read));
    assert_eq!(GET.error_type(&error).unwrap(), "request");
    let failure = Failure::from(error);
    assert_eq!((GET.classify(&failure), failure.status()), (never_read, None));
    assert_eq!(GET.error_type(&failure).unwrap(), "request");
    assert!(failure.to_string().starts_with("request not built"), "{failure}");
    assert!(failure.source().is_some());
    assert!(failure.is_not_sent());
    let post = |_| std::future::ready(Err::<(), _>(client().get("no url").build().unwrap_err()));
    let policy = RetryPolicy::new().with_classifier(POST);
    let gave_up = retry(post, policy, Never).await.unwrap_err();
    assert!(!gave_up.is_in_doubt(), "{gave_up}");
    assert_eq!(gave_up.reason(), StopReason::Fatal);
}

/// A read that is redirected in a circle changes nothing, and the server works. A request that must not be
/// executed twice stays in doubt: a 303 comes after the execution, and the error does not tell it.
#[tokio::test]
async fn a_circle_of_redirects_is_final() {
    for (status, classifier, verdict) in [
        (302, GET, Verdict::fatal().with_health(Health::Healthy).idempotent()),
        (303, POST, Verdict::fatal().with_health(Health::Healthy)),
        (307, POST, Verdict::fatal().with_health(Health::Healthy)),
    ] {
        let circle =
            text(&format!("HTTP/1.1 {status} On\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"));
        let (address, ..) = serve(&vec![circle; 40]).await;
        let client = client();
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier);
        let gave_up = retry(|_| send(&client, address), policy, Never).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
        assert_eq!(gave_up.verdict(), Some(verdict), "{status}");
        assert_eq!(gave_up.is_in_doubt(), !classifier.is_idempotent(), "{status}");
        let failure = gave_up.into_last().unwrap();
        assert_eq!(failure.to_string(), format!("redirect not followed from http://{address}/"));
        assert_eq!(failure.source().unwrap().to_string(), "too many redirects");
        assert_eq!(classifier.error_type(&failure).as_deref(), Some("redirect"));
        assert!(!failure.is_not_sent() && failure.status().is_none());

        let error = client.get(format!("http://{address}/")).send().await.unwrap_err();
        assert!(error.is_redirect());
        assert_eq!(classifier.classify(&error), Some(verdict));
        assert_eq!(classifier.error_type(&error).as_deref(), Some("redirect"));
    }
}

/// An error of `Response::error_for_status` keeps its status.
#[tokio::test]
async fn an_error_of_the_client_keeps_its_status() {
    let (address, ..) = serve(&[text("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")]).await;
    let answer = client().get(format!("http://{address}/")).send().await.unwrap();
    let failure = Failure::from(answer.error_for_status().unwrap_err());
    assert_eq!(failure.status(), Some(StatusCode::NOT_FOUND));
    assert_eq!(failure.to_string(), format!("404 Not Found from http://{address}/"));
    assert_eq!(
        GET.classify(&failure),
        GET.classify(
            &StatusError::check(StatusCode::NOT_FOUND, &::http::HeaderMap::new()).unwrap_err()
        )
    );
}

/// Its headers are lost, and its words say so where they may have a `Retry-After`. The same answer has no
/// such words if its headers are kept.
#[tokio::test]
async fn an_error_of_the_client_says_that_its_headers_are_lost() {
    for (status, may_wait) in [
        ("429 Too Many Requests", true),
        ("500 Internal Server Error", true),
        ("503 Service Unavailable", true),
        ("404 Not Found", false),
    ] {
        let script =
            text(&format!("HTTP/1.1 {status}\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"));
        let (address, ..) = serve(&[script.clone(), script]).await;
        let send = async || client().get(format!("http://{address}/")).send().await.unwrap();
        let lost = Failure::from(send().await.error_for_status().unwrap_err());
        let words = format!("{status} from http://{address}/");
        let end = ", its headers are lost (use `resile::http::error_for_status`)";
        let end = if may_wait { end } else { "" };
        assert_eq!(lost.to_string(), format!("{words}{end}"));
        assert_eq!(format!("{lost:#}"), format!("{words}{end}"));
        assert_eq!(lost.retry_after(), None);
        let kept = error_for_status(send().await).await.unwrap_err();
        assert_eq!(kept.retry_after(), Some(SECOND * 2));
        assert_eq!(kept.to_string(), format!("{words}, retry after 2s"));
    }
}

/// Another client says itself whether the request was sent. A timeout of the operation counts as one
/// that was.
#[test]
fn a_failure_of_another_client_has_a_cause_and_a_verdict() {
    let lost = Failure::unanswered("connection reset");
    assert_eq!(lost.to_string(), "no answer");
    assert_eq!(lost.source().unwrap().to_string(), "connection reset");
    assert_eq!(POST.classify(&lost), Some(POST.unanswered()));
    assert_eq!(GET.classify(&lost), Some(GET.unanswered()));
    let refused = Failure::not_sent(io::Error::other("refused"));
    assert_eq!(refused.to_string(), "no connection");
    assert_eq!(refused.source().unwrap().to_string(), "refused");
    assert!(refused.is_not_sent());
    assert_eq!(POST.classify(&refused), Some(POST.not_sent()));
    assert_eq!(size_of::<Failure>(), size_of::<usize>());
}

/// A program whose own error has that of the client gets it by value.
#[tokio::test]
async fn a_failure_gives_its_cause_by_value_and_loses_nothing_otherwise() {
    let failure = failure_of(Does::Reset).await;
    let words = failure.cause().unwrap().to_string();
    let other = failure.into_cause::<io::Error>().unwrap_err();
    assert_eq!(other.cause().unwrap().to_string(), words);

    // A clone has the same cause, so neither of the two gives it away.
    let clone = other.clone();
    let shared = other.into_cause::<reqwest::Error>().unwrap_err();
    assert_eq!(shared.cause().unwrap().to_string(), words);
    drop(clone);
    let error: reqwest::Error = shared.into_cause().unwrap();
    assert_eq!(error.to_string(), words);
    assert_eq!(error.url().unwrap().query(), None);

    // The answer is still there.
    let refused = failure_of(text("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone")).await;
    let refused = refused.into_cause::<reqwest::Error>().unwrap_err();
    assert_eq!((refused.status(), refused.body()), (Some(StatusCode::NOT_FOUND), "none"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_operation_is_a_failure() {
    let call = std::future::pending::<Result<(), Failure>>().timeout(SECOND);
    let failure = call.await.unwrap_err();
    assert!(failure.source().unwrap().is::<Elapsed>());
    assert_eq!(POST.classify(&failure), Some(POST.unanswered()));
    assert_eq!(GET.classify(&failure), Some(GET.unanswered()));
}

proptest! {
    /// For any status and body: a good answer is untouched, and of a refusal the status, the verdict
    /// and the start of the body remain. A redirect that nobody followed is a failure only here.
    #[test]
    fn check_agrees_with_the_status_error(code in 100_u16..1000, body in prop::collection::vec(any::<u8>(), 0..3000), wait in any::<Option<u32>>()) {
        let mut answer = Response::builder().status(code);
        if let Some(wait) = wait {
            answer = answer.header("retry-after", wait);
        }
        let answer = answer.body(body.clone()).unwrap();
        let refused = StatusError::check(answer.status(), answer.headers());
        match (Failure::check(answer), refused) {
            (Ok(answer), Ok(())) => prop_assert_eq!(answer.into_body(), body),
            (Err(failure), Err(refused)) => {
                prop_assert_eq!(failure.status(), Some(refused.status()));
                prop_assert_eq!(failure.retry_after(), refused.retry_after());
                prop_assert_eq!(POST.classify(&failure), POST.classify(&refused));
                prop_assert_eq!(failure.body().is_empty(), body.is_empty());
            }
            (Err(failure), Ok(())) if matches!(code, 301 | 302 | 307 | 308) => {
                prop_assert_eq!((failure.status().unwrap().as_u16(), failure.retry_after()), (code, None));
            }
            (failure, refused) => prop_assert!(false, "{failure:?} {refused:?}"),
        }
    }

    /// Text stays text: the start ends between two characters and has at most 1 KiB.
    #[test]
    fn the_start_of_a_body_ends_between_characters(body in "[a-zé€😀]{0,900}") {
        let answer = Response::builder().status(500).body(body.clone()).unwrap();
        let failure = Failure::check(answer).unwrap_err();
        let start = failure.body();
        prop_assert!(body.starts_with(start) && start.len() <= 1024);
        prop_assert!(start.len() == body.len() || start.len() > 1020);
    }

    /// One short line, whatever the server sends.
    #[test]
    fn a_failure_is_one_short_line(body in any::<String>(), code in 400_u16..600) {
        let answer = Response::builder().status(code).body(body).unwrap();
        let line = Failure::check(answer).unwrap_err().to_string();
        prop_assert!(!line.chars().any(|c| c.is_control() || "\u{2028}\u{2029}".contains(c)), "{line:?}");
        prop_assert!(line.len() < 3000, "{}", line.len());
    }
}

/// Reads the answer as JSON, as programs do.
async fn read(client: &reqwest::Client, address: SocketAddr) -> Result<u32, Failure> {
    let request = client.get(format!("http://{address}/v1?key=secret"));
    Ok(error_for_status(request.send().await?).await?.json().await?)
}

/// The server has answered in full, and the next answer has the same form. So the call ends, and the
/// failure counts neither as one of the server nor as a lost answer.
#[tokio::test]
async fn a_body_that_does_not_fit_the_type_is_an_answer() {
    for body in ["\"ten\"", "{\"cel", "", "<html>"] {
        let length = body.len();
        let whole = text(&format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"));
        let (address, requests, _) = serve(std::slice::from_ref(&whole)).await;
        let client = client();
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(GET);
        let gave_up = retry(|_| read(&client, address), policy, Never).await.unwrap_err();
        assert_eq!((gave_up.reason(), requests.load(SeqCst)), (StopReason::Fatal, 1), "{body}");
        let healthy = Verdict::fatal().with_health(Health::Healthy).idempotent();
        assert_eq!(gave_up.verdict(), Some(healthy));
        let failure = gave_up.into_last().unwrap();
        let words = failure.to_string();
        assert!(has_start(&words, "answer not understood"), "{words}");
        let cause = failure.source().unwrap().to_string();
        assert!(cause.contains("line 1"), "{cause}");
        assert!(!failure.is_not_sent() && failure.status().is_none());
        assert_eq!(GET.error_type(&failure).as_deref(), Some("decode"));
        assert_no_secret(&failure);

        // An operation with the error of the client has the same verdict.
        let (address, ..) = serve(&[whole]).await;
        let answer = client.get(format!("http://{address}/")).send().await.unwrap();
        let error = answer.json::<u32>().await.unwrap_err();
        assert_eq!(GET.classify(&error), GET.classify(&failure));
        assert_eq!(GET.error_type(&error).as_deref(), Some("decode"));
    }
}

/// A body that breaks off is a lost answer, whatever reads it. The server has answered, and the words say so.
#[tokio::test]
async fn a_truncated_body_that_is_read_as_json_is_an_incomplete_answer() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for cut in [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12",
        &format!("{chunked}2\r\n12\r\n"),
        &format!("{chunked}no size\r\n12\r\n"),
    ] {
        let ten = text("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n10");
        let (address, requests, _) = serve(&[text(cut), text(cut), ten]).await;
        let client = client();
        let failure = read(&client, address).await.unwrap_err();
        assert!(has_start(&failure.to_string(), "incomplete answer"), "{failure}");
        assert_eq!(GET.classify(&failure), Some(GET.unanswered()), "{cut}");
        assert_eq!(POST.classify(&failure), Some(POST.unanswered()), "{cut}");
        assert_eq!(GET.error_type(&failure).as_deref(), Some("incomplete_answer"));

        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(GET);
        assert_eq!(retry(|_| read(&client, address), policy, Never).await.unwrap(), 10);
        assert_eq!(requests.load(SeqCst), 3);
    }
}

/// Without a whole head there is no answer, even if its first bytes came.
#[tokio::test]
async fn an_answer_begins_with_its_whole_head() {
    for cut in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\ncontent-len"] {
        let failure = failure_of(text(cut)).await;
        assert!(has_start(&failure.to_string(), "no answer"), "{failure}");
        assert_eq!(POST.classify(&failure), Some(POST.unanswered()));
        assert_eq!(POST.error_type(&failure).as_deref(), Some("no_answer"));
    }
}

/// Another client says itself that it does not understand an answer.
#[test]
fn an_answer_that_another_client_does_not_understand_is_final() {
    let failure = Failure::not_understood("expected a list");
    assert_eq!(failure.to_string(), "answer not understood");
    assert_eq!(failure.source().unwrap().to_string(), "expected a list");
    let healthy = Verdict::fatal().with_health(Health::Healthy);
    assert_eq!(POST.classify(&failure), Some(healthy));
    assert_eq!(GET.classify(&failure), Some(healthy.idempotent()));
}

/// An order of which a status tells nothing else is without effect or in doubt.
#[tokio::test]
async fn each_status_of_an_order_says_what_the_server_did() {
    for (code, after) in (400..=599).flat_map(|code| [(code, None), (code, Some("2"))]) {
        let order = |_: resile::Attempt| async move {
            let answer = Response::builder().status(code);
            let answer = match after {
                Some(after) => answer.header("retry-after", after),
                None => answer,
            };
            Failure::check(answer.body("").unwrap())
        };
        let policy = RetryPolicy::none().with_classifier(POST);
        let gave_up = retry(order, policy, Never).await.unwrap_err();
        let is_refused = matches!(code, 400..=498 | 501 | 505 | 506 | 508 | 510 | 511);
        assert_eq!(gave_up.is_without_effect(), is_refused, "{code}: {gave_up}");
        assert_eq!(gave_up.is_in_doubt(), !is_refused, "{code}: {gave_up}");
    }
}

/// The server has answered 2xx, so it has most likely placed the order. The program cannot read which one.
#[tokio::test]
async fn an_order_whose_answer_is_not_understood_is_in_doubt() {
    let order = |_: resile::Attempt| async { Err::<(), _>(Failure::not_understood("a list")) };
    let policy = RetryPolicy::new().with_classifier(POST);
    let gave_up = retry(order, policy, Never).await.unwrap_err();
    assert!(gave_up.is_in_doubt() && !gave_up.is_without_effect());
    assert_eq!(
        gave_up.to_string(),
        "gave up after 1 attempt, the request may have been executed and must not be sent again"
    );
    // An opinion on cuts says nothing about a whole answer.
    let policy = RetryPolicy::new().with_classifier(POST.cut_is(Verdict::transient()));
    let gave_up = retry(order, policy, Never).await.unwrap_err();
    assert!(gave_up.attempts() == 1 && gave_up.is_in_doubt());
    let policy = RetryPolicy::new().with_classifier(GET);
    assert!(!retry(order, policy, Never).await.unwrap_err().is_in_doubt());
}
