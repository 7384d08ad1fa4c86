//! Publishes without an acknowledgement: was the message stored?

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, RequestErrorKind};
use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::resile::{Attempt, Backoff, GaveUp, Health, Never, RetryPolicy, retry};
use server::Server;

use super::start::{
    Nats, address, connect, connect_as, context, hasty, options, seen, start, stored, stream,
};
use crate::data::Says;
use crate::forward::Forwarder;
use crate::row::{row, within};

/// Again only if it is idempotent.
const IN_DOUBT: Option<Says> = Some((true, false, Health::Failing, false));

/// Starts a server with an empty stream.
async fn with_stream(configuration: &str) -> Server<Nats> {
    let server = start(configuration);
    context(&connect(server.port()).await).create_stream(stream("s")).await.unwrap();
    server
}

/// Waits until the stream has messages, and then for what may come after it.
async fn settled(server: &Server<Nats>) -> u64 {
    let context = context(&connect(server.port()).await);
    while stored(&context, "s").await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    stored(&context, "s").await
}

/// Kills the server, and waits until the client knows.
async fn kill(server: &mut Server<Nats>, client: &Client) {
    server.kill();
    while client.connection_state() != State::Disconnected {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The client keeps the message and sends it after the reconnect.
#[tokio::test]
async fn a_publish_that_timed_out_while_the_server_was_down_is_stored_later() {
    within(async {
        let mut server = with_stream("").await;
        let client = connect(server.port()).await;
        let context = hasty(&client);
        kill(&mut server, &client).await;
        let publish = context.publish("s", "work".into()).await.unwrap();
        let error = publish.await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "TimedOut"), "{error}");
        server.restart();
        assert_eq!(settled(&server).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_publish_whose_connection_broke_was_stored() {
    within(async {
        let server = with_stream("").await;
        let forwarder = Forwarder::start(server.port()).await;
        let client = connect(forwarder.port()).await;
        let context = hasty(&client);
        forwarder.hold_answers(true);
        let publish = context.publish("s", "work".into()).await.unwrap();
        let answer = tokio::spawn(publish.into_future());
        assert_eq!(settled(&server).await, 1);
        forwarder.cut();
        let error = answer.await.unwrap().unwrap_err();
        assert_eq!(seen(&error), IN_DOUBT, "{error}");
    })
    .await;
}

/// The client gave up its connection, and the message waits for ever.
#[tokio::test]
async fn a_client_that_ended_does_not_say_so() {
    within(async {
        let mut server = with_stream("").await;
        let options = options().max_reconnects(1);
        let client = options.connect(address(server.port())).await.unwrap();
        kill(&mut server, &client).await;
        let error = loop {
            let error = client.request("nobody", "work".into()).await.unwrap_err();
            if error.kind() != RequestErrorKind::TimedOut {
                break error;
            }
        };
        let (_, again, ..) = seen(&error).unwrap();
        assert!(!again, "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_publish_that_is_denied_looks_like_a_timeout() {
    within(async {
        let server = start(
            r#"authorization { users: [
                { user: root, password: root }
                { user: anna, password: anna, permissions: { publish: { deny: "s" } } }
            ] }"#,
        );
        let root = context(&connect_as(server.port(), "root").await);
        root.create_stream(stream("s")).await.unwrap();
        let context = hasty(&connect_as(server.port(), "anna").await);
        let error = context.publish("s", "work".into()).await.unwrap().await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "TimedOut"), "{error}");
        assert_eq!(stored(&root, "s").await, 0);
    })
    .await;
}

/// The first attempt times out and is stored later.
#[tokio::test]
async fn a_message_with_an_identity_is_stored_once() {
    within(async {
        for (idempotency, identity, wanted) in [
            (Idempotent, Some("one"), 1),
            (NotIdempotent, None, 1),
            (Idempotent, None, 2), // a wrong claim: nothing tells the messages apart
        ] {
            let mut server = with_stream("").await;
            let context = hasty(&connect(server.port()).await);
            let answer = publish(&context, idempotency, identity, &mut server).await;
            assert_eq!(answer.is_ok(), idempotency == Idempotent, "{answer:?}");
            assert_eq!(settled(&server).await, wanted, "{idempotency:?} {identity:?}");
        }
    })
    .await;
}

async fn publish(
    context: &Context,
    idempotency: Idempotency,
    identity: Option<&str>,
    server: &mut Server<Nats>,
) -> Result<(), PublishError> {
    let classify = move |error: &PublishError| resile_clients::nats::error(error, idempotency);
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(Duration::from_millis(10)))
        .with_classifier(classify);
    kill(server, &context.client()).await;
    let server = tokio::sync::Mutex::new(server);
    let send = async |attempt: Attempt| {
        if !attempt.is_first() {
            server.lock().await.restart();
        }
        let message = PublishMessage::build().payload("work".into());
        let message = match identity {
            Some(identity) => message.message_id(identity),
            None => message,
        };
        context.send_publish("s", message).await?.await.map(|_| ())
    };
    let answer = retry(send, policy, Never).await.map_err(GaveUp::into_last);
    let mut server = server.lock().await;
    if answer.is_err() {
        server.restart();
    }
    answer.map_err(|error| error.expect("an attempt failed"))
}
