//! A provider that fails once, and the expectations of each failure.

mod provider;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use resile::time::{ManualTimer, Timer};
use resile::{Never, StopReason, Upstream, retry};
use resile_llm::{Classifier, Failure, Kind};

use provider::Provider;
pub use provider::{Answer, answer, refusing};

/// A completion of the chat API.
const GOOD: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m",
    "choices":[{"index":0,"message":{"role":"assistant","content":"a scarf"},
    "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

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

/// Returns a case that is retried if its kind passes.
#[must_use]
pub fn case(name: &'static str, answer: Answer, kind: Kind) -> Case {
    Case { name, answer, kind, is_retried: kind.is_passing(), wait: Duration::ZERO }
}

const JSON: &str = "content-type: application/json";

/// The timeout of the clients. It ends the attempt with [`Kind::Timeout`].
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Every failure.
#[must_use]
pub fn cases() -> Vec<Case> {
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
        case("closed", Answer::Bytes(Vec::new()), Kind::Network),
        case("reset", Answer::Reset(Vec::new()), Kind::Network),
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
    let cases = cases().into_iter().filter_map(|mut case| change(&mut case).then_some(case));
    check_all(cases, &answer("200 OK", &[JSON], GOOD), ask, failure).await;
}

/// Calls a provider for each of the cases, and compares. `good` is the answer after the failure.
///
/// # Panics
///
/// Panics if a failure is not what the case expects.
pub async fn check_all<E, Op, Attempt>(
    cases: impl IntoIterator<Item = Case>,
    good: &Answer,
    ask: Op,
    failure: fn(&E) -> Option<Failure>,
) where
    E: std::fmt::Display + Send,
    Op: Fn(String) -> Attempt + Send + Sync,
    Attempt: Future<Output = Result<String, E>> + Send,
{
    let mut wrong = Vec::new();
    for case in cases {
        let provider = Provider::start(case.answer.clone(), good.clone()).await;
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
    let (_socket, address) = refusing();
    let seen = call(|| ask(format!("http://{address}/v1")), failure).await;
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
        matches!(&case.answer, Answer::Bytes(bytes) if bytes.starts_with(b"HTTP/1.1 4") || bytes.starts_with(b"HTTP/1.1 5"))
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
    start_with(Answer::Bytes(bytes.into_bytes())).await
}

/// Starts a provider whose first answer is that of the named case, and returns its address.
///
/// # Panics
///
/// Panics without such a case.
pub async fn start(name: &str) -> String {
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    start_with(case.answer).await
}

/// Starts a provider with this first answer, and returns its address.
pub async fn start_with(first: Answer) -> String {
    Provider::start(first, answer("200 OK", &[JSON], GOOD)).await.base()
}
