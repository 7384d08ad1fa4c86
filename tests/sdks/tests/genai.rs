//! The program of the guide with `genai`, against a local server.

use genai::ServiceTarget;
use genai::resolver::{AuthData, Endpoint};
use resile_sdks::{TIMEOUT, check, check_refused, check_unknown, check_words};

include!("../programs/genai.rs");

async fn ask_at(base: String) -> Result<String, Error> {
    let http =
        reqwest::Client::builder().no_proxy().timeout(TIMEOUT).retry(reqwest::retry::never());
    let to_local = move |target: ServiceTarget| {
        let endpoint = Endpoint::from_owned(format!("{base}/"));
        let auth = AuthData::from_single("k");
        Ok(ServiceTarget { endpoint, auth, model: target.model })
    };
    let client = Client::builder()
        .with_reqwest(http.build().unwrap())
        .with_service_target_resolver_fn(to_local)
        .build()?;
    ask(&client, "hello").await
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
