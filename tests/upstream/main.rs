//! The laws of the parts that calls share, and of calls on an upstream, one file for each subject.

#[path = "../support/script.rs"]
mod script;

mod adaptive;
mod breaker;
mod breaker_advice;
mod breaker_advice_model;
mod breaker_calls;
mod breaker_counts;
mod breaker_edges;
mod breaker_panics;
mod budget;
mod bulkhead;
mod bulkhead_calls;
mod call_waits;
mod calls_at_limits;
mod calls_within_calls;
mod cooldown;
mod cooldown_calls;
mod drop_at_every_await_with_all_parts;
mod fleet;
mod guard;
mod keyed;
mod quota_calls;
mod quota_config;
mod quota_estimate;
mod quota_extremes;
mod quota_headers;
mod quota_laws;
mod quota_model;
mod quota_order;
mod quota_settlement;
mod quota_shells;
mod quota_sockets;
mod quota_stress;
mod quota_usage;
mod quota_values;
mod refusals;
mod shared_parts;
mod shared_upstream;
mod shared_waiting;
mod single_calls;
mod streams_and_hedges_on_upstream;
mod upstream_hints;
