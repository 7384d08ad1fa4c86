//! The cancellation token of a call.
//!
//! Tests named `trap_04_…` stand for point 4 of the section "The behaviour" in `COMPARE.md`.

use std::sync::{LazyLock, Mutex};
use std::task::Poll;
use std::time::Duration;

use resile::cancel::Cancel;
use resile::observe::{Event, EventKind, Observe};
use resile::time::{ManualTimer, Timer};
use resile::{Attempt, Backoff, Budget, Drain, GaveUp, Never, RetryPolicy, Run, StopReason, retry};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
const POLICY: RetryPolicy =
    RetryPolicy::new().with_attempts(5).with_backoff(Backoff::fixed(SECOND));

fn ended<T>(outcome: Poll<Result<T, GaveUp<Down>>>) -> GaveUp<Down> {
    match outcome {
        Poll::Ready(Err(gave_up)) => gave_up,
        Poll::Ready(Ok(_)) => panic!("succeeded"),
        Poll::Pending => panic!("still pending"),
    }
}

#[test]
fn trap_04_cancellation_ends_an_attempt_in_flight() {
    let (script, timer, token) =
        (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new(), CancellationToken::new());
    let events = Mutex::new(Vec::new());
    let (upstream, observer) =
        (upstream(&timer), |event: &Event<'_>| events.lock().unwrap().push(event.kind.as_str()));
    let mut call =
        Box::pin(retry(|_| script.play(), &POLICY, &token).on(upstream.observed_by(&observer)));
    while script.starts() < 2 {
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND);
    }
    token.cancel();
    let gave_up = ended(poll(call.as_mut()));
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 2));
    assert_eq!(gave_up.last(), Some(&Down(1)), "the last error is kept");
    assert_eq!(script.drops(), 2, "the attempt in flight was dropped");
    let failures = events.lock().unwrap().iter().filter(|kind| **kind == "failed").count();
    assert_eq!(failures, 1, "a cancelled attempt is not reported as failed");
}

#[test]
fn trap_04_cancellation_ends_a_delay() {
    let (script, timer, token) =
        (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let upstream = upstream(&timer).with_budget(Budget::new().with_capacity(3));
    let budget = upstream.budget().unwrap();
    let slow = POLICY.with_backoff(Backoff::fixed(SECOND * 60).with_jitter(resile::Jitter::None));
    let mut call = Box::pin(retry(|_| script.play(), &slow, &token).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(
        (timer.sleepers(), budget.available()),
        (1, 2),
        "the call waits and holds a budget token"
    );
    token.cancel();
    let gave_up = ended(poll(call.as_mut()));
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Cancelled, 1, Some(&Down(1)))
    );
    assert_eq!((timer.now(), budget.available(), script.starts()), (Duration::ZERO, 3, 1));
}

/// A cancelled token wakes the waiting task in a real runtime.
#[tokio::test(start_paused = true)]
async fn cancellation_wakes_a_waiting_task() {
    for steps in [&[Step::Hang][..], &[Step::Fail][..]] {
        let (script, token) = (Script::new(steps), CancellationToken::new());
        let slow =
            POLICY.with_backoff(Backoff::fixed(SECOND * 60).with_jitter(resile::Jitter::None));
        let (before, other) = (tokio::time::Instant::now(), token.clone());
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            other.cancel();
        });
        let gave_up = retry(|_| script.play(), &slow, token).await.unwrap_err();
        assert_eq!((gave_up.reason(), before.elapsed()), (StopReason::Cancelled, SECOND));
    }
}

#[test]
fn a_cancelled_token_starts_nothing() {
    let (script, timer, token) =
        (Script::new(&[Step::Succeed]), ManualTimer::new(), CancellationToken::new());
    token.cancel();
    let gave_up =
        drive(retry(|_| script.play(), &POLICY, &token).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Cancelled, 0, None)
    );
    assert_eq!(script.starts(), 0);
    assert_eq!(gave_up.to_string(), "script: gave up after 0 attempts, cancelled");

    let mut run = Run::new(&POLICY, &token).on(clock(&timer));
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.polls()),
        (StopReason::Cancelled, 0, 0)
    );
}

