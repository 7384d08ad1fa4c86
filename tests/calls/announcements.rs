//! The line of a failed attempt announces a retry. It has the condition that a part of the upstream sets.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use resile::quota::Rate;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Jitter, Never, Quota, RetryPolicy, StopReason, Upstream, retry};

use super::script::{Down, drive};
use super::strains::SECOND;
use super::tracing::{capture, messages};

const POLICY: RetryPolicy =
    RetryPolicy::new().with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

fn announced() -> Vec<String> {
    let lines = messages().into_iter().map(|(_, message)| message);
    lines.filter(|line| line.contains("retrying")).collect()
}

/// The failure of a probe may not be the last one, and the breaker then decides about the retry.
#[test]
fn the_retry_of_a_probe_depends_on_the_breaker() {
    capture();
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND * 5).with_jitter(Jitter::None);
    let breaker = Breaker::new().with_consecutive(2).with_open_time(open).with_probes(0.5, 3);
    let feed = Upstream::new("feed").with_breaker(breaker).with_timer(&timer);
    let fails = |policy: RetryPolicy| {
        let end =
            drive(retry(|_| async { Err::<(), _>(Down(7)) }, policy, Never).on(&feed), &timer);
        end.unwrap_err()
    };
    let first = fails(POLICY);
    assert_eq!((first.reason(), first.attempts()), (StopReason::Open, 2));
    assert_eq!(announced(), ["feed: attempt 1 of 3 failed, retrying in 1.0s: down, 7"]);
    timer.advance(SECOND * 5);
    let calls = Cell::new(0);
    let probe = |_| {
        calls.set(calls.get() + 1);
        let fails = calls.get() == 1;
        async move { if fails { Err(Down(7)) } else { Ok(()) } }
    };
    drive(retry(probe, POLICY, Never).on(&feed), &timer).unwrap();
    let line =
        "feed: attempt 1 of 3 failed, retrying in 1.0s if the circuit breaker admits it: down, 7";
    assert_eq!(announced(), [line]);
}

/// A retry joins the queue of the quota as a new call does.
#[test]
fn the_retry_beside_a_full_queue_needs_room_in_it() {
    capture();
    let timer = ManualTimer::new();
    let quota = Quota::new().with_requests(Rate::per_second(1)).with_queue(1);
    let feed = Upstream::new("feed").with_quota(quota).with_timer(&timer);
    let fails = Cell::new(false);
    let op = |_| {
        poll_fn(|_| if fails.get() { Poll::Ready(Err::<(), _>(Down(7))) } else { Poll::Pending })
    };
    let mut first = pin!(retry(op, POLICY, Never).on(&feed));
    let mut second = pin!(retry(op, POLICY, Never).on(&feed));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending(), "in flight");
    assert!(second.as_mut().poll(&mut context).is_pending(), "in the queue");
    fails.set(true);
    assert!(first.as_mut().poll(&mut context).is_pending(), "in its delay");
    let line =
        "feed: attempt 1 of 3 failed, retrying in 1.0s if the queue of the quota has room: down, 7";
    assert_eq!(announced(), [line]);
    timer.advance(SECOND);
    assert!(second.as_mut().poll(&mut context).is_pending(), "in its delay");
    assert_eq!(announced(), ["feed: attempt 1 of 3 failed, retrying in 1.0s: down, 7"]);
}
