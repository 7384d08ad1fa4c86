//! The laws of the crate, one file per module.

mod adaptive;
mod chaos;
mod hedge;
mod http;
mod http_sockets;
mod stream;
