//! Trap 5: what a budget allows where all calls fail.

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
    let own = over_time(|| budget.withdraw().map(resile::Withdrawal::spend).is_some()).await;
    let tps = TpsBudget::new(Duration::from_secs(10), 10, 0.1);
    let towered = over_time(|| tps.withdraw()).await;
    let bucket = RetryBudgetBuilder::new().token_bucket().build().expect("valid");
    let bucketed = over_time(|| bucket.try_withdraw()).await;
    let aimd = RetryBudgetBuilder::new().aimd().build().expect("valid");
    let aimded = over_time(|| aimd.try_withdraw()).await;
    let mut adaptive = AdaptiveThrottler::default();
    let adapted = over_time(|| throttled(&mut adaptive)).await;
    let mut tokens = CircuitBreaker::default();
    let tokened = over_time(|| throttled(&mut tokens)).await;
    Section {
        title: "5. A budget while all fails",
        tried: "1,000 calls fail and would be retried once; a second later 1,000 more, and again. Nothing succeeds. Retries \
                allowed of each thousand, and how the crate's own loop is told no.",
        columns: &["first 1,000", "second", "third", "no is said"],
        rows: vec![
            ("**resile**, `Budget` (default)", cells(&own, "before the delay")),
            ("tower, `TpsBudget` of 10 s, 10 a second, 10 %", cells(&towered, "before the delay, by the policy")),
            ("tower-resilience, token bucket (default)", cells(&bucketed, "before the delay")),
            ("tower-resilience, AIMD (default)", cells(&aimded, "before the delay")),
            ("google-cloud-gax, `AdaptiveThrottler` (default)", cells(&adapted, "after the delay, which then begins anew")),
            ("google-cloud-gax, `CircuitBreaker` (default)", cells(&tokened, "after the delay, which then begins anew")),
            ("backon, tokio-retry2, seatbelt", vec!["n/a".to_owned(); 4]),
        ],
    }
}

/// On the real clock, which some of them read.
async fn over_time(mut allows: impl FnMut() -> bool) -> Vec<usize> {
    let mut counts = Vec::new();
    for round in 0..3 {
        if round > 0 {
            std::thread::sleep(Duration::from_secs(1));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        counts.push((0..CALLS).filter(|_| allows()).count());
    }
    counts
}

/// A first attempt fails; may it be retried?
fn throttled(throttler: &mut dyn RetryThrottler) -> bool {
    throttler.on_retry_failure(&RetryResult::Continue(google_cloud_gax::error::Error::io("down")));
    !throttler.throttle_retry_attempt()
}

fn cells(counts: &[usize], no: &str) -> Vec<String> {
    counts.iter().map(usize::to_string).chain([no.to_owned()]).collect()
}
