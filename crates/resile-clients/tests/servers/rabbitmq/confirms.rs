//! Confirmations of published messages: was the message taken?

use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Confirmation, ExchangeKind};
use resile_clients::amqp;
use resile_clients::resile::Health;

use super::start::{broker, connect, declare, open, publish, publish_to, seen, take};
use crate::data::{Says, says};
use crate::forward::Forwarder;
use crate::row::{row, within};

fn answered(confirmation: &Confirmation) -> Option<Says> {
    says(|it| amqp::confirmed(confirmation, it))
}

/// A queue of one message, which refuses the next ones.
fn of_one() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), 1.into());
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    arguments
}

#[tokio::test]
async fn a_message_without_a_route_is_acknowledged_and_lost() {
    within(async {
        let broker = broker();
        let channel = open(&connect(broker.port()).await).await;
        let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
        let confirmation = publish_to(&channel, "", "nowhere", mandatory).await.unwrap();
        assert!(confirmation.is_ack());
        assert_eq!(answered(&confirmation), row("amqp", "basic.return"));
        let returned = confirmation.take_message().unwrap();
        assert_eq!(says(|it| amqp::reply(returned.reply_code, it)), row("amqp", "312"));
        // Without the flag nobody says anything.
        let confirmation = publish(&channel, "nowhere").await.unwrap();
        assert_eq!(answered(&confirmation), None);
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_takes_no_message() {
    within(async {
        let broker = broker();
        let channel = open(&connect(broker.port()).await).await;
        declare(&channel, "full", of_one()).await.unwrap();
        assert_eq!(answered(&publish(&channel, "full").await.unwrap()), None);
        let confirmation = publish(&channel, "full").await.unwrap();
        assert_eq!(answered(&confirmation), row("amqp", "basic.nack"));
        assert_eq!(take(broker.port(), "full").await, 1);
        assert_eq!(answered(&publish(&channel, "full").await.unwrap()), None); // it passes
    })
    .await;
}

/// One queue of two refuses the message, and the other one has it.
#[tokio::test]
async fn a_message_that_one_queue_refused_is_in_the_other_one() {
    within(async {
        let broker = broker();
        let channel = open(&connect(broker.port()).await).await;
        let fan = ExchangeDeclareOptions::default();
        let fan = channel.exchange_declare(
            "fan".into(),
            ExchangeKind::Fanout,
            fan,
            FieldTable::default(),
        );
        fan.await.unwrap();
        for (queue, arguments) in [("narrow", of_one()), ("wide", FieldTable::default())] {
            declare(&channel, queue, arguments).await.unwrap();
            let options = QueueBindOptions::default();
            let bind = channel.queue_bind(
                queue.into(),
                "fan".into(),
                "".into(),
                options,
                FieldTable::default(),
            );
            bind.await.unwrap();
        }
        publish_to(&channel, "fan", "", BasicPublishOptions::default()).await.unwrap();
        let confirmation =
            publish_to(&channel, "fan", "", BasicPublishOptions::default()).await.unwrap();
        assert_eq!(answered(&confirmation), row("amqp", "basic.nack"));
        assert_eq!(take(broker.port(), "narrow").await, 1);
        assert_eq!(take(broker.port(), "wide").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_message_whose_confirmation_was_lost_is_in_the_queue() {
    within(async {
        let broker = broker();
        let forwarder = Forwarder::start(broker.port()).await;
        let channel = open(&connect(forwarder.port()).await).await;
        declare(&channel, "lost", FieldTable::default()).await.unwrap();
        forwarder.hold_answers(true);
        let publish = tokio::spawn(async move { publish(&channel, "lost").await });
        while take(broker.port(), "lost").await == 0 {}
        forwarder.cut();
        let error = publish.await.unwrap().unwrap_err();
        assert_eq!(seen(&error), Some((true, false, Health::Failing, false)), "{error}");
    })
    .await;
}
