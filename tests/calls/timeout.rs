//! The postfix method `.timeout(limit)`.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use resile::time::{ManualTimer, Timer};
use resile::timeout::Elapsed;
use resile::{ResilienceExt, Upstream};

use super::script::{CountingTimer, Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);

/// Creates an upstream on this clock.
fn clocked<M: Timer>(timer: &M) -> Arc<Upstream<&M>> {
    Arc::new(Upstream::new("clock").with_timer(timer))
}

#[test]
fn a_future_that_is_ready_at_once_creates_no_sleep() {
    for (steps, outcome) in [(&[Step::Succeed][..], Ok(1)), (&[Step::Fail][..], Err(Down(1)))] {
        let (script, timer) = (Script::new(steps), CountingTimer::default());
        let limited = script.play().timeout(Duration::ZERO).on(clocked(&timer));
        assert_eq!(drive(limited, &timer.hands), outcome);
        assert_eq!((timer.reads.into_inner(), timer.sleeps.into_inner()), (0, 0));
    }
}

#[test]
fn the_limit_counts_from_the_first_poll() {
    let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
    let mut limited = Box::pin(script.play().timeout(SECOND).on(clocked(&timer)));
    timer.advance(SECOND * 9);
    assert!(poll(limited.as_mut()).is_pending());
    assert_eq!(timer.until_next(), Some(SECOND));
    timer.advance(SECOND);
    assert_eq!(poll(limited.as_mut()), Poll::Ready(Err(Down(0))));
    assert_eq!(
        (script.polls(), script.drops()),
        (2, 0),
        "the operation is polled before the limit is checked, and dropped with the timeout"
    );
    drop(limited);
    assert_eq!((script.drops(), timer.sleepers()), (1, 0));
}

#[test]
fn a_ready_result_takes_precedence_over_the_limit() {
    let (script, timer) = (Script::new(&[Step::Pend(1, true)]), ManualTimer::new());
    let mut limited = Box::pin(script.play().timeout(SECOND).on(clocked(&timer)));
    assert!(poll(limited.as_mut()).is_pending());
    timer.advance(SECOND * 9);
    assert_eq!(poll(limited.as_mut()), Poll::Ready(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_gives_one_poll() {
    tokio::time::advance(Duration::from_micros(100)).await;
    let script = Script::new(&[Step::Pend(1, true)]);
    assert_eq!(script.play().timeout(Duration::ZERO).await, Err(Down(0)));
    assert_eq!(script.polls(), 1);
}

/// The limit cuts an operation that uses up its task's coop budget in each poll, like tokio's own
/// timeout.
#[tokio::test(start_paused = true)]
async fn the_limit_cuts_an_operation_that_uses_up_the_coop_budget() {
    let clock = tokio::spawn(async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    });
    let busy = async {
        for _ in 0..1_000_000 {
            tokio::task::coop::consume_budget().await;
        }
        Ok::<_, Down>(())
    };
    assert_eq!(busy.timeout(SECOND).await, Err(Down(0)));
    clock.abort();
}

/// Each attempt has its own limit. An elapsed limit is an error like any other.
#[test]
fn a_timeout_limits_each_attempt_of_a_retry() {
    let (script, timer) =
        (Script::new(&[Step::Hang, Step::Hang, Step::Succeed]), ManualTimer::new());
    let policy = resile::RetryPolicy::new().with_backoff(resile::Backoff::none());
    let op = |_| script.play().timeout(SECOND).on(clocked(&timer));
    assert_eq!(
        drive(resile::retry(op, &policy, resile::Never).on(clocked(&timer)), &timer).unwrap(),
        3
    );
    assert_eq!((timer.now(), script.drops()), (SECOND * 2, 3));
}

/// An error that keeps the `Elapsed`.
#[derive(Debug, PartialEq)]
struct Late(Elapsed);

impl From<Elapsed> for Late {
    fn from(elapsed: Elapsed) -> Self {
        Self(elapsed)
    }
}

#[test]
fn elapsed_converts_into_an_io_error() {
    let timer = ManualTimer::new();
    let hangs = std::future::pending::<std::io::Result<()>>();
    let refused = drive(hangs.timeout(SECOND).on(clocked(&timer)), &timer).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string()),
        (std::io::ErrorKind::TimedOut, "did not finish within 1s".into())
    );
    assert!(refused.get_ref().unwrap().is::<Elapsed>());
}

proptest! {
    #[test]
    fn every_limit_holds(limit in super::backoff::durations()) {
        let timer = ManualTimer::new();
        let refused = drive(std::future::pending::<Result<(), Late>>().timeout(limit).on(clocked(&timer)), &timer).unwrap_err();
        prop_assert_eq!(refused.0.limit(), limit);
        prop_assert_eq!(timer.now(), limit);
        // A limit with more digits than a person sets has one behind the point.
        let words = [format!("did not finish within {limit:?}"), format!("did not finish within {limit:.1?}")];
        prop_assert!(words.contains(&refused.0.to_string()), "{}", refused.0);
    }
}
