//! Trap 5: the retries that a budget allows while all calls fail.

use std::time::Duration;

use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_throttler::{AdaptiveThrottler, CircuitBreaker, RetryThrottler};
use resile::Budget;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower_resilience_retry::RetryBudgetBuilder;

use super::Section;

const CALLS: usize = 1000;

pub async fn seen() -> Section {
    let budget = Budget::new();
    let tps = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
    let bucket = RetryBudgetBuilder::new().token_bucket().build().expect("valid");
    let aimd = RetryBudgetBuilder::new().aimd().build().expect("valid");
    let (mut adaptive, mut tokens) = (AdaptiveThrottler::default(), CircuitBreaker::default());
    let (before, after) = ("before the delay", "after the delay, which then starts again");
    let mut budgets: Vec<(_, Box<dyn FnMut() -> bool>, _)> = vec![
        ("**resile**, `Budget` (default)", Box::new(|| budget.withdraw()), before),
        ("tower, `TpsBudget` of 10 s, 10 a second, 10 %", Box::new(|| tps.withdraw()), before),
        ("tower-resilience, token bucket (default)", Box::new(|| bucket.try_withdraw()), before),
        ("tower-resilience, AIMD (default)", Box::new(|| aimd.try_withdraw()), before),
        (
            "google-cloud-gax, `AdaptiveThrottler` (default)",
            Box::new(|| throttled(&mut adaptive)),
            after,
        ),
        (
            "google-cloud-gax, `CircuitBreaker` (default)",
            Box::new(|| throttled(&mut tokens)),
            after,
        ),
    ];
    let mut rows: Vec<_> = budgets.iter().map(|(name, ..)| (*name, Vec::new())).collect();
    for round in 0..3 {
        // Some budgets read the real clock, and one reads tokio's.
        if round > 0 {
            std::thread::sleep(Duration::from_secs(1));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        for ((_, allows, _), (_, cells)) in budgets.iter_mut().zip(&mut rows) {
            cells.push((0..CALLS).filter(|_| allows()).count().to_string());
        }
    }
    for ((.., when), (_, cells)) in budgets.iter().zip(&mut rows) {
        cells.push((*when).to_owned());
    }
    rows.push(("backon, tokio-retry2, seatbelt", vec!["n/a".to_owned(); 4]));
    Section {
        title: "5. A budget while all calls fail",
        tried: "1,000 calls fail and would be retried once. A second later 1,000 more calls fail, and then again. Nothing \
                succeeds. The numbers are the allowed retries of each thousand. The last column is from the sources.",
        columns: &["first 1,000", "second", "third", "the loop asks"],
        rows,
    }
}

/// Returns whether a first attempt that fails may be retried.
fn throttled(throttler: &mut dyn RetryThrottler) -> bool {
    throttler.on_retry_failure(&RetryResult::Continue(google_cloud_gax::error::Error::io("down")));
    !throttler.throttle_retry_attempt()
}
