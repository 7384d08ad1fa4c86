//! The hooks of clients: what a hook says, and what its client does with it.

mod aws;
mod aws_errors;
mod mcp;
mod object_store;
mod recoverable;
