//! Errors of the client.

use std::time::Duration;

use http::Request;
use kube::{Client, Config, Error};
use resile_clients::Idempotency::NotIdempotent;
use resile_clients::kubernetes::error;
use resile_clients::resile::Health;

use crate::answering::{Server, answer};
use crate::data::{Says, classified, rows, says, word};
use crate::row::within;

fn seen(failed: &Error) -> Option<Says> {
    says(|it| error(failed, it))
}

/// Nobody knows whether the request was executed.
const DOUBT: Option<Says> = Some((true, false, Health::Failing, false));

fn client(url: &str, default_retry: bool) -> Client {
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = default_retry;
    Client::try_from(config).unwrap()
}

/// Makes a request that creates something and fails.
async fn create(client: &Client) -> Error {
    let request = Request::post("/api/v1/pods").body(b"{}".to_vec()).unwrap();
    client.request::<serde_json::Value>(request).await.unwrap_err()
}

/// Returns the error of a server that answers so.
async fn failed(status: u16, body: String) -> Error {
    let server = Server::start(move |_, _| Some(answer(status, body.clone()))).await;
    let failed = create(&client(&server.url(), false)).await;
    assert_eq!(server.count("POST"), 1);
    failed
}

fn status(code: u16, reason: &str, details: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"words",
            "reason":"{reason}","code":{code},"details":{{{details}}}}}"#
    )
}

#[tokio::test]
async fn each_reason_has_the_verdict_of_its_row() {
    within(async {
        for row in rows().into_iter().filter(|row| row.family == "kubernetes") {
            // The reason counts, whatever the code says.
            let error = failed(400, status(400, row.code, "")).await;
            assert_eq!(seen(&error), Some(row.says), "{}: {error:?}", row.code);
            assert_eq!(classified(&error), Some(row.says), "{}: {error:?}", row.code);
            assert_eq!(word(&error), row.code);
        }
        assert_eq!(seen(&failed(400, status(400, "Other", "")).await), None);
    })
    .await;
}

/// A proxy answers without a `Status`.
#[tokio::test]
async fn a_code_without_a_reason_has_that_of_its_code() {
    within(async {
        let overload = Some((true, true, Health::Throttling, false));
        for (code, wanted) in [(429, overload), (502, DOUBT), (503, DOUBT), (504, DOUBT)] {
            let error = failed(code, "<html>".to_owned()).await;
            assert_eq!(seen(&error), wanted, "{code}: {error:?}");
            assert_eq!(word(&error), code.to_string());
        }
        assert_eq!(seen(&failed(418, "<html>".to_owned()).await), None);
    })
    .await;
}

#[tokio::test]
async fn the_server_says_when() {
    within(async {
        let seconds = r#""retryAfterSeconds":7"#;
        let wait = Some(Duration::from_secs(7));
        let busy = failed(429, status(429, "TooManyRequests", seconds)).await;
        let verdict = error(&busy, NotIdempotent).unwrap();
        assert_eq!((verdict.is_again(), verdict.hint()), (true, wait));
        // It is not sent again, but the others should wait.
        let late = failed(500, status(500, "ServerTimeout", seconds)).await;
        let verdict = error(&late, NotIdempotent).unwrap();
        assert_eq!((verdict.is_again(), verdict.hint()), (false, wait));
        let conflict = failed(409, status(409, "Conflict", seconds)).await;
        assert_eq!(error(&conflict, NotIdempotent).unwrap().hint(), None);
    })
    .await;
}

/// The cluster protects a service. That is no overload of its own.
#[tokio::test]
async fn an_eviction_that_must_wait_is_health() {
    within(async {
        let details = r#""causes":[{"reason":"DisruptionBudget","message":"words"}]"#;
        let error = failed(429, status(429, "TooManyRequests", details)).await;
        assert_eq!(seen(&error), Some((true, true, Health::Healthy, false)), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_fails_has_the_verdict_of_its_chain() {
    within(async {
        let server = Server::start(|_, _| None).await; // it takes the request and closes
        let client = client(&server.url(), false);
        let cut = create(&client).await;
        assert_eq!(seen(&cut), DOUBT, "{cut:?}");
        assert_eq!(server.count("POST"), 1);
        drop(server);
        let refused = loop {
            let error = create(&client).await;
            if seen(&error) != DOUBT {
                break error; // the listener is gone
            }
        };
        assert_eq!(seen(&refused), Some((true, true, Health::Failing, false)), "{refused:?}");
    })
    .await;
}

/// The server has executed the request.
#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_asked_for_again() {
    within(async {
        let server = Server::start(|_, _| Some(answer(200, "words"))).await;
        let error = create(&client(&server.url(), false)).await;
        assert_eq!(seen(&error), Some((false, false, Health::Unknown, false)), "{error:?}");
    })
    .await;
}

/// So the table of the guide says it: the client repeats a POST that may have been executed.
#[tokio::test]
async fn the_client_repeats_a_request_by_itself() {
    within(async {
        let server = Server::start(|_, before| {
            let late = (before == 0).then(|| answer(504, "<html>"));
            Some(late.unwrap_or_else(|| answer(200, "{}")))
        })
        .await;
        let request = Request::post("/api/v1/pods").body(b"{}".to_vec()).unwrap();
        let client = client(&server.url(), true);
        client.request::<serde_json::Value>(request).await.unwrap();
        assert_eq!(server.count("POST"), 2);
    })
    .await;
}
