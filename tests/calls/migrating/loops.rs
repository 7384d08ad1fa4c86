//! A loop by hand and its call: the end of the call, its limits, and an error that is handled at once.

use std::future::ready;
use std::time::Duration;

use resile::classify::Cut;
use resile::time::{ManualTimer, Timer};
use resile::{Attempt, Backoff, GaveUp, Jitter, Never, RetryPolicy, StopReason, Verdict, retry};

use super::{SECOND, failing};
use crate::script::{Down, Script, Step, clock, drive};

/// The error of the program for an attempt that was cut.
const TIMEOUT: Down = Down(0);

/// Returns the error of the program, as the chapter does.
fn own(gave_up: GaveUp<Down>) -> Down {
    match gave_up.cut() {
        Some(_) => TIMEOUT,
        None => gave_up.into_last().unwrap_or(TIMEOUT),
    }
}

fn ended(steps: &'static [Step], policy: RetryPolicy) -> GaveUp<Down> {
    let (script, timer) = (Script::new(steps), ManualTimer::new());
    let call = retry(|_| script.play(), policy.with_classifier(|_: &Down| true), Never);
    drive(call.on(clock(&timer)), &timer).unwrap_err()
}

/// The reason says why no further attempt came. The error is that of an earlier attempt.
#[test]
fn a_cut_last_attempt_is_a_timeout_of_the_program() {
    let two = RetryPolicy::new().with_attempts(2);
    let policy = two.with_attempt_timeout(SECOND);
    let gave_up = ended(&[Step::Fail, Step::Hang], policy);
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND)));
    assert_eq!(gave_up.last(), Some(&Down(1)));
    assert_eq!(own(gave_up), TIMEOUT);
    let gave_up = ended(&[Step::Fail, Step::Hang], two.with_total_timeout(SECOND));
    assert_eq!(gave_up.cut(), Some(Cut::Deadline));
    assert_eq!(own(gave_up), TIMEOUT);

    let gave_up = ended(&[Step::Hang, Step::Fail], policy);
    assert_eq!((gave_up.cut(), own(gave_up)), (None, Down(2)));
    assert_eq!(own(ended(&[Step::Hang], policy)), TIMEOUT);
}

/// `with_total_delay` of backon makes the last attempt if the delays together are not above its limit.
#[test]
fn a_delay_that_ends_at_the_total_timeout_does_not_begin() {
    let policy = RetryPolicy::new()
        .with_attempts(u32::MAX)
        .with_backoff(Backoff::fixed(Duration::from_millis(250)));
    for (limit, attempts) in [(SECOND, 4), (SECOND + Duration::from_millis(1), 5)] {
        let (_, gave_up) = failing(policy.with_total_timeout(limit), Verdict::transient());
        assert_eq!((gave_up.attempts(), gave_up.reason()), (attempts, StopReason::Deadline));
        // No time is left for the delay, and no attempt was cut.
        assert_eq!((gave_up.cut(), gave_up.last()), (None, Some(&"busy")));
    }
}

#[test]
fn a_hint_has_a_random_part_unless_the_policy_says_none() {
    let hint = 3 * SECOND;
    let backoff = Backoff::exponential(Duration::from_millis(100));
    let policy = RetryPolicy::new().with_attempts(4).with_backoff(backoff);
    let (waits, _) = failing(policy, Verdict::transient().after(hint));
    assert!(waits.iter().all(|wait| *wait >= hint), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait > hint), "{waits:?}");
    let exact = policy.with_backoff(backoff.with_jitter(Jitter::None));
    assert_eq!(failing(exact, Verdict::transient().after(hint)).0, [hint; 3]);
}

/// The operation refreshes its token and sends again, so the policy sees one attempt without a delay.
#[test]
fn an_error_that_is_handled_within_the_operation_has_no_delay() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Succeed]), ManualTimer::new());
    let operation = async |attempt: Attempt| {
        assert!(attempt.is_first());
        match script.play().await {
            Err(Down(1)) => {
                ready(()).await; // the new token
                script.play().await
            }
            other => other,
        }
    };
    let call = retry(operation, RetryPolicy::new(), Never);
    assert_eq!(drive(call.on(clock(&timer)), &timer), Ok(2));
    assert_eq!(timer.now(), Duration::ZERO);
}
