//! A hint of the upstream is a lower bound on the delay before the next attempt.
//!
//! Tests named `trap_02_…` stand for point 2 of the section "The behaviour" in `COMPARE.md`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use resile::time::{ManualTimer, Timer};
use resile::{Attempt, Backoff, GaveUp, Jitter, Never, RetryPolicy, StopReason, Verdict, retry};

use super::script::{Down, Script, Step, clock, drive};

const SECOND: Duration = Duration::from_secs(1);

static DOWN: &[Step] = &[Step::Fail];

/// Creates a policy that reads this hint from every error.
fn hinted(policy: RetryPolicy, hint: Duration) -> RetryPolicy<impl Fn(&Down) -> Verdict + Copy> {
    policy.with_classifier(move |_: &Down| Verdict::throttled().after(hint))
}

/// Calls an operation that always fails. Returns the error, the elapsed time and all attempts.
fn run<C: resile::Classify<Down>>(
    policy: &RetryPolicy<C>,
) -> (GaveUp<Down>, Duration, Vec<Attempt>) {
    run_on(&ManualTimer::new(), policy)
}

fn run_on<C: resile::Classify<Down>>(
    timer: &ManualTimer,
    policy: &RetryPolicy<C>,
) -> (GaveUp<Down>, Duration, Vec<Attempt>) {
    let (script, attempts) = (Script::new(DOWN), Mutex::new(Vec::new()));
    let op = |attempt| {
        attempts.lock().unwrap().push(attempt);
        script.play()
    };
    let gave_up = drive(retry(op, policy, Never).on(clock(timer)), timer).unwrap_err();
    (gave_up, timer.now(), attempts.into_inner().unwrap())
}

#[test]
fn trap_02_a_hint_is_a_lower_bound_and_does_not_reset_the_growth() {
    let growing = RetryPolicy::new()
        .with_attempts(6)
        .with_backoff(Backoff::exponential(SECOND).with_cap(SECOND * 600).with_jitter(Jitter::None))
        .with_classifier(|error: &Down| match error.0 {
            2 => Verdict::transient().after(SECOND * 90),
            4 => Verdict::transient().after(SECOND),
            _ => Verdict::transient(),
        });
    let (_, _, attempts) = run(&growing);
    let delays: Vec<_> = attempts.iter().map(|attempt| attempt.delay().as_secs()).collect();
    assert_eq!(
        delays,
        [0, 1, 90, 4, 8, 16],
        "only the hint of 90 s is longer than the curve's delay, and no hint resets the growth"
    );
}

#[test]
fn trap_02_jitter_only_lengthens_a_hint() {
    // Twenty callers get the same hint. No caller comes early, and no two callers come together.
    let policy =
        hinted(RetryPolicy::new().with_attempts(2).with_hint_cap(SECOND * 600), SECOND * 600);
    let waits: Vec<_> =
        (0..20).map(|seed| run_on(&ManualTimer::with_seed(seed), &policy).1).collect();
    assert!(waits.iter().all(|wait| (SECOND * 600..=SECOND * 660).contains(wait)), "{waits:?}");
    let apart: BTreeSet<_> = waits.iter().map(Duration::as_millis).collect();
    assert!(apart.len() >= 19, "several callers wake together: {waits:?}");
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(last.saturating_sub(*first) > SECOND * 10, "the waits are hardly spread: {waits:?}");
}

#[test]
fn trap_02_a_hint_that_is_too_long_ends_the_call_at_once() {
    let (gave_up, elapsed, _) =
        run(&hinted(RetryPolicy::new().with_hint_cap(SECOND * 10), SECOND * 11));
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), elapsed),
        (StopReason::HintTooLong, 1, Duration::ZERO)
    );
    assert_eq!((gave_up.retry_after(), gave_up.last()), (Some(SECOND * 11), Some(&Down(1))));

    for hint in [SECOND * 10, SECOND * 60, Duration::MAX] {
        let policy =
            RetryPolicy::new().with_total_timeout(SECOND * 10).with_hint_cap(Duration::MAX);
        let (gave_up, elapsed, _) = run(&hinted(policy, hint));
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), elapsed),
            (StopReason::Deadline, 1, Duration::ZERO)
        );
        // The hint is stored in nanoseconds and saturates at 584 years.
        let stored = hint.min(Duration::from_nanos(u64::MAX - 1));
        assert_eq!((gave_up.retry_after(), gave_up.last()), (Some(stored), Some(&Down(1))));
    }
}

#[test]
fn trap_02_hints_obey_the_attempt_limit() {
    let (gave_up, elapsed, attempts) =
        run(&hinted(RetryPolicy::new().with_attempts(4), SECOND * 20));
    assert_eq!((gave_up.reason(), attempts.len()), (StopReason::Attempts, 4));
    assert!((SECOND * 60..SECOND * 70).contains(&elapsed), "{elapsed:?}");
    assert_eq!(gave_up.retry_after(), Some(SECOND * 20), "the last hint was not waited out");
}

/// A hint of zero asks for no wait and is not reported as a hint.
#[test]
fn a_hint_of_zero_is_no_hint() {
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let (gave_up, elapsed, _) = run(&hinted(policy, Duration::ZERO));
    assert_eq!(
        (gave_up.reason(), gave_up.retry_after(), elapsed),
        (StopReason::Attempts, None, Duration::ZERO)
    );
    assert_eq!(gave_up.to_string(), "script: gave up after 3 attempts");
}
