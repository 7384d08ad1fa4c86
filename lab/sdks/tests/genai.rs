//! The program of the guide with `genai`, against a local server.

use genai::ServiceTarget;
use std::future::ready;

use futures_util::StreamExt;
use genai::resolver::{AuthData, Endpoint};
use resile_llm::Kind;
use resile_sdks::{TIMEOUT, check, check_refused, check_unknown, check_words, start_stream};

include!("../programs/genai.rs");

fn client(base: String) -> Client {
    let http =
        reqwest::Client::builder().no_proxy().timeout(TIMEOUT).retry(reqwest::retry::never());
    let to_local = move |target: ServiceTarget| {
        let endpoint = Endpoint::from_owned(format!("{base}/"));
        let auth = AuthData::from_single("k");
        Ok(ServiceTarget { endpoint, auth, model: target.model })
    };
    Client::builder()
        .with_reqwest(http.build().unwrap())
        .with_service_target_resolver_fn(to_local)
        .build()
        .unwrap()
}

async fn ask_at(base: String) -> Result<String, Error> {
    ask(&client(base), "hello").await
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
    check_unknown(|| Error::Internal("429 Too Many Requests".into()), failure).await;
}

#[tokio::test]
async fn the_words_alone_keep_the_kinds_of_refusals() {
    check_words(ask_at).await;
}

#[tokio::test]
async fn a_stream_that_fails_is_classified() {
    let busy = r#"{"error":{"message":"x","type":"overloaded_error"}}"#;
    for (event, kind) in [(Some(busy), Kind::Overloaded), (None, Kind::Network)] {
        let client = client(start_stream(event).await);
        let request = ChatRequest::from_user("hello");
        let stream = client.exec_chat_stream("gpt-4o-mini", request, None).await.unwrap().stream;
        let errors: Vec<_> = stream.filter_map(|it| ready(it.err())).collect().await;
        assert_eq!(failure(errors.last().unwrap()).map(|it| it.kind()), Some(kind), "{errors:?}");
    }
}
