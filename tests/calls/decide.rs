//! `RetryPolicy::decide` is pure and total.

use std::time::Duration;

use proptest::prelude::*;
use resile::policy::Decision;
use resile::{Attempt, Backoff, Health, Jitter, RetryPolicy, StopReason, Verdict};

use super::backoff::{backoffs, durations, retries, seeded, untouched};

/// The longest hint in a verdict: 584 years.
const LONGEST_HINT: Duration = Duration::from_nanos(u64::MAX - 1);

pub(crate) fn verdicts() -> impl Strategy<Value = Verdict> {
    let kinds =
        prop_oneof![Just(Verdict::fatal()), Just(Verdict::transient()), Just(Verdict::throttled())];
    let healths = prop_oneof![
        Just(Health::Healthy),
        Just(Health::Throttling),
        Just(Health::Failing),
        Just(Health::Unknown),
    ];
    (kinds, any::<bool>(), prop::option::of(healths), prop::option::of(durations())).prop_map(
        |(verdict, again, health, hint)| {
            let verdict = if again { verdict } else { verdict.not_again() };
            let verdict = health.map_or(verdict, |health| verdict.with_health(health));
            hint.map_or(verdict, |hint| verdict.after(hint))
        },
    )
}

prop_compose! {
    fn failures()(number in retries(), delay in durations(), elapsed in durations(), remaining in prop::option::of(durations())) -> Attempt {
        Attempt::new(number).with_delay(delay).with_elapsed(elapsed).with_remaining(remaining)
    }
}

prop_compose! {
    fn policies()(
        attempts in prop_oneof![0_u32..5, retries()], backoff in backoffs().boxed(), hint_cap in durations(),
        throttled in prop::option::of(backoffs().boxed()),
        healthy in prop::option::of(backoffs().boxed()),
    ) -> RetryPolicy {
        let policy = RetryPolicy::new().with_attempts(attempts).with_backoff(backoff).with_hint_cap(hint_cap);
        let policy = throttled.map_or(policy, |backoff| policy.with_throttled_backoff(backoff));
        healthy.map_or(policy, |backoff| policy.with_healthy_backoff(backoff))
    }
}

