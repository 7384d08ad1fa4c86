//! Rare conditions: clocks at the end of their range, panics during a call, and callbacks that use
//! the caller's own upstream.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::{Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Timer, TokioTimer};
use resile::{
    Attempt, Backoff, Breaker, Cooldown, HedgePolicy, Never, RetryPolicy, Run, Upstream, Verdict,
    breaker, hedge, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
/// A time that 64 bits of nanoseconds cannot hold.
const YEARS: Duration = Duration::from_secs(600 * 365 * 86_400);

#[test]
fn a_delay_is_waited_out_beyond_584_years() {
    let timer = ManualTimer::new();
    timer.advance(YEARS);
    let policy = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::fixed(SECOND));
    let script = Script::new(&[Step::Fail]);
    let mut call = Box::pin(retry(|_| script.play(), &policy, Never).on(clock(&timer)));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(timer.sleepers(), 1);
}

#[test]
fn a_deadline_holds_beyond_584_years() {
    let timer = ManualTimer::new();
    timer.advance(YEARS);
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    let script = Script::new(&[Step::Hang]);
    let mut call = Box::pin(retry(|_| script.play(), &policy, Never).on(clock(&timer)));
    assert!(poll(call.as_mut()).is_pending());
}

#[test]
fn a_first_attempt_that_panics_counts() {
    let policy = RetryPolicy::new().with_attempts(1).with_backoff(Backoff::none());
    let op = |_: Attempt| {
        let mut polled = false;
        std::future::poll_fn(move |_| -> Poll<Result<(), u8>> {
            assert!(std::mem::replace(&mut polled, true), "panics once");
            Poll::Ready(Err(1))
        })
    };
    let mut call = pin!(retry(op, &policy, Never).on(clock(&ManualTimer::new())));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call
            .as_mut()
            .poll(&mut cx)
            .is_ready()))
        .is_err()
    );
    assert_eq!(call.as_mut().poll(&mut cx).map(|r| r.unwrap_err().attempts()), Poll::Ready(1));
}

#[test]
fn a_held_call_reports_its_nesting_first() {
    let timer = ManualTimer::new();
    // Its own observer would get the event of the hold.
    let upstream = upstream(&timer).with_cooldown(Cooldown::new()).with_observer(&());
    upstream.hold(SECOND);
    let events = RefCell::new(vec![]);
    let (policy, outer) = (RetryPolicy::new(), RetryPolicy::new());
    let observer = |event: &Event<'_>| events.borrow_mut().push(event.kind.as_str());
    let script = Script::new(&[Step::Succeed]);
    let inner = || retry(|_| script.play(), &policy, Never).on(upstream.observed_by(&observer));
    let _ = drive(
        retry(|_| async { inner().await.map_err(|_| Down(1)) }, &outer, Never).on(clock(&timer)),
        &timer,
    );
    assert_eq!(events.into_inner()[..3], ["nested", "limiting", "held"]);
}

#[test]
fn a_held_run_reports_its_nesting_once() {
    let timer = ManualTimer::new();
    let upstream = upstream(&timer).with_cooldown(Cooldown::new());
    upstream.hold(SECOND);
    let events = Cell::new(0);
    let policy = RetryPolicy::new();
    let observer = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Nested { .. }) {
            events.set(events.get() + 1);
        }
    };
    let outer = RetryPolicy::new();
    let op = |_| async {
        let mut run = Run::new(&policy, Never).on(upstream.observed_by(&observer));
        for _ in 0..3 {
            let script = Script::new(&[Step::Succeed]);
            assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
        }
        Ok::<u32, Down>(1)
    };
    let _ = drive(retry(op, &outer, Never).on(clock(&timer)), &timer);
    assert_eq!(events.get(), 1);
}

#[test]
fn an_observer_that_cancels_during_the_wait_prevents_the_attempt() {
    let token = CancellationToken::new();
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let observer = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waiting { .. }) {
            token.cancel();
        }
    };
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    let timer = ManualTimer::new();
    let upstream = upstream(&timer);
    let got = drive(
        retry(|_| script.play(), &policy, &token).on(upstream.observed_by(&observer)),
        &timer,
    );
    assert!(got.is_err(), "{got:?}");
}

#[test]
fn the_last_event_of_a_hedge_agrees_with_its_error() {
    let events = RefCell::new(None);
    let observer = |event: &Event<'_>| {
        if let EventKind::GaveUp { retry_after, .. } = event.kind {
            *events.borrow_mut() = Some(retry_after);
        }
    };
    let policy =
        HedgePolicy::new().with_classifier(|_: &u8| Verdict::transient().after(Duration::ZERO));
    let timer = ManualTimer::new();
    let upstream = upstream(&timer);
    let call =
        hedge(|_| async { Err::<(), u8>(1) }, &policy, Never).on(upstream.observed_by(&observer));
    let got = drive(call, &timer).unwrap_err();
    assert_eq!(events.into_inner(), Some(got.retry_after()));
}

#[test]
fn a_custom_curve_may_query_the_breaker() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    fn open(_: u32) -> Duration {
        assert!(
            UPSTREAM
                .get()
                .is_some_and(|it| it.breaker().unwrap().state() == breaker::State::Closed)
        );
        SECOND
    }
    // The test runs in its own thread, because a failure is a deadlock.
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let upstream = UPSTREAM.get_or_init(|| {
            let breaker = Breaker::new().with_consecutive(1).with_open_time(Backoff::custom(open));
            upstream(&ManualTimer::new()).with_breaker(breaker)
        });
        upstream.try_admit().unwrap().settle(&Verdict::transient());
        done.send(()).unwrap();
    });
    assert!(outcome.recv_timeout(Duration::from_secs(5)).is_ok(), "deadlock");
}

#[test]
fn events_left_by_an_observers_panic_are_reported_at_the_next_admission() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn observe(event: &Event<'_>) {
        let EventKind::Breaker { transition, .. } = event.kind else { return };
        let mut events = EVENTS.lock().unwrap();
        events.push(transition.to_string());
        if events.len() == 1 {
            drop(events);
            // This transition happens inside the observer, and is reported after the current one.
            std::mem::forget(UPSTREAM.get().unwrap().isolate());
            panic!("the first event panics");
        }
    }
    let upstream = UPSTREAM.get_or_init(|| {
        let observer: fn(&Event<'_>) = observe;
        let breaker = Breaker::new().with_consecutive(1);
        upstream(&ManualTimer::new()).with_breaker(breaker).with_shared_observer(observer)
    });
    let failed =
        std::panic::catch_unwind(|| upstream.try_admit().unwrap().settle(&Verdict::transient()));
    assert!(failed.is_err() && EVENTS.lock().unwrap().len() == 1);
    upstream.try_admit().unwrap_err();
    assert_eq!(EVENTS.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn tokio_sleeps_reach_the_last_instant() {
    let nanos = |nanos: u128| {
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        Duration::new(u64::try_from(seconds).unwrap(), u32::try_from(nanos).unwrap())
    };
    let (timer, now) = (TokioTimer::new(), tokio::time::Instant::now());
    // The longest time that `Instant` can add, to the nanosecond.
    let mut longest = 0_u128;
    for bit in (0..93).rev() {
        if now.checked_add(nanos(longest | 1 << bit)).is_some() {
            longest |= 1 << bit;
        }
    }
    for back in [0, 1, 999_999, 1_000_000, 2_000_000_000] {
        let at = timer.now().saturating_add(nanos(longest - back));
        assert!(poll(Box::pin(timer.sleep_until(at)).as_mut()).is_pending());
    }
}
