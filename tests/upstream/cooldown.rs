//! `resile::Cooldown`: one throttled attempt makes every attempt wait.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::observe::{Event, EventKind, HeldBy};
use resile::time::{ManualTimer, Timer, TokioTimer};
use resile::{Cooldown, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a cooldown that releases all waiters at one instant.
fn exact() -> Cooldown {
    Cooldown::new().with_jitter(0.0)
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// An error that carries its own verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WithVerdict(Verdict);

impl fmt::Display for WithVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for WithVerdict {}

fn verdict_of(error: &WithVerdict) -> Verdict {
    error.0
}

fn held_by<M: Timer>(cooldown: Cooldown, timer: M) -> Upstream<M> {
    Upstream::new("held").with_cooldown(cooldown).with_observer(&()).with_timer(timer)
}

/// A clock that must not be used.
struct NoClock;

impl Timer for NoClock {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        panic!("the clock was read")
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        panic!("a sleep was created")
    }
}

#[test]
fn a_call_that_is_not_held_costs_nothing() {
    let upstream = held_by(Cooldown::new(), NoClock);
    let counted = allocation_counter::measure(|| {
        let call = pin!(upstream.call(async { Ok::<_, WithVerdict>(7) }, Always));
        assert!(matches!(poll(call), Poll::Ready(Ok(7))));
        let call = pin!(
            retry(|_| async { Ok::<_, WithVerdict>(7) }, RetryPolicy::new(), Never).on(&upstream)
        );
        assert!(matches!(poll(call), Poll::Ready(Ok(7))));
        assert!(matches!(poll(pin!(upstream.admit(Never))), Poll::Ready(Ok(_))));
        upstream.try_admit().unwrap().succeeded();
        assert_eq!(upstream.held(), None);
    });
    assert_eq!(counted.count_total, 0);
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_during_a_hold() {
    let upstream = held_by(exact(), TokioTimer::new());
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let call = upstream.call(async { Ok::<_, WithVerdict>(began.elapsed()) }, Always);
    let retried =
        retry(|_| async { Ok::<_, WithVerdict>(began.elapsed()) }, RetryPolicy::new(), Never)
            .on(&upstream);
    let (called, retried) = tokio::join!(call, retried);
    assert!(called.unwrap() >= 20 * SECOND && retried.unwrap() >= 20 * SECOND);
    assert_eq!(upstream.held(), None);
}

#[test]
fn a_cooldown_reads_no_clock_after_its_hold_has_ended() {
    struct Counting(ManualTimer, AtomicU32);
    impl Timer for Counting {
        type Sleep = resile::time::ManualSleep;
        fn now(&self) -> Duration {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.now()
        }
        fn sleep(&self, delay: Duration) -> Self::Sleep {
            self.0.sleep(delay)
        }
    }
    let timer = Counting(ManualTimer::new(), AtomicU32::new(0));
    let upstream = held_by(Cooldown::new(), &timer);
    upstream.hold(SECOND);
    timer.0.advance(SECOND + Duration::from_millis(250));
    assert_eq!(upstream.held(), None);
    let read = timer.1.load(Ordering::Relaxed);
    assert!(matches!(poll(pin!(upstream.admit(Never))), Poll::Ready(Ok(_))));
    assert_eq!(timer.1.load(Ordering::Relaxed), read);
}

#[test]
fn an_extended_hold_extends_the_waits() {
    let timer = ManualTimer::new();
    let upstream = held_by(exact(), &timer);
    upstream.hold(10 * SECOND);
    let mut wait = pin!(upstream.admit(Never));
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(9 * SECOND);
    upstream.hold(10 * SECOND);
    timer.advance(SECOND);
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(Duration::from_nanos(8_999_999_999));
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(Duration::from_nanos(1));
    assert!(
        poll(wait.as_mut()).is_pending(),
        "the attempt starts in a later poll than the end of the hold"
    );
    assert!(matches!(poll(wait), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn waiters_do_not_wake_at_one_instant() {
    let upstream = Upstream::new("held").with_cooldown(Cooldown::new()).with_seed(1);
    let upstream = Arc::new(upstream);
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let waiters: Vec<_> = (0..1000)
        .map(|_| {
            let upstream = Arc::clone(&upstream);
            tokio::spawn(async move {
                drop(upstream.admit(Never).await.unwrap());
                began.elapsed()
            })
        })
        .collect();
    let mut slots = [0_u32; 51];
    for waiter in waiters {
        let waited = waiter.await.unwrap();
        assert!(waited >= 20 * SECOND, "{waited:?} is shorter than the hold");
        let slot = waited.saturating_sub(20 * SECOND).as_millis() / 100;
        slots[usize::try_from(slot).unwrap()] += 1; // the spread is five seconds, and tokio rounds up
    }
    // The expected number in each slot is twenty.
    assert!(slots.iter().all(|&n| n <= 70), "{slots:?}");
    assert!(slots[..50].iter().filter(|&&n| n > 0).count() > 45, "{slots:?}");
}

/// Returns the time until the last of many calls that start now is released.
fn last_of_many(upstream: &Upstream<&ManualTimer>, timer: &ManualTimer) -> Duration {
    let (began, mut last) = (timer.now(), Duration::ZERO);
    let mut waits: Vec<_> = (0..200).map(|_| Box::pin(upstream.admit(Never))).collect();
    loop {
        waits.retain_mut(|wait| poll(wait.as_mut()).is_pending());
        if waits.is_empty() {
            return last;
        }
        // Between the end of its sleep and its next check a waiter yields once and has no sleep.
        timer.advance(timer.until_next().unwrap_or_default());
        last = timer.now().saturating_sub(began);
    }
}

#[test]
fn a_hold_during_the_release_spreads_the_next_release_wider() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new().with_jitter(0.5), &timer);
    upstream.hold(10 * SECOND);
    timer.advance(11 * SECOND);
    assert_eq!(upstream.held(), None);
    upstream.hold(10 * SECOND);
    let last = last_of_many(&upstream, &timer);
    assert!(
        (17 * SECOND..=20_500 * SECOND / 1000).contains(&last),
        "the spread follows from 21 s in all: {last:?}"
    );

    // After the release ends, the next hold has its own spread again.
    timer.advance(4 * SECOND);
    upstream.hold(10 * SECOND);
    let last = last_of_many(&upstream, &timer);
    assert!((13 * SECOND..=15 * SECOND).contains(&last), "the spread follows from 10 s: {last:?}");
}

#[test]
fn the_spread_is_limited_after_many_holds() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new(), &timer);
    for _ in 0..1000 {
        upstream.hold(SECOND);
        timer.advance(SECOND + Duration::from_millis(100));
    }
    upstream.hold(SECOND);
    let last = last_of_many(&upstream, &timer);
    assert!(
        (7 * SECOND..=9 * SECOND).contains(&last),
        "the spread is a quarter of 32 hints: {last:?}"
    );
}

/// The hint of a hold that is over does not count for the next one.
#[test]
fn the_spread_follows_from_the_hints_of_one_hold() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new(), &timer);
    upstream.hold(60 * SECOND);
    timer.advance(120 * SECOND);
    for _ in 0..1000 {
        upstream.hold(SECOND);
        timer.advance(SECOND);
    }
    upstream.hold(SECOND);
    let last = last_of_many(&upstream, &timer);
    assert!((7 * SECOND..=9 * SECOND).contains(&last), "a quarter of 32 hints: {last:?}");
}

