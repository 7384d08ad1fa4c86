//! The breaker beside the parts that answer a limit of the caller, and beside a hold of the cooldown.

use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::{State, TripReason};
use resile::classify::Always;
use resile::quota::Rate;
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Cooldown, Health, Jitter, Never, Quota, RetryPolicy, StopReason, Throttle,
    Upstream, Verdict, retry,
};
use tokio::time::Instant;

use crate::script::drive;

const SECOND: Duration = Duration::from_secs(1);
/// A 429 and a 503, each with a `Retry-After` of one second.
const OWN_LIMIT: Verdict = Verdict::throttled().after(SECOND);
const OVERLOAD: Verdict = Verdict::overloaded().after(SECOND);

fn opening_for(delay: Duration) -> Breaker {
    Breaker::new().with_open_time(Backoff::fixed(delay).with_jitter(Jitter::None))
}

/// The parts that may answer a limit of the caller.
fn answering() -> Vec<Upstream> {
    let upstream = || Upstream::new("limited").with_breaker(Breaker::new());
    vec![
        upstream().with_cooldown(Cooldown::new()),
        upstream().with_quota(Quota::new().with_requests(Rate::per_second(1_000))),
        upstream().with_throttle(Throttle::new()),
    ]
}

/// Begins `attempts` at once and then settles all with `verdict`.
fn burst(upstream: &Upstream, attempts: usize, verdict: Verdict) {
    let admitted: Vec<_> = (0..attempts).map(|_| upstream.try_admit().unwrap()).collect();
    for attempt in admitted {
        attempt.settle(&verdict);
    }
}

/// An API with a rate limit refuses most calls of a burst and is healthy. The cooldown, the quota or the
/// throttle answers that, so the breaker does not count it. An overload counts.
#[tokio::test(start_paused = true)]
async fn a_burst_above_the_own_limit_opens_no_breaker_beside_a_part_that_answers_it() {
    for upstream in answering() {
        burst(&upstream, 100, OWN_LIMIT);
        let snapshot = upstream.snapshot().unwrap();
        assert_eq!((snapshot.state, snapshot.calls), (State::Closed, 0), "{upstream:?}");
    }
    for upstream in answering() {
        burst(&upstream, 100, OVERLOAD);
        assert_eq!(upstream.state(), Some(State::Open), "{upstream:?}");
    }
    // Nobody else protects this upstream, and a quota in shadow mode holds no call.
    let alone = Upstream::new("alone").with_breaker(Breaker::new());
    let quota = Quota::new().with_requests(Rate::per_second(1_000)).with_shadow(true);
    let shadow = Upstream::new("shadow").with_breaker(Breaker::new()).with_quota(quota);
    for upstream in [alone, shadow] {
        burst(&upstream, 100, OWN_LIMIT);
        assert_eq!(upstream.state(), Some(State::Open), "{upstream:?}");
    }
}

/// A limit of the caller ends a probe without a result: the breaker stays half-open and admits another one.
#[test]
fn a_probe_that_meets_the_own_limit_has_no_result() {
    let timer = ManualTimer::new();
    let breaker = opening_for(SECOND).with_consecutive(1).with_probes(1.0, 1);
    let upstream = Upstream::new("limited")
        .with_breaker(breaker)
        .with_cooldown(Cooldown::new().with_jitter(0.0))
        .with_timer(&timer);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    for _ in 0..3 {
        timer.advance(2 * SECOND);
        upstream.try_admit().unwrap().settle(&OWN_LIMIT);
        assert_eq!(upstream.state(), Some(State::HalfOpen));
    }
    timer.advance(2 * SECOND);
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(upstream.state(), Some(State::Closed));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Succeeds,
    Fails,
    Overloaded,
    /// The own limit refuses that many attempts.
    Limited(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Succeeds),
        3 => Just(Step::Fails),
        1 => Just(Step::Overloaded),
        3 => (1..40_usize).prop_map(Step::Limited),
    ]
}

proptest! {
    /// Refusals by the own limit change nothing at a breaker beside a cooldown: it shows the same as one
    /// that never met them.
    #[test]
    fn refusals_by_the_own_limit_are_neutral(steps in prop::collection::vec(step(), 0..60)) {
        let timer = ManualTimer::new();
        let upstream = || {
            let breaker = opening_for(7 * SECOND).with_window(60 * SECOND);
            let breaker = breaker.with_consecutive(3).with_failure_rate(0.5, 6);
            let cooldown = Cooldown::new().with_jitter(0.0);
            Upstream::new("limited").with_breaker(breaker).with_cooldown(cooldown).with_timer(&timer)
        };
        let (limited, spared) = (upstream(), upstream());
        for step in steps {
            let (verdict, times) = match step {
                Step::Succeeds => (None, 1),
                Step::Fails => (Some(Verdict::transient()), 1),
                Step::Overloaded => (Some(OVERLOAD), 1),
                Step::Limited(times) => (Some(OWN_LIMIT), times),
            };
            let is_limited = matches!(step, Step::Limited(_));
            for upstream in [Some(&limited), Some(&spared).filter(|_| !is_limited)].into_iter().flatten() {
                let admitted: Vec<_> = (0..times).filter_map(|_| upstream.try_admit().ok()).collect();
                for attempt in admitted {
                    match &verdict {
                        None => attempt.succeeded(),
                        Some(verdict) => attempt.settle(verdict),
                    }
                }
            }
            timer.advance(3 * SECOND);
            // Each is asked at the same time, so both become half-open together.
            let _ = (limited.try_admit(), spared.try_admit());
            prop_assert_eq!(limited.state(), spared.state());
            let (one, other) = (limited.snapshot().unwrap(), spared.snapshot().unwrap());
            prop_assert_eq!((one.calls, one.failures), (other.calls, other.failures));
        }
    }
}

