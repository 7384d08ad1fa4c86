//! The fleet against a real server.

#[path = "../support/crew.rs"]
mod crew;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/server.rs"]
mod server;

mod alarm;
mod budget;
mod burst;
mod chaos;
mod clock;
mod cluster;
mod cooldown;
mod departures;
mod fair;
mod faults;
#[cfg(feature = "metrics")]
mod figures;
mod impatient;
mod latency;
mod learned;
mod leave;
mod limit;
mod log;
mod loss;
mod messages;
mod modes;
mod reasons;
mod rest;
mod rights;
mod scene;
mod sentinel;
mod set_limit;
mod steps;
#[cfg(feature = "tls")]
mod tls;
mod top;
mod votes;
mod waits;
mod ways;