/// Returns the backoff of the policy after a failure with this health.
fn backoff_after(policy: &RetryPolicy, health: Health) -> Backoff {
    let own = match health {
        Health::Throttling => policy.throttled_backoff(),
        Health::Healthy => policy.healthy_backoff(),
        Health::Failing | Health::Unknown => None,
        _ => unreachable!("add the backoff after the new health here"),
    };
    own.unwrap_or(policy.backoff())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Every input has one decision: the first rule of the six in the docs that applies.
    #[test]
    fn decide_is_total_and_pure(policy in policies(), failed in failures(), verdict in prop::option::of(verdicts()), seed in any::<u64>()) {
        let decide = || policy.decide(failed, verdict, seeded(seed));
        let decision = decide();
        prop_assert_eq!(decision, decide());

        let hint = verdict.and_then(|verdict| verdict.wait()).filter(|hint| !hint.is_zero());
        let late = |wait: Duration| failed.remaining().is_some_and(|left| wait >= left);
        let health = verdict.map_or(Health::Unknown, |verdict| verdict.health());
        let own = backoff_after(&policy, health).delay(failed.number(), failed.delay(), seeded(seed));
        match decision {
            _ if verdict.is_none() => prop_assert_eq!(decision, Decision::Stop(StopReason::Unclassified)),
            _ if verdict.is_some_and(|verdict| !verdict.is_again()) => {
                prop_assert_eq!(decision, Decision::Stop(StopReason::Fatal));
            }
            _ if failed.number() >= policy.attempts() => prop_assert_eq!(decision, Decision::Stop(StopReason::Attempts)),
            _ if hint.is_some_and(|hint| hint > policy.hint_cap()) => {
                prop_assert_eq!(decision, Decision::Stop(StopReason::HintTooLong));
            }
            _ if hint.is_some_and(late) => prop_assert_eq!(decision, Decision::Stop(StopReason::Deadline)),
            Decision::Stop(stop) => {
                prop_assert_eq!(stop, StopReason::Deadline);
                prop_assert!(late(own));
            }
            Decision::Retry(delay) => {
                prop_assert!(!late(delay));
                prop_assert!(hint.is_none_or(|hint| delay >= hint));
                prop_assert!(delay == own || (hint.is_some() && delay > own));
            }
            _ => unreachable!("add the law of the new decision here"),
        }
    }

    /// A hint is a lower bound on the wait. The wait never reaches the deadline, and its jitter is
    /// bounded.
    #[test]
    fn a_wait_is_never_shorter_than_its_hint(backoff in backoffs(), failed in failures(), hint in durations(), seed in any::<u64>()) {
        let hint = hint.min(LONGEST_HINT);
        let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(backoff).with_hint_cap(Duration::MAX);
        let decision = policy.decide(failed, Some(Verdict::throttled().after(hint)), seeded(seed));
        match decision {
            Decision::Retry(wait) => {
                prop_assert!(wait >= hint, "{wait:?} after a hint of {hint:?}");
                prop_assert!(failed.remaining().is_none_or(|left| wait < left));
                let plain = super::backoff::plain(backoff, failed.number());
                // With decorrelated jitter the delay depends on the first delay of the curve, and
                // steps may begin with the longest.
                let own = plain.max(super::backoff::plain(backoff, 1)).max(failed.delay()).saturating_mul(3);
                prop_assert!(wait <= own.max(hint.saturating_add(plain.max(hint / 10))), "{wait:?}");
            }
            Decision::Stop(StopReason::Attempts) => prop_assert_eq!(failed.number(), u32::MAX),
            Decision::Stop(stop) => {
                prop_assert_eq!(stop, StopReason::Deadline);
                prop_assert!(failed.remaining().is_some());
            }
            _ => unreachable!("add the law of the new decision here"),
        }
    }

    /// The delays grow from the base of the verdict as they would from that of the policy. A base of
    /// zero and a backoff without a base change nothing.
    #[test]
    fn a_base_replaces_that_of_the_backoff(
        kind in 0_usize..5, own in durations(), base in durations(), cap in durations(),
        failed in failures(), seed in any::<u64>(),
    ) {
        let curve = |base| match kind {
            0 => Backoff::exponential(base),
            1 => Backoff::linear(base),
            2 => Backoff::fibonacci(base),
            3 => Backoff::fixed(own),
            _ => Backoff::none(),
        };
        let decide = |backoff: Backoff, verdict| {
            let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(backoff.with_cap(cap));
            policy.decide(failed, Some(verdict), seeded(seed))
        };
        let based = Verdict::overloaded().with_base(base);
        // A base saturates at 584 years, one nanosecond before the longest time in a word.
        let longest = Duration::from_nanos(u64::MAX - 1);
        prop_assert_eq!(based.base(), Some(base.min(longest)));
        let told = if base.is_zero() { own } else { base.min(longest) };
        prop_assert_eq!(decide(curve(own), based), decide(curve(told), Verdict::overloaded()));
    }

    /// Without a backoff, every hint that fits the deadline is waited out. Its jitter is cut to the
    /// remaining time.
    #[test]
    fn a_hint_that_fits_is_waited_out(hint in durations(), room in durations(), seed in any::<u64>()) {
        let hint = hint.min(LONGEST_HINT);
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_hint_cap(Duration::MAX);
        let failed = Attempt::new(1).with_remaining(Some(room));
        let decision = policy.decide(failed, Some(Verdict::transient().after(hint)), seeded(seed));
        // The remaining time of an attempt saturates at 584 years.
        let fits = failed.remaining().is_some_and(|left| left <= room && hint < left);
        prop_assert_eq!(matches!(decision, Decision::Retry(_)), fits, "{:?}", decision);
    }

    /// An attempt returns the values that were set, up to 584 years. No deadline differs from every
    /// deadline.
    #[test]
    fn an_attempt_returns_the_values_that_were_set(number in retries(), time in durations(), room in prop::option::of(durations())) {
        let longest = Duration::from_nanos(u64::MAX);
        let attempt = Attempt::new(number).with_elapsed(time).with_delay(time).with_remaining(room);
        prop_assert_eq!(attempt.number(), number.max(1));
        prop_assert_eq!((attempt.elapsed(), attempt.delay()), (time.min(longest), time.min(longest)));
        prop_assert_eq!(attempt.remaining(), room.map(|room| room.min(Duration::from_nanos(u64::MAX - 1))));
    }
}

