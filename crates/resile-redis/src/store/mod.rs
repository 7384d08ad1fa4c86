//! The connections to the servers. Only this folder and `scripts/` name the client crate.

mod cluster;
mod link;
mod listeners;
mod map;
mod sentinels;
mod site;
mod store;
mod url;

#[cfg(feature = "tls")]
mod tls;

pub(crate) use site::Site;
pub(crate) use store::Store;
#[cfg(feature = "tls")]
pub use tls::Tls;
