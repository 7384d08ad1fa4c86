//! Claims that follow by arithmetic alone: nested retries, a delay past the deadline, and many
//! calls that must all succeed.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::policy::Decision;
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, GaveUp, Jitter, Never, RetryPolicy, Run, StopReason, Upstream, Verdict,
};

use super::Published::PlusMinus;
use super::sim::seeded;
use super::{Check, Size};

/// Returns the number of calls to the last of `layers`. Each layer retries the next one, and the
/// last one is down.
fn reach(layers: u32, attempts: u32) -> u32 {
    fn fail(
        layers: u32,
        policy: &RetryPolicy,
        reached: &mut u32,
    ) -> Result<(), GaveUp<&'static str>> {
        let layer = Upstream::new("layer").with_timer(ManualTimer::new()).with_observer(&());
        let mut run = Run::new(policy, Never).on(&layer);
        loop {
            run.blocking_next()?;
            match layers.checked_sub(1) {
                None => *reached += 1,
                Some(layers) => drop(fail(layers, policy, reached)),
            }
            run.failed("down")?;
        }
    }
    let policy = RetryPolicy::new().with_attempts(attempts).with_backoff(Backoff::none());
    let mut reached = 0;
    let ended = fail(layers - 1, &policy, &mut reached);
    assert_eq!(ended.map_err(|gave_up| gave_up.reason()), Err(StopReason::Attempts));
    reached
}

/// Returns the seconds at which attempts start within a deadline of 5 s, and the time and the
/// reason of the end.
fn before_the_deadline() -> (Vec<u64>, Duration, StopReason) {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new()
        .with_attempts(10)
        .with_total_timeout(Duration::from_secs(5))
        .with_backoff(Backoff::exponential(Duration::from_secs(1)).with_jitter(Jitter::None));
    let upstream = Upstream::new("down").with_timer(timer.clone()).with_observer(&());
    let mut run = Run::new(policy, Never).on(&upstream);
    let mut at = Vec::new();
    loop {
        let went_on = run.blocking_next().and_then(|_| {
            at.push(timer.now().as_secs());
            run.failed("down")
        });
        if let Err(gave_up) = went_on {
            return (at, timer.now(), gave_up.reason());
        }
    }
}

/// Makes one call and returns true if it succeeds. Each attempt fails with probability `f`.
fn succeeds(f: f64, policy: &RetryPolicy, rng: &mut ChaCha8Rng) -> bool {
    (1..).map(Attempt::new).find_map(|attempt| {
        if rng.random::<f64>() >= f {
            return Some(true);
        }
        let decision =
            policy.decide(attempt, Some(Verdict::transient()), |range| rng.random_range(range));
        matches!(decision, Decision::Stop(_)).then_some(false)
    }) == Some(true)
}

/// Returns the share of jobs that succeed. A job is 50 calls that must all succeed, and each
/// attempt fails with a probability of 5 %.
fn whole_jobs(attempts: u32, jobs: u32) -> f64 {
    let policy = RetryPolicy::new().with_attempts(attempts);
    let mut rng = seeded(7);
    let whole =
        (0..jobs).filter(|_| (0..50).all(|_| succeeds(0.05, &policy, &mut rng))).count() as f64;
    whole / f64::from(jobs)
}

pub fn checks(size: Size) -> Vec<Check> {
    let (at, returned, stop) = before_the_deadline();
    let mut checks = vec![
        Check::new(
            "3 layers of 4 attempts: calls",
            PlusMinus(64.0, 0.0),
            (f64::from(reach(3, 4)), 0, ""),
        ),
        Check::new(
            "5 layers of 3 attempts: calls",
            PlusMinus(243.0, 0.0),
            (f64::from(reach(5, 3)), 0, ""),
        ),
        Check::text(
            "delays 1, 2, 4 s, deadline 5 s: attempts at",
            "[0, 1, 3] s",
            format!("{at:?} s"),
        ),
        Check::text("  the call returns at", "3s", format!("{returned:?}")),
        Check::text("  with the reason", "deadline", stop.as_str()),
    ];
    // (1 − fⁿ)⁵⁰ in percent, within five standard errors for this number of jobs.
    let jobs = size.pick(16_000, 100_000);
    for (attempts, published, errors) in
        [(1, 7.69, size.pick(1.05, 0.42)), (3, 99.38, size.pick(0.31, 0.12))]
    {
        let plural = if attempts == 1 { "" } else { "s" };
        checks.push(Check::new(
            format!("50 calls, 5 % fail, {attempts} attempt{plural}: all succeed"),
            PlusMinus(published, errors),
            (100.0 * whole_jobs(attempts, jobs), 2, " %"),
        ));
    }
    checks
}
