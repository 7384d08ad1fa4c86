//! The rows: each is one job, done by each contender.

mod breaker;
mod budget;
mod quota;
mod retry;
mod stack;

use crate::contender::Contender;

/// The place where a row's calls are polled, and its clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// A loop on this thread. The runtime is there for timers and does not run.
    Real,
    /// A loop on this thread. Tokio's clock stands still, so a sleep of no length is over at once.
    Paused,
    /// The runtime's `block_on`. Tokio's clock advances by itself when all wait.
    Moving,
}

pub struct Row {
    pub title: String,
    pub clock: Clock,
    pub threads: usize,
    pub contenders: Vec<Contender>,
}

impl Row {
    fn new(title: impl Into<String>, clock: Clock, contenders: Vec<Contender>) -> Self {
        Self { title: title.into(), clock, threads: 1, contenders }
    }
}

/// Returns all rows on a running clock. Call it within a runtime.
pub fn real() -> Vec<Row> {
    [retry::real(), breaker::real(), budget::real(), quota::real(), stack::real()]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns all rows on a paused clock. Call it within a runtime with a paused clock.
pub fn paused() -> Vec<Row> {
    [retry::paused(), stack::paused()].into_iter().flatten().collect()
}
