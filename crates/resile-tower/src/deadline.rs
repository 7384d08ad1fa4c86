//! The time that is left for a request, through all services that it passes.
//!
//! A [`Deadline`] arrives in a header of a request, holds while its handler runs, and leaves in the
//! headers of the requests that the handler makes, as what is left then:
//!
//! ```text
//! caller ── header ──▶ DeadlineLayer ▶ handler ▶ RetryLayer ▶ TimeLeftLayer ── header ──▶ upstream
//! ```
//!
//! | type | where | what it does |
//! |---|---|---|
//! | [`Deadline`] | anywhere | is current while a future is polled in its [scope](Deadline::scope) |
//! | `DeadlineLayer` | server | reads the header, and ends the handler at the deadline |
//! | [`RetryLayer`](crate::RetryLayer), [`UpstreamLayer`](crate::UpstreamLayer) | client | end the call at the current deadline. Each attempt has what is left for it as its own |
//! | `TimeLeftLayer` | client, below these | writes what is left into a header |
//!
//! So no service works for a caller that has stopped waiting.
//!
//! A caller in a hurry does not harm the others: an attempt that this deadline cuts counts at the breaker
//! only if it had at least half of the time that the policy allows an attempt. A `resile::retry` around a call
//! does not see the deadline. Give it the policy that [`until_deadline`] returns.

mod current;
#[cfg(feature = "http")]
mod fields;
#[cfg(feature = "http")]
mod layer;
#[cfg(feature = "http")]
mod left;
mod scope;
#[cfg(feature = "http")]
mod serving;
mod until;

pub use current::Deadline;
pub(crate) use current::least;
#[cfg(feature = "http")]
pub(crate) use fields::is_grpc;
#[cfg(feature = "grpc")]
pub(crate) use fields::take_limit;
#[cfg(feature = "http")]
pub use layer::{DeadlineLayer, DeadlineService};
#[cfg(feature = "http")]
pub use left::{TimeLeft, TimeLeftLayer};
pub use scope::Scope;
#[cfg(feature = "http")]
pub use serving::DeadlineFuture;
pub use until::until_deadline;