#[test]
fn every_reason_to_stop_is_reached() {
    let policy = RetryPolicy::new().with_hint_cap(Duration::from_secs(60));
    let decide = |failed, verdict| policy.decide(failed, Some(verdict), untouched);
    let left = |seconds| Attempt::new(1).with_remaining(Some(Duration::from_secs(seconds)));
    assert_eq!(decide(Attempt::new(1), Verdict::fatal()), Decision::Stop(StopReason::Fatal));
    assert_eq!(
        decide(Attempt::new(3), Verdict::fatal()),
        Decision::Stop(StopReason::Fatal),
        "`Fatal` comes before `Attempts`"
    );
    assert_eq!(decide(Attempt::new(3), Verdict::transient()), Decision::Stop(StopReason::Attempts));
    let not_again = Verdict::throttled().after(Duration::from_secs(61)).not_again();
    assert_eq!(
        decide(left(5), not_again),
        Decision::Stop(StopReason::Fatal),
        "`Fatal` comes before `HintTooLong`"
    );
    let unclassified = policy.decide(Attempt::new(3), None, untouched);
    assert_eq!(
        unclassified,
        Decision::Stop(StopReason::Unclassified),
        "`Unclassified` comes first"
    );

    let mut draw = seeded(1);
    let mut decide = |failed, verdict| policy.decide(failed, Some(verdict), &mut draw);
    let hint = |seconds| Verdict::throttled().after(Duration::from_secs(seconds));
    assert_eq!(decide(Attempt::new(1), hint(61)), Decision::Stop(StopReason::HintTooLong));
    assert_eq!(
        decide(left(5), hint(61)),
        Decision::Stop(StopReason::HintTooLong),
        "`HintTooLong` comes before `Deadline`"
    );
    assert_eq!(decide(left(5), hint(5)), Decision::Stop(StopReason::Deadline));
    assert_eq!(decide(left(0), Verdict::transient()), Decision::Stop(StopReason::Deadline));
    assert!(
        matches!(decide(Attempt::new(1), hint(60)), Decision::Retry(_)),
        "the hint cap is inclusive"
    );
}

/// Without a backoff and a hint nothing is drawn. An attempt without remaining time is not made.
#[test]
fn an_attempt_without_a_delay_needs_remaining_time() {
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let left = |nanos| Attempt::new(1).with_remaining(Some(Duration::from_nanos(nanos)));
    assert_eq!(
        policy.decide(left(1), Some(Verdict::transient()), untouched),
        Decision::Retry(Duration::ZERO)
    );
    assert_eq!(
        policy.decide(left(0), Some(Verdict::transient()), untouched),
        Decision::Stop(StopReason::Deadline)
    );
    let plain =
        policy.with_backoff(Backoff::fixed(Duration::from_nanos(1)).with_jitter(Jitter::None));
    assert_eq!(
        plain.decide(left(1), Some(Verdict::transient()), untouched),
        Decision::Stop(StopReason::Deadline)
    );
}

#[test]
fn there_is_at_least_one_attempt() {
    assert_eq!(RetryPolicy::new().with_attempts(0).attempts(), 1);
    assert_eq!(Attempt::new(0).number(), 1);
    assert!(Attempt::new(0).is_first());
    assert_eq!(RetryPolicy::none().attempts(), 1);
}

#[test]
fn the_defaults_are_as_documented() {
    let (new, patient) = (RetryPolicy::new(), RetryPolicy::patient());
    let seconds = Duration::from_secs;
    assert_eq!((new.attempts(), new.hint_cap(), new.total_timeout()), (3, seconds(120), None));
    assert_eq!(
        (patient.attempts(), patient.hint_cap(), patient.total_timeout()),
        (10, seconds(300), Some(seconds(1800)))
    );
    assert_eq!(
        new.backoff(),
        Backoff::exponential(Duration::from_millis(500)).with_cap(seconds(30))
    );
    assert_eq!(
        patient.backoff(),
        Backoff::exponential(seconds(1)).with_cap(seconds(60)).with_jitter(Jitter::Full)
    );
    assert_eq!(RetryPolicy::default(), new);
    assert_eq!(patient.without_total_timeout().total_timeout(), None);
    assert_eq!((new.attempt_timeout(), new.learns_attempt_timeout()), (None, false));
    assert_eq!((patient.attempt_timeout(), patient.learns_attempt_timeout()), (None, false));
    let learned = patient.with_attempt_timeout(seconds(3)).with_learned_attempt_timeout();
    assert_eq!(
        (learned.attempt_timeout(), learned.learns_attempt_timeout()),
        (Some(seconds(3)), true)
    );
}
