//! Errors that close a channel. The client calls each of them recoverable.

use lapin::options::{BasicAckOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Error, ErrorKind};
use resile_clients::resile::Health;

use super::start::{broker, connect, declare, open, publish, publish_to, seen, take};
use crate::row::{row, within};

/// Asks for a queue without making it.
async fn find(channel: &Channel, queue: &str) -> lapin::Result<()> {
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    channel.queue_declare(queue.into(), passive, FieldTable::default()).await.map(|_| ())
}

/// Holds that the client advises a recovery, which cannot help.
fn is_called_recoverable(error: &Error) {
    assert!(
        error.can_be_recovered(),
        "the client says that {error} is final, so the docs of `amqp::error` are out of date",
    );
}

#[tokio::test]
async fn a_wrong_declaration_stays_wrong() {
    within(async {
        let broker = broker();
        let connection = connect(broker.port()).await;
        let error = find(&open(&connection).await, "missing").await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "404"), "{error}");
        is_called_recoverable(&error);

        declare(&open(&connection).await, "declared", FieldTable::default()).await.unwrap();
        let mut other = FieldTable::default();
        other.insert("x-max-length".into(), 1.into());
        let error = declare(&open(&connection).await, "declared", other).await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "406"), "{error}");
        is_called_recoverable(&error);

        let reserved = declare(&open(&connection).await, "amq.mine", FieldTable::default()).await;
        let error = reserved.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "403"), "{error}");
        is_called_recoverable(&error);
    })
    .await;
}

#[tokio::test]
async fn an_exclusive_queue_belongs_to_its_connection() {
    within(async {
        let broker = broker();
        let old = connect(broker.port()).await;
        let exclusive = QueueDeclareOptions { exclusive: true, ..Default::default() };
        let channel = open(&old).await;
        let queue = channel.queue_declare("mine".into(), exclusive, FieldTable::default());
        queue.await.unwrap();
        let new = connect(broker.port()).await;
        let error = find(&open(&new).await, "mine").await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "405"), "{error}");
        old.close(200, "bye".into()).await.unwrap();
        // It passes: the queue ends with its connection.
        while let Err(error) = find(&open(&new).await, "mine").await {
            if seen(&error) == row("amqp", "404") {
                break;
            }
            assert_eq!(seen(&error), row("amqp", "405"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_publish_to_no_exchange_is_not_found() {
    within(async {
        let broker = broker();
        let channel = open(&connect(broker.port()).await).await;
        let error =
            publish_to(&channel, "missing", "q", BasicPublishOptions::default()).await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "404"), "{error}");
    })
    .await;
}

/// The broker answers nothing to an acknowledgement, but closes the channel. The next call tells only
/// that the channel is closed, and was not sent.
#[tokio::test]
async fn a_failed_acknowledgement_shows_in_the_next_call() {
    within(async {
        let broker = broker();
        let connection = connect(broker.port()).await;
        declare(&open(&connection).await, "next", FieldTable::default()).await.unwrap();
        let channel = open(&connection).await;
        channel.basic_ack(99, BasicAckOptions::default()).await.unwrap();
        while channel.status().connected() {
            tokio::task::yield_now().await;
        }
        let error = publish(&channel, "next").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidChannelState(..)), "{error}");
        assert_eq!(seen(&error), Some((true, true, Health::Failing, false)), "{error}");
        assert_eq!(take(broker.port(), "next").await, 0);
    })
    .await;
}
