//! The program of the guide with `gemini-rust`, against a local server.

use resile_llm::Kind;
use resile_sdks::{Answer, TIMEOUT, answer, case, cases, check_all, check_refused, check_unknown};

include!("../programs/gemini.rs");

const GOOD: &str = r#"{"id":"i","status":"completed","steps":[
    {"type":"model_output","content":[{"type":"text","text":"a scarf"}]}]}"#;

async fn ask_at(base: String) -> Result<String, ClientError> {
    let http = reqwest_0_12::Client::builder().no_proxy().timeout(TIMEOUT);
    let base = reqwest_0_12::Url::parse(&format!("{base}/")).unwrap();
    let model = gemini_rust::GeminiBuilder::new("k").with_http_client(http).with_base_url(base);
    ask(&model.build()?, "hello").await
}

fn good() -> Answer {
    answer("200 OK", &[], GOOD)
}

/// The SDK keeps the status and the body of a refusal, but not its headers. It leaves an error
/// inside a good answer to its reader.
#[tokio::test]
async fn failures_are_classified_by_what_is_kept() {
    let lost = ["told", "inside", "quota inside", "other JSON", "garbage", "other page"];
    let kept = cases().into_iter().filter(|case| !lost.contains(&case.name));
    let kept = kept.map(|mut case| {
        if case.name == "rate" {
            case.wait = std::time::Duration::ZERO;
        }
        case
    });
    let hint = r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}]}}"#;
    let mut hint = case("hint in the body", answer("429 X", &[], hint), Kind::RateLimit);
    hint.wait = std::time::Duration::from_secs(20);
    let odd = case("odd", answer("200 OK", &[], "no JSON"), Kind::InvalidOutput);
    check_all(kept.chain([hint, odd]), &good(), ask_at, failure).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

#[tokio::test]
async fn an_error_without_knowledge_is_unclassified() {
    check_unknown(|| ClientError::InvalidResourceName { name: "429".into() }, failure).await;
}
