//! The laws of the crate, one file per subject.

mod backoff;
mod budget;
mod cancel;
mod classify;
mod deadline;
mod decide;
mod error;
mod hint;
mod http;
mod http_sockets;
mod input;
mod layers;
mod observe;
mod retry;
mod run;
mod script;
mod shape;
mod sweep;
mod timeout;
mod tracing;
