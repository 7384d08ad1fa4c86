//! `Run`: the loop in the caller's hands.

use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use resile::{Backoff, Budget, Event, GaveUp, ManualTimer, Never, RetryPolicy, Stop, Timer};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy =
    RetryPolicy::new().with_attempts(5).with_backoff(Backoff::fixed(SECOND).with_jitter(resile::Jitter::None));

static TWICE: &[Step] = &[Step::Fail, Step::Fail, Step::Succeed];

/// An operation that borrows its state.
struct Agent<'s> {
    script: &'s Script,
    turns: u32,
}

impl Agent<'_> {
    async fn turn(&mut self) -> Result<u32, Down> {
        self.turns += 1;
        self.script.play().await
    }
}

/// The three ways to drive a run come to the same: outcome, time, payments and events.
#[test]
fn attempt_again_and_blocking_again_agree() {
    let by = |way: u8, steps| {
        let (script, timer) = (Script::new(steps), ManualTimer::new());
        let (budget, told) = (Budget::new().with_capacity(100).with_deposit(1.0), Mutex::new(Vec::new()));
        let observer = |event: &Event<'_, Down>| told.lock().unwrap().push(event.to_string());
        let mut agent = Agent { script: &script, turns: 0 };
        let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget).with_observer(observer);
        let outcome: Result<u32, GaveUp<Down>> = drive(
            async {
                loop {
                    if way == 0 {
                        if let Some(value) = run.attempt(agent.turn()).await? {
                            return Ok(value);
                        }
                        continue;
                    }
                    match agent.turn().await {
                        Ok(value) => return Ok(run.success(value)),
                        Err(error) if way == 1 => run.again(error).await?,
                        Err(error) => run.blocking_again(error)?,
                    }
                }
            },
            &timer,
        );
        (outcome, agent.turns, timer.now(), budget.available(), told.into_inner().unwrap())
    };
    for steps in [TWICE, &[Step::Fail], &[Step::Succeed]] {
        let (first, second, third) = (by(0, steps), by(1, steps), by(2, steps));
        assert_eq!(first, second);
        assert_eq!(second, third);
    }
    let (outcome, turns, elapsed, left, told) = by(0, TWICE);
    assert_eq!((outcome, turns, elapsed, left), (Ok(3), 3, SECOND * 2, 99));
    assert_eq!(told.last().unwrap(), "recovered on attempt 3");
    let (outcome, turns, elapsed, left, _) = by(1, &[Step::Fail]);
    let gave_up = outcome.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Attempts, 5, Some(&Down(5))));
    assert_eq!((turns, elapsed, left), (5, SECOND * 4, 96));
}

#[test]
fn the_deadline_counts_from_the_start_and_cuts() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let policy = STEADY.with_deadline(SECOND * 10);
    let mut run = policy.start(Never).with_timer(&timer);
    timer.advance(SECOND * 4);
    assert_eq!(drive(run.attempt(script.play()), &timer), Ok(None));
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Deadline, 2, Some(&Down(1))));
    assert_eq!((gave_up.elapsed(), timer.now(), script.drops()), (SECOND * 10, SECOND * 10, 2));
}

#[test]
fn the_token_cuts_the_attempt_and_the_wait() {
    for steps in [&[Step::Hang][..], &[Step::Fail][..]] {
        let (script, timer, token) = (Script::new(steps), ManualTimer::new(), CancellationToken::new());
        let budget = Budget::new().with_capacity(100);
        let mut run = STEADY.start(&token).with_timer(&timer).with_budget(&budget);
        let mut attempt = Box::pin(run.attempt(script.play()));
        assert!(poll(attempt.as_mut()).is_pending());
        token.cancel();
        let Poll::Ready(Err(gave_up)) = poll(attempt.as_mut()) else { panic!("not cut") };
        assert_eq!(
            (gave_up.stop(), gave_up.attempts(), gave_up.last().is_some()),
            (Stop::Cancelled, 1, steps.len() == 1 && matches!(steps[0], Step::Fail))
        );
        assert_eq!((script.drops(), budget.available()), (1, 100));
    }
}

#[test]
fn the_token_cuts_the_wait_of_again() {
    let (timer, token, budget) = (ManualTimer::new(), CancellationToken::new(), Budget::new().with_capacity(100));
    let mut run = STEADY.start(&token).with_timer(&timer).with_budget(&budget);
    let mut again = Box::pin(run.again(Down(1)));
    assert!(poll(again.as_mut()).is_pending());
    assert_eq!(budget.available(), 99);
    token.cancel();
    let Poll::Ready(Err(gave_up)) = poll(again.as_mut()) else { panic!("not cut") };
    assert_eq!((gave_up.stop(), gave_up.last(), budget.available()), (Stop::Cancelled, Some(&Down(1)), 100));
}

