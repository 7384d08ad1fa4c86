//! The estimate of a quota: what a call reserves by it, and how soon it follows the usage.

use std::time::Duration;

use resile::Quota;
use resile::quota::{Cost, Estimate, Rate, Usage};

use crate::by_hand::ByHand;

const NOW: Duration = Duration::from_secs(1);

#[test]
fn a_call_reserves_its_maximum_until_the_estimate_is_known() {
    let quota = ByHand::new(Quota::new().with_tokens(Rate::per_minute(60_000)));
    let reserved = |most: u64| {
        let reservation = quota.try_reserve(Cost::input(1).with_max_output(most), NOW).unwrap();
        let reserved = quota.reserved();
        drop(reservation);
        assert_eq!(quota.reserved(), 0);
        reserved
    };
    for _ in 0..30 {
        assert_eq!(reserved(1_000), 1_000);
        let mut reservation = quota.try_reserve(Cost::input(1), NOW).unwrap();
        reservation.sent();
        reservation.settle(Usage::new().with_input(1).with_output(40), NOW);
    }
    assert!((40..=45).contains(&reserved(1_000)));
    assert_eq!(reserved(7), 7, "never more than the maximum");
}

#[test]
fn the_estimate_is_at_most_63_calls_behind() {
    let estimate = Estimate::new();
    for turn in 1..=3 {
        let tokens = 1_000 * turn;
        for _ in 0..64 {
            estimate.record(tokens, 2 * tokens);
        }
        let about = |tokens: u64| tokens..=tokens + tokens / 8 + 1;
        assert!(about(tokens).contains(&estimate.input().unwrap()), "{estimate:?}");
        assert!(about(2 * tokens).contains(&estimate.output().unwrap()), "{estimate:?}");
    }
}

#[test]
fn a_call_with_an_estimate_of_its_own_teaches_only_this_one() {
    let own = Estimate::new();
    let quota = Quota::new().with_tokens(Rate::per_minute(60_000));
    let quota = ByHand::new(quota);
    let cost = Cost::new().with_max_output(1_000);
    let usage = Usage::new().with_input(30).with_output(40);
    for _ in 0..30 {
        quota.try_reserve(cost.estimated_by(&own), NOW).unwrap().settle(usage, NOW);
    }
    assert!(own.input().is_some() && own.output().is_some());
    assert!(quota.estimate().input().is_none() && quota.estimate().output().is_none());
    for (cost, most) in [(cost.estimated_by(&own), 45), (cost, 1_000)] {
        let _reservation = quota.try_reserve(cost, NOW).unwrap();
        let reserved = quota.reserved();
        assert!(reserved <= most && reserved >= most * 8 / 9, "{reserved}");
    }
}
