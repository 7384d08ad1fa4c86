// A page in Markdown defines its links for readers of the file, and the first definition of a label
// counts. So rustdoc takes the definitions before the page.
#![doc = include_str!("front.md")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use resile;

pub mod amqp;
pub mod aws;
pub mod azure;
#[cfg(any(feature = "hyper-1", feature = "tonic-0_14"))]
mod chain;
mod classifier;
pub mod elasticsearch;
pub mod gcs;
pub mod grpc;
pub mod http2;
pub mod hyper;
mod idempotency;
pub mod kafka;
pub mod kubernetes;
pub mod mcp;
pub mod mongodb;
pub mod mysql;
pub mod nats;
#[cfg(feature = "object_store-0_14")]
pub mod object_store;
pub mod opendal;
pub mod postgres;
#[cfg(feature = "recoverable-0_3")]
pub mod recoverable;
pub mod redis;
mod rule;
pub mod sqlite;
#[cfg(feature = "sqlx-0_9")]
pub mod sqlx;
#[cfg(feature = "tokio-postgres-0_7")]
pub mod tokio_postgres;

pub use classifier::Classifier;
pub use idempotency::Idempotency;
