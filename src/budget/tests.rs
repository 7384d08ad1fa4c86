use proptest::prelude::*;

use super::{Budget, Cause};

const CAUSES: [Cause; 2] = [Cause::Failed, Cause::Throttled];

proptest! {
    /// A full budget pays for a retry whatever its capacity and costs, and after enough successes it
    /// does so again. A limiter with a floor of one token that charged 5 or 10 for a retry never paid
    /// again.
    #[test]
    fn no_cost_locks_a_budget_for_ever(capacity in 1_u32..40, failed in 0_u32..60, throttled in 0_u32..60) {
        let budget = Budget::new().with_capacity(capacity).with_costs(failed, throttled);
        for cause in CAUSES {
            for _ in 0..3 {
                prop_assert!(budget.take(cause), "a full budget pays");
                (0..capacity * 10).for_each(|_| budget.deposit());
                prop_assert_eq!(budget.available(), capacity);
            }
        }
    }

    /// A refund gives back what was taken for its cause.
    #[test]
    fn a_refund_gives_a_cost_back(
        capacity in 0_u32..40, costs in (0_u32..60, 0_u32..60), causes in prop::collection::vec(0..2_usize, 0..20)
    ) {
        let budget = Budget::new().with_capacity(capacity).with_costs(costs.0, costs.1);
        let taken = causes.into_iter().map(|cause| CAUSES[cause]);
        let held: Vec<_> = taken.filter(|cause| budget.take(*cause)).collect();
        prop_assert!(capacity > 0 || held.is_empty(), "an empty budget pays for nothing");
        for cause in held {
            budget.refund_for(cause);
        }
        prop_assert_eq!(budget.available(), capacity);
    }
}

/// A failure and a throttling have a price each, and the cheaper one may still be paid.
#[test]
fn each_cause_has_its_price() {
    let budget = Budget::new().with_capacity(20).with_costs(14, 5);
    assert_eq!(budget.costs(), (14, 5));
    assert!(budget.withdraw());
    assert!(!budget.withdraw()); // 6 tokens are left
    assert!(budget.take(Cause::Throttled));
    assert_eq!(budget.available(), 1);
}

#[test]
fn a_success_gives_a_cost_back() {
    let budget = Budget::aws();
    assert!(budget.withdraw());
    assert_eq!(budget.available(), 486);
    budget.deposit_for(Cause::Failed);
    assert_eq!(budget.available(), 500);
    let plain = Budget::new().with_capacity(3).with_deposit(1.0).with_costs(2, 0);
    assert!(plain.withdraw());
    plain.deposit_for(Cause::Failed);
    assert_eq!(plain.available(), 2, "without a refund it is the deposit");
    let free = Budget::new().with_capacity(3).with_deposit(1.0).with_costs(2, 0);
    let free = free.with_refund_on_success();
    assert!(free.withdraw());
    free.deposit_for(Cause::Throttled);
    assert_eq!(free.available(), 2, "at least the deposit");
}

/// The answers of the throttle of `grpc-js`, with 10 tokens and a ratio of 0.1: six failures, then
/// twelve successes.
#[test]
fn the_budget_of_grpc_allows_a_retry_above_half_of_its_tokens() {
    let budget = Budget::grpc(10, 0.1);
    assert_eq!(budget.costs(), (0, 0));
    let after = |step: fn(&Budget)| {
        step(&budget);
        assert_eq!(budget.is_spent(), !budget.withdraw());
        budget.withdraw()
    };
    let failures: Vec<_> = (0..6).map(|_| after(Budget::note_failure)).collect();
    assert_eq!(failures, [true, true, true, true, false, false]);
    let successes: Vec<_> = (0..12).map(|_| after(Budget::deposit)).collect();
    assert_eq!(successes, [[false; 10].as_slice(), &[true; 2]].concat());
    (0..100).for_each(|_| budget.note_failure());
    assert_eq!(budget.available(), 0);
    assert!(!Budget::grpc(0, 1.0).withdraw());
}

proptest! {
    /// The tokens follow the law of gRPC A6, in thousandths.
    #[test]
    fn the_budget_of_grpc_follows_its_law(
        tokens in 1_u32..1_000,
        ratio in 1_u32..2_000,
        failures in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let budget = Budget::grpc(tokens, f64::from(ratio) / 1_000.0);
        let mut count = tokens * 1_000;
        for failed in failures {
            if failed {
                budget.note_failure();
                count = count.saturating_sub(1_000);
            } else {
                budget.deposit();
                count = (count + ratio).min(tokens * 1_000);
            }
            prop_assert_eq!(budget.available(), count / 1_000);
            prop_assert_eq!(budget.withdraw(), 2 * count > tokens * 1_000);
        }
    }
}
