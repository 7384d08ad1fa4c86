//! The caller's token.

use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use resile::{Attempt, Backoff, Budget, Event, GaveUp, ManualTimer, RetryPolicy, Stop, Timer, retry};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const POLICY: RetryPolicy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::fixed(SECOND));

fn ended<T>(outcome: Poll<Result<T, GaveUp<Down>>>) -> GaveUp<Down> {
    match outcome {
        Poll::Ready(Err(gave_up)) => gave_up,
        Poll::Ready(Ok(_)) => panic!("succeeded"),
        Poll::Pending => panic!("still pending"),
    }
}

#[test]
fn trap_04_cancellation_races_the_attempt() {
    let (script, timer, token) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new(), CancellationToken::new());
    let told = Mutex::new(Vec::new());
    let mut call = Box::pin(
        retry(|_| script.play(), &POLICY, &token)
            .with_timer(&timer)
            .with_observer(|event: &Event<'_, Down>| told.lock().unwrap().push(event.to_string())),
    );
    while script.starts() < 2 {
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND);
    }
    token.cancel();
    let gave_up = ended(poll(call.as_mut()));
    assert_eq!((gave_up.stop(), gave_up.attempts()), (Stop::Cancelled, 2));
    assert_eq!(gave_up.last(), Some(&Down(1)), "the last error is kept");
    assert_eq!(script.drops(), 2, "the attempt in flight was dropped");
    let failures = told.lock().unwrap().iter().filter(|line| line.contains("failed")).count();
    assert_eq!(failures, 1, "to be cancelled is not to fail");
}

#[test]
fn trap_04_cancellation_races_the_sleep() {
    let (script, timer, token) = (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let budget = Budget::new().with_capacity(3);
    let slow = POLICY.with_backoff(Backoff::fixed(SECOND * 60).with_jitter(resile::Jitter::None));
    let mut call = Box::pin(retry(|_| script.play(), &slow, &token).with_timer(&timer).with_budget(&budget));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((timer.sleepers(), budget.available()), (1, 2), "it waits, and has paid");
    token.cancel();
    let gave_up = ended(poll(call.as_mut()));
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Cancelled, 1, Some(&Down(1))));
    assert_eq!((timer.now(), budget.available(), script.starts()), (Duration::ZERO, 3, 1));
}

/// The runtime's own word: a token that is cancelled wakes the task that waits.
#[tokio::test(start_paused = true)]
async fn cancellation_wakes_whatever_waits() {
    for steps in [&[Step::Hang][..], &[Step::Fail][..]] {
        let (script, token) = (Script::new(steps), CancellationToken::new());
        let slow = POLICY.with_backoff(Backoff::fixed(SECOND * 60).with_jitter(resile::Jitter::None));
        let (before, other) = (tokio::time::Instant::now(), token.clone());
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            other.cancel();
        });
        let gave_up = retry(|_| script.play(), &slow, token).await.unwrap_err();
        assert_eq!((gave_up.stop(), before.elapsed()), (Stop::Cancelled, SECOND));
    }
}

#[test]
fn a_cancelled_token_starts_nothing() {
    let (script, timer, token) = (Script::new(&[Step::Succeed]), ManualTimer::new(), CancellationToken::new());
    token.cancel();
    let gave_up = drive(retry(|_| script.play(), &POLICY, &token).with_timer(&timer), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Cancelled, 0, None));
    assert_eq!(script.starts(), 0);
    assert_eq!(gave_up.to_string(), "gave up after 0 attempts: cancelled");

    let mut run = POLICY.start(&token).with_timer(&timer);
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), script.polls()), (Stop::Cancelled, 0, 0));
}

#[test]
fn a_result_in_hand_beats_the_token() {
    let token = CancellationToken::new();
    let op = |_: Attempt| {
        token.cancel();
        async { Ok::<_, Down>("in hand") }
    };
    let timer = ManualTimer::new();
    assert_eq!(drive(retry(op, &POLICY, &token).with_timer(&timer), &timer), Ok("in hand"));
}

#[test]
fn a_fatal_error_in_hand_beats_the_token() {
    let (token, timer) = (CancellationToken::new(), ManualTimer::new());
    let op = |_: Attempt| {
        token.cancel();
        async { Err::<(), _>(Down(1)) }
    };
    let fatal = POLICY.with_classify(|_: &Down| false);
    let gave_up = drive(retry(op, &fatal, &token).with_timer(&timer), &timer).unwrap_err();
    assert_eq!(gave_up.stop(), Stop::Fatal);
}

/// The token beats the wait, and the retry without one: nothing is paid, told of or started.
#[test]
fn a_token_cancelled_in_an_attempt_that_fails_ends_the_call_there() {
    for policy in [POLICY, POLICY.with_backoff(Backoff::none())] {
        let (token, timer, budget) = (CancellationToken::new(), ManualTimer::new(), Budget::new().with_capacity(100));
        let told = Mutex::new(0);
        let op = |_: Attempt| {
            token.cancel();
            async { Err::<(), _>(Down(1)) }
        };
        let call = retry(op, &policy, &token)
            .with_timer(&timer)
            .with_budget(&budget)
            .with_observer(|_: &Event<'_, Down>| *told.lock().unwrap() += 1);
        let gave_up = drive(call, &timer).unwrap_err();
        assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Cancelled, 1, Some(&Down(1))));
        assert_eq!((timer.now(), budget.available()), (Duration::ZERO, 100));
        assert_eq!(told.into_inner().unwrap(), 2, "failed, gave up");
    }
}

/// Between the end of the delay and the next attempt the token is asked again.
#[test]
fn a_token_cancelled_as_the_delay_ends_starts_nothing() {
    let (script, timer, token) = (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let mut call = Box::pin(retry(|_| script.play(), &POLICY, &token).with_timer(&timer));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND);
    token.cancel();
    assert_eq!(ended(poll(call.as_mut())).stop(), Stop::Cancelled);
    assert_eq!(script.starts(), 1);
}
