//! The deadline of the whole call.

use std::time::Duration;

use proptest::prelude::*;
use resile::{Backoff, Budget, Jitter, ManualTimer, Never, RetryPolicy, Stop, Timer, retry};

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy = RetryPolicy::new()
    .with_attempts(u32::MAX)
    .with_backoff(Backoff::fixed(Duration::from_secs(4)).with_jitter(Jitter::None));

#[test]
fn trap_03_a_delay_that_does_not_fit_is_not_slept() {
    let (script, timer, budget) = (Script::new(&[Step::Fail]), ManualTimer::new(), Budget::new().with_capacity(100));
    let policy = STEADY.with_deadline(SECOND * 10);
    let call = retry(|_| script.play(), &policy, Never).with_timer(&timer).with_budget(&budget);
    let gave_up = drive(call, &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Deadline, 3, Some(&Down(3))));
    assert_eq!((gave_up.elapsed(), timer.now()), (SECOND * 8, SECOND * 8), "the last four seconds were slept");
    assert_eq!(budget.available(), 98, "two retries were made, and no third was paid");
}

#[test]
fn trap_03_remaining_time_is_taken_after_the_sleep() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let (policy, budget) = (STEADY.with_deadline(SECOND * 10), Budget::new().with_capacity(100));
    let left = std::cell::Cell::new(None);
    let op = |attempt: resile::Attempt| {
        left.set(attempt.remaining());
        script.play()
    };
    let mut call = Box::pin(retry(op, &policy, Never).with_timer(&timer).with_budget(&budget));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND * 5); // a second late
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((script.starts(), left.get()), (2, Some(SECOND * 5)));
    timer.advance(SECOND * 5); // so late that nothing is left
    let gave_up = match poll(call.as_mut()) {
        std::task::Poll::Ready(outcome) => outcome.unwrap_err(),
        std::task::Poll::Pending => panic!("still waiting"),
    };
    assert_eq!((gave_up.stop(), script.starts(), gave_up.last()), (Stop::Deadline, 2, Some(&Down(2))));
    assert_eq!(budget.available(), 99, "the third attempt did not begin, so it is not paid");
}

#[test]
fn trap_03_it_cuts_an_attempt_in_flight_and_keeps_the_last_error() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let policy = STEADY.with_deadline(SECOND * 10);
    let gave_up = drive(retry(|_| script.play(), &policy, Never).with_timer(&timer), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Deadline, 2, Some(&Down(1))));
    assert_eq!((timer.now(), script.drops()), (SECOND * 10, 2));
}

#[test]
fn a_result_in_hand_beats_the_deadline() {
    for (step, outcome) in [(Step::Pend(1, true), Ok(1)), (Step::Pend(1, false), Err(Stop::Fatal))] {
        let steps = Box::leak(Box::new([step]));
        let (script, timer) = (Script::new(steps), ManualTimer::new());
        let policy = RetryPolicy::new().with_deadline(SECOND).with_classify(|_: &Down| false);
        let mut call = Box::pin(retry(|_| script.play(), &policy, Never).with_timer(&timer));
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND * 2);
        assert_eq!(poll(call.as_mut()).map_err(|gave_up| gave_up.stop()), std::task::Poll::Ready(outcome));
    }
}

/// tokio rounds a sleep up to its next millisecond; a deadline of zero must not come to one.
#[tokio::test(start_paused = true)]
async fn a_deadline_of_zero_gives_one_poll() {
    tokio::time::advance(Duration::from_micros(100)).await;
    let (script, policy) = (Script::new(&[Step::Pend(1, true)]), RetryPolicy::new().with_deadline(Duration::ZERO));
    let gave_up = retry(|_| script.play(), &policy, Never).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), script.polls()), (Stop::Deadline, 1, 1));

    let (script, mut run) = (Script::new(&[Step::Pend(1, true)]), policy.start(Never));
    let gave_up = run.attempt(script.play()).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), script.polls()), (Stop::Deadline, 1, 1));

    let script = Script::new(&[Step::Succeed]);
    assert_eq!(retry(|_| script.play(), &policy, Never).await, Ok(1), "one poll was enough");
}

/// An operation that uses up its task's turn in each poll, as one that reads from an always full channel does, must
/// not keep the clock from being asked.
#[tokio::test(start_paused = true)]
async fn an_operation_that_uses_up_its_turn_is_cut() {
    let clock = tokio::spawn(async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    });
    let busy = |_: resile::Attempt| async {
        for _ in 0..1_000_000 {
            tokio::task::coop::consume_budget().await;
        }
        Ok::<_, Down>(())
    };
    let policy = RetryPolicy::new().with_deadline(SECOND);
    let gave_up = retry(busy, &policy, Never).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts()), (Stop::Deadline, 1));
    let gave_up = policy.start(Never).attempt(busy(resile::Attempt::new(1))).await.unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts()), (Stop::Deadline, 1));
    clock.abort();
}

