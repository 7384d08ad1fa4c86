//! The error of a program that has a variant for that of `reqwest`, as the chapter keeps it.

use std::sync::atomic::Ordering::SeqCst;

use resile::{Backoff, GaveUp, Never, RetryPolicy, retry};

use crate::http_failure::{Does, client, serve, text};
use crate::refusing::refusing;

include!("transport.rs");

const GET: Classifier = Classifier::idempotent();
const POLICY: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Returns the error of the program by that of a call whose operation returns a [`Failure`].
fn own(end: GaveUp<Failure>) -> ApiError {
    match end.into_last().map(Failure::into_cause) {
        Some(Ok(error)) => ApiError::Transport(error),
        Some(Err(failure)) => ApiError::Refused(failure),
        None => ApiError::Timeout,
    }
}

async fn failing(http: &reqwest::Client, url: &str) -> Result<String, Failure> {
    Ok(error_for_status(http.get(url).send().await?).await?.text().await?)
}

/// Calls in both forms of the chapter.
async fn both(url: &str) -> [ApiError; 2] {
    let http = client();
    let policy = POLICY.with_classifier(GET.over(judge));
    let judged = retry(|_| fetch(&http, url), policy, Never).await;
    let policy = POLICY.with_classifier(GET);
    let taken = retry(|_| failing(&http, url), policy, Never).await;
    [judged.unwrap_err().into_last().unwrap_or(ApiError::Timeout), own(taken.unwrap_err())]
}

#[test]
fn the_chapter_has_this_program() {
    let page = include_str!("../../../docs/guide/migrating.md");
    assert!(page.contains(&format!("```text\n{}```\n", include_str!("transport.rs"))));
}

#[tokio::test]
async fn the_variant_has_the_error_of_the_client_by_value() {
    let (_socket, address) = refusing();
    let url = format!("http://{address}/?key=secret");
    for (error, has_query) in both(&url).await.into_iter().zip([true, false]) {
        let ApiError::Transport(error) = error else { panic!("{error:?}") };
        assert!(error.is_connect(), "{error}");
        assert_eq!(error.to_string().contains("key=secret"), has_query, "{error}");
        assert!(!error.without_url().to_string().contains("key=secret"));
    }
}

/// A lost answer and a 503 are asked for again, and a 404 is not.
#[tokio::test]
async fn each_variant_is_judged_like_a_failure() {
    let status = |line| text(&format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n"));
    let script = [Does::Reset, status("503 Busy"), status("404 Not Found")];
    let (address, requests, _) = serve(&[script.clone(), script].concat()).await;
    for error in both(&format!("http://{address}/")).await {
        let ApiError::Refused(failure) = error else { panic!("{error:?}") };
        assert_eq!(failure.status().unwrap(), 404);
    }
    assert_eq!(requests.load(SeqCst), 6);
}
