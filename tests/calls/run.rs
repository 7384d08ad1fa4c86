//! `Run`: the loop is the caller's own.

use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use resile::observe::Event;
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, Budget, GaveUp, Never, RetryPolicy, Run, StopReason, Upstream};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy = RetryPolicy::new()
    .with_attempts(5)
    .with_backoff(Backoff::fixed(SECOND).with_jitter(resile::Jitter::None));

static TWICE: &[Step] = &[Step::Fail, Step::Fail, Step::Succeed];

/// An operation that borrows its own state.
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

/// Creates an upstream with this many budget tokens.
fn paid(timer: &ManualTimer, tokens: u32) -> Upstream<ManualTimer> {
    upstream(timer).with_budget(Budget::new().with_capacity(tokens).with_deposit(1.0))
}

fn tokens(upstream: &Upstream<ManualTimer>) -> u32 {
    upstream.budget().unwrap().available()
}

/// The facts of a call that gave up, in a form that can be compared.
type End = (StopReason, u32, Duration, Option<Down>, Option<Duration>);

fn end(gave_up: &GaveUp<Down>) -> End {
    (
        gave_up.reason(),
        gave_up.attempts(),
        gave_up.elapsed(),
        gave_up.last().copied(),
        gave_up.retry_after(),
    )
}

/// The three ways to drive a run have the same outcome, times, spent tokens and events.
#[test]
fn attempt_next_and_blocking_next_agree() {
    let by = |way: u8, steps| {
        let (script, timer) = (Script::new(steps), ManualTimer::new());
        let (upstream, events) = (paid(&timer, 100), Mutex::new(Vec::new()));
        let observer = |event: &Event<'_>| events.lock().unwrap().push(event.to_string());
        let mut agent = Agent { script: &script, turns: 0 };
        let mut run = Run::new(&STEADY, Never).on(upstream.observed_by(&observer));
        let outcome: Result<u32, GaveUp<Down>> = drive(
            async {
                loop {
                    if way == 0 {
                        if let Some(value) = run.attempt(agent.turn()).await? {
                            return Ok(value);
                        }
                        continue;
                    }
                    let attempt = if way == 1 { run.next().await? } else { run.blocking_next()? };
                    assert_eq!(attempt.number(), agent.turns + 1);
                    match agent.turn().await {
                        Ok(value) => return Ok(run.succeeded(value)),
                        Err(error) => run.failed(error)?,
                    }
                }
            },
            &timer,
        );
        let outcome = outcome.map_err(|gave_up| end(&gave_up));
        (outcome, agent.turns, timer.now(), tokens(&upstream), events.into_inner().unwrap())
    };
    for steps in [TWICE, &[Step::Fail], &[Step::Succeed]] {
        let (first, second, third) = (by(0, steps), by(1, steps), by(2, steps));
        assert_eq!(first, second);
        assert_eq!(second, third);
    }
    let (outcome, turns, elapsed, left, events) = by(0, TWICE);
    assert_eq!((outcome, turns, elapsed, left), (Ok(3), 3, SECOND * 2, 99));
    assert_eq!(events.last().unwrap(), "script: attempt 3 of 5 succeeded");
    let (outcome, turns, elapsed, left, _) = by(1, &[Step::Fail]);
    assert_eq!(outcome, Err((StopReason::Attempts, 5, SECOND * 4, Some(Down(5)), None)));
    assert_eq!((turns, elapsed, left), (5, SECOND * 4, 96));
}

#[test]
fn the_total_timeout_counts_from_the_creation_of_the_run() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let policy = STEADY.with_total_timeout(SECOND * 10);
    let mut run = Run::new(policy, Never).on(clock(&timer));
    timer.advance(SECOND * 4);
    assert_eq!(drive(run.attempt(script.play()), &timer).unwrap(), None);
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!(end(&gave_up), (StopReason::Deadline, 2, SECOND * 10, Some(Down(1)), None));
    assert_eq!((timer.now(), script.drops()), (SECOND * 10, 2));
}

#[test]
fn the_token_ends_an_attempt_and_a_wait() {
    for (steps, failures) in [(&[Step::Hang][..], 0), (&[Step::Fail], 1)] {
        let (script, timer, token) =
            (Script::new(steps), ManualTimer::new(), CancellationToken::new());
        let upstream = paid(&timer, 100);
        let mut run = Run::new(&STEADY, &token).on(&upstream);
        for _ in 0..failures {
            assert_eq!(drive(run.attempt(script.play()), &timer).unwrap(), None);
        }
        let mut attempt = Box::pin(run.attempt(script.play()));
        assert!(poll(attempt.as_mut()).is_pending());
        assert_eq!(
            (tokens(&upstream), timer.sleepers()),
            (100 - failures, usize::from(failures > 0))
        );
        token.cancel();
        let Poll::Ready(Err(gave_up)) = poll(attempt.as_mut()) else {
            panic!("the call did not end")
        };
        drop(attempt);
        assert_eq!(
            end(&gave_up),
            (StopReason::Cancelled, 1, Duration::ZERO, (failures > 0).then_some(Down(1)), None)
        );
        assert_eq!((script.drops(), script.begun(), tokens(&upstream)), (1 + failures, 1, 100));
    }
}

