//! No input value and no panic in the caller's code makes a call panic, hang or leak.
//!
//! Tests named `trap_09_…` and `trap_13_…` stand for the points 9 and 13 of the section "The
//! behaviour" in `COMPARE.md`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::observe::Event;
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Jitter, Never, ResilienceExt, RetryPolicy, Run,
    StopReason, Upstream, Verdict, retry, retry_stream,
};

use super::script::{Down, Script, Step, drive, drive_for};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);
const DURATIONS: [Duration; 5] =
    [Duration::ZERO, NANO, SECOND, Duration::from_secs(u64::MAX), Duration::MAX];
const NUMBERS: [f64; 11] = [
    f64::NAN,
    0.0,
    -0.0,
    -1.0,
    f64::NEG_INFINITY,
    f64::MIN_POSITIVE,
    0.5,
    1.000_000_000_1,
    1e300,
    f64::MAX,
    f64::INFINITY,
];

fn jitters() -> impl Iterator<Item = Jitter> {
    let kinds = [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated];
    kinds.into_iter().chain(NUMBERS.map(Jitter::Proportional))
}

fn curves() -> Vec<Backoff> {
    let mut curves = vec![
        Backoff::none(),
        Backoff::steps(&[]),
        Backoff::steps(&[Duration::MAX, Duration::ZERO]),
        Backoff::custom(|_| Duration::MAX),
    ];
    for base in DURATIONS {
        curves.extend([Backoff::fixed(base), Backoff::linear(base), Backoff::fibonacci(base)]);
        curves.extend(NUMBERS.map(|factor| Backoff::exponential(base).with_factor(factor)));
    }
    curves
}

#[test]
fn trap_09_delays_saturate() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for curve in curves() {
        for cap in DURATIONS.map(Some).into_iter().chain([None]) {
            let capped = cap.map_or(curve, |cap| curve.with_cap(cap));
            for jitter in jitters() {
                for retry in [0, 1, 2, 31, 32, 33, 47, 48, 64, 65, 1 << 31, u32::MAX - 1, u32::MAX]
                {
                    for previous in [Duration::ZERO, SECOND, Duration::MAX] {
                        let delay = capped
                            .with_jitter(jitter)
                            .delay(retry, previous, |range| rng.random_range(range));
                        assert!(
                            cap.is_none_or(|cap| delay <= cap),
                            "{capped:?}, {jitter:?}, retry {retry}: {delay:?}"
                        );
                    }
                }
            }
        }
    }
    let saturating = Backoff::exponential(SECOND).with_cap(Duration::MAX).with_jitter(Jitter::None);
    assert_eq!(saturating.delay(u32::MAX, SECOND, |range| rng.random_range(range)), Duration::MAX);
}

#[test]
fn trap_09_decisions_saturate() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for curve in curves() {
        for hint_cap in DURATIONS {
            let policy = RetryPolicy::new()
                .with_attempts(u32::MAX)
                .with_backoff(curve)
                .with_hint_cap(hint_cap);
            for hint in DURATIONS {
                for left in DURATIONS.map(Some).into_iter().chain([None]) {
                    for number in [1, u32::MAX - 1, u32::MAX] {
                        let failed = Attempt::new(number)
                            .with_delay(hint)
                            .with_elapsed(hint)
                            .with_remaining(left);
                        let throttled = Verdict::throttled().after(hint);
                        for verdict in [
                            Some(throttled),
                            Some(throttled.not_again()),
                            Some(Verdict::transient()),
                            None,
                        ] {
                            policy.decide(failed, verdict, |range| rng.random_range(range));
                        }
                    }
                }
            }
        }
    }
}

