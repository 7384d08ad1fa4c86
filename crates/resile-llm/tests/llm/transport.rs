//! Failures of LLM calls without a usable answer: errors of sockets, and answers of `reqwest`.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use resile::{Classify, Health, Jitter, Verdict};
use resile_llm::{self as llm, Classifier, Failure, Kind, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[test]
fn an_error_of_a_socket_is_a_failure_of_the_network() {
    for kind in [
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::NotConnected,
        ErrorKind::BrokenPipe,
        ErrorKind::UnexpectedEof,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::NetworkDown,
    ] {
        // The words say nothing, so the type decides.
        let failure = Failure::from(io::Error::new(kind, "zzz"));
        assert_eq!(failure.kind(), Kind::Network, "{kind:?}");
        let rule = failure.rule().to_string();
        assert!(rule.starts_with("transport: ") && !rule.contains("unknown"), "{rule}");
    }
    let failure = Failure::from(io::Error::new(ErrorKind::TimedOut, "zzz"));
    assert_eq!(failure.kind(), Kind::Timeout);
    let failure = Failure::from(io::Error::new(ErrorKind::PermissionDenied, "zzz"));
    assert_eq!(failure.rule().to_string(), "transport: unknown");
}

/// An error of a connector, whose words alone say that there was no connection.
#[derive(Debug, thiserror::Error)]
#[error("client error (Connect)")]
struct Connector(#[source] io::Error);

#[test]
fn only_a_request_that_surely_never_left_is_not_sent() {
    let of = |kind: ErrorKind| Failure::from(io::Error::from(kind));
    assert!(of(ErrorKind::ConnectionRefused).is_not_sent());
    assert!(of(ErrorKind::AddrNotAvailable).is_not_sent());
    for doubt in [ErrorKind::ConnectionReset, ErrorKind::TimedOut, ErrorKind::HostUnreachable] {
        assert!(!of(doubt).is_not_sent(), "{doubt}");
        assert!(!of(doubt).verdict().is_not_sent(), "{doubt}");
        // The connector around the error knows.
        let error = Connector(doubt.into());
        assert!(Failure::from_transport(&error).is_not_sent(), "{doubt}");
        assert!(Failure::find_in_error(&error).unwrap().is_not_sent(), "{doubt}");
        assert!(Classifier::new().classify(&error).unwrap().is_not_sent(), "{doubt}");
    }
    let words = "error trying to connect: connection refused";
    for failure in [
        Failure::from_error_text(words),
        Failure::from_transport(&io::Error::other("connection refused")),
        Failure::from_text(503, words),
        Failure::truncated(llm::Phase::Preamble),
        Failure::cancelled(),
    ] {
        assert!(!failure.is_not_sent(), "{failure:?}");
    }
}

/// The provider has no part in it, so a breaker learns nothing.
#[tokio::test]
async fn a_request_that_cannot_be_built_was_not_sent() {
    let request = reqwest::Client::new().get("http://model/").header("no name", "");
    let failure = Failure::from(request.send().await.unwrap_err());
    assert_eq!((failure.kind(), failure.is_not_sent()), (Kind::InvalidRequest, true));
    let verdict = failure.verdict();
    assert_eq!(verdict, Verdict::fatal().not_sent());
    assert_eq!(verdict.health(), Health::Unknown);
}

/// Starts a server that sends these bytes for each request and closes the connection.
async fn serve(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            _ = stream.read(&mut request).await;
            _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

async fn get(address: SocketAddr) -> Result<String, reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
    client.build().unwrap().get(format!("http://{address}/")).send().await?.text().await
}

#[tokio::test]
async fn an_answer_that_was_cut_short_may_be_asked_for_again() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"choices\":["] {
        let address = serve(answer).await;
        let failure = Failure::from(get(address).await.unwrap_err());
        // The client tells the place until the answer begins.
        let words = if answer.is_empty() {
            format!("no answer from http://{address}/: ")
        } else {
            "incomplete answer".to_owned()
        };
        let words = format!("the connection to the provider failed: {words}");
        assert!(failure.to_string().starts_with(&words), "{failure}");
        assert!(!failure.to_string().contains("error decoding"), "{failure}");
        assert_eq!((failure.kind(), failure.is_retryable()), (Kind::Network, true), "{answer}");
        let rule = failure.rule().to_string();
        assert!(rule.ends_with("cut short"), "{answer}: {rule}");
    }
}

