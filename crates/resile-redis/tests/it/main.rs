//! The fleet against a real server.

#[path = "../support/server.rs"]
mod server;

mod limit;
