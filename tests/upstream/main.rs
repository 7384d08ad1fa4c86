//! The laws of the parts that calls share, and of calls on an upstream, one file for each subject.

#[path = "../support/by_hand.rs"]
mod by_hand;
#[path = "../support/script.rs"]
mod script;

mod breaker;
mod budget;
mod bulkhead;
mod bulkhead_calls;
mod bulkhead_line;
mod call_waits;
mod calls_at_limits;
mod calls_within_calls;
mod cooldown;
mod cooldown_calls;
mod drop_at_every_await_with_all_parts;
mod fleet;
mod fleet_seam;
mod guard;
mod keyed;
mod learned_bulkhead;
mod quota;
mod refusals;
mod shared_parts;
mod shared_upstream;
mod shared_waiting;
mod single_calls;
mod streams_and_hedges_on_upstream;
mod throttle;
mod through;
mod upstream_hints;
