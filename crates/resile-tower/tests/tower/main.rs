//! Laws of the layers.

mod answers;
mod bodies;
mod body_laws;
mod channel;
mod deadlines;
mod drops;
mod ends;
mod foreign;
mod grpc;
mod late;
mod lines;
mod listed;
mod migrating;
mod places;
mod proxies;
mod readiness;
mod refusals;
mod reqwest_middleware;
mod retries;
mod script;
mod server;
mod sockets;
mod statuses;
mod through;
