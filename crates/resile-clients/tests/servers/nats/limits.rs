//! Limits of an account and of a server.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::{Config, StorageType};

use super::start::{connect_as, context, seen, start, stored, stream};
use crate::row::{row, within};

const LIMITS: &str = "
jetstream { max_file_store: 1M }
accounts {
  small {
    jetstream { max_file: 4K, max_memory: 4K, max_streams: 2, max_consumers: 1 }
    users: [{ user: small, password: small }]
  }
  large { jetstream: enabled, users: [{ user: large, password: large }] }
}
";

#[tokio::test]
async fn the_limits_of_an_account_are_those_of_its_owner() {
    within(async {
        let server = start(LIMITS);
        let context = context(&connect_as(server.port(), "small").await);
        let file = Config { max_bytes: 10_000, ..stream("s") };
        let error = context.create_stream(file.clone()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10047"), "{error}");
        let memory = Config { storage: StorageType::Memory, ..file };
        let error = context.create_stream(memory).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10028"), "{error}");

        let first = context.create_stream(stream("s")).await.unwrap();
        let error = loop {
            let publish = context.publish("s", "x".repeat(1_000).into()).await.unwrap();
            if let Err(error) = publish.await {
                break error;
            }
        };
        assert_eq!(seen(&error), row("nats", "10002"), "{error}");
        assert_eq!(stored(&context, "s").await, 3);

        first.create_consumer(pull::Config::default()).await.unwrap();
        let error = first.create_consumer(pull::Config::default()).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10026"), "{error}");
        context.create_stream(stream("second")).await.unwrap();
        let error = context.create_stream(stream("third")).await.unwrap_err();
        assert_eq!(seen(&error), row("nats", "10027"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_server_without_space_stores_nothing() {
    within(async {
        let server = start(LIMITS);
        let context = context(&connect_as(server.port(), "large").await);
        context.create_stream(stream("s")).await.unwrap();
        let mut taken = 0;
        let error = loop {
            let publish = context.publish("s", "x".repeat(400_000).into()).await.unwrap();
            match publish.await {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(seen(&error), row("nats", "10023"), "{error}");
        assert_eq!(stored(&context, "s").await, taken);
    })
    .await;
}