#[test]
fn the_jitter_is_a_share_of_the_hold() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new().with_jitter(5.0), &timer);
    upstream.hold(10 * SECOND);
    assert_eq!(upstream.held(), Some(10 * SECOND));
    let last = last_of_many(&upstream, &timer);
    assert!((18 * SECOND..=20 * SECOND).contains(&last), "the hold and as much again: {last:?}");
}

#[test]
fn a_call_during_the_release_does_not_overtake_the_waiters() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new().with_jitter(1.0), &timer);
    upstream.hold(100 * SECOND);
    timer.advance(101 * SECOND);
    let goes = (0..1000).filter(|_| poll(pin!(upstream.admit(Never))).is_ready()).count();
    // One in sixteen calls may go: 63 are expected, with a standard deviation of 8.
    assert!((10..=120).contains(&goes), "{goes} of 1000 calls went at once");
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_a_hold_and_takes_precedence_over_its_end() {
    let upstream = held_by(exact(), TokioTimer::new());
    let token = CancellationToken::new();
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let (outcome, ()) = tokio::join!(upstream.admit(&token), async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    });
    let cancelled = outcome.unwrap_err();
    assert_eq!(
        (cancelled.reason(), cancelled.attempts(), began.elapsed()),
        (StopReason::Cancelled, 0, SECOND)
    );
    assert_eq!(upstream.held(), Some(19 * SECOND));
    tokio::time::advance(20 * SECOND).await;
    // The hold is over, but a cancelled token starts nothing.
    assert_eq!(upstream.admit(&token).await.unwrap_err().reason(), StopReason::Cancelled);
}

