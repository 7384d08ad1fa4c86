//! The values of a quota: what its charge says, what its estimate learns, and whom a refund wakes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use resile::Quota;
use resile::quota::{Charge, Cost, Dimension, Learning, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::Resource;
use resile::{
    Attempt, HedgePolicy, Never, RetryPolicy, Run, Upstream, Verdict, hedge, observe::Event,
    observe::EventKind, retry,
};

use super::{NOT_REFUNDED, RESERVED};
use crate::by_hand::ByHand;

const NOW: Duration = Duration::from_secs(1);

#[test]
fn a_weight_is_between_zero_and_a_million() {
    for (given, kept) in [
        (-1.0, 0.0),
        (f64::NAN, 0.0),
        (f64::NEG_INFINITY, 0.0),
        (0.0, 0.0),
        (0.25, 0.25),
        (1e6, 1e6),
        (1e7, 1e6),
        (f64::INFINITY, 1e6),
    ] {
        let charge = Charge::ACTUAL
            .with_cache_read_weight(given)
            .with_cache_write_weight(given)
            .with_output_weight(given);
        for weight in
            [charge.cache_read_weight(), charge.cache_write_weight(), charge.output_weight()]
        {
            assert_eq!(weight.to_bits(), f64::to_bits(kept), "{given}");
        }
    }
    let charge = Charge::ACTUAL.with_default_maximum(77);
    assert_eq!((charge.default_maximum(), Charge::ACTUAL.default_maximum()), (77, 0));
    assert!(Charge::ACTUAL.refunds() && !NOT_REFUNDED.refunds());
    assert!(RESERVED.reserves_maximum() && !Charge::ACTUAL.reserves_maximum());
}

#[test]
fn a_cost_has_its_tokens() {
    assert_eq!((Cost::new().input_tokens(), Cost::new().max_output()), (None, None));
    let cost = Cost::input(7).with_max_output(9);
    assert_eq!((cost.input_tokens(), cost.max_output()), (Some(7), Some(9)));
}

#[test]
fn numbers_of_tokens_saturate() {
    let most = u64::from(u32::MAX);
    for (given, kept) in
        [(most - 1, most - 1), (most, most), (most + 1, most), (most + 8, most), (u64::MAX, most)]
    {
        let cost = Cost::input(given).with_max_output(given);
        assert_eq!((cost.input_tokens(), cost.max_output()), (Some(kept), Some(kept)));
        let usage = Usage::new().with_input(given).with_output(given);
        let usage = usage.with_cache_reads(given).with_cache_writes(given);
        assert_eq!((usage.input(), usage.output()), (Some(kept), Some(kept)));
        assert_eq!((usage.cache_reads(), usage.cache_writes()), (kept, kept));
    }
}

#[test]
fn an_estimate_learns_only_where_a_call_reserves_it() {
    let learned = |charge: Charge| {
        let quota = Quota::new().with_tokens(Rate::per_minute(60_000)).with_charge(charge);
        let quota = ByHand::new(quota);
        for _ in 0..50 {
            let cost = Cost::input(10).with_max_output(100);
            let mut reservation = quota.try_reserve(cost, NOW).unwrap();
            reservation.sent();
            reservation.settle(Usage::new().with_input(10).with_output(40), NOW);
        }
        assert_eq!(quota.reserved(), 0);
        quota.estimate().output()
    };
    let about = |learned: Option<u64>| learned.is_some_and(|tokens| (40..=45).contains(&tokens));
    assert!(about(learned(Charge::ACTUAL)));
    assert!(about(learned(Charge::ACTUAL.with_refund(false))));
    assert_eq!(learned(Charge::ACTUAL.with_maximum_reserved(true)), None);
    assert_eq!(learned(NOT_REFUNDED), None);
}

#[test]
fn an_input_is_learned_only_if_no_call_knows_it() {
    let learned = |cost: Cost<'static>| {
        let quota = ByHand::new(Quota::new().with_tokens(Rate::per_minute(60_000)));
        for _ in 0..50 {
            let mut reservation = quota.try_reserve(cost, NOW).unwrap();
            reservation.sent();
            // The usage of a stream comes in parts, and its input counts once.
            reservation.record(Usage::new().with_input(30), NOW);
            reservation.settle(Usage::new().with_input(30).with_output(1), NOW);
        }
        quota.estimate().input()
    };
    let found = learned(Cost::new());
    assert!(found.is_some_and(|tokens| (30..=33).contains(&tokens)), "{found:?}");
    assert_eq!(learned(Cost::input(30)), None);
}

