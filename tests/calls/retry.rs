//! `retry`: the order of attempts, delays, drops and events.
//!
//! Tests named `trap_13_…` and `trap_14_…` stand for the points 13 and 14 of the section "The
//! behaviour" in `COMPARE.md`.

use std::cell::{Cell, RefCell};
use std::task::Poll;
use std::time::Duration;

use resile::observe::Event;
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Budget, Bulkhead, Jitter, Never, ResilienceExt, RetryPolicy, Run, StopReason,
    Upstream, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{CountingTimer, Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy = RetryPolicy::new()
    .with_attempts(4)
    .with_backoff(Backoff::exponential(SECOND).with_jitter(Jitter::None));
const ENDLESS: RetryPolicy =
    RetryPolicy::new().with_attempts(u32::MAX).with_backoff(Backoff::none());

#[test]
fn each_attempt_knows_its_number_delay_and_times() {
    let (timer, seen) = (ManualTimer::new(), RefCell::new(Vec::new()));
    let op = |attempt: Attempt| {
        seen.borrow_mut().push(attempt);
        async { Err::<(), _>(Down(1)) }
    };
    let policy = STEADY.with_total_timeout(SECOND * 60);
    let gave_up = drive(retry(op, &policy, Never).on(clock(&timer)), &timer).unwrap_err();
    let at = |number, delay: u64, elapsed: u64| {
        Attempt::new(number)
            .with_delay(SECOND * u32::try_from(delay).unwrap())
            .with_elapsed(Duration::from_secs(elapsed))
            .with_remaining(Some(Duration::from_secs(60 - elapsed)))
    };
    assert_eq!(*seen.borrow(), [at(1, 0, 0), at(2, 1, 1), at(3, 2, 3), at(4, 4, 7)]);
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
        (StopReason::Attempts, 4, SECOND * 7)
    );
    assert!(seen.borrow().iter().all(|attempt| attempt.is_first() == (attempt.number() == 1)));
}

/// An endless series of instant failures yields to the runtime, so an outer timeout fires.
#[tokio::test(start_paused = true)]
async fn trap_13_instant_failures_do_not_starve_an_outer_timeout() {
    // The clock advances only while its task runs. A call that never yields would stop the clock.
    let clock = tokio::spawn(async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    });
    let calls = Cell::new(0_u32);
    let instant = |_| {
        calls.set(calls.get() + 1);
        assert!(calls.get() < 1_000_000, "no other task was polled");
        async { Err::<(), _>(Down(1)) }
    };
    let outcome = tokio::time::timeout(SECOND, retry(instant, &ENDLESS, Never)).await;
    clock.abort();
    assert!(outcome.is_err(), "u32::MAX attempts were made within a second");
    assert!(calls.get() > 32);
}

#[test]
fn trap_13_instant_failures_yield_every_32_attempts() {
    let calls = Cell::new(0_u32);
    let instant = |_| {
        calls.set(calls.get() + 1);
        async { Err::<(), _>(Down(1)) }
    };
    // The parts of the upstream make no difference.
    let (budget, token) = (Budget::new().with_capacity(u32::MAX), CancellationToken::new());
    let total = ENDLESS.with_total_timeout(SECOND);
    let laden = upstream(&ManualTimer::new()).with_budget(budget);
    let mut alone = Box::pin(retry(instant, &ENDLESS, Never));
    let mut named = Box::pin(retry(instant, &ENDLESS, Never).on("named"));
    let mut bare = Box::pin(retry(instant, &ENDLESS, Never).on(clock(&ManualTimer::new())));
    let mut laden = Box::pin(retry(instant, &total, &token).on(&laden));
    for _ in 0..100 {
        for turn in 0..4 {
            let before = calls.get();
            let pending = match turn {
                0 => poll(alone.as_mut()).is_pending(),
                1 => poll(named.as_mut()).is_pending(),
                2 => poll(bare.as_mut()).is_pending(),
                _ => poll(laden.as_mut()).is_pending(),
            };
            assert!(
                pending && calls.get() - before <= 32,
                "{} attempts in one poll",
                calls.get() - before
            );
        }
    }
}

/// A call that returns `Pending` to yield also wakes its task. Otherwise the task would hang.
#[tokio::test(start_paused = true)]
async fn a_call_that_yields_is_polled_again() {
    let script = Script::new(&[Step::Fail]);
    let gave_up = retry(|_| script.play(), &ENDLESS.with_attempts(1000), Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.drops()),
        (StopReason::Attempts, 1000, 1000)
    );
}

#[test]
fn trap_14_a_call_that_is_not_polled_does_nothing() {
    let (script, timer, token) =
        (Script::new(&[Step::Succeed]), CountingTimer::default(), CancellationToken::new());
    let policy = STEADY.with_total_timeout(SECOND).with_attempt_timeout(SECOND);
    let events = Cell::new(0);
    let observer = |_: &Event<'_>| events.set(events.get() + 1);
    let laden =
        Upstream::new("laden").with_budget(Budget::new().with_capacity(100)).with_timer(&timer);
    let call = retry(|_| script.play(), &policy, &token).on(laden.observed_by(&observer));
    let limited = script.play().timeout(SECOND).on(&laden);
    assert_eq!(
        (script.starts(), script.polls()),
        (1, 0),
        "the only start is the future given to `timeout`"
    );
    drop((call, limited));
    assert_eq!((script.polls(), events.get(), laden.budget().unwrap().available()), (0, 0, 100));
    assert_eq!((timer.reads.into_inner(), timer.sleeps.into_inner()), (0, 0));
}