#[test]
fn the_token_ends_the_wait_of_next() {
    let (timer, token) = (ManualTimer::new(), CancellationToken::new());
    let upstream = paid(&timer, 100);
    let mut run = Run::new(&STEADY, &token).on(&upstream);
    drive(run.next(), &timer).unwrap();
    run.failed(Down(1)).unwrap();
    let mut next = Box::pin(run.next());
    assert!(poll(next.as_mut()).is_pending());
    assert_eq!(tokens(&upstream), 99);
    token.cancel();
    let Poll::Ready(Err(gave_up)) = poll(next.as_mut()) else { panic!("the call did not end") };
    drop(next);
    assert_eq!(
        (gave_up.reason(), gave_up.last(), tokens(&upstream)),
        (StopReason::Cancelled, Some(&Down(1)), 100),
        "the token returns at the end of the call, before the run is dropped"
    );
    drop(run);
}

/// Each attempt counts once if the ways to drive a run are mixed.
#[test]
fn the_ways_to_drive_a_run_can_be_mixed() {
    let timer = ManualTimer::new();
    let upstream = paid(&timer, 100);
    let mut run = Run::new(&STEADY, Never).on(&upstream);
    let step = |outcome| async move { outcome };
    assert_eq!((run.attempts(), tokens(&upstream)), (0, 100));
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(1)))), &timer).unwrap(), None);
    assert_eq!(
        (run.attempts(), tokens(&upstream), timer.now()),
        (1, 99, Duration::ZERO),
        "the token is spent before the delay"
    );
    assert_eq!(drive(run.next(), &timer).unwrap().number(), 2);
    assert_eq!((run.attempts(), timer.now()), (2, SECOND), "the next attempt waits for the delay");
    run.failed(Down(2)).unwrap();
    assert_eq!((run.attempts(), tokens(&upstream)), (2, 98));
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(3)))), &timer).unwrap(), None);
    assert_eq!((run.attempts(), tokens(&upstream)), (3, 97));
    assert_eq!(run.blocking_next().unwrap().number(), 4);
    run.failed(Down(4)).unwrap();
    assert_eq!((run.attempts(), tokens(&upstream)), (4, 96));
    assert_eq!(drive(run.next(), &timer).unwrap().number(), 5);
    let gave_up = run.failed(Down(5)).unwrap_err();
    assert_eq!(end(&gave_up), (StopReason::Attempts, 5, SECOND * 4, Some(Down(5)), None));
    assert_eq!((timer.now(), tokens(&upstream)), (SECOND * 4, 96));

    let mut run = Run::new(&STEADY, Never).on(&upstream);
    assert_eq!(drive(run.attempt(step(Err::<(), _>(Down(1)))), &timer).unwrap(), None);
    assert_eq!(drive(run.next(), &timer).unwrap().number(), 2);
    let () = run.succeeded(());
    assert_eq!(tokens(&upstream), 96, "the retry spent a token and its success deposits one");
}

/// A caller may drop hanging attempts and go on. The dropped attempts count, and each retry spends
/// a token.
#[test]
fn attempts_dropped_in_flight_count_and_spend_tokens() {
    for by_hand in [true, false] {
        let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
        let upstream = paid(&timer, 100);
        let mut run = Run::new(&STEADY, Never).on(&upstream);
        for attempt in 1..=5 {
            if by_hand {
                assert_eq!(drive(run.next(), &timer).unwrap().number(), attempt);
                assert!(poll(Box::pin(script.play()).as_mut()).is_pending());
            } else {
                assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
            }
            assert_eq!((run.attempts(), tokens(&upstream)), (attempt, 101 - attempt));
        }
        let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
        assert_eq!(
            (gave_up.reason(), gave_up.attempts(), script.polls()),
            (StopReason::Attempts, 5, 5)
        );

        let upstream = paid(&timer, 1);
        let mut run = Run::new(&STEADY, Never).on(&upstream);
        for reason in [None, None, Some(StopReason::Budget)] {
            let Poll::Ready(outcome) = poll(Box::pin(run.attempt(script.play())).as_mut()) else {
                assert_eq!(reason, None);
                continue;
            };
            assert_eq!(outcome.map_err(|gave_up| Some(gave_up.reason())), Err(reason));
        }
    }
}