#[test]
fn remaining_counts_down_from_the_first_poll() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let (policy, seen) = (STEADY.with_deadline(SECOND * 10), std::cell::RefCell::new(Vec::new()));
    let op = |attempt: resile::Attempt| {
        seen.borrow_mut().push((attempt.elapsed().as_secs(), attempt.remaining().unwrap().as_secs()));
        script.play()
    };
    let call = retry(op, &policy, Never).with_timer(&timer);
    timer.advance(SECOND * 100);
    drive(call, &timer).unwrap_err();
    assert_eq!(*seen.borrow(), [(0, 10), (4, 6), (8, 2)]);
}

proptest! {
    /// Whatever the backoff and however long attempts hang: a call ends within its deadline.
    #[test]
    fn no_call_outlives_its_deadline(backoff in super::backoff::backoffs(), limit in 0_u64..100_000_000_000, hang in 0_usize..6) {
        const STEPS: [Step; 7] = [Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Hang];
        let (script, timer, limit) = (Script::new(&STEPS[hang..]), ManualTimer::new(), Duration::from_nanos(limit));
        let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(backoff).with_deadline(limit);
        let gave_up = drive(retry(|_| script.play(), &policy, Never).with_timer(&timer), &timer).unwrap_err();
        prop_assert_eq!(gave_up.stop(), Stop::Deadline);
        prop_assert!(timer.now() <= limit);
        prop_assert_eq!(gave_up.elapsed(), timer.now());
        prop_assert_eq!((script.starts(), script.drops()), (gave_up.attempts(), gave_up.attempts()));
    }
}

/// Counts its polls, and never comes to an end.
async fn hangs<E>(polls: &std::cell::Cell<u32>) -> Result<u8, E> {
    std::future::poll_fn(|_| {
        polls.set(polls.get() + 1);
        std::task::Poll::Pending
    })
    .await
}

/// tokio's running clock rounds a sleep of zero up to the next millisecond. Whatever has a limit of zero gives one poll
/// all the same.
#[tokio::test]
async fn a_limit_of_zero_is_one_poll_on_a_running_clock() {
    use futures_util::StreamExt;
    use resile::{
        Elapsed, FallbackPolicy, HedgePolicy, ResilienceExt, StreamResilienceExt, fallback, hedge, retry_stream,
    };

    const ZERO: Duration = Duration::ZERO;
    let polls = std::cell::Cell::new(0);
    let polled_once = |what: &str| assert_eq!(polls.replace(0), 1, "{what}");
    let policy = RetryPolicy::new().with_deadline(ZERO);

    let stop = retry(|_| hangs::<Elapsed>(&polls), &policy, Never).await.unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("retry");

    let stop = policy.start(Never).attempt(hangs::<Elapsed>(&polls)).await.unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("a run");

    let open = |_| async {
        let opened = hangs::<Elapsed>(&polls).await?;
        Ok::<_, Elapsed>(futures_util::stream::iter([Ok::<_, Elapsed>(opened)]))
    };
    let stop = Box::pin(retry_stream(open, &policy, Never)).next().await.unwrap().unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("a stream that opens");

    let silent = |_| async {
        let item = futures_util::stream::once(hangs::<Elapsed>(&polls));
        Ok::<_, Elapsed>(item)
    };
    let stop = Box::pin(retry_stream(silent, &policy, Never)).next().await.unwrap().unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("a stream that is silent");

    let hedges = HedgePolicy::new().with_deadline(ZERO);
    let stop = hedge(|_| hangs::<Elapsed>(&polls), &hedges, Never).await.unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("hedge");

    let alternatives = FallbackPolicy::new().with_deadline(ZERO);
    let stop = fallback(&[1, 2], |_| hangs::<Elapsed>(&polls), &alternatives, Never).await.unwrap_err().stop();
    assert_eq!(stop, Stop::Deadline);
    polled_once("fallback");

    hangs::<Elapsed>(&polls).timeout(ZERO).await.unwrap_err();
    polled_once("timeout");

    let item = || futures_util::stream::once(hangs::<Elapsed>(&polls));
    Box::pin(item().idle_timeout(ZERO)).next().await.unwrap().unwrap_err();
    polled_once("idle timeout");
    Box::pin(item().first_item_timeout(ZERO)).next().await.unwrap().unwrap_err();
    polled_once("first item timeout");
    Box::pin(item().progress_timeout(ZERO, |_| true)).next().await.unwrap().unwrap_err();
    polled_once("progress timeout");
}
