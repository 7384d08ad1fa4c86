//! Errors that a real server gives: what the functions say of them, and whether the work was done.
//! Each part is a feature, so that it runs alone.

#![allow(clippy::large_futures, reason = "a test runs once")]

#[cfg(any(feature = "hooks", feature = "kube"))]
mod answering;
#[path = "../clients/data.rs"]
mod data;
#[cfg(any(feature = "brokers", feature = "rabbitmq"))]
mod forward;
#[cfg(feature = "hooks")]
mod hooks;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "kube")]
mod kube;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "brokers")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "brokers")]
mod redis;
mod row;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "stores")]
mod stores;
