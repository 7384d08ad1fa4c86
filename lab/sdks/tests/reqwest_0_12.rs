//! The program of the guide with `reqwest` 0.12, against a local server.

use reqwest_0_12 as reqwest;
use resile_sdks::{TIMEOUT, check, check_refused};

include!("../programs/reqwest_0_12.rs");

fn failure(failure: &Failure) -> Option<Failure> {
    Failure::find_in_error(failure)
}

async fn ask_at(base: String) -> Result<String, Failure> {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
    ask(&http, &base, "hello").await
}

#[tokio::test]
async fn failures_are_classified() {
    check(ask_at, failure, |_| true).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    check_refused(ask_at, failure).await;
}
