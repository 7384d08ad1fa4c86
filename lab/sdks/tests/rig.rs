//! The program of the guide with `rig-core`, against a local server.

use resile_llm::Kind;
use resile_sdks::{Case, TIMEOUT, check, check_refused, check_unknown, check_words};
use rig_core::http_client::DynHttpClient;
use rig_core::providers::openai::OpenAIConfig;
use rig_reqwest::ReqwestClient;

include!("../programs/rig.rs");

async fn ask_at(base: String) -> Result<String, ProviderError> {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
    let http = DynHttpClient::new(ReqwestClient::from(http));
    let model = OpenAIConfig::new("k").with_base_url(base).connect(http);
    ask(&model, "hello").await
}

#[tokio::test]
async fn failures_are_classified() {
    // The SDK does not keep the body of a good answer that it cannot read.
    let change = |case: &mut Case| {
        match case.name {
            "garbage" | "other page" => (case.kind, case.is_retried) = (Kind::InvalidOutput, false),
            "other JSON" => (case.kind, case.is_retried) = (Kind::Network, true),
            _ => {}
        }
        true
    };
    check(ask_at, failure, change).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

#[tokio::test]
async fn an_error_without_knowledge_is_unclassified() {
    check_unknown(|| ProviderError::Response("429 Too Many Requests".into()), failure).await;
}

#[tokio::test]
async fn the_words_alone_keep_the_kinds_of_refusals() {
    check_words(ask_at).await;
}
