//! Extreme numbers in a quota: no panic, no wait for ever and no free units.

use std::time::Duration;

use resile::quota::{Charge, Cost, Dimension, Estimate, Limit, Limits, Rate, Usage};
use resile::time::ManualTimer;
use resile::{Never, Quota, StopReason, Upstream};

use super::NOT_REFUNDED;
use crate::by_hand::{ByHand, Refusal};

const NOW: Duration = Duration::from_secs(1);

#[test]
fn a_rate_of_zero_and_a_burst_of_zero_admit_nothing_and_say_so() {
    let of_rate = "the cost of 1 requests is above the quota's rate of 0 (`with_requests`)";
    let of_burst = "the cost of 1 requests is above the quota's burst of 0 (`with_burst`)";
    for (rate, message) in [
        (Rate::per_second(0), of_rate),
        (Rate::per_second(1).with_burst(0), of_burst),
        (Rate::per_second(0).with_burst(9), of_rate),
    ] {
        let quota = ByHand::new(Quota::new().with_requests(rate));
        for now in [Duration::ZERO, NOW, Duration::MAX] {
            let refusal = quota.try_reserve(Cost::new(), now).unwrap_err();
            let Refusal::TooLarge(too_large) = refusal else { panic!("{refusal:?}") };
            assert_eq!(too_large.to_string(), message);
        }
    }
}

#[test]
fn a_cost_of_zero_tokens_always_fits_and_the_largest_never_does() {
    let rate = Rate::per_second(u64::from(u32::MAX)).with_burst(u64::from(u32::MAX));
    let tokens = || Quota::new().with_tokens(rate).with_input(rate).with_output(rate);
    let quota = ByHand::new(tokens());
    let nothing = Cost::input(0).with_max_output(0);
    for _ in 0..10 {
        quota.try_reserve(nothing, NOW).unwrap().sent();
    }
    assert_eq!(quota.level_at(Dimension::Tokens, NOW), Some(i64::from(rate.burst())));
    let quota = ByHand::new(tokens().with_charge(NOT_REFUNDED));
    for cost in [
        Cost::input(u64::MAX),
        Cost::input(0).with_max_output(u64::MAX),
        Cost::input(u64::MAX).with_max_output(u64::MAX),
        Cost::input(u64::from(u32::MAX) - 1),
    ] {
        let refusal = quota.try_reserve(cost, NOW).unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge(_)), "{cost:?}: {refusal:?}");
    }
}

#[test]
fn weights_and_usages_outside_of_their_range_are_cut() {
    for weight in [f64::NAN, -1.0, f64::NEG_INFINITY, f64::INFINITY, 1e300] {
        let charge = Charge::ACTUAL.with_output_weight(weight).with_cache_read_weight(weight);
        let charge = charge.with_cache_write_weight(weight);
        assert!((0.0..=1_000_000.0).contains(&charge.output_weight()), "{weight}");
        let quota = Quota::new().with_tokens(Rate::per_second(100)).with_charge(charge);
        let quota = ByHand::new(quota);
        let usage = Usage::new().with_input(5).with_cache_reads(u64::MAX);
        let usage = usage.with_cache_writes(u64::MAX).with_output(u64::MAX);
        quota.try_reserve(Cost::input(1), NOW).unwrap().settle(usage, NOW);
        let level = quota.level_at(Dimension::Tokens, NOW).unwrap();
        assert!(level <= 95, "{weight}: {level}");
    }
    let estimate = Estimate::new();
    for _ in 0..30 {
        estimate.record(u64::MAX, u64::MAX);
        estimate.record(0, 0);
    }
    assert!(estimate.input().is_some() && estimate.output().is_some());
}

/// 10 units at once and 10 a second.
#[test]
fn a_clock_that_stands_jumps_or_goes_back_gives_no_free_units() {
    let taken = |times: &[u64]| {
        let quota = ByHand::new(Quota::new().with_requests(Rate::per_second(10)));
        let mut taken = 0;
        for at in times {
            while let Ok(mut one) = quota.try_reserve(Cost::new(), Duration::from_nanos(*at)) {
                one.sent();
                taken += 1;
                assert!(taken <= 1_000, "free units");
            }
        }
        taken
    };
    assert_eq!(taken(&[5, 5, 5]), 10, "a clock that stands");
    assert_eq!(taken(&[0, u64::MAX, u64::MAX]), 20, "a clock that jumps");
    assert_eq!(taken(&[10_000_000_000, 0, 10_000_000_000]), 10, "a clock that goes back");
    assert_eq!(taken(&[0, 1_000_000_000, 0, 1_000_000_000]), 20, "back and forth");
}