#[test]
fn only_throttled_verdicts_hold() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new(), &timer);
    let cooldown = upstream.cooldown().unwrap();
    let fail = |verdict| {
        let outcome =
            poll(pin!(upstream.call(async { Err::<(), _>(WithVerdict(verdict)) }, verdict_of)));
        let Poll::Ready(Err(gave_up)) = outcome else { panic!("the call ends at once") };
        assert_eq!(
            (gave_up.last(), gave_up.verdict()),
            (Some(&WithVerdict(verdict)), Some(verdict))
        );
        upstream.held()
    };
    assert_eq!(fail(Verdict::fatal()), None);
    assert_eq!(fail(Verdict::transient()), None);
    assert_eq!(fail(Verdict::transient().after(SECOND)), None);
    assert_eq!(fail(Verdict::throttled().after(Duration::ZERO)), None);
    assert_eq!(fail(Verdict::throttled()), Some(SECOND));
    timer.advance(2 * SECOND);
    assert_eq!(fail(Verdict::throttled().after(3 * SECOND)), Some(3 * SECOND));
    timer.advance(4 * SECOND); // its release is over, too
    assert_eq!(fail(Verdict::throttled().after(Duration::MAX)), Some(cooldown.cap()));
    timer.advance(cooldown.cap() * 2);
    // The cooldown ignores whether the request may be sent again.
    assert_eq!(fail(Verdict::throttled().not_again().after(SECOND)), Some(SECOND));
}

/// Every way of reporting a verdict reaches the cooldown.
#[test]
fn every_throttled_attempt_on_an_upstream_holds_its_cooldown() {
    let throttled = Verdict::throttled().after(9 * SECOND);
    let timer = ManualTimer::new();
    let by_hand = held_by(exact(), &timer);
    by_hand.try_admit().unwrap().settle(&throttled);
    let by_retry = held_by(exact(), &timer);
    let policy = RetryPolicy::new().with_attempts(1).with_classifier(verdict_of);
    let call = pin!(
        retry(|_| async { Err::<(), _>(WithVerdict(throttled)) }, policy, Never).on(&by_retry)
    );
    assert!(poll(call).is_ready());
    assert_eq!([by_hand.held(), by_retry.held()], [Some(9 * SECOND); 2]);
    // `try_admit` does not wait. It returns the time until the end of the hold.
    let refused = by_hand.try_admit().unwrap_err();
    assert_eq!((refused.reason(), refused.retry_after()), (StopReason::Deadline, Some(9 * SECOND)));
}

#[test]
fn only_verdicts_and_hold_hold_a_cooldown() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new(), &timer);
    let call = upstream.call(async { Err::<(), _>(WithVerdict(Verdict::throttled())) }, Always);
    assert!(poll(pin!(call)).is_ready());
    assert_eq!(upstream.held(), None);
    // An upstream without a cooldown holds no call.
    let without = Upstream::new("free").with_timer(&timer);
    without.hold(SECOND);
    without.try_admit().unwrap().settle(&Verdict::throttled());
    assert_eq!(without.held(), None);
    without.try_admit().unwrap().succeeded();
}

