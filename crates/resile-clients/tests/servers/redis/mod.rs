//! Redis.

mod cluster;
mod failover;
mod replies;
mod start;
mod states;
mod unanswered;
