//! A provider that fails once, and the expectations of each failure.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::time::{ManualTimer, Timer};
use resile::{Never, StopReason, Upstream, retry};
use resile_llm::{Classifier, Failure, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A completion of the chat API.
const GOOD: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m",
    "choices":[{"index":0,"message":{"role":"assistant","content":"a scarf"},
    "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

/// The first answer.
#[derive(Clone, Debug)]
enum Answer {
    /// These bytes. Then the connection is closed.
    Bytes(String),
    /// These bytes. Then the connection is reset.
    Reset(String),
    /// Nothing at all.
    Silence,
}

/// A failure of the provider, and what the recipe must make of it.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    answer: Answer,
    pub kind: Kind,
    pub is_retried: bool,
    /// The shortest wait before the second attempt.
    pub wait: Duration,
}

fn answer(status: &str, headers: &[&str], body: &str) -> Answer {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        head = head + header + "\r\n";
    }
    Answer::Bytes(format!("{head}connection: close\r\n\r\n{body}"))
}

fn case(name: &'static str, answer: Answer, kind: Kind) -> Case {
    Case { name, answer, kind, is_retried: kind.is_passing(), wait: Duration::ZERO }
}

const JSON: &str = "content-type: application/json";

/// The timeout of the clients. It ends the attempt with [`Kind::Timeout`].
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Every failure.
fn cases() -> Vec<Case> {
    let rate = r#"{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let quota = r#"{"error":{"message":"No.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let key = r#"{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#;
    let long = r#"{"error":{"message":"No.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    let server = r#"{"error":{"message":"Sorry.","type":"server_error","param":null,"code":null}}"#;
    let mut cases = vec![
        Case {
            wait: Duration::from_secs(20),
            ..case("rate", answer("429 X", &[JSON, "retry-after: 20"], rate), Kind::RateLimit)
        },
        case("quota", answer("429 X", &[JSON], quota), Kind::QuotaExhausted),
        Case {
            wait: Duration::from_secs(2),
            ..case("overload", answer("529 X", &[JSON], busy), Kind::Overloaded)
        },
        case("key", answer("401 X", &[JSON], key), Kind::Auth),
        case("odd refusal", answer("403 X", &[], "no"), Kind::Permission),
        case("long", answer("400 X", &[JSON], long), Kind::ContextLength),
        case("server", answer("500 X", &[JSON], server), Kind::Server),
        case("page", answer("502 X", &["content-type: text/html"], "<h1>no</h1>"), Kind::Server),
        Case {
            is_retried: false,
            ..case("told", answer("500 X", &[JSON, "x-should-retry: false"], server), Kind::Server)
        },
        case("inside", answer("200 OK", &[JSON], busy), Kind::Overloaded),
        case("quota inside", answer("200 OK", &[JSON], quota), Kind::QuotaExhausted),
        // Text in a good answer can only be an error.
        case("garbage", answer("200 OK", &[JSON], "no JSON"), Kind::Server),
        case(
            "other page",
            answer("200 OK", &["content-type: text/html"], "<h1>no</h1>"),
            Kind::Server,
        ),
        case("other JSON", answer("200 OK", &[JSON], "{\"a\":1}"), Kind::InvalidOutput),
        case("closed", Answer::Bytes(String::new()), Kind::Network),
        case("reset", Answer::Reset(String::new()), Kind::Network),
        case("silence", Answer::Silence, Kind::Timeout),
    ];
    // The answer breaks off.
    if let Answer::Bytes(mut whole) = answer("200 OK", &[JSON], GOOD) {
        whole.truncate(whole.len() - 40);
        cases.push(case("cut", Answer::Bytes(whole.clone()), Kind::Network));
        cases.push(case("cut by a reset", Answer::Reset(whole), Kind::Network));
    }
    cases
}

/// A server that answers the first request with the failure and all others with a completion.
struct Provider {
    address: SocketAddr,
    requests: Arc<AtomicU32>,
}

impl Provider {
    async fn start(first: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU32::new(0));
        let count = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let is_first = count.fetch_add(1, SeqCst) == 0;
                let answer = if is_first { first.clone() } else { answer("200 OK", &[JSON], GOOD) };
                tokio::spawn(serve(stream, answer));
            }
        });
        Self { address, requests }
    }

    fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Reads one request, writes the answer and ends the connection.