#[test]
fn a_cap_of_zero_disables_holds() {
    let timer = ManualTimer::new();
    let upstream = held_by(Cooldown::new().with_cap(Duration::ZERO), &timer);
    upstream.hold(Duration::MAX);
    assert_eq!(upstream.held(), None);
    let call = upstream.call(async { Err::<(), _>(WithVerdict(Verdict::throttled())) }, verdict_of);
    assert!(poll(pin!(call)).is_ready());
    assert_eq!(upstream.held(), None);
}

/// A call that is dropped at any await leaves no sleeper and adds no hold.
#[test]
fn a_call_dropped_at_any_await_leaves_no_sleeper() {
    for polls in 0..5 {
        let timer = ManualTimer::new();
        let upstream = held_by(exact(), &timer);
        upstream.hold(SECOND);
        let mut started = false;
        {
            let operation = async {
                started = true;
                timer.sleep(SECOND).await;
                Err::<(), _>(WithVerdict(Verdict::throttled().after(5 * SECOND)))
            };
            let mut call = pin!(upstream.call(operation, verdict_of));
            for _ in 0..polls {
                let _ = poll(call.as_mut());
                timer.advance(SECOND);
            }
        }
        assert_eq!(timer.sleepers(), 0, "after {polls} polls");
        // The second poll is the yield between the end of the hold and the next check.
        assert_eq!(started, polls >= 3, "after {polls} polls");
        // The call ends at the fourth poll, one second ago.
        let left = (polls == 4).then_some(4 * SECOND).or((polls == 0).then_some(SECOND));
        assert_eq!(upstream.held(), left, "after {polls} polls");
    }
}

/// A call that cannot begin before its deadline ends at once. The error gives the time of the next
/// possible start.
#[tokio::test(start_paused = true)]
async fn a_call_held_beyond_its_deadline_ends_at_once() {
    let upstream = held_by(exact(), TokioTimer::new());
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    for (limit, attempts) in [(5, 0), (20, 0), (21, 1)] {
        let policy = RetryPolicy::new().with_total_timeout(limit * SECOND);
        let outcome =
            retry(|_| async { Ok::<_, WithVerdict>(()) }, policy, Never).on(&upstream).await;
        if attempts == 0 {
            let gave_up = outcome.unwrap_err();
            assert_eq!(
                (gave_up.reason(), gave_up.attempts()),
                (StopReason::Deadline, 0),
                "limit {limit}"
            );
            assert_eq!(
                (gave_up.retry_after(), began.elapsed()),
                (Some(20 * SECOND), Duration::ZERO)
            );
        } else {
            outcome.unwrap();
            assert_eq!(began.elapsed(), 20 * SECOND);
        }
    }
}

/// A hold may grow while the call waits. The call ends as soon as the rest of the hold does not
/// fit.
#[test]
fn a_hold_that_grows_beyond_the_deadline_ends_the_call() {
    let timer = ManualTimer::new();
    let upstream = held_by(exact(), &timer);
    upstream.hold(3 * SECOND);
    let policy = RetryPolicy::new().with_total_timeout(10 * SECOND);
    let mut call = pin!(retry(|_| async { Ok::<_, WithVerdict>(()) }, policy, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    upstream.hold(15 * SECOND);
    timer.advance(3 * SECOND);
    assert!(poll(call.as_mut()).is_pending());
    let Poll::Ready(Err(gave_up)) = poll(call) else {
        panic!("the hold does not fit the deadline")
    };
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 0));
    assert_eq!((gave_up.elapsed(), gave_up.retry_after()), (3 * SECOND, Some(12 * SECOND)));
    assert_eq!(timer.sleepers(), 0);
}

