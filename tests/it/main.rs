//! The laws of the crate, one file per module.

mod http;
mod http_sockets;
mod llm;