#[test]
fn weighted_tokens_are_rounded_up() {
    for (weight, tokens, charged) in [(0.0, 9, 0), (0.25, 9, 3), (1.0, 9, 9), (5.0, 9, 45)] {
        let charge = RESERVED.with_cache_read_weight(weight).with_output_weight(weight);
        let rate = Rate::per_minute(60).with_burst(1_000);
        let quota = Quota::new().with_input(rate).with_output(rate).with_charge(charge);
        let quota = ByHand::new(quota);
        let cost = Cost::input(100).with_max_output(100);
        let reservation = quota.try_reserve(cost, NOW).unwrap();
        let usage = Usage::new().with_input(0).with_cache_reads(tokens).with_output(tokens);
        reservation.settle(usage, NOW);
        for dimension in [Dimension::Input, Dimension::Output] {
            assert_eq!(quota.level_at(dimension, NOW), Some(1_000 - charged), "{weight}");
        }
    }
}

#[test]
fn only_a_throttled_reservation_is_given_back() {
    for (verdict, left) in [
        (Verdict::transient(), 940),
        (Verdict::fatal(), 940),
        (Verdict::overloaded(), 1_000),
        (Verdict::throttled(), 0),
    ] {
        let rate = Rate::per_minute(60).with_burst(1_000);
        let quota = Quota::new().with_tokens(rate).with_charge(RESERVED);
        let quota = ByHand::new(quota.with_learning(Learning::Off));
        let cost = Cost::input(20).with_max_output(40);
        quota.try_reserve(cost, NOW).unwrap().failed(&verdict, NOW);
        assert_eq!(quota.level_at(Dimension::Tokens, NOW), Some(left), "{verdict:?}");
    }
}

/// Counts the wakes of a task.
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn model(timer: &ManualTimer) -> Upstream<ManualTimer> {
    let rate = Rate::per_minute(60).with_burst(100);
    let charge = Charge::ACTUAL.with_maximum_reserved(true);
    Upstream::new("model")
        .with_quota(Quota::new().with_tokens(rate).with_charge(charge))
        .with_timer(timer.clone())
}

#[test]
fn a_waiter_is_woken_when_a_usage_gives_tokens_back() {
    for usage in [
        Usage::new().with_input(10).with_output(90),
        Usage::new().with_input(5).with_output(90),
        Usage::new().with_input(10).with_output(5),
    ] {
        let timer = ManualTimer::new();
        let upstream = model(&timer);
        let cost = Cost::input(10).with_max_output(90);
        let mut admission = upstream.at_cost(cost).try_admit().unwrap();
        let counted = Arc::new(Wakes(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&counted));
        let small = Cost::input(1).with_max_output(1);
        let mut waiting = pin!(upstream.at_cost(small).admit(Never));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        admission.record(usage);
        let gives_back = usage != Usage::new().with_input(10).with_output(90);
        assert_eq!(counted.0.load(Relaxed) > 0, gives_back, "{usage:?}");
        drop(admission);
    }
}

#[test]
fn a_store_learns_of_the_largest_refused_amount() {
    let timer = ManualTimer::new();
    let upstream = model(&timer);
    let shared = upstream.share().unwrap();
    let tokens = Resource::Quota(Dimension::Tokens);
    assert_eq!(shared.refused(tokens), 0);
    for output in [20, 40, 30] {
        let cost = Cost::input(1).with_max_output(output);
        upstream.at_cost(cost).try_admit().unwrap_err();
    }
    assert_eq!(shared.refused(tokens), 41);
    assert_eq!(shared.refused(tokens), 0, "it was taken");
    assert_eq!(shared.refused(Resource::Budget), 0);
    let drawn: Vec<_> = (0..100).map(|_| shared.draw_within(5..=9)).collect();
    assert!((5..=9).all(|number| drawn.contains(&number)), "{drawn:?}");
    assert!(drawn.iter().all(|number| (5..=9).contains(number)));
}