#[test]
fn a_ready_success_takes_precedence_over_the_token() {
    let token = CancellationToken::new();
    let op = |_: Attempt| {
        token.cancel();
        async { Ok::<_, Down>("in hand") }
    };
    let timer = ManualTimer::new();
    assert_eq!(drive(retry(op, &POLICY, &token).on(clock(&timer)), &timer).unwrap(), "in hand");
}

#[test]
fn a_ready_fatal_error_takes_precedence_over_the_token() {
    let (token, timer) = (CancellationToken::new(), ManualTimer::new());
    let op = |_: Attempt| {
        token.cancel();
        async { Err::<(), _>(Down(1)) }
    };
    let fatal = POLICY.with_classifier(|_: &Down| false);
    let gave_up = drive(retry(op, &fatal, &token).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Fatal);
}

/// The token is checked before any retry, with a delay or without. Nothing is paid, reported or
/// started for that retry.
#[test]
fn a_token_cancelled_during_a_failing_attempt_allows_no_retry() {
    for policy in [POLICY, POLICY.with_backoff(Backoff::none())] {
        let (token, timer) = (CancellationToken::new(), ManualTimer::new());
        let upstream = upstream(&timer).with_budget(Budget::new().with_capacity(100));
        let events = Mutex::new(Vec::new());
        let op = |_: Attempt| {
            token.cancel();
            async { Err::<(), _>(Down(1)) }
        };
        let observer = |event: &Event<'_>| events.lock().unwrap().push(event.kind.as_str());
        let call = retry(op, &policy, &token).on(upstream.observed_by(&observer));
        let gave_up = drive(call, &timer).unwrap_err();
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), gave_up.last()),
            (StopReason::Cancelled, 1, Some(&Down(1)))
        );
        assert_eq!((timer.now(), upstream.budget().unwrap().available()), (Duration::ZERO, 100));
        assert_eq!(events.into_inner().unwrap(), ["started", "failed", "gave_up"]);
    }
}

/// An observer that cancels the token at a retry. After that it may want no more events.
struct Stopping<'t> {
    token: &'t CancellationToken,
    stays: bool,
}

impl Observe for Stopping<'_> {
    fn is_enabled(&self) -> bool {
        self.stays || !self.token.is_cancelled()
    }

    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Waiting { .. } = event.kind {
            self.token.cancel();
        }
    }
}

#[test]
fn a_token_cancelled_by_an_observer_allows_no_retry() {
    for policy in [POLICY, POLICY.with_backoff(Backoff::none())] {
        for stays in [true, false] {
            let (script, timer, token) =
                (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
            let upstream = upstream(&timer).with_budget(Budget::new().with_capacity(9));
            let observer = Stopping { token: &token, stays };
            let call =
                retry(|_| script.play(), &policy, &token).on(upstream.observed_by(&observer));
            let gave_up = drive(call, &timer).unwrap_err();
            assert_eq!(
                (gave_up.reason(), gave_up.attempts(), gave_up.last()),
                (StopReason::Cancelled, 1, Some(&Down(1))),
                "stays: {stays}"
            );
            assert_eq!((script.starts(), upstream.budget().unwrap().available()), (1, 9));
        }
    }
}

#[test]
fn a_token_cancelled_by_the_classifier_or_the_backoff_allows_no_retry() {
    static BY_BACKOFF: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
    let (timer, by_classifier) = (ManualTimer::new(), CancellationToken::new());
    let backoff = POLICY.with_backoff(Backoff::custom(|_| {
        BY_BACKOFF.cancel();
        Duration::ZERO
    }));
    let classifier = POLICY.with_backoff(Backoff::none()).with_classifier(|_: &Down| {
        by_classifier.cancel();
        true
    });
    let fail = |_| async { Err::<(), _>(Down(1)) };
    let by_backoff = drive(retry(fail, backoff, &*BY_BACKOFF).on(clock(&timer)), &timer);
    let by_classifier = drive(retry(fail, classifier, &by_classifier).on(clock(&timer)), &timer);
    for gave_up in [by_backoff.unwrap_err(), by_classifier.unwrap_err()] {
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 1));
    }
}

