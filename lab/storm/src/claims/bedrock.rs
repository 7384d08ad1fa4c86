//! The cost of a request without a maximum of output. Amazon Bedrock then reserves 64,000 tokens
//! when the request starts.

use resile::quota::{Charge, Cost, Rate};
use resile::time::ManualTimer;
use resile::{Quota, Upstream};

use super::Check;
use super::Published::PlusMinus;

/// Returns the number of calls that start at once on a quota of 2,000,000 tokens a minute.
fn at_once(cost: Cost<'_>) -> f64 {
    let charge = Charge::ACTUAL.with_maximum_reserved(true).with_default_maximum(64_000);
    let quota = Quota::new().with_tokens(Rate::per_minute(2_000_000)).with_charge(charge);
    let model = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
    let started: Vec<_> = std::iter::from_fn(|| model.at_cost(cost).try_admit().ok()).collect();
    started.len() as f64
}

pub fn checks() -> Vec<Check> {
    let cost = Cost::input(500);
    let limited = cost.with_max_output(1_000);
    // 2,000,000 / 64,500 and 2,000,000 / 1,500.
    vec![
        Check::new("no maximum: calls at once", PlusMinus(31.0, 0.0), (at_once(cost), 0, "")),
        Check::new(
            "maximum of 1,000 tokens: calls at once",
            PlusMinus(1_333.0, 0.0),
            (at_once(limited), 0, ""),
        ),
    ]
}
