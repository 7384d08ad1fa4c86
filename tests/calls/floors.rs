//! Waits that the classifier sets, and waits that the upstream asked for.

use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::State;
use resile::observe::Event;
use resile::policy::Decision;
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Breaker, Classify, Cooldown, Health, Jitter, Never, RetryPolicy, StopReason,
    Upstream, Verdict, retry,
};

use resile::upstream::Explained;

use super::script::drive;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the lines and the error of a call that an overloaded provider refuses twice.
fn lines<E: Explained<M> + Clone, M>(
    error: &E,
    classifier: impl Classify<E>,
    cap: Duration,
) -> (Vec<String>, String) {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("model").with_timer(timer.clone());
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if matches!(event.kind.as_str(), "waiting" | "gave_up") {
            seen.lock().unwrap().push(event.to_string());
        }
    };
    let backoff = Backoff::fixed(SECOND / 4).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(backoff).with_hint_cap(cap);
    let policy = policy.with_classifier(classifier);
    let op = |_| ready(Err::<(), E>(error.clone()));
    let call = retry(op, policy, Never).on(upstream.observed_by(&observer));
    let gave_up = drive(call, &timer).unwrap_err();
    (seen.into_inner().unwrap(), gave_up.to_string())
}

/// The upstream asked for nothing. The wait of two seconds is the classifier's.
#[test]
fn nobody_is_said_to_have_asked_for_a_floor() {
    let floor = |_: &&str| Verdict::overloaded().at_least(SECOND * 2);
    let (seen, gave_up) = lines(&"busy", floor, SECOND * 9);
    assert_eq!(
        seen,
        [
            "model: attempt 1 of 2 failed, retrying in 2.0s, as set for this error: busy",
            "model: gave up after 2 of 2 attempts, wait at least 2.0s before the next call: busy",
        ]
    );
    assert_eq!(
        gave_up,
        "model: gave up after 2 attempts in 2.0s, wait at least 2.0s before the next call"
    );
    // A floor above the hint cap ends the call, and nobody is blamed.
    let (_, gave_up) = lines(&"busy", floor, SECOND);
    assert_eq!(
        gave_up,
        "model: gave up after 1 attempt, a wait of at least 2.0s is set for this error, \
         more than the hint cap of 1s (`with_hint_cap`)"
    );
}

#[test]
fn a_wait_that_was_asked_for_is_said_to_be() {
    let asked = |_: &&str| Verdict::overloaded().after(SECOND * 2);
    let (seen, gave_up) = lines(&"busy", asked, SECOND * 9);
    assert_eq!(
        seen,
        [
            "model: attempt 1 of 2 failed, retrying in 2.0s, as the upstream asked: busy",
            "model: gave up after 2 of 2 attempts, try again in 2.0s: busy",
        ]
    );
    assert_eq!(gave_up, "model: gave up after 2 attempts in 2.0s, try again in 2.0s");
}

/// A delay that differs from the wait has its own number, and so has one below a millisecond.
#[test]
fn a_wait_has_its_own_number_beside_another_delay() {
    let micros = Duration::from_micros(700);
    for (verdict, words) in [
        (
            Verdict::throttled().after(SECOND / 8),
            "250.0ms, the upstream asked for a wait of 125.0ms",
        ),
        (
            Verdict::transient().at_least(SECOND / 8),
            "250.0ms, a wait of at least 125.0ms is set for this error",
        ),
        (Verdict::transient().at_least(SECOND / 4), "250.0ms, as set for this error"),
        // The line rounds both, so a second number would be the same.
        (
            Verdict::throttled().after(Duration::from_micros(249_965)),
            "250.0ms, as the upstream asked",
        ),
        (
            Verdict::throttled().after(Duration::from_micros(249_930)),
            "250.0ms, the upstream asked for a wait of 249.9ms",
        ),
        (Verdict::throttled().after(Duration::ZERO), "250.0ms"),
    ] {
        let (seen, _) = lines(&"busy", move |_: &&str| verdict, SECOND);
        assert_eq!(seen[0], format!("model: attempt 1 of 2 failed, retrying in {words}: busy"));
    }
    let policy = RetryPolicy::new().with_backoff(Backoff::none().with_jitter(Jitter::None));
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| seen.lock().unwrap().push(event.to_string());
    let timer = ManualTimer::new();
    let upstream = Upstream::new("model").with_timer(timer.clone());
    let policy =
        policy.with_attempts(2).with_classifier(|_: &&str| Verdict::throttled().after(micros));
    let call =
        retry(|_| ready(Err::<(), _>("busy")), policy, Never).on(upstream.observed_by(&observer));
    drive(call, &timer).unwrap_err();
    let words = "retrying within 1ms, the upstream asked for a wait of 700.0µs: busy";
    assert!(seen.into_inner().unwrap().iter().any(|line| line.ends_with(words)));
}

