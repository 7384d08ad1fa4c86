//! Errors that close a connection, or that open none.

use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::{ErrorKind, ExchangeKind};
use resile_clients::resile::Health;

use super::start::{broker, connect, connect_with, open, publish_to, seen};
use crate::row::{row, within};

#[tokio::test]
async fn a_wrong_login_stays_wrong() {
    within(async {
        let broker = broker();
        let error = connect_with("guest:wrong", broker.port(), "%2f").await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "403"), "{error}");
        assert!(
            error.can_be_recovered(),
            "the client says that {error} is final, so the docs of `amqp::error` are out of date",
        );
        let error = connect_with("guest:guest", broker.port(), "missing").await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "530"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_method_that_the_broker_lacks_ends_the_connection() {
    within(async {
        let broker = broker();
        let connection = connect(broker.port()).await;
        let channel = open(&connection).await;
        let immediate = BasicPublishOptions { immediate: true, ..Default::default() };
        let error = publish_to(&channel, "", "q", immediate).await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "540"), "{error}");
        // The connection and all its channels are closed. The first error is the only one that tells why.
        let error =
            publish_to(&channel, "", "q", BasicPublishOptions::default()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidChannelState(..)), "{error}");
        let error = connection.create_channel().await.unwrap_err();
        assert_eq!(seen(&error), Some((true, false, Health::Failing, false)), "{error}");

        let channel = open(&connect(broker.port()).await).await;
        let kind = ExchangeKind::Custom("no-such-kind".to_owned());
        let options = ExchangeDeclareOptions::default();
        let declare = channel.exchange_declare("e".into(), kind, options, FieldTable::default());
        let error = declare.await.unwrap_err();
        assert_eq!(seen(&error), row("amqp", "503"), "{error}");
    })
    .await;
}
