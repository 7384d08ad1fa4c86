//! The program of the guide with `aws-sdk-bedrockruntime`, against a local server that speaks its
//! frames.

use aws_sdk_bedrockruntime::config::timeout::TimeoutConfig;
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue as Value, Message as Frame};
use resile::{GaveUp, StopReason};
use resile_llm::Kind;
use resile_sdks::{Answer, TIMEOUT, answer, case, check_all, check_refused, start_with};

include!("../programs/bedrock.rs");

fn client(base: String) -> Client {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(TIMEOUT).build();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .bearer_token(Token::new("k", None))
        .endpoint_url(base)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .timeout_config(timeouts)
        .retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// One attempt, to its end.
async fn ask_at(base: String) -> Result<String, Failure> {
    let client = client(base);
    let events = Box::pin(open(&client, "hello")).await?;
    events.try_fold(String::new(), |words, event| async move { Ok(words + text(&event)) }).await
}

fn failure(failure: &Failure) -> Option<Failure> {
    Failure::find_in_error(failure)
}

fn refusal(status: &str, name: &str, message: &str) -> Answer {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let name = format!("x-amzn-errortype: {name}:http://internal.amazon.com/coral/");
    answer(status, &["content-type: application/json", &name], &body)
}

/// Returns a frame: an event or an exception.
fn frame(kind: &'static str, name: &'static str, payload: &'static str) -> Vec<u8> {
    let header =
        |name: &'static str, value: &'static str| Header::new(name, Value::String(value.into()));
    let of = if kind == "event" { ":event-type" } else { ":exception-type" };
    let frame = Frame::new(payload.as_bytes())
        .add_header(header(":message-type", kind))
        .add_header(header(of, name))
        .add_header(header(":content-type", "application/json"));
    let mut bytes = Vec::new();
    write_message_to(&frame, &mut bytes).unwrap();
    bytes
}

fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n";
    [format!("{head}connection: close\r\n\r\n").as_bytes(), &frames.concat()].concat()
}

fn start() -> Vec<u8> {
    frame("event", "messageStart", r#"{"role":"assistant"}"#)
}

fn word() -> Vec<u8> {
    frame("event", "contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a scarf"}}"#)
}

fn last() -> Vec<u8> {
    let stop = frame("event", "messageStop", r#"{"stopReason":"end_turn"}"#);
    let usage =
        r#"{"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}"#;
    [stop, frame("event", "metadata", usage)].concat()
}

fn good() -> Answer {
    Answer::Bytes(stream(&[start(), word(), last()]))
}

#[tokio::test]
async fn refusals_are_classified() {
    let daily = "Too many tokens per day, please wait before trying again.";
    let long = "Input is too long for requested model.";
    let cases = [
        ("429 X", "ThrottlingException", "Too many requests.", Kind::RateLimit),
        ("429 X", "ThrottlingException", daily, Kind::QuotaExhausted),
        ("503 X", "ServiceUnavailableException", "Busy.", Kind::Overloaded),
        ("408 X", "ModelTimeoutException", "Too slow.", Kind::Timeout),
        ("424 X", "ModelErrorException", "The model failed.", Kind::Server),
        ("424 X", "ModelStreamErrorException", "The stream failed.", Kind::Server),
        ("500 X", "InternalServerException", "Sorry.", Kind::Server),
        ("400 X", "ValidationException", "No such field.", Kind::InvalidRequest),
        ("400 X", "ValidationException", long, Kind::ContextLength),
        ("403 X", "AccessDeniedException", "No access.", Kind::Permission),
        ("404 X", "ResourceNotFoundException", "No such model.", Kind::NotFound),
    ];
    let cases = cases.map(|(status, name, message, kind)| {
        let mut case = case(name, refusal(status, name, message), kind);
        if kind == Kind::Overloaded {
            case.wait = Duration::from_secs(2);
        }
        case
    });
    check_all(cases, &good(), ask_at, failure).await;
}

#[tokio::test]
async fn exceptions_in_the_stream_are_classified() {
    let payload = r#"{"message":"No."}"#;
    let cases = [
        ("throttlingException", Kind::RateLimit),
        ("modelStreamErrorException", Kind::Server),
        ("serviceUnavailableException", Kind::Overloaded),
        ("internalServerException", Kind::Server),
        ("modelTimeoutException", Kind::Timeout),
        ("validationException", Kind::InvalidRequest),
    ];
    let cases = cases.map(|(name, kind)| {
        let answer = stream(&[start(), frame("exception", name, payload)]);
        let mut case = case(name, Answer::Bytes(answer), kind);
        if kind == Kind::Overloaded {
            case.wait = Duration::from_secs(2);
        }
        case
    });
    check_all(cases, &good(), ask_at, failure).await;
}

#[tokio::test]
async fn broken_connections_are_classified() {
    let half = [stream(&[start()]), word()[..20].to_vec()].concat();
    let cases = [
        case("closed", Answer::Bytes(Vec::new()), Kind::Network),
        case("reset", Answer::Reset(Vec::new()), Kind::Network),
        case("half a frame", Answer::Bytes(half.clone()), Kind::Network),
        case("a reset in the stream", Answer::Reset(half), Kind::Network),
        case("silence", Answer::Silence, Kind::Timeout),
    ];
    check_all(cases, &good(), ask_at, failure).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

/// After a word nothing is repeated, and an end needs its last event.
#[tokio::test]
async fn a_stream_that_breaks_after_a_word_is_partial() {
    let whole = client(start_with(good()).await);
    assert_eq!(ask(&whole, "hello").await.unwrap(), "a scarf");
    let busy = frame("exception", "serviceUnavailableException", r#"{"message":"No."}"#);
    for (more, kind) in [(busy, Some(Kind::Overloaded)), (Vec::new(), None)] {
        let answer = Answer::Bytes(stream(&[start(), word(), more]));
        let error = ask(&client(start_with(answer).await), "hello").await.unwrap_err();
        let gave_up: &GaveUp<Failure> = error.downcast_ref().unwrap();
        assert_eq!(gave_up.reason(), StopReason::Partial, "{gave_up}");
        assert_eq!(gave_up.last().map(Failure::kind), kind, "{gave_up}");
    }
}
