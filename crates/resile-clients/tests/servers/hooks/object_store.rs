//! `object_store`: parts of an upload against a server that speaks the protocol of S3.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderValue, StatusCode};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::path::Path;
use object_store::retry::RetryFailure;
use object_store::{ClientOptions, ObjectStore, PutMultipartOptions, RetryConfig};
use resile_clients::object_store::{PartRetry, failure};
use resile_clients::resile::{Backoff, Budget, Classify, Health, RetryPolicy, Verdict};

use crate::answering::{Answer, Server, answer, send};
use crate::row::within;

type Policy = RetryPolicy<fn(&RetryFailure) -> Option<Verdict>>;

/// Three attempts with short delays.
fn policy() -> Policy {
    RetryPolicy::new()
        .with_backoff(Backoff::fixed(Duration::from_millis(5)))
        .with_classifier(failure as fn(&RetryFailure) -> Option<Verdict>)
}

/// Starts a store whose parts get an answer of the test.
async fn store(part: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |target, before| {
        Some(if target.contains("partNumber") {
            part(before)
        } else if target.contains("uploads") {
            answer(200, "<R><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId></R>")
        } else {
            answer(200, "<R><Location>l</Location><Bucket>b</Bucket><Key>k</Key><ETag>e</ETag></R>")
        })
    })
    .await
}

fn stored() -> Answer {
    let mut stored = answer(200, "");
    stored.headers_mut().insert("etag", HeaderValue::from_static("\"e\""));
    stored
}

/// A connection for each request.
#[derive(Clone, Debug)]
struct Connector(u16);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        match send(self.0, request).await {
            Ok(answer) => Ok(answer.map(HttpResponseBody::from)),
            Err(error) => Err(HttpError::new(HttpErrorKind::Request, io::Error::other(error))),
        }
    }
}

fn client(server: &Server) -> AmazonS3 {
    let once = RetryConfig { max_retries: 0, ..Default::default() };
    AmazonS3Builder::new()
        .with_endpoint(server.url())
        .with_allow_http(true)
        .with_region("here")
        .with_bucket_name("b")
        .with_skip_signature(true)
        .with_http_connector(Connector(server.port()))
        .with_retry(once)
        .build()
        .unwrap()
}

/// Uploads one part.
async fn upload(server: &Server, parts: PartRetry<impl Parts>) -> object_store::Result<()> {
    let options = PutMultipartOptions::default().with_retry_policy(Arc::new(parts));
    let mut upload = client(server).put_multipart_opts(&Path::from("k"), options).await?;
    upload.put_part("work".into()).await?;
    upload.complete().await.map(|_| ())
}

/// A classifier of parts.
trait Parts: Classify<RetryFailure> + Send + Sync + 'static {}
impl<C: Classify<RetryFailure> + Send + Sync + 'static> Parts for C {}

const PART: &str = "partNumber";

#[tokio::test]
async fn a_part_is_sent_again_until_it_is_stored() {
    within(async {
        let busy_twice = |before| if before < 2 { answer(503, "") } else { stored() };
        let server = store(busy_twice).await;
        let budget = Arc::new(Budget::new().with_capacity(5));
        let parts = PartRetry::new(policy()).with_budget(Arc::clone(&budget));
        upload(&server, parts).await.unwrap();
        assert_eq!(server.count(PART), 3);
        assert_eq!(budget.available(), 3);
        assert_eq!(server.count("uploads"), 1);
    })
    .await;
}

#[tokio::test]
async fn the_attempts_the_budget_and_the_time_end_a_part() {
    within(async {
        let server = store(|_| answer(503, "")).await;
        upload(&server, PartRetry::new(policy())).await.unwrap_err();
        assert_eq!(server.count(PART), 3, "attempts");

        let server = store(|_| answer(503, "")).await;
        let budget = Arc::new(Budget::new().with_capacity(1));
        let parts = PartRetry::new(policy()).with_budget(Arc::clone(&budget));
        upload(&server, parts).await.unwrap_err();
        assert_eq!(server.count(PART), 2, "budget");

        let server = store(|_| answer(503, "")).await;
        let long = policy().with_backoff(Backoff::fixed(Duration::from_hours(1)));
        let long = long.with_total_timeout(Duration::from_secs(30));
        upload(&server, PartRetry::new(long)).await.unwrap_err();
        assert_eq!(server.count(PART), 1, "time");

        let server = store(|_| answer(403, "")).await;
        upload(&server, PartRetry::new(policy())).await.unwrap_err();
        assert_eq!(server.count(PART), 1, "final");
    })
    .await;
}

#[tokio::test]
async fn an_upload_that_ends_in_the_delay_gives_its_token_back() {
    within(async {
        let server = store(|_| answer(503, "")).await;
        let budget = Arc::new(Budget::new().with_capacity(1));
        let long =
            policy().with_backoff(Backoff::fixed(Duration::from_hours(1))).without_total_timeout();
        let parts = PartRetry::new(long).with_budget(Arc::clone(&budget));
        {
            let upload = upload(&server, parts);
            tokio::pin!(upload);
            while budget.available() == 1 {
                tokio::select! {
                    answer = &mut upload => panic!("{answer:?}"),
                    () = tokio::time::sleep(Duration::from_millis(1)) => {}
                }
            }
        }
        assert_eq!(budget.available(), 1);
    })
    .await;
}

/// A pair that repeats a passing 403, as some stores send it.
#[tokio::test]
async fn a_classifier_of_ones_own_comes_first() {
    within(async {
        let denied_once = |before| if before == 0 { answer(403, "") } else { stored() };
        let server = store(denied_once).await;
        let mine = |failure: &RetryFailure| {
            (*failure == RetryFailure::Status(StatusCode::FORBIDDEN)).then(Verdict::transient)
        };
        let policy = policy().with_classifier((mine, failure));
        upload(&server, PartRetry::new(policy)).await.unwrap();
        assert_eq!(server.count(PART), 2);
    })
    .await;
}

#[test]
fn each_failure_has_a_verdict() {
    let of = |status| {
        let verdict =
            failure(&RetryFailure::Status(StatusCode::from_u16(status).unwrap())).unwrap();
        (verdict.is_again(), verdict.health(), verdict.is_own_limit())
    };
    for status in [200, 206, 408, 500, 502, 504] {
        assert_eq!(of(status), (true, Health::Failing, false), "{status}");
    }
    assert_eq!(of(429), (true, Health::Throttling, true));
    assert_eq!(of(503), (true, Health::Throttling, false));
    for status in [401, 403] {
        assert_eq!(of(status), (false, Health::Unknown, false), "{status}");
    }
    for status in [301, 400, 404, 409, 412] {
        assert_eq!(of(status), (false, Health::Healthy, false), "{status}");
    }
    for status in [501, 505] {
        assert_eq!(of(status), (false, Health::Failing, false), "{status}");
    }
    for kind in [
        HttpErrorKind::Connect,
        HttpErrorKind::Request,
        HttpErrorKind::Timeout,
        HttpErrorKind::Interrupted,
        HttpErrorKind::Decode,
    ] {
        let again = Verdict::transient().idempotent();
        assert_eq!(failure(&RetryFailure::Transport(kind)), Some(again), "{kind:?}");
    }
    assert_eq!(failure(&RetryFailure::Transport(HttpErrorKind::Unknown)), None);
}
