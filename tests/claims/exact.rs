//! What follows by arithmetic alone: retries over retries, a deadline that a delay would miss, and many calls that must
//! all succeed.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::{Backoff, Decision, GaveUp, Jitter, ManualTimer, Never, RetryPolicy, Stop, Timer, Verdict};

use crate::sim::seeded;

/// What reaches the last of `layers` that each retry the next, when it is down.
fn reach(layers: u32, attempts: u32) -> u32 {
    fn fail(layers: u32, policy: &RetryPolicy, reached: &mut u32) -> Result<(), GaveUp<()>> {
        let mut run = policy.start(Never).with_timer(ManualTimer::new()).with_observer(());
        loop {
            match layers.checked_sub(1) {
                None => *reached += 1,
                Some(layers) => drop(fail(layers, policy, reached)),
            }
            run.blocking_again(())?;
        }
    }
    let policy = RetryPolicy::new().with_attempts(attempts).with_backoff(Backoff::none());
    let mut reached = 0;
    let ended = fail(layers - 1, &policy, &mut reached);
    assert_eq!(ended.map_err(|gave_up| gave_up.stop()), Err(Stop::Attempts));
    reached
}

#[test]
fn retries_over_retries_multiply() {
    assert_eq!(reach(1, 4), 4);
    assert_eq!(reach(3, 4), 64);
    assert_eq!(reach(5, 3), 243);
}

#[test]
fn a_delay_that_would_miss_the_deadline_is_not_slept() {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new()
        .with_attempts(10)
        .with_deadline(Duration::from_secs(5))
        .with_backoff(Backoff::exponential(Duration::from_secs(1)).with_jitter(Jitter::None));
    let mut run = policy.start(Never).with_timer(timer.clone()).with_observer(());
    let mut at = Vec::new();
    let gave_up = loop {
        at.push(timer.now().as_secs());
        if let Err(gave_up) = run.blocking_again("down") {
            break gave_up;
        }
    };
    assert_eq!(at, [0, 1, 3]);
    assert_eq!((gave_up.stop(), gave_up.attempts()), (Stop::Deadline, 3));
    assert_eq!(timer.now(), Duration::from_secs(3), "it returns at once, not at the deadline");
}

/// Whether one call succeeds, when each attempt fails with probability `f`.
fn succeeds(f: f64, policy: &RetryPolicy, rng: &mut ChaCha8Rng) -> bool {
    (1..).map(resile::Attempt::new).find_map(|attempt| {
        if rng.random::<f64>() >= f {
            return Some(true);
        }
        matches!(policy.decide(attempt, Verdict::retry(), rng), Decision::Stop(_)).then_some(false)
    }) == Some(true)
}

/// Of jobs of 50 calls that must all succeed, each failing 5 % of the time, the share that does: (1 − fⁿ)⁵⁰. Within
/// five standard errors.
fn long_jobs_need_retries(jobs: u32) {
    for (attempts, expected) in [(1_u32, 0.0769_f64), (3, 0.9938)] {
        let policy = RetryPolicy::new().with_attempts(attempts);
        let mut rng = seeded(7);
        let whole = (0..jobs).filter(|_| (0..50).all(|_| succeeds(0.05, &policy, &mut rng))).count() as f64;
        let share = whole / f64::from(jobs);
        println!("{attempts} attempts: {share:.4}");
        let error = (expected * (1.0 - expected) / f64::from(jobs)).sqrt();
        assert!((share - expected).abs() <= 5.0 * error, "{attempts} attempts: {share} instead of {expected}");
    }
}

#[test]
fn a_job_of_many_calls_needs_retries() {
    long_jobs_need_retries(4_000);
}

#[test]
#[ignore = "the claim in full"]
fn a_job_of_many_calls_needs_retries_in_full() {
    long_jobs_need_retries(100_000);
}