/// Each wait for a hold is reported as an event.
#[test]
fn a_hold_is_reported() {
    let timer = ManualTimer::new();
    let events = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&events);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            assert_eq!(by, HeldBy::Cooldown);
            sink.lock().unwrap().push((attempt, delay, event.to_string()));
        }
    };
    let upstream = held_by(exact(), &timer).with_shared_observer(observer);
    upstream.hold(3 * SECOND);
    let mut call = pin!(
        retry(|_| async { Ok::<_, WithVerdict>(()) }, RetryPolicy::new(), Never).on(&upstream)
    );
    assert!(poll(call.as_mut()).is_pending());
    upstream.hold(5 * SECOND);
    timer.advance(3 * SECOND);
    for _ in 0..3 {
        assert!(poll(call.as_mut()).is_pending());
    }
    timer.advance(2 * SECOND);
    assert!(poll(call.as_mut()).is_pending());
    assert!(poll(call).is_ready());
    let words = |held: &str| format!("held: attempt 1 of 3 waits at least {held} for the cooldown");
    let expected = [(1, Some(3 * SECOND), words("3.0s")), (1, Some(2 * SECOND), words("2.0s"))];
    assert_eq!(*events.lock().unwrap(), expected);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(Duration),
    Hold(Duration),
    Wait,
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..100_000_u64).prop_map(Duration::from_millis),
        1 => any::<u64>().prop_map(Duration::from_nanos),
        1 => Just(Duration::MAX),
        1 => Just(Duration::from_nanos(1)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![duration().prop_map(Step::Pass), duration().prop_map(Step::Hold), Just(Step::Wait)]
}

proptest! {
    /// The model: an end that only grows, a beginning that is set while nothing is held or
    /// released, and the longest hint since a hold last began.
    #[test]
    fn a_hold_is_only_extended(
        steps in prop::collection::vec(step(), 1..60),
        cap in duration(),
        jitter in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0..2.0_f64],
    ) {
        const LAST: Duration = Duration::from_nanos(u64::MAX);
        let timer = ManualTimer::new();
        let cooldown = Cooldown::new().with_cap(cap).with_jitter(jitter);
        let upstream = held_by(cooldown, &timer);
        let jitter = upstream.cooldown().unwrap().jitter();
        let least = if jitter > 0.0 { SECOND / 4 } else { Duration::ZERO };
        let (mut since, mut until, mut hint) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let spread = |since: Duration, until: Duration, hint: Duration| {
            let held = until.saturating_sub(since).min(hint.saturating_mul(32)).min(cap);
            Duration::try_from_secs_f64(held.as_secs_f64() * jitter).unwrap_or(cap).max(least).min(LAST)
        };
        for step in steps {
            let now = timer.now().min(LAST);
            match step {
                Step::Pass(by) => timer.advance(by),
                Step::Hold(after) => {
                    upstream.hold(after);
                    if !after.min(cap).is_zero() {
                        if until.is_zero() || until <= now && until.saturating_add(spread(since, until, hint)).min(LAST) <= now {
                            since = now;
                        }
                        let asked = after.min(cap).min(LAST);
                        hint = if until <= now { asked } else { hint.max(asked) };
                        until = until.max(now.saturating_add(after.min(cap)).min(LAST));
                    }
                }
                Step::Wait => {
                    let mut wait = pin!(upstream.admit(Never));
                    let free = poll(wait.as_mut()).is_ready();
                    prop_assert!(!free || until <= now);
                    prop_assert!(free || until.saturating_add(spread(since, until, hint)).min(LAST) > now);
                    if let Some(delay) = timer.until_next() {
                        let rest = until.saturating_sub(now);
                        let most = (rest + spread(since, until, hint)).as_secs_f64();
                        prop_assert!(delay >= rest);
                        prop_assert!(delay.as_secs_f64() <= most * 1.000_001 + 1e-6);
                    }
                }
            }
            let left = until.saturating_sub(timer.now());
            prop_assert_eq!(upstream.held(), (!left.is_zero()).then_some(left));
        }
    }
}
