//! A breaker at the edges of its times and counts: the last instant of a refusal, late probes,
//! leases that end together, rates of zero, and the cost of a closed breaker.

use std::future::{Pending, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::breaker::{State, Transition, TripReason};
use resile::classify::Always;
use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Cooldown, Jitter, Never, RetryPolicy, StopReason, Upstream,
    Verdict, retry,
};

use crate::guard::guard;

const SECOND: Duration = Duration::from_secs(1);

fn exactly(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

/// The end of the refusals belongs to the attempts: a delay that ends there is waited for.
#[tokio::test(start_paused = true)]
async fn an_attempt_at_the_end_of_the_refusals_is_a_probe() {
    let before = Duration::from_nanos(999_999_999);
    for (delay, attempts) in [(SECOND, 2), (before, 1)] {
        let breaker = Breaker::new().with_consecutive(1).with_open_time(exactly(SECOND));
        let upstream = Upstream::new("any").with_breaker(breaker);
        let policy = RetryPolicy::new().with_backoff(exactly(delay));
        let op = |attempt: Attempt| ready(if attempt.is_first() { Err("down") } else { Ok(()) });
        match retry(op, policy, Never).on(&upstream).await {
            Ok(()) => assert_eq!(attempts, 2, "{delay:?}"),
            Err(gave_up) => {
                assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Open, attempts));
            }
        }
    }
}

#[test]
fn a_probe_of_an_earlier_phase_does_not_count() {
    for passes in [true, false] {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| {
            b.with_consecutive(1).with_probes(1.0, 2).with_open_time(exactly(SECOND))
        });
        breaker.fail();
        timer.advance(SECOND);
        let late = breaker.permit().unwrap();
        breaker.fail(); // opens again
        assert_eq!(breaker.state(), State::Open);
        timer.advance(SECOND);
        let probe = breaker.permit().unwrap();
        assert_eq!(breaker.state(), State::HalfOpen);
        if passes {
            late.succeeded();
        } else {
            late.settle(&Verdict::transient());
        }
        assert_eq!(breaker.state(), State::HalfOpen, "one result of two is missing, not none");
        probe.succeeded();
        assert_eq!(breaker.state(), State::HalfOpen);
        breaker.succeed();
        assert_eq!(breaker.state(), State::Closed);
    }
}

#[test]
fn a_place_is_free_at_the_end_of_the_next_lease_that_still_runs() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(1)
            .with_probes(1.0, 3)
            .with_lease(10 * SECOND)
            .with_open_time(exactly(SECOND))
    });
    breaker.fail();
    timer.advance(SECOND);
    let first = breaker.permit().unwrap();
    let _second = breaker.permit().unwrap();
    timer.advance(5 * SECOND);
    let _third = breaker.permit().unwrap();
    first.succeeded();
    timer.advance(5 * SECOND);
    // The second lease has ended, and its place stays empty: two results are missing, and two
    // leases run after this probe.
    let _fourth = breaker.permit().unwrap();
    timer.advance(Duration::new(4, 999_999_999));
    let refused = breaker.permit().unwrap_err();
    assert_eq!(refused.retry_after(), None, "a probe may end at any time");
    timer.advance(Duration::from_nanos(1));
    let _fifth = breaker.permit().unwrap(); // the end of the third lease
}

#[test]
fn a_rate_of_zero_needs_one_such_call() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.without_consecutive().without_failure_rate().with_slow_rate(SECOND, 0.0, 1)
    });
    breaker.succeed();
    breaker.fail();
    assert_eq!(breaker.state(), State::Closed, "no call was slow");
    let slow = breaker.permit().unwrap();
    timer.advance(SECOND * 2);
    slow.succeeded();
    assert_eq!(breaker.snapshot().reason, Some(TripReason::SlowRate));
}

/// A success counts at its end, also if an attempt before it failed.
#[tokio::test(start_paused = true)]
async fn a_slow_second_attempt_is_slow() {
    for took in [SECOND / 2, SECOND * 2] {
        let breaker = Breaker::new()
            .without_consecutive()
            .without_failure_rate()
            .with_slow_rate(SECOND, 0.5, 2)
            .with_open_time(exactly(SECOND));
        let upstream = Upstream::new("any").with_breaker(breaker);
        let policy = RetryPolicy::new().with_attempt_timeout(SECOND * 9);
        let op = |attempt: Attempt| async move {
            if attempt.is_first() {
                return Err("down");
            }
            tokio::time::sleep(took).await;
            Ok(())
        };
        retry(op, policy, Never).on(&upstream).await.unwrap();
        let is_open = upstream.breaker().unwrap().state() == State::Open;
        assert_eq!(is_open, took > SECOND, "{took:?}");
    }
}

/// A clock that must not be used.
struct NoClock;

impl Timer for NoClock {
    type Sleep = Pending<()>;

    fn now(&self) -> Duration {
        panic!("the clock was read")
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        panic!("a sleep was created")
    }
}

#[test]
fn a_success_on_a_closed_breaker_reads_no_clock() {
    let upstream = Upstream::new("any")
        .with_breaker(Breaker::new().without_failure_rate())
        .with_budget(Budget::new())
        .with_cooldown(Cooldown::new())
        .with_observer(&())
        .with_timer(NoClock);
    let policy = RetryPolicy::new();
    let call = pin!(retry(|_| ready(Ok::<_, &str>(7)), policy, Never).on(&upstream));
    let done = call.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(done, Poll::Ready(Ok(7))));
    let call = pin!(upstream.call(async { Ok::<_, &str>(7) }, Always));
    let done = call.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(done, Poll::Ready(Ok(7))));
    upstream.try_admit().unwrap().succeeded();
}

#[test]
fn isolations_that_overlap_are_one() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Breaker { transition, .. } = event.kind {
            note.lock().unwrap().push(transition);
        }
    };
    let upstream = Upstream::new("any").with_breaker(Breaker::new()).with_shared_observer(observer);
    let first = upstream.isolate();
    let second = upstream.isolate();
    drop(first);
    assert_eq!(upstream.breaker().unwrap().state(), State::Isolated);
    assert_eq!(*seen.lock().unwrap(), [Transition::Isolated]);
    drop(second);
    assert_eq!(upstream.breaker().unwrap().state(), State::Closed);
    assert!(matches!(
        seen.lock().unwrap()[..],
        [Transition::Isolated, Transition::Closed { refused: 0, lasted: None, .. }]
    ));
}
