//! The fleet against a real server.

#[path = "../support/crew.rs"]
mod crew;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/server.rs"]
mod server;

mod budget;
mod clock;
mod cooldown;
mod fair;
mod faults;
mod impatient;
mod latency;
mod leave;
mod limit;
mod log;
mod messages;
mod modes;
mod rights;
mod scene;
mod steps;
mod votes;
mod ways;
