//! The connections to the servers.

mod store;

pub(crate) use store::Store;