async fn serve(mut stream: TcpStream, answer: Answer) {
    let mut read = Vec::new();
    while !is_whole(&read) {
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Answer::Reset(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            // The client has the bytes before the reset.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _ = stream.set_zero_linger();
        }
        Answer::Silence => std::future::pending().await,
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// What was seen of one call.
#[derive(Debug)]
pub struct Seen {
    pub answer: Option<String>,
    pub reason: Option<StopReason>,
    pub attempts: u32,
    pub failures: Vec<Option<Failure>>,
    pub waited: Duration,
}

/// Makes one call with retries.
///
/// # Panics
///
/// Panics if `failure` panics.
pub async fn call<E, Op, Attempt>(
    ask: Op,
    failure: impl Fn(&E) -> Option<Failure> + Send + Sync,
) -> Seen
where
    E: std::fmt::Display + Send,
    Op: Fn() -> Attempt + Send,
    Attempt: Future<Output = Result<String, E>> + Send,
{
    let (timer, failures) = (ManualTimer::new(), Mutex::new(Vec::new()));
    let classify = |error: &E| {
        let failure = failure(error);
        let verdict = failure.as_ref().map(|failure| Classifier::new().verdict(failure));
        failures.lock().unwrap().push(failure);
        verdict
    };
    // No real sleep happens. Whenever the call waits, the clock advances to the end of the wait.
    let hands = tokio::spawn({
        let timer = timer.clone();
        async move {
            loop {
                match timer.until_next() {
                    Some(left) => timer.advance(left),
                    None => tokio::task::yield_now().await,
                }
            }
        }
    });
    let upstream = Upstream::new("local").with_timer(&timer);
    let policy = resile_llm::interactive().without_total_timeout().with_classifier(&classify);
    let (answer, reason, attempts) =
        match retry(|_| ask(), &policy, Never).on(upstream.display()).await {
            Ok(answer) => (Some(answer), None, 0),
            Err(gave_up) => (None, Some(gave_up.reason()), gave_up.attempts()),
        };
    hands.abort();
    let waited = timer.now();
    Seen { answer, reason, attempts, failures: failures.into_inner().unwrap(), waited }
}

/// Calls a provider for each of the cases, and compares. `change` may adapt a case to what the SDK
/// keeps. The case is left out if it returns false.
///
/// # Panics
///
/// Panics if a failure is not what the case expects.
pub async fn check<E, Op, Attempt>(
    ask: Op,
    failure: fn(&E) -> Option<Failure>,
    change: impl Fn(&mut Case) -> bool,
) where
    E: std::fmt::Display + Send,
    Op: Fn(String) -> Attempt + Send + Sync,
    Attempt: Future<Output = Result<String, E>> + Send,
{
    let mut wrong = Vec::new();
    for mut case in cases() {
        if !change(&mut case) {
            continue;
        }
        let provider = Provider::start(case.answer.clone()).await;
        let seen = call(|| ask(provider.base()), failure).await;
        let requests = provider.requests.load(SeqCst);
        let kind = seen.failures.first().and_then(|it| Some(it.as_ref()?.kind()));
        let ends = if case.is_retried {
            seen.answer.as_deref() == Some("a scarf") && requests == 2
        } else {
            (seen.reason, seen.attempts, requests) == (Some(StopReason::Fatal), 1, 1)
        };
        // The wait is the hint and at most a tenth more, or a delay of the policy.
        let longest = case.wait.mul_f64(1.1).max(Duration::from_secs(3));
        let waits = !case.is_retried || (case.wait..=longest).contains(&seen.waited);
        if kind != Some(case.kind) || !ends || !waits {
            wrong.push(format!("{case:?}\n  after {requests} requests: {seen:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.concat());
}

/// Calls a port where nobody listens. Each attempt fails.
///
/// # Panics
///
/// Panics if the failure is no failure of the network.
pub async fn check_refused<E, Op, Attempt>(ask: Op, failure: fn(&E) -> Option<Failure>)
where
    E: std::fmt::Display + Send,
    Op: Fn(String) -> Attempt + Send + Sync,
    Attempt: Future<Output = Result<String, E>> + Send,
{
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let seen = call(|| ask(format!("http://{free}/v1")), failure).await;
    assert_eq!((seen.reason, seen.attempts), (Some(StopReason::Attempts), 4), "{seen:?}");
    assert!(seen.failures.iter().flatten().all(|it| it.kind() == Kind::Network), "{seen:?}");
}

/// Makes a call whose error has no knowledge in it. There is no opinion, and the call ends.
///
/// # Panics
///
/// Panics if there is an opinion.
pub async fn check_unknown<E>(error: fn() -> E, failure: fn(&E) -> Option<Failure>)
where
    E: std::fmt::Display + Send,
{
    let seen = call(|| async { Err(error()) }, failure).await;
    assert_eq!((seen.reason, seen.attempts), (Some(StopReason::Unclassified), 1), "{seen:?}");
    assert!(seen.failures[0].is_none(), "{seen:?}");
}

/// Holds the words of an SDK's errors against the refusals: each still has its kind, but the
/// headers are lost.
///
/// # Panics
///
/// Panics if a kind is lost.
pub async fn check_words<E, Op, Attempt>(ask: Op)
where
    E: std::error::Error + Send,
    Op: Fn(String) -> Attempt + Send + Sync,
    Attempt: Future<Output = Result<String, E>> + Send,
{
    let refusal = |case: &mut Case| {
        case.is_retried = case.kind.is_passing();
        if case.name == "rate" {
            case.wait = Duration::ZERO;
        }
        matches!(&case.answer, Answer::Bytes(bytes) if bytes.starts_with("HTTP/1.1 4") || bytes.starts_with("HTTP/1.1 5"))
    };
    check(ask, |error: &E| Failure::find_in_text(&error.to_string()), refusal).await;
}

/// Starts a provider whose first answer is a stream of one chunk and then `event`. The stream is cut
/// off without an event. Returns the address.
pub async fn start_stream(event: Option<&str>) -> String {
    let chunk = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
    let last = event.map(|event| format!("data: {event}\n\n")).unwrap_or_default();
    let events = format!("data: {chunk}\n\n{last}");
    let missing = if event.is_some() { 0 } else { 9 };
    let length = events.len() + missing;
    let bytes = format!("{head}\r\ncontent-length: {length}\r\n\r\n{events}");
    Provider::start(Answer::Bytes(bytes)).await.base()
}

/// Starts a provider whose first answer is that of the named case, and returns its address.
///
/// # Panics
///
/// Panics without such a case.
pub async fn start(name: &str) -> String {
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    Provider::start(case.answer).await.base()
}
