//! A limit on the retries of all calls together.

mod budget;
#[cfg(feature = "fleet")]
mod lease;
mod prices;
#[cfg(test)]
mod tests;

pub use self::budget::Budget;
pub(crate) use prices::Cause;
