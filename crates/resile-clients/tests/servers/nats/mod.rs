//! NATS and JetStream.

mod cluster;
mod connect;
mod kinds;
mod limits;
mod requests;
mod start;
mod streams;
mod unanswered;
