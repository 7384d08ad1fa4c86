//! A bulkhead that limits the number of calls in flight and the number of waiters. The limit is fixed
//! or learned.

mod bulkhead;
mod law;
mod learner;
mod learning;
mod pace;
mod queue;
mod round;
mod waiting;

pub use self::bulkhead::Bulkhead;
pub(crate) use waiting::{Entry, Newcomer, Turn};