/// A wait that is dropped goes on: the delay keeps its end, and its retry spends one token.
#[test]
fn a_retry_after_a_dropped_wait_spends_one_token_and_still_waits() {
    for by_hand in [true, false] {
        let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
        let upstream = paid(&timer, 1);
        let mut run = Run::new(&STEADY, Never).on(&upstream);
        assert_eq!(drive(run.attempt(script.play()), &timer).unwrap(), None);
        for _ in 0..3 {
            if by_hand {
                assert!(poll(Box::pin(run.next()).as_mut()).is_pending());
            } else {
                assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
            }
            assert_eq!(
                (run.attempts(), tokens(&upstream), timer.sleepers()),
                (1, 0, 0),
                "the run keeps the token"
            );
            timer.advance(SECOND / 4);
        }
        timer.advance(SECOND / 4);
        if by_hand {
            let mut next = Box::pin(run.next());
            let Poll::Ready(Ok(attempt)) = poll(next.as_mut()) else { panic!("the delay is over") };
            drop(next);
            assert_eq!((attempt.number(), attempt.delay(), attempt.elapsed()), (2, SECOND, SECOND));
            let gave_up = run.failed(Down(2)).unwrap_err();
            assert_eq!(end(&gave_up), (StopReason::Budget, 2, SECOND, Some(Down(2)), None));
        } else {
            let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
            assert_eq!(
                (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
                (StopReason::Budget, 2, SECOND)
            );
        }
        assert_eq!((tokens(&upstream), timer.now()), (0, SECOND), "the second retry was not made");
    }
}

/// A retry that does not begin costs no token.
#[test]
fn a_run_dropped_between_attempts_returns_its_token() {
    for waits in [false, true] {
        for backoff in [Backoff::none(), STEADY.backoff()] {
            let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
            let (policy, upstream) = (STEADY.with_backoff(backoff), paid(&timer, 100));
            let mut run = Run::new(policy, Never).on(&upstream);
            assert_eq!(drive(run.attempt(script.play()), &timer).unwrap(), None);
            if waits && backoff != Backoff::none() {
                assert!(poll(Box::pin(run.next()).as_mut()).is_pending());
            }
            assert_eq!(tokens(&upstream), 99);
            drop(run);
            assert_eq!((tokens(&upstream), timer.sleepers()), (100, 0), "the retry was not made");
        }
    }
}

/// After progress a long run has all its attempts again, and its delays start from the base again.
#[test]
fn progress_resets_the_attempts_and_the_delays() {
    let (timer, script) = (ManualTimer::new(), Script::new(&[Step::Fail]));
    let backoff = Backoff::exponential(SECOND).with_jitter(resile::Jitter::None);
    let mut run = Run::new(STEADY.with_attempts(3).with_backoff(backoff), Never).on(clock(&timer));
    let mut began = Vec::new();
    for number in 1..=5 {
        let attempt = drive(run.next(), &timer).unwrap();
        assert_eq!(attempt.number(), number);
        began.push(timer.now().as_secs());
        if number == 3 {
            run.progressed();
        }
        run.failed(Down(number)).unwrap();
    }
    assert_eq!(began, [0, 1, 3, 4, 5], "delays of 1 s and 2 s, then of 1 s and 1 s");
    let gave_up = drive(run.attempt(script.play()), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), timer.now()),
        (StopReason::Attempts, 6, SECOND * 7)
    );
}

/// A thread without a runtime waits by itself and is woken by the token.
#[test]
fn blocking_next_waits_and_is_woken_by_the_token() {
    let token = CancellationToken::new();
    let policy =
        STEADY.with_backoff(Backoff::fixed(Duration::MAX).with_jitter(resile::Jitter::None));
    let other = token.clone();
    let (failed, has_failed) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let mut run = Run::new(policy, &token);
        run.blocking_next().unwrap();
        run.failed(Down(1)).unwrap();
        failed.send(()).unwrap();
        run.blocking_next().unwrap_err()
    });
    has_failed.recv().unwrap();
    other.cancel();
    let gave_up = waiting.join().unwrap();
    assert_eq!((gave_up.reason(), gave_up.last()), (StopReason::Cancelled, Some(&Down(1))));
}

/// Instant failures of a run also yield to other tasks.
#[test]
fn instant_failures_of_a_run_yield() {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(Backoff::none());
    for by_hand in [true, false] {
        let mut run = Run::new(policy, Never).on(clock(&timer));
        let made = std::cell::Cell::new(0_u32);
        let mut endless = Box::pin(async {
            loop {
                if by_hand {
                    run.next().await.unwrap();
                    made.set(made.get() + 1);
                    run.failed(Down(1)).unwrap();
                } else {
                    made.set(made.get() + 1);
                    let outcome = async { Err::<(), _>(Down(1)) };
                    assert_eq!(run.attempt(outcome).await.unwrap(), None);
                }
            }
        });
        for polls in 1..=10 {
            assert_eq!(poll(endless.as_mut()), Poll::<()>::Pending);
            assert!(made.get() <= 32 * polls + 1, "{} attempts in {polls} polls", made.get());
        }
    }
}