/// Creates an upstream whose breaker is open for `open` and whose cooldown holds for `hold`.
fn open_and_held(open: Duration, hold: Duration) -> Upstream {
    let upstream = Upstream::new("both")
        .with_breaker(opening_for(open).with_consecutive(1))
        .with_cooldown(Cooldown::new());
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    assert_eq!(upstream.snapshot().unwrap().reason, Some(TripReason::Consecutive));
    upstream.hold(hold);
    upstream
}

/// A hold is not waited out for a refusal that is certain. A hold that outlasts the open time is.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_out_a_hold_for_a_certain_refusal() {
    let policy = RetryPolicy::new().with_total_timeout(60 * SECOND);
    let ready = |_| std::future::ready(Ok::<_, &str>(()));
    let upstream = open_and_held(5 * SECOND, 2 * SECOND);
    let began = Instant::now();
    let ends = [
        retry(ready, policy, Never).on(&upstream).await.unwrap_err(),
        upstream.call(std::future::ready(Ok::<_, &str>(())), Always).await.unwrap_err(),
    ];
    for end in ends {
        assert_eq!((end.reason(), end.attempts()), (StopReason::Open, 0));
        assert_eq!(end.retry_after(), Some(5 * SECOND));
    }
    let refused = upstream.admit(Never).await.map(drop).unwrap_err();
    assert_eq!(refused.reason(), StopReason::Open);
    assert_eq!(began.elapsed(), Duration::ZERO);

    let isolation = upstream.isolate();
    let end = retry(ready, policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((end.reason(), began.elapsed()), (StopReason::Open, Duration::ZERO));
    drop(isolation);

    let upstream = open_and_held(2 * SECOND, 5 * SECOND);
    retry(ready, policy, Never).on(&upstream).await.unwrap();
    assert!(began.elapsed() >= 5 * SECOND);
}

/// The breaker opens while a call waits for the end of a hold, for longer than that hold.
#[test]
fn a_hold_that_goes_on_is_asked_again() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("both")
        .with_breaker(opening_for(60 * SECOND).with_consecutive(1))
        .with_cooldown(Cooldown::new())
        .with_timer(&timer);
    let in_flight = upstream.try_admit().unwrap();
    upstream.hold(SECOND);
    let policy = RetryPolicy::new();
    let ready = |_| std::future::ready(Ok::<_, &str>(()));
    let mut call =
        Box::pin(std::future::IntoFuture::into_future(retry(ready, policy, Never).on(&upstream)));
    assert!(crate::script::poll(call.as_mut()).is_pending());
    in_flight.settle(&Verdict::transient());
    upstream.hold(20 * SECOND);
    let end = drive(call, &timer).unwrap_err();
    assert_eq!(end.reason(), StopReason::Open);
    assert!(end.elapsed() < 3 * SECOND, "{:?}", end.elapsed());
}

/// An overload is a failure in a row only if the program says so. A limit of the caller is none, and a success
/// ends the row.
#[tokio::test(start_paused = true)]
async fn overloads_in_a_row_open_the_breaker_that_counts_them() {
    let breaker = || Breaker::new().with_consecutive(4).without_failure_rate();
    let states = |breaker: Breaker, verdicts: &[Verdict]| {
        let upstream = Upstream::new("busy").with_breaker(breaker).with_cooldown(Cooldown::new());
        let admitted: Vec<_> = verdicts.iter().map(|_| upstream.try_admit().unwrap()).collect();
        for (attempt, verdict) in admitted.into_iter().zip(verdicts) {
            attempt.settle(verdict);
        }
        upstream.state()
    };
    let (open, closed) = (Some(State::Open), Some(State::Closed));
    assert_eq!(states(breaker(), &[OVERLOAD; 100]), closed);
    let counts = || breaker().with_overloads();
    assert_eq!(states(counts(), &[OVERLOAD; 3]), closed);
    assert_eq!(states(counts(), &[OVERLOAD; 4]), open);
    assert_eq!(states(counts(), &[OWN_LIMIT; 100]), closed);
    let (failed, well) = (Verdict::transient(), Verdict::fatal().with_health(Health::Healthy));
    assert_eq!(states(counts(), &[OVERLOAD, failed, OVERLOAD, failed]), open);
    let ended = [OVERLOAD, OVERLOAD, OVERLOAD, well, OVERLOAD, OVERLOAD, OVERLOAD];
    assert_eq!(states(counts(), &ended), closed);
}
