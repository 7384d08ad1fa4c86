//! The laws of the crate, one file per subject.

mod backoff;
mod budget;
mod cancel;
mod classify;
mod decide;
mod hint;
mod http;
mod http_sockets;
mod script;
mod timeout;
