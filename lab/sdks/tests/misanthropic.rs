//! The program of the guide with `misanthropic`, against a local server.

use std::time::Duration;

use misanthropic::client::AnthropicError;
use resile_llm::Kind;
use resile_sdks::{Answer, TIMEOUT, answer, case, cases, check_all, check_refused, check_unknown};

include!("../programs/misanthropic.rs");

const GOOD: &str = r#"{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-6",
    "content":[{"type":"text","text":"a scarf"}],"stop_reason":"end_turn","stop_sequence":null,
    "usage":{"input_tokens":1,"output_tokens":1}}"#;

async fn ask_at(base: String) -> Result<String, Error> {
    let mut client = Client::new("x".repeat(108)).unwrap().base_url(base).unwrap();
    client.inner = reqwest_0_12::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
    let prompt = Prompt::default().model(Id::Sonnet46).add_message((Role::User, "hello"));
    ask(&client, &prompt.unwrap()).await
}

fn good() -> Answer {
    answer("200 OK", &[], GOOD)
}

/// Anthropic's errors keep their type, and a rate limit or an overload its hint in seconds. Of other
/// errors the SDK keeps the status and the words.
#[tokio::test]
async fn failures_are_classified_by_what_is_kept() {
    let refusal = |status: &str, headers: &[&str], kind: &str, message: &str| {
        let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
        answer(status, headers, &error.to_string())
    };
    let rate = refusal("429 X", &["retry-after: 20"], "rate_limit_error", "Slow down.");
    let mut rate = case("own rate", rate, Kind::RateLimit);
    rate.wait = Duration::from_secs(20);
    let credit = "Your credit balance is too low to access the API.";
    let long = "prompt is too long: 300000 tokens > 200000 maximum";
    let bad = "invalid_request_error";
    let own = [
        rate,
        case("own key", refusal("401 X", &[], "authentication_error", "no"), Kind::Auth),
        case("own credit", refusal("400 X", &[], bad, credit), Kind::QuotaExhausted),
        case("own length", refusal("400 X", &[], bad, long), Kind::ContextLength),
        case("own model", refusal("404 X", &[], "not_found_error", "model: m"), Kind::NotFound),
        case("own fault", refusal("500 X", &[], "api_error", "Sorry."), Kind::Server),
        case("odd", answer("200 OK", &[], "no JSON"), Kind::InvalidOutput),
    ];
    let kept = ["overload", "odd refusal", "page", "closed", "reset", "silence", "cut"];
    let kept = cases().into_iter().filter(|case| kept.contains(&case.name));
    check_all(kept.chain(own), &good(), ask_at, failure).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

#[tokio::test]
async fn an_error_without_knowledge_is_unclassified() {
    check_unknown(|| Error::UnexpectedResponse { message: "429" }, failure).await;
}

#[test]
fn an_error_in_a_stream_keeps_its_type() {
    let message = "Overloaded".to_owned();
    let error = AnthropicError::Overloaded { message, retry_after: None };
    assert_eq!(failure(&error.into()).unwrap().kind(), Kind::Overloaded);
}
