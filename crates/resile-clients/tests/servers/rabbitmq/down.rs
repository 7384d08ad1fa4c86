//! A broker that ends, comes back, or takes no messages for a while.

use std::time::Duration;

use lapin::types::FieldTable;
use lapin::{Error, ErrorKind};
use resile_clients::Idempotency::NotIdempotent;
use resile_clients::resile::{Attempt, Backoff, Health, Never, RetryPolicy, retry};

use super::start::{connect, control, declare, open, own_broker, publish, seen, take, try_connect};
use crate::data::Says;
use crate::row::within;

const IN_DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
const NEVER_SENT: Option<Says> = Some((true, true, Health::Failing, false));

/// A broker that ends closes its connections with 320. The client does not pass that on.
#[tokio::test]
async fn a_broker_that_ended_does_not_say_so() {
    within(async {
        let mut broker = own_broker();
        let connection = connect(broker.port()).await;
        let channel = open(&connection).await;
        declare(&channel, "q", FieldTable::default()).await.unwrap();
        broker.end("TERM");
        let error = publish(&channel, "q").await.unwrap_err();
        match error.kind() {
            ErrorKind::InvalidChannelState(..) => assert_eq!(seen(&error), NEVER_SENT, "{error}"),
            ErrorKind::IOError(_) => assert_eq!(seen(&error), IN_DOUBT, "{error}"), // a reset
            _ => panic!("{error}: the note of 320 in `data/errors.csv` is out of date"),
        }
        // It may also wait for ever: its connection ends while it asks. Only a timeout helps then.
        let soon = Duration::from_secs(1);
        if let Ok(answer) = tokio::time::timeout(soon, connection.create_channel()).await {
            let error = answer.unwrap_err();
            assert_eq!(seen(&error), IN_DOUBT, "{error}");
        }
        let error = try_connect(broker.port()).await.unwrap_err();
        assert_eq!(seen(&error), NEVER_SENT, "{error}");

        // A call that connects in each attempt survives, and its message is stored once.
        let classify = |error: &Error| resile_clients::amqp::error(error, NotIdempotent);
        let policy = RetryPolicy::new()
            .with_backoff(Backoff::fixed(Duration::from_millis(10)))
            .with_classifier(classify);
        let port = broker.port();
        let broker = tokio::sync::Mutex::new(broker);
        let send = async |attempt: Attempt| {
            if attempt.number() == 2 {
                broker.lock().await.restart();
            }
            let connection = try_connect(port).await?;
            let confirmation = publish(&open(&connection).await, "q").await?;
            assert!(confirmation.is_ack());
            Ok::<_, Error>(attempt.number())
        };
        assert_eq!(retry(send, policy, Never).await.unwrap(), 2);
        assert_eq!(take(port, "q").await, 1);
    })
    .await;
}

/// An alarm is silence. The message waits in the connection, and the broker takes it when the alarm ends.
/// After a kill nobody knows.
#[tokio::test]
async fn a_message_without_an_answer_may_be_stored() {
    within(async {
        let mut broker = own_broker();
        let channel = open(&connect(broker.port()).await).await;
        declare(&channel, "q", FieldTable::default()).await.unwrap();
        control(&broker, "set_vm_memory_high_watermark 0.000001");
        let limit = Duration::from_millis(500);
        let answer = tokio::time::timeout(limit, publish(&channel, "q")).await;
        assert!(answer.is_err(), "the broker answered: {answer:?}");
        control(&broker, "set_vm_memory_high_watermark 0.9");
        while take(broker.port(), "q").await == 0 {}

        let channel = open(&connect(broker.port()).await).await;
        broker.signal("STOP");
        let publish = tokio::spawn(async move { publish(&channel, "q").await });
        tokio::time::sleep(Duration::from_millis(100)).await; // the message is on its way
        broker.kill();
        let error = publish.await.unwrap().unwrap_err();
        assert_eq!(seen(&error), IN_DOUBT, "{error}");
    })
    .await;
}
