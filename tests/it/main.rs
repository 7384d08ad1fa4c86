//! The laws of the crate, one file per module.

mod adaptive;
mod http;
mod http_sockets;
