//! A call allocates nothing. This test is its own binary, because the counter is the allocator of
//! the whole program.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use resile::classify::Always;
use resile::quota::{self, Cost, Dimension, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::Resource;
use resile::{
    AdaptiveTimeout, Backoff, Breaker, Budget, Bulkhead, Cooldown, HedgePolicy, Never, Quota,
    ResilienceExt, RetryPolicy, Run, Throttle, Upstream, Verdict, hedge, retry,
};
use tokio_util::sync::CancellationToken;

static POLICY: RetryPolicy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none());
static SLOWLY: RetryPolicy = POLICY
    .with_total_timeout(Duration::from_secs(3600))
    .with_attempt_timeout(Duration::from_secs(60));

/// Returns an upstream with all parts. Tests run at the same time, so each has an upstream of its own:
/// the failures of one test would spend the budget of another one.
const fn upstream() -> Upstream {
    Upstream::new("all")
        .with_budget(Budget::new().with_deposit(10.0))
        .with_breaker(Breaker::new().without_consecutive().without_failure_rate())
        .with_cooldown(Cooldown::new())
        .with_throttle(Throttle::new())
        .with_bulkhead(Bulkhead::new(10))
        .with_adaptive_timeout(AdaptiveTimeout::new())
}

/// Polls the future until it ends.
fn drive<F: Future>(future: F) -> F::Output {
    let (mut future, mut cx) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Counts the allocations of the second run of `work`.
fn allocations(work: impl Fn()) -> u64 {
    work();
    measure(work).count_total
}

/// Fails this many times, then succeeds.
fn after(failures: u32, attempt: resile::Attempt) -> std::future::Ready<Result<u32, u32>> {
    let number = black_box(attempt.number());
    std::future::ready(if number > failures { Ok(number) } else { Err(number) })
}

/// Stays pending once, then succeeds.
async fn pends() -> std::io::Result<u32> {
    let mut polled = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut polled, true) { Poll::Ready(Ok(1)) } else { Poll::Pending }
    })
    .await
}

#[test]
fn the_counter_counts_allocations() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
}

