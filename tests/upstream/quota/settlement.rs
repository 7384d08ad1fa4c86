//! The settlement of a reservation: usage in parts, estimates and withdrawals.

use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use resile::observe::{Event, EventKind};
use resile::quota::{Charge, Cost, Dimension, Limit, Limits, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::AtCost;
use resile::{
    Attempt, Backoff, GaveUp, Health, Never, Quota, ResilienceExt, RetryPolicy, StopReason,
    Upstream, Verdict, retry,
};

use super::{FREE_READS, NOT_REFUNDED, RESERVED};
use crate::by_hand::ByHand;

const NOW: Duration = Duration::from_secs(7);
const RATE: Rate = Rate::per_minute(1_000);
const TOKENS: [Dimension; 3] = [Dimension::Input, Dimension::Output, Dimension::Tokens];

/// A quota of 1,000 units in every dimension of tokens.
const fn quota() -> Quota {
    Quota::new().with_input(RATE).with_output(RATE).with_tokens(RATE)
}

fn levels(quota: &ByHand) -> [i64; 3] {
    TOKENS.map(|dimension| quota.level_at(dimension, NOW).unwrap())
}

/// What an answer says of a limit of so many units.
const fn left_of(limit: u64, remaining: u64) -> Limit {
    let mut left = Limit::of(limit, None);
    left.remaining = Some(remaining);
    left
}

/// Ends an attempt with this verdict, whose answer has reported this usage and these limits.
fn settle(
    target: &AtCost<'_, &Upstream<ManualTimer>>,
    usage: Option<Usage>,
    limits: Option<Limits>,
    verdict: Verdict,
) {
    let mut admission = target.try_admit().unwrap();
    if let Some(usage) = usage {
        admission.record(usage);
    }
    if let Some(limits) = limits {
        admission.learn(limits);
    }
    admission.settle(&verdict);
}

#[test]
fn a_later_number_replaces_an_earlier_one() {
    let quota = ByHand::new(quota());
    let cost = Cost::input(100).with_max_output(200);
    let mut reservation = quota.try_reserve(cost, NOW).unwrap();
    assert_eq!(levels(&quota), [900, 800, 700]);
    for (usage, expected) in [
        (Usage::new().with_input(40).with_output(1), [960, 999, 959]),
        (Usage::new().with_output(60), [960, 940, 900]),
        (Usage::new().with_input(150), [850, 940, 790]),
        (Usage::new(), [850, 940, 790]),
        (Usage::new().with_input(0).with_output(0), [1_000, 1_000, 1_000]),
        (Usage::new().with_input(u64::from(u32::MAX)), [1_000 - ((1 << 24) - 1), 1_000, 0]),
        (Usage::new().with_input(30).with_output(20), [970, 980, 950]),
    ] {
        reservation.record(usage, NOW);
        let seen = levels(&quota);
        assert_eq!(seen[..2], expected[..2], "{usage:?}");
        if seen[0] > 0 {
            assert_eq!(seen[2], expected[2], "{usage:?}");
        }
    }
    drop(reservation);
    assert_eq!(levels(&quota), [970, 980, 950]);
}

#[test]
fn each_part_of_a_usage_is_an_event_with_the_charge_before() {
    static EVENTS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    fn observe(event: &Event<'_>) {
        if let EventKind::Settled { before, charged, .. } = event.kind {
            EVENTS.lock().unwrap().push((before, charged));
        }
    }
    static OBSERVER: fn(&Event<'_>) = observe;
    let upstream = Upstream::new("events").with_quota(quota()).with_timer(ManualTimer::new());
    let upstream = upstream.with_observer(&OBSERVER);
    let target = upstream.at_cost(Cost::input(100).with_max_output(200));
    let mut admission = target.try_admit().unwrap();
    admission.record(Usage::new().with_input(40));
    admission.record(Usage::new().with_output(60));
    admission.record(Usage::new().with_output(70));
    admission.succeeded();
    assert_eq!(*EVENTS.lock().unwrap(), [(300, 240), (240, 100), (100, 110)]);
}

/// Whatever was recorded before, a withdrawn attempt gives back what it holds and no more.
#[test]
fn a_withdrawn_attempt_gives_back_what_it_holds() {
    for charge in [Charge::ACTUAL, NOT_REFUNDED, RESERVED] {
        for usage in [
            Usage::new(),
            Usage::new().with_input(10),
            Usage::new().with_input(400),
            Usage::new().with_output(10),
            Usage::new().with_input(400).with_output(400),
        ] {
            let timer = ManualTimer::new();
            let quota = quota().with_charge(charge).with_requests(RATE).with_concurrency(2);
            let upstream = Upstream::new("withdraws").with_quota(quota).with_timer(timer);
            let cost = Cost::input(100).with_max_output(200);
            let other = upstream.at_cost(cost).try_admit().unwrap();
            let before = TOKENS.map(|dimension| upstream.quota_level(dimension));
            let mut admission = upstream.at_cost(cost).try_admit().unwrap();
            admission.record(usage);
            admission.withdraw();
            let after = TOKENS.map(|dimension| upstream.quota_level(dimension));
            assert_eq!(after, before, "{charge:?}, {usage:?}");
            assert_eq!(upstream.quota_level(Dimension::Requests), Some(999));
            drop(other);
            let quota = upstream.quota().unwrap();
            assert_eq!((quota.reserved(), quota.in_flight()), (0, Some(0)));
        }
    }
}

/// A refused connection costs the provider nothing. What an earlier request of the attempt has cost
/// stays taken.
#[test]
fn a_failure_before_the_request_gives_the_reservation_back() {
    let limits = Limits::new().with(Dimension::Input, Limit::of_remaining(900));
    let refused = Verdict::transient().not_sent();
    for (charge, verdict, usage, limits, requests, input) in [
        (Charge::ACTUAL, refused, None, None, 1_000, 1_000),
        (NOT_REFUNDED, refused.not_again(), None, None, 1_000, 1_000),
        (RESERVED, Verdict::fatal().not_sent(), None, None, 1_000, 1_000),
        (Charge::ACTUAL, Verdict::transient(), None, None, 999, 900),
        // An answer has told of an earlier request.
        (Charge::ACTUAL, refused, Some(Usage::new().with_input(70)), None, 999, 930),
        (Charge::ACTUAL, refused, Some(Usage::new().with_output(0)), None, 999, 900),
        (Charge::ACTUAL, refused, None, Some(limits), 999, 900),
        // Only the upstream asks for fewer requests.
        (Charge::ACTUAL, Verdict::overloaded().not_sent(), None, None, 999, 1_000),
    ] {
        let timer = ManualTimer::new();
        let quota = quota().with_charge(charge).with_requests(RATE).with_concurrency(1);
        let upstream = Upstream::new("refused").with_quota(quota).with_timer(timer);
        let target = upstream.at_cost(Cost::input(100).with_max_output(200));
        settle(&target, usage, limits, verdict);
        let levels = [Dimension::Requests, Dimension::Input].map(|of| upstream.quota_level(of));
        assert_eq!(levels, [Some(requests), Some(input)], "{verdict:?}, {usage:?}, {limits:?}");
        let quota = upstream.quota().unwrap();
        assert_eq!((quota.reserved(), quota.in_flight()), (0, Some(0)));
    }
}

/// A request without effect was refused before any work, so it counts and its tokens do not. What the
/// answer says about tokens stays.
#[test]
fn a_request_without_effect_gives_its_tokens_back() {
    let limits = Limits::new().with(Dimension::Input, Limit::of_remaining(900));
    let refused = Verdict::fatal().with_health(Health::Healthy).without_effect();
    for charge in [Charge::ACTUAL, FREE_READS, RESERVED, NOT_REFUNDED] {
        for (verdict, usage, limits, tokens) in [
            (refused, None, None, [1_000, 1_000, 1_000]),
            (Verdict::transient().without_effect(), None, None, [1_000, 1_000, 1_000]),
            (Verdict::overloaded(), None, None, [1_000, 1_000, 1_000]),
            (refused, None, Some(limits), [900, 1_000, 1_000]),
            // An earlier request of the attempt may have been charged.
            (refused.not_sent(), Some(Usage::new()), Some(limits), [900, 800, 700]),
            // Nobody knows what a 500 has cost.
            (Verdict::transient(), None, None, [900, 800, 700]),
            (Verdict::fatal(), None, None, [900, 800, 700]),
        ] {
            let quota = quota().with_charge(charge).with_requests(RATE).with_concurrency(1);
            let upstream = Upstream::new("refused").with_quota(quota);
            let upstream = upstream.with_timer(ManualTimer::new());
            let target = upstream.at_cost(Cost::input(100).with_max_output(200));
            settle(&target, usage, limits, verdict);
            let levels = TOKENS.map(|dimension| upstream.quota_level(dimension).unwrap());
            assert_eq!(levels, tokens, "{charge:?}, {verdict:?}, {limits:?}");
            assert_eq!(upstream.quota_level(Dimension::Requests), Some(999));
            let quota = upstream.quota().unwrap();
            assert_eq!((quota.reserved(), quota.in_flight()), (0, Some(0)));
        }
    }
}

/// A refusal costs nothing but its request, so the thousandth one does not wait either.
#[tokio::test(start_paused = true)]
async fn refusals_without_end_leave_the_quota_as_it_is() {
    let refused = Verdict::fatal().with_health(Health::Healthy).without_effect();
    let policy = RetryPolicy::new().with_classifier(move |_: &Failed| Some(refused));
    let upstream = Upstream::new("empty").with_quota(quota().with_charge(NOT_REFUNDED));
    let began = tokio::time::Instant::now();
    for _ in 0..1_000 {
        let send = |_| ready(Err::<(), _>(Failed(refused)));
        let target = upstream.at_cost(Cost::input(100).with_max_output(200));
        let gave_up = retry(send, policy, Never).on(target).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(TOKENS.map(|dimension| upstream.quota_level(dimension)), [Some(1_000); 3]);
}

/// The request of the attempt had a good answer, and only then the attempt failed. So the provider has
/// charged the request, whatever the verdict on the attempt says.
#[tokio::test(start_paused = true)]
async fn an_answer_within_an_attempt_keeps_its_tokens() {
    let refused = Verdict::fatal().without_effect();
    let upstream = Upstream::new("outer").with_quota(quota());
    let target = upstream.at_cost(Cost::input(100).with_max_output(200));
    let send = async || {
        let inner = retry(|_| ready(Ok::<_, Failed>(())), RetryPolicy::none(), Never);
        inner.on(target).await.unwrap();
        Err::<(), _>(Failed(refused))
    };
    let policy = RetryPolicy::none().with_classifier(|failed: &Failed| Some(failed.0));
    retry(|_| send(), policy, Never).on(target).await.unwrap_err();
    assert_eq!(TOKENS.map(|dimension| upstream.quota_level(dimension).unwrap()), [900, 800, 700]);
}

/// The estimates are far above the bursts, and the caller knows neither number.
#[test]
fn an_estimate_alone_refuses_no_call() {
    let slow = Rate::per_minute(100);
    for charge in [Charge::ACTUAL, NOT_REFUNDED] {
        for quota in [
            Quota::new().with_tokens(slow),
            Quota::new().with_input(slow),
            Quota::new().with_input(slow).with_tokens(Rate::per_minute(30)),
            Quota::new().with_output(slow).with_tokens(Rate::per_minute(5_001)),
            Quota::new().with_output(slow).with_input(slow).with_tokens(slow),
        ] {
            let quota = ByHand::new(quota.with_charge(charge));
            (0..30).for_each(|_| quota.estimate().record(5_000, 7_000));
            let reservation = quota.try_reserve(Cost::new(), NOW);
            assert!(reservation.is_ok(), "{charge:?}: {reservation:?} of {quota:?}");
        }
    }
}

/// The room that a known output leaves in a burst is no multiple of any step.
#[test]
fn an_estimated_input_takes_exactly_the_room() {
    for charge in [Charge::ACTUAL, NOT_REFUNDED] {
        let quota = ByHand::new(quota().with_charge(charge));
        (0..30).for_each(|_| quota.estimate().record(5_000, 333));
        let cost = Cost::new().with_max_output(333);
        let reservation = quota.try_reserve(cost, NOW).unwrap();
        assert_eq!(quota.level_at(Dimension::Tokens, NOW), Some(0), "{charge:?}");
        drop(reservation);
        assert_eq!(levels(&quota), [1_000; 3], "{charge:?}");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("failed")]
struct Failed(Verdict);

/// The last attempt of a call within did not send its request, but an earlier one did. So the quota of
/// the outer attempt keeps the reservation.
#[tokio::test(start_paused = true)]
async fn a_call_that_sent_one_of_its_requests_gives_nothing_back() {
    for (first, input) in [(Verdict::transient(), 900), (Verdict::transient().not_sent(), 1_000)] {
        let attempts = if first.is_not_sent() { 1 } else { 2 };
        let classifier = |failed: &Failed| Some(failed.0);
        let policy = RetryPolicy::new().with_attempts(attempts).with_backoff(Backoff::none());
        let policy = policy.with_classifier(classifier);
        let send = |attempt: Attempt| {
            let verdict = if attempt.is_first() { first } else { first.not_sent() };
            ready(Err::<(), _>(Failed(verdict)))
        };
        let upstream = Upstream::new("outer").with_quota(quota().with_charge(Charge::ACTUAL));
        let target = upstream.at_cost(Cost::input(100).with_max_output(200));
        let call = retry(send, policy, Never);
        let gave_up = call.through(target, |it: &GaveUp<Failed>| it.verdict()).await.unwrap_err();
        assert_eq!(gave_up.verdict().unwrap().is_not_sent(), attempts == 1);
        assert_eq!(upstream.quota_level(Dimension::Input), Some(input));
    }
}

proptest! {
    /// The level after a refusal is at most the reported one, less the output in flight that the
    /// provider has not charged yet. A dimension without a report gets the tokens back.
    #[test]
    fn a_refused_attempt_gives_nothing_back_above_a_report(
        charge in prop::sample::select(&[Charge::ACTUAL, FREE_READS, RESERVED, NOT_REFUNDED][..]),
        reported in 0..3_usize,
        told in 0..1_200_u64,
        (input, most) in (0..250_u64, 0..250_u64),
        knows_input in any::<bool>(),
        verdict in prop::sample::select(vec![
            Verdict::throttled(),
            Verdict::overloaded(),
            Verdict::fatal().without_effect(),
        ]),
    ) {
        let quota = ByHand::new(quota().with_charge(charge).with_requests(RATE));
        let mut first = quota.try_reserve(Cost::input(input).with_max_output(most), NOW).unwrap();
        let before = levels(&quota);
        let uncharged = if charge.reserves_maximum() { 0 } else { i64::try_from(most).unwrap() };
        let cost = if knows_input { Cost::input(input) } else { Cost::new() };
        let mut refused = quota.try_reserve(cost.with_max_output(most), NOW).unwrap();
        let limits = Limits::new().with(TOKENS[reported], Limit::of_remaining(told));
        refused.learn(&limits, NOW);
        refused.failed(&verdict, NOW);
        let told = i64::try_from(told).unwrap();
        let has_output = TOKENS[reported] != Dimension::Input;
        let after = levels(&quota);
        for (index, (after, before)) in after.into_iter().zip(before).enumerate() {
            if index == reported {
                let most = told - if has_output { uncharged } else { 0 };
                prop_assert!(after <= most.min(before), "{} above {}", after, most);
            } else {
                prop_assert_eq!(after, before, "{:?}", TOKENS[index]);
            }
        }
        // An answer with the same report: only a refund raises the level.
        first.learn(&Limits::new().with(TOKENS[reported], Limit::of_remaining(0)), NOW);
        first.settle(Usage::new().with_input(input).with_output(most), NOW);
        prop_assert!(levels(&quota)[reported] <= 0);
    }
}

/// A report of nothing left with the limit tells how the level refills. Without it nothing refills before the end
/// of the hold, as after a refusal without a report, and the other levels stay.
#[test]
fn a_report_of_nothing_left_and_no_more_refills_after_the_hold() {
    let (hold, until) = (Duration::from_secs(6), NOW + Duration::from_secs(6));
    let after = |limits: Option<Limits>| {
        let quota = ByHand::new(quota().with_requests(RATE));
        let cost = Cost::input(100).with_max_output(200);
        let mut refused = quota.try_reserve(cost, NOW).unwrap();
        if let Some(limits) = limits {
            refused.learn(&limits, NOW);
        }
        refused.failed(&Verdict::throttled().after(hold), NOW);
        (quota.level_at(Dimension::Requests, until), levels(&quota))
    };
    let of_requests = |limit| after(Some(Limits::new().with(Dimension::Requests, limit)));
    let [bare, whole] = [Limit::of_remaining(0), left_of(1_000, 0)].map(of_requests);
    let without = after(None);
    assert_eq!([bare.0, whole.0], [without.0, Some(100)]);
    assert_eq!([bare.1, whole.1], [[1_000; 3]; 2]);
    assert_ne!(without.1, [1_000; 3]);
}

/// A dimension that no answer reports gets the tokens of a refused attempt back. The requests may be a
/// limit that only the provider has.
#[test]
fn a_report_of_requests_keeps_no_tokens() {
    for charge in [Charge::ACTUAL, RESERVED, NOT_REFUNDED] {
        for (is_limited, left, tokens) in
            [(true, 0, 1_000), (true, 9, 1_000), (false, 0, 1_000), (false, 9, -63)]
        {
            let plain = quota().with_charge(charge);
            let quota = ByHand::new(if is_limited { plain.with_requests(RATE) } else { plain });
            let cost = Cost::input(100).with_max_output(200);
            let mut refused = quota.try_reserve(cost, NOW).unwrap();
            let limits = Limits::new().with(Dimension::Requests, left_of(1_000, left));
            refused.learn(&limits, NOW);
            refused.failed(&Verdict::throttled(), NOW);
            assert_eq!(levels(&quota), [tokens; 3], "{charge:?} {is_limited} {left}");
            let requests = is_limited.then_some(i64::try_from(left).unwrap());
            assert_eq!(quota.level_at(Dimension::Requests, NOW), requests);
        }
    }
}

/// After a refusal that reports what is left, the rest of the next cost refills from there on,
/// whether the provider charges the maximum at the start or not.
#[test]
fn the_next_cost_waits_from_the_reported_level_on() {
    for charge in [Charge::ACTUAL, FREE_READS, RESERVED, NOT_REFUNDED] {
        for (told, millis) in [(5_000, 10_000), (200, 19_600), (0, 20_000)] {
            let rate = Rate::per_minute(30_000);
            let quota = ByHand::new(Quota::new().with_tokens(rate).with_charge(charge));
            let cost = Cost::input(1_000).with_max_output(9_000);
            let mut refused = quota.try_reserve(cost, NOW).unwrap();
            let limits = Limits::new().with(Dimension::Tokens, left_of(30_000, told));
            refused.learn(&limits, NOW);
            refused.failed(&Verdict::throttled(), NOW);
            let wait = Duration::from_millis(millis);
            let early = NOW + Duration::from_millis(millis - 1);
            assert!(quota.try_reserve(cost, early).is_err(), "{charge:?} {told}");
            assert!(quota.try_reserve(cost, NOW + wait).is_ok(), "{charge:?} {told}");
        }
    }
}

/// The level is the largest cost that begins at once, also after a refusal took the burst away.
#[test]
fn the_level_is_the_largest_cost_that_begins() {
    for charge in [Charge::ACTUAL, RESERVED, NOT_REFUNDED] {
        for told in [0, 1, 20, 399, 900] {
            let quota = Quota::new().with_tokens(RATE).with_charge(charge);
            let quota = ByHand::new(quota);
            let cost = Cost::input(100).with_max_output(300);
            for _ in 0..2 {
                let Ok(mut refused) = quota.try_reserve(cost, NOW) else { break };
                let told = left_of(1_000, told);
                refused.learn(&Limits::new().with(Dimension::Tokens, told), NOW);
                refused.failed(&Verdict::throttled(), NOW);
            }
            let left = quota.level_at(Dimension::Tokens, NOW).unwrap();
            assert!(left <= i64::try_from(told).unwrap(), "{left} of {told}");
            let left = u64::try_from(left).unwrap();
            let reserve = |input| quota.try_reserve(Cost::input(input).with_max_output(0), NOW);
            assert!(reserve(left + 1).is_err(), "{charge:?} {told}");
            assert!(reserve(left).is_ok(), "{charge:?} {told}");
        }
    }
}
