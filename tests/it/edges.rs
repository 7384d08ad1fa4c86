//! What a reader would not think of: clocks at the end of their range, panics in the middle, calls out of turn.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::{Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::observe::{Event, EventKind};
use resile::{
    Attempt, Backoff, Breaker, Cooldown, HedgePolicy, ManualTimer, Never, RetryPolicy, Run, Timer,
    TokioTimer, Upstream, Verdict, breaker, hedge, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
/// More than 64 bits of nanoseconds hold.
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
fn a_first_attempt_that_panicked_counts() {
    let policy = RetryPolicy::new().with_attempts(1).with_backoff(Backoff::none());
    let op = |_: Attempt| {
        let mut polled = false;
        std::future::poll_fn(move |_| -> Poll<Result<(), u8>> {
            assert!(std::mem::replace(&mut polled, true), "once");
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
fn a_held_call_tells_first_that_it_is_nested() {
    let timer = ManualTimer::new();
    let upstream = upstream(&timer).with_cooldown(Cooldown::new());
    upstream.hold(SECOND);
    let told = RefCell::new(vec![]);
    let (policy, outer) = (RetryPolicy::new(), RetryPolicy::none());
    let observer = |event: &Event<'_>| told.borrow_mut().push(event.kind.as_str());
    let script = Script::new(&[Step::Succeed]);
    let inner = || retry(|_| script.play(), &policy, Never).on(upstream.observed_by(&observer));
    let _ = drive(
        retry(|_| async { inner().await.map_err(|_| Down(1)) }, &outer, Never).on(clock(&timer)),
        &timer,
    );
    assert_eq!(told.into_inner()[..2], ["nested", "held"]);
}

#[test]
fn a_held_run_tells_once_that_it_is_nested() {
    let timer = ManualTimer::new();
    let upstream = upstream(&timer).with_cooldown(Cooldown::new());
    upstream.hold(SECOND);
    let told = Cell::new(0);
    let policy = RetryPolicy::new();
    let observer = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Nested { .. }) {
            told.set(told.get() + 1);
        }
    };
    let outer = RetryPolicy::none();
    let op = |_| async {
        let mut run = Run::new(&policy, Never).on(upstream.observed_by(&observer));
        for _ in 0..3 {
            let script = Script::new(&[Step::Succeed]);
            assert!(poll(Box::pin(run.attempt(script.play())).as_mut()).is_pending());
        }
        Ok::<u32, Down>(1)
    };
    let _ = drive(retry(op, &outer, Never).on(clock(&timer)), &timer);
    assert_eq!(told.get(), 1);
}

#[test]
fn a_cancel_by_the_observer_of_the_wait_starts_nothing() {
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
fn a_hedges_event_and_its_end_agree() {
    let told = RefCell::new(None);
    let observer = |event: &Event<'_>| {
        if let EventKind::GaveUp { retry_after, .. } = event.kind {
            *told.borrow_mut() = Some(retry_after);
        }
    };
    let policy =
        HedgePolicy::new().with_classifier(|_: &u8| Verdict::transient().after(Duration::ZERO));
    let timer = ManualTimer::new();
    let upstream = upstream(&timer);
    let call =
        hedge(|_| async { Err::<(), u8>(1) }, &policy, Never).on(upstream.observed_by(&observer));
    let got = drive(call, &timer).unwrap_err();
    assert_eq!(told.into_inner(), Some(got.retry_after()));
}

#[test]
fn a_curve_of_the_callers_may_ask_the_breaker() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    fn open(_: u32) -> Duration {
        assert!(
            UPSTREAM
                .get()
                .is_some_and(|it| it.breaker().unwrap().state() == breaker::State::Closed)
        );
        SECOND
    }
    // On a thread of its own, as it hangs where it fails.
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
fn what_an_observers_panic_left_is_told_by_the_next_ask() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn observe(event: &Event<'_>) {
        let EventKind::Breaker(transition) = event.kind else { return };
        let mut told = TOLD.lock().unwrap();
        told.push(transition.to_string());
        if told.len() == 1 {
            drop(told);
            // A transition of its own, which is reported after this one.
            std::mem::forget(UPSTREAM.get().unwrap().isolate());
            panic!("the first");
        }
    }
    let upstream = UPSTREAM.get_or_init(|| {
        let observer: fn(&Event<'_>) = observe;
        let breaker = Breaker::new().with_consecutive(1);
        upstream(&ManualTimer::new()).with_breaker(breaker).with_shared_observer(observer)
    });
    let failed =
        std::panic::catch_unwind(|| upstream.try_admit().unwrap().settle(&Verdict::transient()));
    assert!(failed.is_err() && TOLD.lock().unwrap().len() == 1);
    upstream.try_admit().unwrap_err();
    assert_eq!(TOLD.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn tokio_sleeps_until_the_end_of_instants() {
    let nanos = |nanos: u128| {
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        Duration::new(u64::try_from(seconds).unwrap(), u32::try_from(nanos).unwrap())
    };
    let (timer, now) = (TokioTimer::new(), tokio::time::Instant::now());
    // The longest time after which there is an `Instant`, to the nanosecond.
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
