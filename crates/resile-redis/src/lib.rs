// The README defines its links for readers of the file, and the first definition of a label counts.
#![doc = "[fleet_page]: #what-an-operator-sees"]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod agent;
mod alarm;
mod demand;
mod error;
mod fail_mode;
mod fleet;
mod keys;
mod lease;
mod member;
mod meter;
mod mode;
mod name;
mod one_line;
mod scale;
mod scripts;
mod shareable;
mod store;

#[cfg(feature = "tls")]
pub use error::BadTls;
pub use error::{BadUrl, JoinError, NotSet};
pub use fail_mode::FailMode;
pub use fleet::Fleet;
pub use member::{Leased, Member, Snapshot, Tally};
pub use shareable::Shareable;
#[cfg(feature = "tls")]
pub use store::Tls;
