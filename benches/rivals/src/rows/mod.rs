//! What is measured: each row is one job, done by each contender.

mod breaker;
mod budget;
mod retry;
mod stack;

use crate::contender::Contender;

/// Where a row's calls are polled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// In a loop on this thread; the runtime is there, for timers, and does not turn.
    Real,
    /// The same; tokio's clock stands still, so that a sleep of no length is over at once.
    Paused,
    /// In the runtime's `block_on`; tokio's clock moves on by itself when all wait.
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

/// All rows on a running clock; call it within a runtime.
pub fn real() -> Vec<Row> {
    [retry::real(), breaker::real(), budget::real(), stack::real()].into_iter().flatten().collect()
}

/// All rows on a paused clock; call it within a runtime whose clock is paused.
pub fn paused() -> Vec<Row> {
    [retry::paused(), stack::paused()].into_iter().flatten().collect()
}
