//! The policy of contention: many short attempts, and none of them counts against the upstream.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::time::Duration;

use resile::breaker::State;
use resile::policy::Decision;
use resile::{
    Attempt, Backoff, Breaker, Budget, Health, Jitter, Never, RetryPolicy, Upstream, Verdict, retry,
};
use tokio::time::Instant;

/// The verdict on a serialisation failure, a lock that was not available, or a version that changed.
const CONFLICT: Verdict = Verdict::transient().with_health(Health::Healthy);

#[test]
fn the_settings_are_as_documented() {
    let policy = RetryPolicy::contention();
    let exponential = |base, cap| {
        Backoff::exponential(Duration::from_millis(base)).with_cap(Duration::from_millis(cap))
    };
    assert_eq!(policy.attempts(), 10);
    let collision = exponential(5, 200).with_jitter(Jitter::Full);
    assert_eq!(policy.healthy_backoff(), Some(collision));
    assert_eq!(policy.backoff(), exponential(500, 1000).with_jitter(Jitter::Equal));
    assert_eq!(policy.throttled_backoff(), None);
    assert_eq!((policy.total_timeout(), policy.attempt_timeout()), (None, None));
    assert_eq!(policy.hint_cap(), RetryPolicy::new().hint_cap());
}

/// Nine delays of full jitter: 5, 10, 20, 40, 80 and 160 ms, and then the cap.
#[test]
fn no_call_waits_longer_than_its_longest_delays() {
    let policy = RetryPolicy::contention();
    for seed in 0..200 {
        let mut draws = super::backoff::seeded(seed);
        let mut total = Duration::ZERO;
        for number in 1..=9_u32 {
            let limit = Duration::from_millis((5 << (number - 1)).min(200));
            let decision = policy.decide(Attempt::new(number), Some(CONFLICT), &mut draws);
            let Decision::Retry(delay) = decision else { panic!("{decision:?}") };
            assert!(delay <= limit, "{number}: {delay:?}");
            total += delay;
        }
        assert!(total <= Duration::from_millis(915));
    }
}

/// A server that is down may end each connection at once. The ten attempts still last for seconds.
#[test]
fn an_outage_does_not_use_up_the_attempts_at_once() {
    let policy = RetryPolicy::contention();
    let unknown = Verdict::transient().with_health(Health::Unknown);
    for verdict in [Verdict::transient(), Verdict::throttled(), unknown] {
        for (draw_end, total) in [(false, 4250), (true, 8500)] {
            let mut draws =
                |range: RangeInclusive<u64>| if draw_end { *range.end() } else { *range.start() };
            let delays = (1..=9).map(|number| {
                let decision = policy.decide(Attempt::new(number), Some(verdict), &mut draws);
                let Decision::Retry(delay) = decision else { panic!("{decision:?}") };
                delay
            });
            assert_eq!(delays.sum::<Duration>(), Duration::from_millis(total), "{verdict:?}");
        }
    }
    // A collision after two lost connections has the delay of a third retry.
    let third = policy.decide(Attempt::new(3), Some(CONFLICT), |range| *range.end());
    assert_eq!(third, Decision::Retry(Duration::from_millis(20)));
}

/// Twelve transactions want one row. Each reads it, works for 3 ms and writes only if nobody else has
/// written. All succeed, and the breaker sees a healthy upstream.
#[tokio::test(start_paused = true)]
async fn contention_opens_no_breaker() {
    let upstream = Upstream::new("database").with_breaker(Breaker::new()).with_seed(1);
    let version = Cell::new(0_u32);
    let conflicts = RefCell::new(0);
    let began = Instant::now();
    let write = || async {
        let read = version.get();
        tokio::time::sleep(Duration::from_millis(3)).await;
        if version.get() == read {
            version.set(read + 1);
            return Ok(());
        }
        *conflicts.borrow_mut() += 1;
        Err("40001")
    };
    let policy = RetryPolicy::contention().with_classifier(|_: &&str| CONFLICT);
    let calls = (0..12).map(|_| retry(|_| write(), &policy, Never).on(&upstream));
    let ended = futures_util::future::join_all(calls).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(version.get(), 12);
    assert!(*conflicts.borrow() > 0);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(upstream.state(), Some(State::Closed));
}

