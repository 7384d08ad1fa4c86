//! Answers of JetStream that say what is wrong. No message of these tests was stored.

use std::collections::HashMap;

use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::jetstream::{self, Context, ContextBuilder};

use super::start::{connect, context, hasty, seen, start, stored, stream};
use crate::row::{row, within};

/// Publishes and returns the error of the acknowledgement.
async fn publish(context: &Context, subject: &'static str, what: PublishMessage) -> PublishError {
    context.send_publish(subject, what).await.unwrap().await.unwrap_err()
}

fn message() -> PublishMessage {
    PublishMessage::build().payload("work".into())
}

#[tokio::test]
async fn a_full_stream_is_a_limit_of_its_owner() {
    within(async {
        let server = start("");
        let context = context(&connect(server.port()).await);
        let full = Config { max_messages: 1, discard: DiscardPolicy::New, ..stream("s") };
        context.create_stream(full).await.unwrap();
        context.publish("s", "first".into()).await.unwrap().await.unwrap();
        let error = publish(&context, "s", message()).await;
        assert_eq!(seen(&error), row("nats", "10077"), "{error}");
        assert_eq!(stored(&context, "s").await, 1);
        context.get_stream("s").await.unwrap().purge().await.unwrap();
        context.publish("s", "second".into()).await.unwrap().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_condition_that_does_not_hold_is_a_collision() {
    within(async {
        let server = start("");
        let context = context(&connect(server.port()).await);
        context.create_stream(stream("s")).await.unwrap();
        let error = publish(&context, "s", message().expected_last_sequence(7)).await;
        assert_eq!(seen(&error), row("nats", "WrongLastSequence"), "{error}");
        let error = publish(&context, "s", message().expected_last_message_id("other")).await;
        assert_eq!(seen(&error), row("nats", "WrongLastMessageId"), "{error}");
        assert_eq!(stored(&context, "s").await, 0);
    })
    .await;
}

/// The client says that the stream was not found. It knows only that nobody heard the message.
#[tokio::test]
async fn a_subject_without_a_stream_looks_like_an_election() {
    within(async {
        let server = start("");
        let context = context(&connect(server.port()).await);
        let error = publish(&context, "young", message()).await;
        assert_eq!(seen(&error), row("nats", "StreamNotFound"), "{error}");
        context.create_stream(stream("young")).await.unwrap();
        assert_eq!(stored(&context, "young").await, 0);
        context.send_publish("young", message()).await.unwrap().await.unwrap();
        assert_eq!(stored(&context, "young").await, 1);
    })
    .await;
}

#[tokio::test]
async fn too_many_open_publishes_are_a_limit_of_the_client() {
    within(async {
        let mut server = start("");
        let client = connect(server.port()).await;
        context(&client).create_stream(stream("s")).await.unwrap();
        let builder = ContextBuilder::new().max_ack_inflight(1).backpressure_on_inflight(false);
        let context = builder.build(client.clone());
        server.signal("STOP"); // no acknowledgement comes
        let _open = context.publish("s", "first".into()).await.unwrap();
        let error = context.publish("s", "second".into()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "MaxAckPending"), "{error}");
        server.signal("CONT");
        while stored(&context, "s").await == 0 {}
        server.restart();
        assert_eq!(stored(&hasty(&connect(server.port()).await), "s").await, 1);
    })
    .await;
}

/// Returns the error that the API answers.
async fn api(
    context: &Context,
    subject: &'static str,
    request: &[(&str, u64)],
) -> jetstream::Error {
    let request: HashMap<_, _> = request.iter().copied().collect();
    match context.request::<_, _, Response<HashMap<String, String>>>(subject, &request).await {
        Ok(Response::Err { error }) => error,
        answer => panic!("{subject}: {answer:?}"),
    }
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_not_found() {
    within(async {
        let server = start("");
        let context = context(&connect(server.port()).await);
        let error = api(&context, "STREAM.INFO.missing", &[]).await;
        assert_eq!(seen(&error), row("nats", "10059"), "{error}");
        let error = context.get_stream("missing").await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10059"), "{error}");
        let stream = context.create_stream(stream("s")).await.unwrap();
        let error = api(&context, "CONSUMER.INFO.s.missing", &[]).await;
        assert_eq!(seen(&error), row("nats", "10014"), "{error}");
        let error = stream.consumer_info("missing").await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10014"), "{error}");
        let error = api(&context, "STREAM.MSG.GET.s", &[("seq", 99)]).await;
        assert_eq!(seen(&error), row("nats", "10037"), "{error}");
    })
    .await;
}
