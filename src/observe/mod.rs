//! Events for the operator: observers, the log and the metrics.
//!
//! The [guide](crate::guide) has a chapter on logs and metrics.

mod allotted;
mod event;
mod failure;
mod gauges;
mod held_by;
mod kinds;
#[cfg(feature = "tracing")]
mod level;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
mod no_room;
mod observe;
mod one_line;
mod placed;
mod sentence;
#[cfg(feature = "metrics")]
mod series;
mod strain;
mod too_long;
mod urls;
mod words;

pub use self::log::Log;
#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
pub use self::observe::Observe;
pub(crate) use allotted::{Allotted, InFlight, write_cut};
pub use event::{Call, CallKind, Event, EventKind};
pub use failure::AttemptFailure;
pub use gauges::Gauges;
pub use held_by::HeldBy;
pub(crate) use kinds::Kinds;
pub use no_room::NoRoom;
pub(crate) use one_line::OneLine;
pub(crate) use placed::{Placed, write_placed};
pub use too_long::TooLong;
pub(crate) use words::{Chain, Words, append, prints_source, text_of};