/// Mixed ways count each attempt once.
#[test]
fn the_ways_mix() {
    let (timer, budget) = (ManualTimer::new(), Budget::new().with_capacity(100));
    let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget);
    let step = |outcome| async move { outcome };
    assert_eq!((run.attempts(), budget.available()), (0, 100));
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(1)))), &timer), Ok(None));
    assert_eq!(run.attempts(), 1);
    assert_eq!(drive(run.again(Down(2)), &timer), Ok(()));
    assert_eq!((run.attempts(), budget.available()), (3, 98), "the second was made, the third is about to be");
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(3)))), &timer), Ok(None));
    assert_eq!(run.attempts(), 3);
    assert_eq!(run.blocking_again(Down(4)), Ok(()));
    assert_eq!((run.attempts(), budget.available()), (5, 96));
    assert_eq!(drive(run.again(Down(5)), &timer).unwrap_err().stop(), Stop::Attempts);

    let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget);
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(1)))), &timer), Ok(None));
    let () = run.success(());
    assert_eq!(budget.available(), 95, "the retry that succeeded was made, and so paid");
}

/// A caller who drops what hangs, and goes on, has no more attempts for that, and none of them free.
#[test]
fn attempts_dropped_in_flight_count_and_are_paid() {
    let (script, timer, budget) = (Script::new(&[Step::Hang]), ManualTimer::new(), Budget::new().with_capacity(100));
    let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget);
    for attempt in 1..=5 {
        assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
        assert_eq!((run.attempts(), budget.available()), (attempt, 101 - attempt));
    }
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), script.polls()), (Stop::Attempts, 5, 5));

    let budget = Budget::new().with_capacity(1);
    let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget);
    for stop in [None, None, Some(Stop::Budget)] {
        let Poll::Ready(outcome) = poll(Box::pin(run.attempt(script.play())).as_mut()) else { continue };
        assert_eq!(outcome.map_err(|gave_up| Some(gave_up.stop())), Err(stop));
    }
}

#[test]
fn a_retry_after_a_wait_that_was_dropped_is_paid() {
    for by_hand in [true, false] {
        let (script, timer, budget) = (Script::new(&[Step::Fail]), ManualTimer::new(), Budget::new().with_capacity(1));
        let mut run = STEADY.start(Never).with_timer(&timer).with_budget(&budget);
        if by_hand {
            assert!(poll(Box::pin(run.again(Down(1))).as_mut()).is_pending());
        } else {
            assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
        }
        assert_eq!(budget.available(), 1, "given back with the wait");
        let gave_up = if by_hand {
            drive(run.again(Down(2)), &timer).unwrap_err()
        } else {
            drive(run.attempt(script.play()), &timer).unwrap_err()
        };
        assert_eq!((gave_up.stop(), gave_up.attempts(), budget.available()), (Stop::Budget, 2, 0));
    }
}

/// A retry without a delay that is waited for is paid once, whichever way it begins.
#[test]
fn a_run_that_ends_between_attempts_owes_nothing() {
    let (script, timer, budget) = (Script::new(&[Step::Fail]), ManualTimer::new(), Budget::new().with_capacity(100));
    for backoff in [Backoff::none(), STEADY.backoff()] {
        let policy = STEADY.with_backoff(backoff);
        let mut run = policy.start(Never).with_timer(&timer).with_budget(&budget);
        assert_eq!(drive(run.attempt(script.play()), &timer), Ok(None));
        assert_eq!(budget.available(), 99);
        drop(run);
        assert_eq!(budget.available(), 100, "the retry was not made");
    }
}

/// A thread without a runtime: it waits on its own, and wakes for the token.
#[test]
fn blocking_again_waits_and_wakes() {
    let token = CancellationToken::new();
    let policy = STEADY.with_backoff(Backoff::fixed(Duration::MAX).with_jitter(resile::Jitter::None));
    let other = token.clone();
    let waiting = std::thread::spawn(move || policy.start(&token).blocking_again(Down(1)).unwrap_err());
    other.cancel();
    let gave_up = waiting.join().unwrap();
    assert_eq!((gave_up.stop(), gave_up.last()), (Stop::Cancelled, Some(&Down(1))));
}

/// Instant failures let other tasks have their turn here too.
#[test]
fn a_row_of_instant_failures_yields() {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(Backoff::none());
    for by_hand in [true, false] {
        let mut run = policy.start(Never).with_timer(&timer);
        let made = std::cell::Cell::new(0_u32);
        let mut endless = Box::pin(async {
            loop {
                made.set(made.get() + 1);
                let outcome = async { Err::<(), _>(Down(1)) };
                if by_hand {
                    run.again(Down(1)).await.unwrap();
                } else {
                    assert_eq!(run.attempt(outcome).await, Ok(None));
                }
            }
        });
        for polls in 1..=10 {
            assert_eq!(poll(endless.as_mut()), Poll::<()>::Pending);
            assert!(made.get() <= 32 * polls + 1, "{} attempts in {polls} polls", made.get());
        }
    }
}