/// Drives a run to its end with `attempt`.
async fn run(
    mut run: Run<u32, &RetryPolicy, &CancellationToken, impl resile::upstream::TargetFor<u32>>,
    failures: u32,
) -> bool {
    for number in 1.. {
        match run.attempt(after(failures, resile::Attempt::new(number))).await {
            Ok(None) => {}
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    unreachable!("u32::MAX attempts")
}

/// Drives a run to its end with `next`.
async fn run_by_hand(
    mut run: Run<u32, &RetryPolicy, &CancellationToken, impl resile::upstream::TargetFor<u32>>,
    failures: u32,
) -> bool {
    while let Ok(attempt) = run.next().await {
        match after(failures, attempt).await {
            Ok(value) => return run.succeeded(value) > 0,
            Err(error) if run.failed(error).is_err() => return false,
            Err(_) => {}
        }
    }
    false
}

/// A quota that is never used up.
static LIMITED: Upstream = Upstream::new("limited").with_quota(
    Quota::new()
        .with_requests(Rate::per_second(1_000_000))
        .with_tokens(Rate::per_second(1_000_000_000))
        .with_concurrency(100),
);

#[test]
fn a_reservation_and_its_settlement_allocate_nothing() {
    let cost = Cost::input(10).with_max_output(5);
    let usage = Usage::new().with_input(10).with_output(3);
    let settle = || {
        let mut admission = LIMITED.at_cost(cost).try_admit().unwrap();
        admission.record(usage);
        admission.succeeded();
    };
    assert_eq!(allocations(settle), 0);
    let withdraw = || LIMITED.at_cost(cost).try_admit().unwrap().withdraw();
    assert_eq!(allocations(withdraw), 0, "given back");
    let ask = |_| async {
        quota::record(usage);
        Ok::<_, u32>(1)
    };
    let call = || drive(retry(ask, &POLICY, Never).on(LIMITED.at_cost(cost)));
    assert_eq!(allocations(|| assert!(call().is_ok())), 0, "a call");
    let admit = || drive(LIMITED.admit(Never)).unwrap().succeeded();
    assert_eq!(allocations(admit), 0, "an admission");
}

/// An attempt on a bulkhead that learns its limit and on a throttle, with a refusal now and then.
#[test]
fn a_learned_limit_and_a_throttle_allocate_only_errors() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("learned")
        .with_bulkhead(Bulkhead::learned(50))
        .with_throttle(Throttle::new())
        .with_timer(timer.clone());
    let attempts = || {
        for number in 0..2_000 {
            let attempt = upstream.try_admit().unwrap();
            timer.advance(Duration::from_millis(1));
            if number % 100 == 1 {
                attempt.settle(&Verdict::throttled());
            } else {
                attempt.succeeded();
            }
        }
    };
    // Each refused attempt gives up, so it has an error.
    assert_eq!(allocations(attempts), 20);
    assert_eq!(upstream.throttled(), Some(0.0));
}

#[test]
fn a_reservation_under_a_lease_allocates_nothing() {
    let quota = Quota::new().with_tokens(Rate::per_second(1_000)).with_concurrency(100);
    let upstream = Upstream::new("leased").with_quota(quota).with_timer(ManualTimer::new());
    let shared = upstream.share().unwrap();
    let tokens = Resource::Quota(Dimension::Tokens);
    shared.extend(tokens, Duration::from_secs(60));
    let cost = Cost::input(10).with_max_output(5);
    let usage = Usage::new().with_input(10).with_output(8);
    let work = || {
        shared.adjust(tokens, 40);
        let mut admission = upstream.at_cost(cost).try_admit().unwrap();
        admission.record(usage);
        admission.succeeded();
        shared.set_low(tokens, 1_000);
        upstream.at_cost(cost).try_admit().unwrap().withdraw();
        let _ = (shared.balance(tokens), shared.waiting(tokens), shared.reported_level(tokens));
    };
    assert_eq!(allocations(work), 0);
    let refused = || assert!(upstream.at_cost(Cost::input(900)).try_admit().is_err());
    assert_eq!(allocations(refused), 1, "the error");
}

#[test]
fn a_wait_for_a_quota_allocates_at_most_once() {
    let quota = Quota::new().with_requests(Rate::per_second(1)).with_concurrency(1);
    let upstream = Upstream::new("busy").with_quota(quota).with_timer(ManualTimer::new());
    let held = upstream.try_admit().unwrap();
    let wait = || {
        let mut waits = pin!(upstream.admit(Never));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    };
    assert!(allocations(wait) <= 1);
    drop(held);
}

#[test]
fn success_and_three_failures_allocate_nothing() {
    let (token, upstream) = (CancellationToken::new(), upstream());
    for failures in [0, 3] {
        assert_eq!(
            allocations(|| assert!(drive(retry(|n| after(failures, n), &POLICY, Never)).is_ok())),
            0
        );
        let limited = || retry(|n| after(failures, n), &SLOWLY, &token);
        assert_eq!(
            allocations(|| assert!(drive(limited()).is_ok())),
            0,
            "with a token and timeouts"
        );
        assert_eq!(allocations(|| assert!(drive(limited().on("named")).is_ok())), 0, "with a name");
        assert_eq!(
            allocations(|| assert!(drive(limited().on(&upstream)).is_ok())),
            0,
            "on an upstream"
        );
        let new = || Run::new(&SLOWLY, &token);
        assert_eq!(allocations(|| assert!(drive(run(new(), failures)))), 0, "a run");
        assert_eq!(
            allocations(|| assert!(drive(run(new().on(&upstream), failures)))),
            0,
            "a run on an upstream"
        );
        assert_eq!(allocations(|| assert!(drive(run_by_hand(new(), failures)))), 0, "by hand");
        assert_eq!(
            allocations(|| assert!(drive(run_by_hand(new().on(&upstream), failures)))),
            0,
            "by hand, on an upstream"
        );
    }
    let one = || after(0, resile::Attempt::new(1));
    assert_eq!(
        allocations(|| assert!(drive(upstream.call(one(), Always)).is_ok())),
        0,
        "without a retry"
    );
    assert_eq!(
        allocations(|| drive(upstream.admit(&token)).unwrap().succeeded()),
        0,
        "by hand, without a retry"
    );
    let hedged = || hedge(|_| one(), HedgePolicy::new(), &token);
    assert_eq!(allocations(|| assert!(drive(hedged()).is_ok())), 0, "hedged");
    assert_eq!(
        allocations(|| assert!(drive(hedged().on(&upstream)).is_ok())),
        0,
        "hedged on an upstream"
    );
}

/// A call that gives up allocates its error, a single pointer, and nothing else.
#[test]
fn giving_up_allocates_the_error() {
    let (token, upstream) = (CancellationToken::new(), upstream());
    assert_eq!(allocations(|| assert!(drive(retry(|n| after(9, n), &POLICY, &token)).is_err())), 1);
    assert_eq!(
        allocations(|| assert!(
            drive(retry(|n| after(9, n), &POLICY, &token).on(&upstream)).is_err()
        )),
        1
    );
    assert_eq!(
        allocations(|| assert!(!drive(run(Run::new(&POLICY, &token).on(&upstream), 9)))),
        1,
        "a run"
    );
    token.cancel();
    assert_eq!(allocations(|| assert!(drive(upstream.admit(&token)).is_err())), 1, "refused");
}

/// The timer entries of the runtime are part of the future.
#[test]
fn a_call_that_waits_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let (token, upstream) = (CancellationToken::new(), upstream());
    let call = || retry(|_| pends(), &SLOWLY, &token);
    assert_eq!(allocations(|| assert!(drive(call()).is_ok())), 0);
    assert_eq!(allocations(|| assert!(drive(call().on(&upstream)).is_ok())), 0, "on an upstream");
    let limited = || retry(|_| pends().timeout(Duration::from_secs(9)), &SLOWLY, &token);
    assert_eq!(
        allocations(|| assert!(drive(limited()).is_ok())),
        0,
        "each attempt with its own timeout"
    );
    let by_run = || async { Run::new(&SLOWLY, &token).on(&upstream).attempt(pends()).await };
    assert_eq!(allocations(|| assert!(drive(by_run()).is_ok())), 0, "a run");
    assert_eq!(
        allocations(|| assert!(drive(upstream.call(pends(), Always)).is_ok())),
        0,
        "without a retry"
    );
    assert_eq!(
        allocations(|| assert!(drive(hedge(|_| pends(), HedgePolicy::new(), &token)).is_ok())),
        0,
        "a hedge"
    );
}

/// A clock whose sleeps are pending once.
struct Blink;

impl resile::time::Timer for Blink {
    type Sleep = BlinkSleep;

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BlinkSleep {
        BlinkSleep(false)
    }
}

struct BlinkSleep(bool);

impl Future for BlinkSleep {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A delay allocates nothing, apart from the caller's own timer.
#[test]
fn delays_allocate_nothing() {
    let token = CancellationToken::new();
    let upstream = upstream().with_timer(Blink);
    let policy = POLICY.with_backoff(Backoff::exponential(Duration::from_secs(1)));
    let call = || retry(|n| after(3, n), &policy, &token).on(&upstream);
    assert_eq!(allocations(|| assert!(drive(call()).is_ok())), 0);
    let new = || Run::new(&policy, &token).on(&upstream);
    assert_eq!(allocations(|| assert!(drive(run(new(), 3)))), 0, "a run");
    assert_eq!(allocations(|| assert!(drive(run_by_hand(new(), 3)))), 0, "by hand");
}