/// Puts `verdict` on an attempt and returns the hold of the cooldown and the time until the breaker
/// admits again.
fn effects(verdict: Verdict) -> (Option<Duration>, Option<Duration>) {
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    let upstream = Upstream::new("any")
        .with_cooldown(Cooldown::new().with_jitter(0.0))
        .with_breaker(Breaker::new().with_consecutive(1).with_open_time(open))
        .with_timer(timer);
    upstream.try_admit().unwrap().settle(&verdict);
    let refused = upstream.breaker().is_some_and(|breaker| breaker.state() == State::Open);
    let refusal = if refused { upstream.try_admit().err() } else { None };
    (upstream.held(), refusal.and_then(|gave_up| gave_up.retry_after()))
}

fn wait() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..20_000_u64).prop_map(Duration::from_millis),
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<Duration>(),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::transient()),
        Just(Verdict::throttled()),
        Just(Verdict::overloaded()),
        Just(Verdict::transient().with_health(Health::Unknown)),
        Just(Verdict::fatal()),
    ]
}

proptest! {
    /// A floor has the effects of a hint: on the policy, the cooldown and the breaker.
    #[test]
    fn a_floor_works_like_a_hint(
        verdict in verdict(), wait in wait(), number in 1..5_u32, cap in wait(),
        left in prop::option::of(wait()), draw in any::<u64>(),
    ) {
        let (floor, hint) = (verdict.at_least(wait), verdict.after(wait));
        prop_assert_eq!((floor.wait(), floor.hint()), (hint.wait(), None));
        prop_assert_eq!(hint.hint(), hint.wait());
        prop_assert_eq!((floor.health(), floor.is_again()), (hint.health(), hint.is_again()));
        let failed = Attempt::new(number).with_remaining(left);
        let policy = RetryPolicy::new().with_hint_cap(cap);
        let decide = |verdict| {
            policy.decide(failed, Some(verdict), |range| draw.clamp(*range.start(), *range.end()))
        };
        prop_assert_eq!(decide(floor), decide(hint));
        prop_assert_eq!(effects(floor), effects(hint));
    }

    /// A floor lengthens a wait and never shortens it. A hint replaces every wait.
    #[test]
    fn a_floor_is_the_least_wait(verdict in verdict(), hint in wait(), floor in wait()) {
        let both = verdict.after(hint).at_least(floor);
        prop_assert_eq!(both.wait(), verdict.after(hint.max(floor)).wait());
        let is_asked = verdict.after(hint).wait() >= verdict.after(floor).wait();
        prop_assert_eq!(both.hint().is_some(), is_asked);
        prop_assert_eq!(verdict.at_least(floor).after(hint), verdict.after(hint));
        prop_assert_eq!(both.at_least(floor), both);
    }
}

/// A policy treats a floor above its hint cap like a hint above it.
#[test]
fn a_floor_above_the_hint_cap_ends_the_call() {
    let policy = RetryPolicy::new().with_hint_cap(SECOND);
    let decide = |verdict| policy.decide(Attempt::new(1), Some(verdict), |range| *range.start());
    let floor = decide(Verdict::transient().at_least(SECOND * 2));
    assert_eq!(floor, Decision::Stop(StopReason::HintTooLong));
    assert_ne!(floor, decide(Verdict::transient().at_least(SECOND)));
    assert!(!StopReason::HintTooLong.to_string().contains("asked"));
}

/// A verdict has one wait: a hint, a floor or a base. The last one counts, and a base holds no upstream.
#[test]
fn a_base_is_not_a_wait() {
    let based = Verdict::overloaded().with_base(SECOND);
    assert_eq!((based.base(), based.hint(), based.wait()), (Some(SECOND), None, None));
    assert_ne!(based, Verdict::overloaded().after(SECOND));
    assert_ne!(based, Verdict::overloaded().at_least(SECOND));
    assert_eq!(based.after(2 * SECOND), Verdict::overloaded().after(2 * SECOND));
    assert_eq!(based.at_least(SECOND / 2), Verdict::overloaded().at_least(SECOND / 2));
    assert_eq!(Verdict::overloaded().after(SECOND).with_base(SECOND), based);
    assert_eq!(based.not_again().base(), Some(SECOND));

    let classifier = |_: &&str| Verdict::overloaded().with_base(SECOND * 60);
    let (seen, gave_up) = lines(&"busy", classifier, SECOND);
    assert_eq!(seen[0], "model: attempt 1 of 2 failed, retrying in 250.0ms: busy");
    assert_eq!(gave_up, "model: gave up after 2 attempts in 250.0ms");
}
