//! The program of the guide with `async-openai`, against a local server.

use std::future::ready;

use futures_util::StreamExt;
use resile_llm::Kind;
use resile_sdks::{TIMEOUT, check, check_refused, check_unknown, start, start_stream};

include!("../programs/async_openai.rs");

fn http() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(TIMEOUT)
        .retry(reqwest::retry::never())
        .build()
        .unwrap()
}

async fn ask_at(base: String) -> Result<String, OpenAIError> {
    let config = OpenAIConfig::new().with_api_base(base).with_api_key("k");
    ask(&client(http(), config), "hello").await
}

#[tokio::test]
async fn failures_are_classified() {
    check(ask_at, failure, |_| true).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}

#[tokio::test]
async fn an_error_without_knowledge_is_unclassified() {
    check_unknown(|| OpenAIError::InvalidArgument("429".into()), failure).await;
    check_unknown(|| OpenAIError::Boxed("rate limit".into()), failure).await;
}

/// The SDK's own client keeps no headers, but it keeps the status and the code.
#[tokio::test]
async fn the_own_client_of_the_sdk_is_classified_too() {
    for (name, kind) in
        [("quota", Kind::QuotaExhausted), ("key", Kind::Auth), ("long", Kind::ContextLength)]
    {
        let config = OpenAIConfig::new().with_api_base(start(name).await).with_api_key("k");
        let error = ask(&Client::with_config(config).with_http_client(http()), "hello").await;
        let error = error.unwrap_err();
        assert!(matches!(error, OpenAIError::ApiError(_)), "{error:?}");
        assert_eq!(failure(&error).unwrap().kind(), kind);
        assert_eq!(Failure::find_in_text(&error.to_string()).unwrap().kind(), kind);
    }
}

#[tokio::test]
async fn a_stream_that_fails_is_classified() {
    let busy = r#"{"error":{"message":"x","type":"overloaded_error"}}"#;
    for (event, kind) in [(Some(busy), Kind::Overloaded), (None, Kind::Network)] {
        let config = OpenAIConfig::new().with_api_base(start_stream(event).await);
        let request = CreateChatCompletionRequestArgs::default()
            .model("m")
            .messages([ChatCompletionRequestUserMessage::from("hello").into()])
            .build();
        let model = client(http(), config);
        let stream = model.chat().create_stream(request.unwrap()).await.unwrap();
        let errors: Vec<_> = stream.filter_map(|it| ready(it.err())).collect().await;
        assert_eq!(failure(errors.last().unwrap()).map(|it| it.kind()), Some(kind), "{errors:?}");
    }
}
