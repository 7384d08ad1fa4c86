//! The classification of failures: repeatability, upstream health and wait.

mod answers;
mod cut;
mod equality;
mod ground;
mod health;
mod verdict;

pub use cut::Cut;
pub use health::Health;
pub use verdict::Verdict;