/// Whole calls with extreme settings, on a clock up to its last reading.
#[test]
fn trap_09_calls_saturate() {
    for now in DURATIONS {
        for deadline in DURATIONS.map(Some).into_iter().chain([None]) {
            for delay in DURATIONS {
                for hint in DURATIONS {
                    let timer = ManualTimer::new();
                    timer.advance(now);
                    let script =
                        Script::new(&[Step::Fail, Step::Pend(1, false), Step::Fail, Step::Succeed]);
                    let mut policy = RetryPolicy::new()
                        .with_attempts(u32::MAX)
                        .with_hint_cap(Duration::MAX)
                        .with_backoff(Backoff::fixed(delay).with_jitter(Jitter::Decorrelated))
                        .with_classifier(move |_: &Down| Verdict::transient().after(hint));
                    if let Some(deadline) = deadline {
                        policy = policy.with_total_timeout(deadline);
                    }
                    let observer =
                        |event: &Event<'_>| drop(format!("{event} {event:?} {:?}", event.kind));
                    let upstream = Upstream::new("end of time").with_timer(&timer);
                    let op = |_| script.play().timeout(Duration::MAX).on(&upstream);
                    let call = retry(op, &policy, Never).on(upstream.observed_by(&observer));
                    match drive_for(100, call, &timer).expect("the call hangs") {
                        Ok(number) => assert_eq!(number, 4),
                        // At the last reading of the clock a timeout elapses at once. All other
                        // errors come from the deadline.
                        Err(gave_up) => {
                            assert_eq!(gave_up.reason(), StopReason::Deadline, "{gave_up}");
                        }
                    }
                }
            }
        }
    }
}

/// A timer whose sleeps end at once, like a timer with coarse ticks.
struct InstantTimer;

impl Timer for InstantTimer {
    type Sleep = std::future::Ready<()>;

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::ready(())
    }
}

fn instant() -> Upstream<InstantTimer> {
    Upstream::new("instant").with_timer(InstantTimer)
}

/// Delays that take no time also yield to other tasks.
#[test]
fn trap_13_sleeps_that_end_at_once_yield() {
    let policy = RetryPolicy::new()
        .with_attempts(u32::MAX)
        .with_backoff(Backoff::fixed(NANO).with_jitter(Jitter::None));
    let calls = Cell::new(0_u32);
    // An attempt counts when it begins. A run takes the future of the next attempt before it waits
    // for the delay.
    let fails = || async {
        calls.set(calls.get() + 1);
        assert!(calls.get() <= 1000, "{} attempts in ten polls", calls.get());
        Err::<(), _>(Down(1))
    };
    assert!(
        drive_for(10, retry(|_| fails(), &policy, Never).on(&instant()), &ManualTimer::new())
            .is_none()
    );
    assert!(calls.replace(0) <= 320);
    let instant_upstream = instant();
    let mut run = Run::new(&policy, Never).on(&instant_upstream);
    let endless = async { while run.attempt(fails()).await.unwrap().is_none() {} };
    assert!(drive_for(10, endless, &ManualTimer::new()).is_none());
    assert!(calls.replace(0) <= 320);
    let open = |_| {
        let failed = fails();
        async { failed.await.map(|()| stream::empty::<Result<u32, Down>>()) }
    };
    let endless =
        async { retry_stream(open, &policy, Never).on(&instant()).for_each(|_| async {}).await };
    assert!(drive_for(10, endless, &ManualTimer::new()).is_none());
    assert!(calls.get() <= 320);
}

#[test]
fn zero_attempts_is_one_and_zero_capacity_is_no_retry() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let policy = RetryPolicy::new().with_attempts(0);
    let upstream = Upstream::new("once").with_timer(&timer);
    let gave_up =
        drive(retry(|_| script.play(), &policy, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.starts()),
        (StopReason::Attempts, 1, 1)
    );
    for (deposit, filled) in
        [(f64::NAN, 0), (-1.0, 0), (0.0, 0), (f64::NEG_INFINITY, 0), (f64::INFINITY, 7), (1e300, 7)]
    {
        let none = Budget::new().with_capacity(0).with_deposit(deposit);
        none.deposit();
        assert!(!none.withdraw());
        let some = Budget::new().with_capacity(7).with_deposit(deposit);
        (0..7).for_each(|_| assert!(some.withdraw()));
        some.deposit();
        assert_eq!(some.available(), filled, "a deposit of {deposit}");
    }
    let most = Budget::new().with_capacity(u32::MAX).with_deposit(f64::MAX);
    most.deposit();
    assert_eq!((most.available(), most.capacity()), (u32::MAX, u32::MAX));
}

/// The caller's code that panics the n-th time it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Culprit {
    Observer,
    Classifier,
    Closure,
    Operation,
}

