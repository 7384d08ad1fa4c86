//! `tower-resilience`: retry, with or without a budget.

use std::sync::Arc;
use std::time::Duration;

use tower_resilience_retry::{RetryBudget, RetryBudgetBuilder, RetryLayer};

pub fn retry<E>(delay: Duration) -> RetryLayer<(), u64, E> {
    RetryLayer::builder().max_attempts(5).fixed_backoff(delay).build()
}

pub fn retry_paid<E>(budget: Arc<dyn RetryBudget>) -> RetryLayer<(), u64, E> {
    RetryLayer::builder().max_attempts(5).fixed_backoff(Duration::ZERO).budget(budget).build()
}

/// Makes a budget that allows more retries a second than there can be.
pub fn budget() -> Arc<dyn RetryBudget> {
    RetryBudgetBuilder::new()
        .token_bucket()
        .tokens_per_second(1e9)
        .max_tokens(1_000_000)
        .initial_tokens(1_000_000)
        .build()
        .expect("a budget")
}

/// Makes an empty budget. It has room for every deposit of the benchmark.
pub fn filling_budget() -> Arc<dyn RetryBudget> {
    let bucket = RetryBudgetBuilder::new().token_bucket().tokens_per_second(10.0).initial_tokens(0);
    bucket.max_tokens(usize::MAX >> 1).build().expect("a budget")
}
