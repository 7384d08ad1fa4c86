//! The laws of calls and policies, and of the sources themselves, one file for each subject.

#[path = "../support/script.rs"]
mod script;

mod aws;
mod backoff;
mod cancel;
mod causes;
mod chaos;
mod classify;
mod clock_limits_and_reentry;
mod compose;
mod config;
mod deadline;
mod decide;
mod draws;
mod drop_at_every_await;
mod error;
mod extreme_input;
mod fallback;
mod floors;
mod guide;
mod hedge;
mod http;
mod http_limits;
mod http_sockets;
mod laws;
mod layers;
mod links;
mod metrics;
mod nested;
mod observe;
mod observer_panics;
mod pause;
mod reproducible;
mod retry;
mod retry_policy_config;
mod run;
mod send_const_and_sizes;
mod stream;
mod stream_ends;
mod stress;
mod timeout;
mod timer;
mod tracing;
mod words;
