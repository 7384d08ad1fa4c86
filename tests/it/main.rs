//! The laws of the crate, one file per subject.

mod backoff;
mod breaker;
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
mod llm;
mod metrics;
mod nested;
mod observe;
mod retry;
mod run;
mod script;
mod serde;
mod shape;
mod sweep;
mod timeout;
mod tracing;
