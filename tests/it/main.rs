//! The laws of the crate, one file per module.

mod bulkhead;
mod cooldown;
mod fallback;
mod http;
mod http_sockets;
mod keyed;
