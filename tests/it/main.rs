//! The laws of the crate, one file per module.

mod breaker;
mod http;
mod http_sockets;
