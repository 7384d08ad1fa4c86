//! The fleet against a real server.

#[path = "../support/crew.rs"]
mod crew;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/server.rs"]
mod server;

mod budget;
mod cooldown;
mod faults;
mod leave;
mod limit;
mod scene;
mod votes;