#[tokio::test]
async fn a_failed_answer_is_read_from_its_body() {
    let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 45\r\n\r\n\
                  {\"error\":{\"code\":\"context_length_exceeded\"}}\n";
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = serve(answer).await;
    let answer = client.get(format!("http://{address}/")).send().await.unwrap();
    let failure = llm::error_for_status(answer).await.unwrap_err();
    assert_eq!(failure.kind(), Kind::ContextLength);
}

#[test]
fn a_policy_for_batch_jobs_is_patient() {
    let batch = llm::batch();
    assert_eq!(batch.attempts(), 10);
    assert_eq!(batch.hint_cap(), Duration::from_secs(15 * 60));
    assert_eq!(batch.total_timeout(), Some(Duration::from_secs(60 * 60)));
    assert_eq!(batch.backoff().cap(), Duration::from_secs(60));
    assert_eq!(batch.classifier().overload_floor(), Some(Duration::from_secs(10)));
    let exact = batch.backoff().with_jitter(Jitter::None);
    assert_eq!(exact.delay(1, Duration::ZERO, |range| *range.end()), Duration::from_secs(2));
}

#[test]
fn a_reason_phrase_names_its_status() {
    for (status, reason) in [
        (400, "Bad Request"),
        (401, "Unauthorized"),
        (402, "Payment Required"),
        (403, "Forbidden"),
        (404, "Not Found"),
        (408, "Request Timeout"),
        (413, "Payload Too Large"),
        (422, "Unprocessable Entity"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (502, "Bad Gateway"),
        (503, "Service Unavailable"),
        (504, "Gateway Timeout"),
    ] {
        let words = format!("the proxy said {status} {reason}");
        let failure = Failure::find_in_text(&words).unwrap_or_else(|| panic!("{words}"));
        assert_eq!(failure.status(), Some(status), "{words}");
        for other in ["sheep".to_owned(), "x".repeat(reason.len()), format!("{reason}s")] {
            let words = format!("the proxy said {status} {other}");
            assert!(Failure::find_in_text(&words).is_none(), "{words}");
        }
    }
}

/// Answers a request with a 400 and these parts of a body, and then stays silent.
async fn serve_in_parts(parts: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        _ = stream.read(&mut [0; 4096]).await;
        let head = "HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        let parts = parts.into_iter().map(|part| format!("{:x}\r\n{part}\r\n", part.len()));
        for part in std::iter::once(head).chain(parts) {
            _ = stream.write_all(part.as_bytes()).await;
            tokio::task::yield_now().await;
        }
        std::future::pending::<()>().await;
    });
    address
}

#[tokio::test]
async fn the_body_of_a_failed_answer_is_read_up_to_its_limit() {
    const READ: usize = 256 * 1024;
    let start = "{\"error\":{\"message\":\"".to_owned();
    let end = "\",\"code\":\"context_length_exceeded\"}}";
    let words = vec!["x".repeat(1_024); (READ - start.len() - end.len()) / 1_024];
    let rest = "x".repeat(READ - start.len() - end.len() - words.len() * 1_024);
    let parts = [vec![start], words, vec![rest, end.to_owned()]].concat();
    assert_eq!(parts.concat().len(), READ);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = serve_in_parts(parts).await;
    let read = async {
        let answer = client.get(format!("http://{address}/")).send().await.unwrap();
        llm::error_for_status(answer).await.unwrap_err()
    };
    // The server never ends the body.
    let failure = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
    assert_eq!(failure.kind(), Kind::ContextLength);
}

/// An error with a source.
#[derive(Debug)]
struct Layer(String, Option<Box<Layer>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|source| source as _)
    }
}

#[test]
fn sources_behind_four_kibibytes_of_words_are_not_read() {
    let source = || Layer("{\"error\":{\"code\":\"insufficient_quota\"}}".to_owned(), None);
    for (length, want) in [
        (0, Kind::QuotaExhausted),
        (4_093, Kind::QuotaExhausted),
        (4_094, Kind::Network),
        (9_999, Kind::Network),
    ] {
        // Each error ends with a colon and a blank.
        let error = Layer("x".repeat(length), Some(Box::new(source())));
        assert_eq!(Failure::from_transport(&error).kind(), want, "{length}");
    }
}

#[test]
fn only_a_good_answer_without_content_is_empty() {
    let good = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for (status, body, kind) in [
        (Some(200), "", Kind::InvalidOutput),
        (Some(299), "", Kind::InvalidOutput),
        (None, "", Kind::Unknown),
        (Some(199), "", Kind::Unknown),
        (Some(300), "", Kind::Unknown),
        (Some(200), "zzz", Kind::Server),
        (None, "zzz", Kind::Unknown),
        (Some(200), good, Kind::Unknown),
        (None, good, Kind::Unknown),
    ] {
        let reply = Reply::new(body.as_bytes());
        let reply = status.map_or(reply, |status| reply.with_status(status));
        let failure = reply.classify(SystemTime::UNIX_EPOCH);
        assert_eq!(failure.kind(), kind, "{status:?}: {body:?}");
    }
}

#[test]
fn transport_errors_are_classified_by_type_and_keep_their_source() {
    for (kind, want) in [
        (io::ErrorKind::ConnectionReset, Kind::Network),
        (io::ErrorKind::UnexpectedEof, Kind::Network),
        (io::ErrorKind::TimedOut, Kind::Timeout),
    ] {
        let failure = Failure::from(io::Error::from(kind));
        assert_eq!((failure.kind(), failure.is_retryable()), (want, true));
        assert!(failure.source().is_some_and(<dyn Error>::is::<io::Error>));
    }
    let outer = io::Error::other(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(Failure::from(outer).kind(), Kind::Network);
}

#[tokio::test]
async fn reqwest_answers_are_checked() {
    let answer = |status: u16, body: &'static str| {
        reqwest::Response::from(
            http::Response::builder().status(status).header("retry-after", "7").body(body).unwrap(),
        )
    };
    assert_eq!(
        llm::error_for_status(answer(200, "fine")).await.unwrap().text().await.unwrap(),
        "fine"
    );
    let failure = llm::error_for_status(answer(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#))
        .await
        .unwrap_err();
    assert_eq!((failure.kind(), failure.wait()), (Kind::RateLimit, Some(Duration::from_secs(7))));
    assert_eq!(failure.code(), Some("rate_limit_exceeded"));
}

#[test]
fn reqwest_errors_are_classified_by_their_own_kind() {
    let error = reqwest::Client::new().get("no address").build().unwrap_err();
    let failure = Failure::from(error);
    assert_eq!((failure.kind(), failure.is_retryable()), (Kind::InvalidRequest, false));
    assert!(failure.source().is_some_and(<dyn Error>::is::<reqwest::Error>));
    let error = reqwest::Client::new().get("no address").build().unwrap_err();
    assert!(!Classifier::new().classify(&error).unwrap().is_again());
}