#[test]
fn a_loop_by_hand_passes_the_limits_of_an_answer() {
    use resile::quota::{Limit, Limits};
    let timer = ManualTimer::new();
    let upstream = model(&timer);
    let policy = RetryPolicy::new();
    let mut run = Run::<&str, _, _>::new(policy, Never)
        .on(upstream.at_cost(Cost::input(1).with_max_output(1)));
    run.blocking_next().unwrap();
    run.learn(Limits::new().with(Dimension::Tokens, Limit::of_remaining(7)));
    assert_eq!(upstream.quota_level(Dimension::Tokens), Some(7));
    let () = run.succeeded(());
}

#[tokio::test]
async fn a_usage_is_charged_to_the_attempt_that_reported_it() {
    let timer = ManualTimer::new();
    let settled = Arc::new(AtomicU32::new(0));
    let note = Arc::clone(&settled);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Settled { attempt, .. } = event.kind {
            note.store(attempt, Relaxed);
        }
    };
    let upstream = model(&timer).with_shared_observer(observer);
    let cost = Cost::input(1).with_max_output(1);
    let usage = || resile::quota::record(Usage::new().with_input(1).with_output(1));
    let second = |attempt: Attempt| async move {
        if attempt.is_first() {
            std::future::pending::<()>().await;
        }
        usage();
        Ok::<_, &str>(())
    };
    let policy = HedgePolicy::new().with_delay(Duration::ZERO);
    hedge(second, policy, Never).on(upstream.at_cost(cost)).await.unwrap();
    assert_eq!(settled.load(Relaxed), 2);
    let third = |attempt: Attempt| async move {
        if attempt.number() < 3 {
            return Err("down");
        }
        usage();
        Ok(())
    };
    let policy = RetryPolicy::new().with_backoff(resile::Backoff::none());
    retry(third, policy, Never).on(upstream.at_cost(cost)).await.unwrap();
    assert_eq!(settled.load(Relaxed), 3);
}

#[test]
fn the_sum_of_usages_saturates_and_keeps_what_is_unknown() {
    let [input, output] = [Usage::new().with_input(7), Usage::new().with_output(9)];
    assert!(Usage::new().plus(Usage::new()).is_empty());
    assert_eq!(input.plus(output), output.plus(input));
    assert_eq!(input.plus(output), Usage::new().with_input(7).with_output(9));
    assert_eq!(input.plus(input), Usage::new().with_input(14));
    let cached = input.with_cache_reads(2).with_cache_writes(3);
    assert_eq!(cached.plus(cached).cache_reads(), 4);
    assert_eq!(cached.plus(cached).cache_writes(), 6);
    let most = Usage::new().with_input(u64::MAX).with_output(u64::MAX);
    assert_eq!(most.plus(cached).plus(most).input(), Some(u64::from(u32::MAX)));
}

#[test]
fn a_usage_prints_its_sum_and_what_is_known() {
    let usage = Usage::new();
    for (usage, total, words) in [
        (usage, 0, "no usage"),
        (usage.with_input(0), 0, "0 tokens: 0 input"),
        (usage.with_output(1), 1, "1 token: 1 output"),
        (usage.with_input(20).with_output(5), 25, "25 tokens: 20 input, 5 output"),
        (
            usage.with_input(20).with_cache_reads(400).with_cache_writes(30),
            450,
            "450 tokens: 20 input, 400 cache read, 30 cache write",
        ),
        (
            usage.with_input(u64::MAX).with_output(u64::MAX),
            2 * u64::from(u32::MAX),
            "8589934590 tokens: 4294967295 input, 4294967295 output",
        ),
    ] {
        assert_eq!((usage.total(), usage.to_string().as_str()), (total, words));
    }
}
