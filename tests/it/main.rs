//! The laws of the crate, one file per module.

mod adaptive;
mod hedge;
mod http;
mod http_sockets;
