//! The program of the guide with `ollama-rs`, against a local server.

use futures_util::StreamExt;
use ollama_rs::error::ToolCallError;
use resile_llm::Kind;
use resile_sdks::{
    Answer, TIMEOUT, answer, case, cases, check_all, check_refused, check_unknown, start_with,
};

include!("../programs/ollama.rs");

/// The answer of Ollama's own interface.
const GOOD: &str = r#"{"model":"m","created_at":"2026-01-01T00:00:00Z",
    "message":{"role":"assistant","content":"a scarf"},"done":true,"done_reason":"stop",
    "total_duration":1,"load_duration":1,"prompt_eval_count":1,"prompt_eval_duration":1,
    "eval_count":1,"eval_duration":1}"#;

fn client(base: &str) -> Ollama {
    let http = reqwest_0_12::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
    let url = reqwest_0_12::Url::parse(base).unwrap();
    let host = format!("http://{}", url.host_str().unwrap());
    let builder = Ollama::builder().host(host).port(url.port().unwrap());
    builder.reqwest_client(http).build()
}

async fn ask_at(base: String) -> Result<String, OllamaError> {
    ask(&client(&base), "hello").await
}

fn good() -> Answer {
    answer("200 OK", &[], GOOD)
}

/// The SDK keeps the body of a refusal, but neither its status nor its headers. It keeps nothing of a
/// good answer that is no completion.
#[tokio::test]
async fn failures_are_classified_by_what_is_kept() {
    let kept = ["quota", "overload", "key", "long", "closed", "reset", "silence", "cut"];
    let kept = cases().into_iter().filter(|case| kept.contains(&case.name));
    let rate = cases().into_iter().filter(|case| case.name == "rate").map(|mut case| {
        case.wait = std::time::Duration::ZERO;
        case
    });
    let no_model = answer("404 X", &[], r#"{"error":"model 'm' not found"}"#);
    let odd = answer("200 OK", &[], r#"{"a":1}"#);
    let own = [case("no model", no_model, Kind::NotFound), case("odd", odd, Kind::InvalidOutput)];
    check_all(kept.chain(rate).chain(own), &good(), ask_at, failure).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

#[tokio::test]
async fn an_error_without_knowledge_is_unclassified() {
    check_unknown(|| ToolCallError::UnknownToolName.into(), failure).await;
}

#[tokio::test]
async fn an_error_in_a_stream_is_lost_so_its_last_item_must_be_required() {
    let lines = r#"{"error":"model runner has unexpectedly stopped"}"#.to_owned() + "\n";
    let model = client(&start_with(answer("200 OK", &[], &lines)).await);
    let request = ChatMessageRequest::new("m".to_owned(), Vec::new());
    let mut stream = model.send_chat_messages_stream(request).await.unwrap();
    assert!(stream.next().await.is_none(), "the SDK does not leave the error out any more");
}