/// The token is checked again after the delay and before the next attempt.
#[test]
fn a_token_cancelled_as_the_delay_ends_starts_nothing() {
    let (script, timer, token) =
        (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let mut call = Box::pin(retry(|_| script.play(), &POLICY, &token).on(clock(&timer)));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND);
    token.cancel();
    assert_eq!(ended(poll(call.as_mut())).reason(), StopReason::Cancelled);
    assert_eq!(script.starts(), 1);
}

/// A drain ends waits and starts no attempt. An attempt in flight continues to its own end.
#[test]
fn a_drain_does_not_cancel_the_attempt_in_flight() {
    for (steps, outcome) in [
        (&[Step::Pend(3, true)][..], Ok(1)),
        (&[Step::Pend(3, false)], Err((StopReason::Cancelled, 1, Some(Down(1))))),
    ] {
        let (script, timer, token) =
            (Script::new(steps), ManualTimer::new(), CancellationToken::new());
        let mut call = Box::pin(retry(|_| script.play(), &POLICY, Drain(&token)).on(clock(&timer)));
        assert!(poll(call.as_mut()).is_pending());
        token.cancel();
        let ended = drive(call.as_mut(), &timer);
        let ended = ended
            .map_err(|gave_up| (gave_up.reason(), gave_up.attempts(), gave_up.last().copied()));
        assert_eq!((ended, script.polls(), timer.now()), (outcome, 4, Duration::ZERO));
    }
}

/// The timeouts of the policy still apply to an attempt during a drain.
#[test]
fn timeouts_still_cut_an_attempt_during_a_drain() {
    let policy = POLICY.with_attempt_timeout(SECOND * 2);
    for (policy, reason) in
        [(policy, StopReason::Cancelled), (policy.with_total_timeout(SECOND), StopReason::Deadline)]
    {
        let (script, timer, token) =
            (Script::new(&[Step::Hang]), ManualTimer::new(), CancellationToken::new());
        let mut call = Box::pin(retry(|_| script.play(), policy, Drain(&token)).on(clock(&timer)));
        assert!(poll(call.as_mut()).is_pending());
        token.cancel();
        let gave_up = drive(call.as_mut(), &timer).unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts(), script.drops()), (reason, 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_waits_and_starts_nothing() {
    let slow = POLICY.with_backoff(Backoff::fixed(SECOND * 60).with_jitter(resile::Jitter::None));
    let (script, token, began) =
        (Script::new(&[Step::Fail]), CancellationToken::new(), tokio::time::Instant::now());
    let stop = async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    };
    let mut run = Run::new(&slow, Drain(&token));
    assert_eq!(run.attempt(script.play()).await.unwrap(), None);
    let (called, ran, ()) =
        tokio::join!(retry(|_| script.play(), &slow, Drain(&token)), run.next(), stop);
    for gave_up in [called.unwrap_err(), ran.unwrap_err()] {
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 1));
    }
    assert_eq!((began.elapsed(), script.starts()), (SECOND, 2));

    let gave_up = retry(|_| script.play(), &slow, Drain(token.clone())).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.starts()),
        (StopReason::Cancelled, 0, 2)
    );
}

/// An `Option` of a token is a token.
#[test]
fn only_a_token_that_is_some_cancels() {
    let token = CancellationToken::new();
    let some = [Some(token.clone()), None];
    let [given, none] = some.each_ref().map(Option::as_ref);
    assert!(!Cancel::is_cancelled(&given) && given.cancelled().is_some() && given.stops_attempts());
    token.cancel();
    assert!(Cancel::is_cancelled(&given) && Cancel::is_cancelled(&Drain(given)));
    assert!(!Cancel::is_cancelled(&none) && none.cancelled().is_none());
    assert!(!Drain(given).stops_attempts() && !Some(Drain(Never)).stops_attempts());
    assert!(Never.cancelled().is_none() && Some(Never).cancelled().is_none());

    for (token, reason) in [(given, StopReason::Cancelled), (none, StopReason::Attempts)] {
        let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
        let gave_up =
            drive(retry(|_| script.play(), &POLICY, token).on(clock(&timer)), &timer).unwrap_err();
        assert_eq!(gave_up.reason(), reason);
    }
}