/// The way to make a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Retry,
    Attempt,
    Next,
    Blocking,
}

/// Makes a call that fails twice and then succeeds. The culprit panics at its run number `at`.
/// Returns whether it panicked.
fn with_panic(culprit: Culprit, at: u32, way: Way, backoff: Backoff) -> bool {
    let (left, calls) = (Cell::new(at), Cell::new(0_u32));
    let trip = |who| {
        if who == culprit {
            left.set(left.get().wrapping_sub(1));
            if left.get() == 0 {
                resume_unwind(Box::new("injected")); // panics without printing a message
            }
        }
    };
    let script = Script::new(&[Step::Fail, Step::Pend(1, false), Step::Succeed]);
    let timer = ManualTimer::new();
    let budget = Budget::new().with_capacity(100).with_deposit(1.0);
    let upstream = Upstream::new("shared").with_budget(budget).with_breaker(Breaker::new());
    let upstream = upstream.with_bulkhead(Bulkhead::new(1)).with_timer(&timer);
    let budget = upstream.budget().unwrap();
    (0..50).for_each(|_| assert!(budget.withdraw()));
    let policy = RetryPolicy::new().with_backoff(backoff).with_classifier(|_: &Down| {
        trip(Culprit::Classifier);
        true
    });
    let observer = |_: &Event<'_>| trip(Culprit::Observer);
    let op = || {
        calls.set(calls.get() + 1);
        trip(Culprit::Closure);
        let playing = script.play();
        async {
            let outcome = playing.await;
            trip(Culprit::Operation);
            outcome
        }
    };
    let call = async {
        let mut run = Run::new(&policy, Never).on(upstream.observed_by(&observer));
        match way {
            Way::Retry => {
                retry(|_| op(), &policy, Never).on(upstream.observed_by(&observer)).await.unwrap()
            }
            Way::Attempt => loop {
                if let Some(value) = run.attempt(op()).await.unwrap() {
                    break value;
                }
            },
            Way::Next | Way::Blocking => loop {
                if way == Way::Next {
                    run.next().await.unwrap()
                } else {
                    run.blocking_next().unwrap()
                };
                match op().await {
                    Ok(value) => break run.succeeded(value),
                    Err(error) => run.failed(error).unwrap(),
                }
            },
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(call, &timer)));
    let at = format!("{culprit:?} {at}, {way:?}, {backoff:?}: {outcome:?}");
    assert_eq!((script.drops(), timer.sleepers()), (script.starts(), 0), "{at}");
    // A retry begins an attempt before it calls the closure. `attempt` begins it at the first poll
    // of the future.
    let begun = if way == Way::Attempt { script.begun() } else { calls.get() };
    let retries = begun.saturating_sub(1);
    // The budget gets a success before the observer does.
    let success_recorded = culprit == Culprit::Observer && script.begun() == 3 && outcome.is_err();
    let deposits = u32::from(outcome.is_ok() || success_recorded);
    assert_eq!(budget.available(), 50 - retries + deposits, "{at}");

    let bulkhead = upstream.bulkhead().unwrap();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{at}");

    // The shared parts still work: the same upstream serves the next call.
    let next = Script::new(&[Step::Succeed]);
    let plain = RetryPolicy::new();
    assert_eq!(drive(retry(|_| next.play(), &plain, Never).on(&upstream), &timer).unwrap(), 1);
    outcome.is_err()
}

#[test]
fn a_panic_in_the_callers_code_passes_through_and_leaves_nothing_behind() {
    for culprit in [Culprit::Observer, Culprit::Classifier, Culprit::Closure, Culprit::Operation] {
        for way in [Way::Retry, Way::Attempt, Way::Next, Way::Blocking] {
            for backoff in [Backoff::none(), Backoff::fixed(SECOND)] {
                let panics = (1..20).filter(|at| with_panic(culprit, *at, way, backoff)).count();
                // Three starts, two failures with their waits, and a success make eight events.
                let runs = match culprit {
                    Culprit::Observer => 8,
                    Culprit::Classifier => 2,
                    Culprit::Closure | Culprit::Operation => 3,
                };
                assert_eq!(panics, runs, "{culprit:?}, {way:?}");
            }
        }
    }
}
