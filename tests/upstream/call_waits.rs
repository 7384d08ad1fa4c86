//! What a call knows after it waited: its elapsed time, its deadline, its price, its nesting.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use resile::observe::{Event, EventKind};
use resile::quota::{self, Cost, Rate, Usage};
use resile::time::ManualTimer;
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Bulkhead, Cooldown, GaveUp, HedgePolicy, Never, Quota,
    RetryPolicy, Run, StopReason, Upstream, hedge, retry,
};

const SECOND: Duration = Duration::from_secs(1);

/// Of two held calls the first one ends the release, and the second one finds no hold.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_hold_belongs_to_the_call() {
    let cooldown = Cooldown::new().with_jitter(0.0);
    let upstream = Upstream::new("any").with_cooldown(cooldown);
    upstream.hold(SECOND);
    let policy = RetryPolicy::new().with_total_timeout(SECOND * 10);
    let op = |attempt: Attempt| ready(Ok::<_, &str>((attempt.elapsed(), attempt.remaining())));
    let call = || retry(op, policy, Never).on(&upstream);
    let (first, second) = tokio::join!(call(), call());
    for times in [first, second] {
        assert_eq!(times.unwrap(), (SECOND, Some(SECOND * 9)));
    }
}

/// The attempts of a run have their numbers, whatever asks for them and whether the clock runs.
#[tokio::test]
async fn attempts_are_numbered_without_a_clock() {
    let policy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none());
    let mut run = Run::new(policy, Never);
    for number in 1..=5 {
        let attempt = if number % 2 == 0 { run.blocking_next() } else { run.next().await };
        assert_eq!(attempt.unwrap().number(), number);
        assert_eq!(run.failed("down").is_err(), number == 5);
    }
}

/// Holds a bulkhead's only place and returns the end of a blocking call behind it.
fn end_behind(total: Option<Duration>, wait: Duration) -> GaveUp<&'static str> {
    let timer = ManualTimer::new();
    let bulkhead = Bulkhead::new(1).with_max_wait(wait);
    let upstream = Upstream::new("any").with_bulkhead(bulkhead).with_timer(timer);
    let _held = upstream.try_admit().unwrap();
    let policy = RetryPolicy::new();
    let policy = total.map_or(policy, |total| policy.with_total_timeout(total));
    Run::new(policy, Never).on(&upstream).blocking_next().unwrap_err()
}

#[test]
fn the_earlier_end_of_a_blocking_wait_is_its_reason() {
    for (total, wait, reason, after) in [
        (None, 2, StopReason::Full, 2),
        (Some(3), 2, StopReason::Full, 2),
        (Some(2), 2, StopReason::Deadline, 2),
        (Some(1), 2, StopReason::Deadline, 1),
        (Some(0), 2, StopReason::Deadline, 0),
    ] {
        let gave_up = end_behind(total.map(|total| SECOND * total), SECOND * wait);
        assert_eq!((gave_up.reason(), gave_up.elapsed()), (reason, SECOND * after), "{total:?}");
    }
}

#[test]
fn a_loop_by_hand_is_nested_from_its_first_attempt() {
    for attempts in 1..=3 {
        for blocks in [false, true] {
            let nested = Arc::new(AtomicU32::new(0));
            let note = Arc::clone(&nested);
            let observer = move |event: &Event<'_>| {
                if let EventKind::Nested { .. } = event.kind {
                    note.fetch_add(1, Relaxed);
                }
            };
            let timer = ManualTimer::new();
            let inner =
                Upstream::new("inner").with_shared_observer(observer).with_timer(timer.clone());
            let outer = Upstream::new("outer").with_timer(timer);
            let policy = RetryPolicy::new().with_backoff(Backoff::none());
            let op = async |_: Attempt| {
                let mut run = Run::new(policy, Never).on(&inner);
                loop {
                    let next = if blocks { run.blocking_next() } else { run.next().await };
                    if next.map_err(|_| "refused")?.number() == attempts {
                        return Ok::<_, &str>(run.succeeded(3));
                    }
                    run.failed("down").map_err(|_| "gave up")?;
                }
            };
            let call = pin!(retry(op, policy, Never).on(&outer));
            assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
            assert_eq!(nested.load(Relaxed), 1, "{attempts} attempts, blocking: {blocks}");
        }
    }
}

/// Each attempt of a hedged call settles its own usage, in the order of their ends.
#[tokio::test(start_paused = true)]
async fn a_hedge_settles_under_its_own_number() {
    for (slow, number) in [(1, 2), (2, 1)] {
        let settled = Mutex::new(Vec::new());
        let observer = |event: &Event<'_>| {
            if let EventKind::Settled { attempt, .. } = event.kind {
                settled.lock().unwrap().push(attempt);
            }
        };
        let quota = Quota::new().with_input(Rate::per_minute(600));
        let upstream = Upstream::new("any").with_quota(quota);
        let target = upstream.at_cost(Cost::input(10));
        let op = |attempt: Attempt| async move {
            if attempt.number() == slow {
                return pending().await;
            }
            tokio::time::sleep(SECOND * 3).await;
            quota::record(Usage::new().with_input(20));
            Ok::<_, &str>(attempt.number())
        };
        let policy = HedgePolicy::new().with_delay(SECOND);
        let won = hedge(op, policy, Never).on(target.observed_by(&observer)).await.unwrap();
        assert_eq!((won, settled.into_inner().unwrap()), (number, vec![number]));
    }
}

/// A limit of all time is no limit, but the latencies below it are learned.
#[tokio::test(start_paused = true)]
async fn latencies_are_learned_below_an_endless_limit() {
    let adaptive = AdaptiveTimeout::new().with_ceiling(Duration::MAX);
    let upstream = Upstream::new("any").with_adaptive_timeout(adaptive);
    let policy = RetryPolicy::new().with_learned_attempt_timeout();
    let op = |_: Attempt| async {
        tokio::time::sleep(SECOND).await;
        Ok::<_, &str>(())
    };
    for _ in 0..40 {
        retry(op, policy, Never).on(&upstream).await.unwrap();
    }
    let limit = upstream.adaptive_timeout().unwrap().limit();
    assert!(limit < SECOND * 60, "{limit:?}");
}