/// What tasks need that write the same row again and again.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    /// Transactions that gave up, in per mille.
    failed: usize,
    /// The most attempts of a transaction.
    attempts: u32,
    /// The longest transaction, in milliseconds.
    longest: u128,
}

async fn writers(tasks: u32, attempts: u32) -> Needs {
    const ROUNDS: usize = 100;
    let upstream = Upstream::new("database").with_seed(1).with_observer(&());
    let policy = RetryPolicy::contention().with_attempts(attempts);
    let policy = policy.with_classifier(|_: &&str| CONFLICT);
    let (version, needs) =
        (Cell::new(0_u32), RefCell::new(Needs { failed: 0, attempts: 0, longest: 0 }));
    let write = async |attempt: Attempt| {
        let read = version.get();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let mut needs = needs.borrow_mut();
        needs.attempts = needs.attempts.max(attempt.number());
        if version.get() != read {
            return Err("40001");
        }
        version.set(read + 1);
        Ok(())
    };
    let task = async |_| {
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let done = retry(&write, &policy, Never).on(&upstream).await;
            let mut needs = needs.borrow_mut();
            needs.failed += usize::from(done.is_err());
            needs.longest = needs.longest.max(began.elapsed().as_millis());
        }
    };
    let all = ROUNDS * futures_util::future::join_all((0..tasks).map(task)).await.len();
    let needs = needs.into_inner();
    Needs { failed: 1000 * needs.failed / all, ..needs }
}

/// The table of `RetryPolicy::contention`. The unluckiest transaction lasts nearly as long as the load.
#[tokio::test(start_paused = true)]
async fn more_writers_need_more_attempts() {
    let table = [
        (2, 0, 8, 408),
        (5, 10, 18, 1420),
        (10, 27, 34, 2954),
        (20, 55, 70, 6076),
        (50, 137, 155, 15_217),
        (100, 249, 310, 30_155),
    ];
    for (tasks, failed, attempts, longest) in table {
        assert_eq!(writers(tasks, 10).await.failed, failed, "{tasks}");
        let all = Needs { failed: 0, attempts, longest };
        assert_eq!(writers(tasks, u32::MAX).await, all, "{tasks}");
    }
}

/// Each transaction collides twice before it commits. A capacity pays for the first ones only, whereas
/// the deposit of two retries pays for all. Without successes both end with the capacity.
#[tokio::test(start_paused = true)]
async fn the_deposit_pays_for_collisions_in_the_long_run() {
    let policy = RetryPolicy::contention().with_classifier(|_: &&str| CONFLICT);
    let run = async |budget: Budget, collisions: u32| {
        let upstream = Upstream::new("database").with_budget(budget.with_capacity(90));
        let (attempts, mut committed) = (Cell::new(0), 0);
        for _ in 0..1000 {
            let transaction = async |attempt: Attempt| {
                attempts.set(attempts.get() + 1);
                if attempt.number() > collisions { Ok(()) } else { Err("40001") }
            };
            let call = retry(transaction, &policy, Never).on(&upstream);
            committed += u32::from(call.await.is_ok());
        }
        (committed, attempts.get())
    };
    assert_eq!(run(Budget::new().with_deposit(2.0), 2).await, (1000, 3000));
    let (committed, _) = run(Budget::new(), 2).await;
    assert!(committed < 100, "{committed}");
    for deposit in [0.1, 2.0] {
        assert_eq!(run(Budget::new().with_deposit(deposit), 99).await, (0, 1000 + 90));
    }
}
