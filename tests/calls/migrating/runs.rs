//! A loop by hand over `&mut` state and its `Run`.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use resile::classify::Cut;
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, GaveUp, Jitter, Never, RetryPolicy, Run, StopReason};
use tokio_util::sync::CancellationToken;

use super::SECOND;
use crate::script::{Down, clock, drive};

/// The way in which a run makes its attempt.
#[derive(Clone, Copy, Debug)]
enum Way {
    Attempt,
    Next,
    BlockingNext,
}

/// Makes attempts that fail after a minute each. Returns the end of the run.
fn slow(policy: RetryPolicy, way: Way) -> GaveUp<Down> {
    let timer = ManualTimer::new();
    let operation = async || {
        timer.sleep(60 * SECOND).await;
        Err::<(), _>(Down(1))
    };
    let mut run = Run::new(policy, Never).on(clock(&timer));
    let end = async {
        loop {
            match way {
                Way::Attempt => {
                    run.attempt(operation()).await?;
                    continue;
                }
                Way::Next => run.next().await?,
                Way::BlockingNext => run.blocking_next()?,
            };
            run.failed(operation().await.unwrap_err())?;
        }
    };
    let Err(gave_up): Result<Infallible, _> = drive(end, &timer);
    gave_up
}

/// The limits of a run by hand are asked between its attempts, so the first one takes its minute.
#[test]
fn a_timeout_cuts_an_attempt_of_a_run_in_attempt_only() {
    let ten = Duration::from_secs(10);
    for (policy, cut, limit) in [
        (
            RetryPolicy::new().with_attempts(1).with_attempt_timeout(SECOND),
            Cut::AttemptTimeout(SECOND),
            SECOND,
        ),
        (RetryPolicy::new().with_total_timeout(ten), Cut::Deadline, ten),
    ] {
        let gave_up = slow(policy, Way::Attempt);
        assert_eq!((gave_up.cut(), gave_up.elapsed()), (Some(cut), limit));
        for way in [Way::Next, Way::BlockingNext] {
            let gave_up = slow(policy, way);
            assert_eq!((gave_up.cut(), gave_up.elapsed()), (None, 60 * SECOND), "{way:?}");
            assert_eq!((gave_up.attempts(), gave_up.last()), (1, Some(&Down(1))));
        }
    }
}

/// After `progressed` the delays and the attempts begin again with the failure that follows it.
#[test]
fn progress_between_attempts_counts_from_the_next_failure_on() {
    let backoff = Backoff::exponential(SECOND).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_attempts(3).with_backoff(backoff);
    for (policy, reason, starts) in [
        (policy, StopReason::Attempts, &[0, 1, 3, 4, 6][..]),
        (policy.with_total_timeout(5 * SECOND), StopReason::Deadline, &[0, 1, 3, 4]),
    ] {
        let (timer, mut began) = (ManualTimer::new(), vec![]);
        let mut run = Run::new(policy, Never).on(clock(&timer));
        let gave_up = loop {
            let operation = async {
                began.push(timer.now().as_secs());
                Err::<(), _>(Down(1))
            };
            match drive(run.attempt(operation), &timer) {
                Ok(_) if began.len() == 2 => run.progressed(),
                Ok(_) => {}
                Err(gave_up) => break gave_up,
            }
        };
        assert_eq!((gave_up.reason(), began.as_slice()), (reason, starts));
    }
}

#[test]
fn a_loop_without_an_end_ends_by_its_token() {
    let (timer, token, mut made) = (ManualTimer::new(), CancellationToken::new(), 0);
    let policy = RetryPolicy::new().with_attempts(u32::MAX);
    let mut run = Run::new(policy, &token).on(clock(&timer));
    let gave_up = loop {
        match drive(run.attempt(ready(Err::<(), _>(Down(1)))), &timer) {
            Ok(_) => made += 1,
            Err(gave_up) => break gave_up,
        }
        if made == 1_000 {
            token.cancel();
        }
    };
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 1_000));
}
