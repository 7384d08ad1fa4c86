//! Models of the shared parts. Each runs once per interleaving of its threads' atomic steps.
#![cfg(all(test, loom))]

mod breaker;
mod budget;
mod bulkhead;
#[path = "../support/by_hand.rs"]
mod by_hand;
mod cooldown;
mod lease;
mod quota;
mod roomy;
mod signal;
mod throttle;
