//! Each rival set up as its documentation does: five attempts, a constant delay, every error retried.

pub mod gax;
pub mod seatbelt;
pub mod tower;
pub mod tower_resilience;
