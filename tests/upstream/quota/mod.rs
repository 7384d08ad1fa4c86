//! Laws of quotas.

mod calls;
mod config;
mod estimate;
mod extremes;
mod headers;
mod laws;
mod model;
mod order;
mod settlement;
mod shells;
mod sockets;
mod stress;
mod usage;
mod values;
