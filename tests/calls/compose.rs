//! Combined adapters and upstreams behave like their parts.

mod pairs;
mod stacks;
