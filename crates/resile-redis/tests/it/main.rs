//! The fleet against a real server.

#[path = "../support/crew.rs"]
mod crew;
#[path = "../support/server.rs"]
mod server;

mod budget;
mod cooldown;
mod leave;
mod limit;
mod votes;
