//! What the program counts itself, in the classifier of each call or by the number of the attempt.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use resile::classify::ClassifyExt;
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Jitter, Never, ResilienceExt, RetryPolicy, StopReason, Verdict, retry,
};

use super::loops::delays;
use super::{BACKON, OLD, SECOND, failing};
use crate::script::{Down, Script, Step, clock, drive};

const BASE: Duration = Duration::from_millis(100);

const EXACT: RetryPolicy =
    RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none().with_jitter(Jitter::None));

/// Doubles the delay after each error.
fn grown(errors: &AtomicU32) -> Duration {
    BASE * 2_u32.pow(errors.fetch_add(1, SeqCst))
}

/// Each delay is the base of the verdict, or zero.
pub(super) const GIVEN: Backoff = Backoff::exponential(Duration::ZERO)
    .with_factor(1.0)
    .with_cap(Duration::MAX)
    .with_jitter(Jitter::None);

/// `adjust` of backon, or a loop that takes the wait of the server. The curve goes on below it.
#[test]
fn a_wait_replaces_a_longer_delay_of_the_curve() {
    let told = |error| match error {
        2 => Verdict::throttled().after(Duration::from_millis(10)),
        _ => Verdict::transient(),
    };
    let curve = EXACT.with_backoff(Backoff::exponential(BASE).with_jitter(Jitter::None));
    let replaced = curve.with_throttled_backoff(Backoff::none().with_jitter(Jitter::None));
    assert_eq!(delays(replaced, told), [100, 10, 400, 800]);
    // With the curve alone the wait is a minimum.
    assert_eq!(delays(curve, told), [100, 200, 400, 800]);
}

/// `adjust` of backon that makes each drawn delay at least a floor.
#[test]
fn a_floor_under_drawn_delays_is_custom() {
    const CURVE: Backoff = Backoff::exponential(Duration::from_millis(200))
        .with_cap(Duration::from_secs(2))
        .with_jitter(Jitter::Equal);
    let f = |n| CURVE.delay(n, Duration::ZERO, rand::random_range);
    let policy = RetryPolicy::new().with_attempts(6);
    let exact = policy.with_backoff(Backoff::custom(f).with_jitter(Jitter::None));
    let floor = Duration::from_millis(600);
    let waits = failing(exact, Verdict::transient().at_least(floor)).0;
    // The first two draws are at most 200 and 400 ms.
    assert_eq!(waits[..2], [floor; 2]);
    for (retry, wait) in (1..).zip(waits) {
        let (low, high) = OLD.bounds(retry, BACKON);
        assert!((low.max(floor)..=high.max(floor)).contains(&wait), "{retry}: {wait:?}");
    }
    // Without jitter the floor needs no function.
    let plain = policy.with_backoff(CURVE.with_jitter(Jitter::None));
    assert_eq!(
        delays(plain, |_| Verdict::transient().at_least(floor)),
        [600, 600, 800, 1600, 2000]
    );
}

/// A base is not a wait. So the end of the call recommends no wait, and no hint cap ends it.
#[test]
fn a_delay_that_the_program_computes_is_not_a_wait_of_the_next_call() {
    let end = |policy: RetryPolicy, verdict: Verdict| {
        let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
        let policy = policy.with_attempts(3).with_classifier(move |_: &Down| verdict);
        let call = retry(|_| script.play(), policy, Never).on(clock(&timer));
        let gave_up = drive(call, &timer).unwrap_err();
        (timer.now(), gave_up.reason(), gave_up.retry_after(), gave_up.to_string())
    };
    let (given, hour) = (EXACT.with_backoff(GIVEN), SECOND * 3600);
    let (elapsed, reason, retry_after, words) = end(given, Verdict::transient().with_base(hour));
    assert_eq!((elapsed, reason, retry_after), (2 * hour, StopReason::Attempts, None));
    assert!(!words.contains("next call"), "{words}");
    let at_once = end(given, Verdict::transient());
    assert_eq!((at_once.0, at_once.2), (Duration::ZERO, None));
    // A floor is such a wait.
    let floor = end(EXACT, Verdict::transient().at_least(SECOND));
    assert_eq!((floor.0, floor.2), (2 * SECOND, Some(SECOND)));
    assert!(floor.3.contains(", wait at least 1.0s before the next call"), "{}", floor.3);
}

/// `cut_is` states one verdict. So the timeout belongs into the operation, which makes an error of it.
#[test]
fn a_cut_attempt_is_not_counted() {
    let elapsed = |steps: &'static [Step], policy: RetryPolicy| {
        let (script, timer) = (Script::new(steps), ManualTimer::new());
        let errors = AtomicU32::new(0);
        let counted = |_: &Down| Verdict::transient().with_base(grown(&errors));
        let policy = policy.with_classifier(counted.cut_is(Verdict::transient()));
        let call = retry(|_| script.play(), policy.with_attempt_timeout(SECOND), Never);
        drive(call.on(clock(&timer)), &timer).unwrap();
        (timer.now(), errors.load(SeqCst))
    };
    let once = &[Step::Fail, Step::Hang, Step::Fail, Step::Succeed];
    // 100 ms, no delay after the cut, and 200 ms.
    assert_eq!(elapsed(once, EXACT.with_backoff(GIVEN)), (SECOND + Duration::from_millis(300), 2));
}

/// The policy allows ten attempts. The third error of one kind ends the call before them.
#[test]
fn errors_of_one_kind_have_a_limit_of_their_own() {
    let ended = |is_timeout: fn(&Down) -> bool, end: Verdict| {
        let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
        let timeouts = AtomicU32::new(0);
        let counted = |error: &Down| match error {
            e if is_timeout(e) && timeouts.fetch_add(1, SeqCst) == 2 => end,
            _ => Verdict::transient(),
        };
        let policy = EXACT.with_attempts(10).with_classifier(counted);
        let call = retry(|_| script.play(), policy, Never);
        let gave_up = drive(call.on(clock(&timer)), &timer).unwrap_err();
        (gave_up.attempts(), gave_up.reason(), gave_up.is_in_doubt())
    };
    let write = Verdict::transient().not_again();
    assert_eq!(ended(|_| false, write), (10, StopReason::Attempts, false));
    assert_eq!(ended(|e| e.0 % 2 == 0, write), (6, StopReason::Fatal, true));
    assert_eq!(ended(|e| e.0 % 2 == 0, write.idempotent()), (6, StopReason::Fatal, false));
}

/// The timeout is within the closure. So its end is an error, and the classifier is asked about it.
#[test]
fn a_timeout_within_the_closure_grows_with_the_attempt() {
    let ended = |is_again: bool| {
        let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
        let operation =
            |attempt: Attempt| script.play().timeout(SECOND * attempt.number()).on(clock(&timer));
        let policy = EXACT.with_attempts(3).with_classifier(move |_: &Down| is_again);
        let gave_up = drive(retry(operation, policy, Never).on(clock(&timer)), &timer).unwrap_err();
        (gave_up.attempts(), gave_up.last().copied(), timer.now())
    };
    assert_eq!(ended(true), (3, Some(Down(0)), 6 * SECOND));
    assert_eq!(ended(false), (1, Some(Down(0)), SECOND));
}
