//! `object_store` and its hook against a server that stores objects.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::retry::RetryFailure;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, RetryConfig};
use resile_clients::object_store::{PartRetry, failure};
use resile_clients::resile::{Backoff, Budget, RetryPolicy, Verdict};
use tokio_rustls::rustls::crypto::ring;

use super::s3::{Fate, Server};
use crate::row::within;

type Policy = RetryPolicy<fn(&RetryFailure) -> Option<Verdict>>;

/// A client without retries of its own.
fn client(server: &Server) -> AmazonS3 {
    // `reqwest` wants one, also without TLS. Another test may have installed it.
    let _ = ring::default_provider().install_default();
    AmazonS3Builder::new()
        .with_endpoint(server.url())
        .with_allow_http(true)
        .with_region("here")
        .with_bucket_name("bucket")
        .with_skip_signature(true)
        .with_retry(RetryConfig { max_retries: 0, ..Default::default() })
        .build()
        .unwrap()
}

fn policy() -> Policy {
    RetryPolicy::new()
        .with_backoff(Backoff::fixed(Duration::from_millis(5)))
        .with_classifier(failure as fn(&RetryFailure) -> Option<Verdict>)
}

/// The first tries of a part fail like this. The object is whole in the end.
#[tokio::test]
async fn a_part_that_fails_is_stored_once_and_whole() {
    within(async {
        for fate in [
            Fate::Refused(503, "SlowDown"),
            Fate::Refused(500, "InternalError"),
            Fate::Dropped,
            Fate::Unanswered,
        ] {
            let server = Server::start(move |target, before| {
                let is_part = target.contains("partNumber=2");
                if is_part && before == 0 { fate } else { Fate::Answered }
            })
            .await;
            let budget = Arc::new(Budget::new().with_capacity(5));
            let parts = PartRetry::new(policy()).with_budget(Arc::clone(&budget));
            let options = PutMultipartOptions::default().with_retry_policy(Arc::new(parts));
            let store = client(&server);
            let mut upload = store.put_multipart_opts(&Path::from("k"), options).await.unwrap();
            let first = vec![1; 5 * 1024 * 1024]; // S3 has no smaller part but the last one
            upload.put_part(first.clone().into()).await.unwrap();
            upload.put_part("end".into()).await.unwrap();
            upload.complete().await.unwrap();
            assert_eq!(server.count("partNumber=1"), 1, "{fate:?}");
            assert_eq!(server.count("partNumber=2"), 2, "{fate:?}");
            assert_eq!(budget.available(), 4, "{fate:?}");
            let stored = server.stored("k").unwrap();
            assert!(stored == [&first[..], b"end"].concat(), "{fate:?}");
        }
    })
    .await;
}

/// A refusal that stays is the end of the part.
#[tokio::test]
async fn a_part_that_is_denied_is_not_sent_again() {
    within(async {
        let server = Server::start(|target, _| {
            let denied = Fate::Refused(403, "AccessDenied");
            if target.contains("partNumber") { denied } else { Fate::Answered }
        })
        .await;
        let options =
            PutMultipartOptions::default().with_retry_policy(Arc::new(PartRetry::new(policy())));
        let store = client(&server);
        let mut upload = store.put_multipart_opts(&Path::from("k"), options).await.unwrap();
        upload.put_part("end".into()).await.unwrap_err();
        assert_eq!(server.count("partNumber"), 1);
        assert_eq!(server.stored("k"), None);
    })
    .await;
}

/// The first attempt of a conditional write was executed and its answer lost. The conflict of the second
/// one is its trace.
#[tokio::test]
async fn a_conflict_after_an_unanswered_write_is_the_success() {
    within(async {
        let server = Server::start(|target, before| {
            if target.starts_with("PUT") && before == 0 { Fate::Unanswered } else { Fate::Answered }
        })
        .await;
        let store = client(&server);
        let key = Path::from("k");
        let put = || store.put_opts(&key, "mine".into(), PutMode::Create.into());
        let lost = put().await.unwrap_err();
        assert!(matches!(lost, Error::Generic { .. }), "{lost:?}");
        assert_eq!(server.stored("k").as_deref(), Some(&b"mine"[..]));
        let conflict = put().await.unwrap_err();
        assert!(matches!(conflict, Error::AlreadyExists { .. }), "{conflict:?}");
        assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "mine");
    })
    .await;
}

#[tokio::test]
async fn an_object_that_is_cut_is_an_error_and_not_a_shorter_object() {
    within(async {
        let server = Server::start(|target, before| {
            if target.starts_with("GET") && before == 0 { Fate::Cut } else { Fate::Answered }
        })
        .await;
        let store = client(&server);
        let key = Path::from("k");
        store.put(&key, "0123456789".into()).await.unwrap();
        let cut = store.get(&key).await.unwrap().bytes().await.unwrap_err();
        assert!(matches!(cut, Error::Generic { .. }), "{cut:?}");
        assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "0123456789");
        assert_eq!(server.count("GET"), 2);
    })
    .await;
}
