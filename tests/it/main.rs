//! The laws of the crate, one file per subject.

mod backoff;
mod breaker;
mod budget;
mod cancel;
mod classify;
mod deadline;
mod decide;
mod hint;
mod http;
mod http_sockets;
mod nested;
mod run;
mod script;
mod serde;
mod timeout;
