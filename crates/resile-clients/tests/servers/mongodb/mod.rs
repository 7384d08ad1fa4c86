//! MongoDB: the driver against a server of the test that speaks its protocol.

mod errors;
mod server;
