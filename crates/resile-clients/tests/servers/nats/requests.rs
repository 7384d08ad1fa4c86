//! Requests to a service that answers or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_nats::{Client, PublishError};
use futures_util::StreamExt;

use super::start::{connect, context, seen, start, stored, stream};
use crate::row::{row, within};

/// Starts a service that counts its requests and never answers.
async fn silent(client: &Client) -> Arc<AtomicU32> {
    let counted = Arc::new(AtomicU32::new(0));
    let mut requests = client.subscribe("silent").await.unwrap();
    client.flush().await.unwrap();
    let requested = Arc::clone(&counted);
    tokio::spawn(async move {
        while requests.next().await.is_some() {
            requested.fetch_add(1, Ordering::SeqCst);
        }
    });
    counted
}

#[tokio::test]
async fn a_request_that_nobody_hears_was_not_executed() {
    within(async {
        let server = start("");
        let client = connect(server.port()).await;
        let error = client.request("nobody", "work".into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "NoResponders"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_request_that_timed_out_was_executed() {
    within(async {
        let server = start("");
        let counted = silent(&connect(server.port()).await).await;
        let client = connect(server.port()).await;
        let error = client.request("silent", "work".into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "TimedOut"), "{error}");
        assert_eq!(counted.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn a_message_that_the_client_refuses_was_not_sent() {
    within(async {
        let server = start("max_payload: 2000");
        let client = connect(server.port()).await;
        let counted = silent(&client).await;
        let large = "x".repeat(2001);
        let error = client.request("silent", large.clone().into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "MaxPayloadExceeded"), "{error}");
        let error: PublishError = client.publish("silent", large.clone().into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "MaxPayloadExceeded"), "{error}");
        let error = client.request("a wrong subject", "work".into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "InvalidSubject"), "{error}");

        let context = context(&client);
        context.create_stream(stream("s")).await.unwrap();
        let error = context.publish("s", large.into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "MaxPayloadExceeded"), "{error}");
        assert_eq!(stored(&context, "s").await, 0);
        assert_eq!(counted.load(Ordering::SeqCst), 0);
    })
    .await;
}