#[test]
fn the_largest_numbers_are_the_documented_ones() {
    let rate = Rate::per_second(u64::from(u32::MAX));
    assert_eq!((rate.burst(), rate.with_burst(268_435_453).burst()), (268_435_454, 268_435_453));
    for (given, kept) in
        [(16_777_214, 16_777_214), (16_777_215, 16_777_215), (u64::MAX, 16_777_215)]
    {
        let quota = ByHand::new(Quota::new().with_tokens(Rate::per_second(100)));
        let mut reservation = quota.try_reserve(Cost::input(1), NOW).unwrap();
        let level = || quota.level_at(Dimension::Tokens, NOW);
        reservation.record(Usage::new().with_input(given).with_output(0), NOW);
        assert_eq!(level(), Some(100 - kept), "{given}");
        reservation.record(Usage::new().with_input(40).with_output(0), NOW);
        assert_eq!(level(), Some(60), "{given}");
    }
}

/// A debt is cut before its word could be read as a lease.
#[test]
fn no_sum_of_debts_makes_units() {
    for period in [1_000_000_000, 2_000_000_000].map(Duration::from_secs) {
        let quota = ByHand::new(Quota::new().with_tokens(Rate::new(1, period)));
        for _ in 0..20 {
            let nothing = Cost::input(0).with_max_output(0);
            let usage = Usage::new().with_input(1_000_000).with_output(0);
            quota.try_reserve(nothing, NOW).unwrap().settle(usage, NOW);
            assert!(quota.level_at(Dimension::Tokens, NOW).unwrap() < 0, "{period:?}");
            assert!(quota.try_reserve(Cost::input(1), NOW).is_err(), "{period:?}");
        }
    }
}

/// The clocks of two threads are not read in the order of their calls.
#[test]
fn a_refund_takes_nothing_from_a_call_with_an_earlier_clock() {
    let seconds = Duration::from_secs;
    for settled in [0, 1, 3, 9, 50, 1_000] {
        for looked in [0, 1, 3, 9, 50, 999] {
            let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(10));
            let quota = ByHand::new(quota);
            let reservation = quota.try_reserve(Cost::input(6), NOW).unwrap();
            let level = || quota.level_at(Dimension::Tokens, seconds(looked)).unwrap();
            let before = level();
            reservation.settle(Usage::new().with_input(4).with_output(0), seconds(settled));
            assert!(level() >= before, "settled at {settled} s, looked at {looked} s");
        }
    }
}

#[test]
fn extreme_periods_and_limits_are_accepted() {
    for period in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        for count in [1, 7, u32::MAX] {
            let quota = ByHand::new(Quota::new().with_tokens(Rate::new(u64::from(count), period)));
            let mut reservation = quota.try_reserve(Cost::input(1), NOW).unwrap();
            let limit = Limit::of_remaining(u64::MAX);
            reservation.learn(&Limits::new().with(Dimension::Tokens, limit), NOW);
            reservation.learn(&Limits::new().with(Dimension::Tokens, Limit::of_remaining(0)), NOW);
            assert!(quota.level_at(Dimension::Tokens, NOW).unwrap() <= 0);
            reservation.settle(Usage::new().with_input(u64::MAX).with_output(u64::MAX), NOW);
            // A debt that refills in more than 73 years is cut.
            assert!(quota.level_at(Dimension::Tokens, NOW).unwrap() <= 0, "{count} {period:?}");
            assert!(quota.try_reserve(Cost::input(1), Duration::ZERO).is_err());
        }
    }
}

/// A debt of years does not hang a call with a deadline.
#[tokio::test]
async fn a_wait_of_years_is_named_at_once() {
    let quota = Quota::new().with_tokens(Rate::per_day(1));
    let upstream = Upstream::new("slow").with_quota(quota).with_timer(ManualTimer::new());
    let mut admission = upstream.at_cost(Cost::input(1)).admit(Never).await.unwrap();
    admission.record(Usage::new().with_input(1_000).with_output(0));
    admission.succeeded();
    let refused = upstream.at_cost(Cost::input(1)).try_admit().unwrap_err();
    assert_eq!(refused.reason(), StopReason::Deadline);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1_000 * 24 * 60 * 60)));
}
