//! A bulkhead that limits the number of calls in flight and the number of waiters.

mod bulkhead;
mod queue;
mod waiting;

pub use self::bulkhead::Bulkhead;
pub(crate) use waiting::Entry;