/// On tokio's clock the delays are exact to the millisecond.
#[tokio::test(start_paused = true)]
async fn trap_14_delays_are_exact_on_tokios_clock() {
    let (script, began) = (Script::new(&[Step::Fail]), tokio::time::Instant::now());
    let gave_up = retry(|_| script.play(), &STEADY, Never).await.unwrap_err();
    assert_eq!((began.elapsed(), gave_up.elapsed()), (SECOND * 7, SECOND * 7));
}

#[test]
fn trap_14_no_attempt_before_its_delay_is_over() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let mut call = Box::pin(retry(|_| script.play(), &STEADY, Never).on(clock(&timer)));
    assert_eq!(script.starts(), 0);
    for (attempt, delay) in [(1, 1), (2, 2), (3, 4)] {
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(script.starts(), attempt);
        timer.advance((SECOND * delay).saturating_sub(Duration::from_nanos(1)));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(script.starts(), attempt, "an attempt began a nanosecond early");
        timer.advance(Duration::from_nanos(1));
    }
    assert!(poll(call.as_mut()).is_ready());
}

/// A failed attempt is dropped before its failure is classified or reported, and before the next
/// attempt is made.
#[test]
fn a_failed_attempt_is_dropped_before_its_failure_is_reported() {
    let (script, timer) =
        (Script::new(&[Step::Fail, Step::Pend(1, false), Step::Succeed]), ManualTimer::new());
    let op = |_| {
        assert_eq!(script.starts(), script.drops(), "two attempts at once");
        script.play()
    };
    // A `Run` gets its attempt before the admission, but does not poll it.
    let observer = |event: &Event<'_>| assert_eq!(script.begun(), script.drops(), "{event}");
    let classify = |_: &Down| {
        assert_eq!(
            script.begun(),
            script.drops(),
            "an attempt was classified before it was dropped"
        );
        true
    };
    for backoff in [Backoff::none(), Backoff::fixed(SECOND)] {
        let policy = STEADY.with_backoff(backoff).with_classifier(classify);
        let upstream = upstream(&timer);
        drive(retry(op, &policy, Never).on(upstream.observed_by(&observer)), &timer).unwrap();
        let mut run = Run::new(&policy, Never).on(upstream.observed_by(&observer));
        while drive(run.attempt(script.play()), &timer).unwrap().is_none() {}
    }
}

#[test]
#[should_panic(expected = "`Retry` polled after completion")]
fn polled_after_completion_it_panics() {
    let (script, timer) = (Script::new(&[Step::Succeed]), ManualTimer::new());
    let mut call = Box::pin(retry(|_| script.play(), &STEADY, Never).on(clock(&timer)));
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(1))));
    let _ = poll(call.as_mut());
}

/// The closure may panic before it makes an attempt. That attempt still counts, and its permit is
/// released.
#[test]
fn a_call_goes_on_after_its_closure_panicked() {
    let (policy, timer) = (STEADY.with_backoff(Backoff::none()), ManualTimer::new());
    let laden = upstream(&timer)
        .with_budget(Budget::new().with_capacity(100))
        .with_bulkhead(Bulkhead::new(1));
    for panics_on in 1..=2 {
        let made = Cell::new(0);
        let op = |_| {
            made.set(made.get() + 1);
            assert_ne!(made.get(), panics_on, "panics before the attempt is made");
            std::future::ready(if made.get() < 3 { Err(Down(made.get())) } else { Ok(made.get()) })
        };
        let mut call = Box::pin(retry(op, &policy, Never).on(&laden));
        let panics = std::panic::AssertUnwindSafe(|| poll(call.as_mut()));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(drive(call.as_mut(), &timer).unwrap(), 3);
        assert_eq!(laden.bulkhead().unwrap().in_flight(), 0);
    }
}

#[test]
fn debug_shows_the_state_and_the_attempts_of_a_call() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let policy = STEADY.with_total_timeout(SECOND * 9);
    let mut call = Box::pin(retry(|_| script.play(), &policy, Never).on(clock(&timer)));
    let mut seen = vec![format!("{call:?}")];
    for _ in 0..2 {
        assert!(poll(call.as_mut()).is_pending());
        seen.push(format!("{call:?}"));
        timer.advance(SECOND);
    }
    timer.advance(SECOND * 9);
    assert!(poll(call.as_mut()).is_ready());
    seen.push(format!("{call:?}"));
    let states = [("unstarted", 0), ("between attempts", 1), ("attempting", 2), ("done", 2)];
    let expected = states
        .map(|(state, attempts)| format!("Retry {{ state: {state:?}, attempts: {attempts}, .. }}"));
    assert_eq!(seen, expected);
}

/// The next attempt follows at once only if the delay is zero. Every other delay is one sleep.
#[test]
fn each_delay_is_one_sleep() {
    for (backoff, sleeps) in
        [(Backoff::none(), 0), (Backoff::fixed(SECOND).with_jitter(Jitter::Equal), 3)]
    {
        let (script, timer) = (Script::new(&[Step::Fail]), CountingTimer::default());
        let policy = STEADY.with_backoff(backoff);
        let upstream = Upstream::new("counted").with_timer(&timer);
        drive(retry(|_| script.play(), &policy, Never).on(&upstream), &timer.hands).unwrap_err();
        assert_eq!(
            (script.starts(), timer.sleeps.into_inner(), timer.hands.sleepers()),
            (4, sleeps, 0)
        );
        assert_eq!(timer.hands.now().is_zero(), sleeps == 0);
    }
}
