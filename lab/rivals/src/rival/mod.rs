//! The rivals, set up as their documentation does: five attempts, a constant delay, every error
//! retried.

pub mod gax;
pub mod seatbelt;
pub mod tower;
pub mod tower_resilience;
