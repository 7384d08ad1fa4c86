//! A call with a budget may be dropped at any await. Nothing leaks, no token is spent twice, and
//! nothing waits for ever.

use std::cell::Cell;
use std::task::Poll;
use std::time::Duration;

use resile::time::ManualTimer;
use resile::{Attempt, Backoff, Budget, Jitter, ResilienceExt, RetryPolicy, Run, Upstream, retry};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);

/// Scripts that fail, stay pending, hang and recover, in many orders.
const SCRIPTS: &[&[Step]] = &[
    &[Step::Succeed],
    &[Step::Fail],
    &[Step::Hang],
    &[Step::Pend(3, true)],
    &[Step::Pend(2, false)],
    &[Step::Fail, Step::Succeed],
    &[Step::Fail, Step::Pend(2, true)],
    &[Step::Pend(1, false), Step::Fail, Step::Pend(2, false), Step::Succeed],
    &[Step::Fail, Step::Fail, Step::Hang],
];

const BACKOFFS: [Backoff; 3] = [
    Backoff::none(),
    Backoff::fixed(SECOND).with_jitter(Jitter::None),
    Backoff::steps(&[Duration::ZERO, SECOND]).with_jitter(Jitter::None),
];

/// Everything that outlives a call.
struct Scene {
    script: Script,
    timer: ManualTimer,
    token: CancellationToken,
    upstream: Upstream<ManualTimer>,
    policy: RetryPolicy,
    /// The number of attempts that a caller's own loop began and dropped before their first poll.
    unpolled: Cell<u32>,
}

impl Scene {
    const CAPACITY: u32 = 100;
    /// The tokens at the start. They are few enough that no deposit is lost at the capacity.
    const START: u32 = 50;

    fn new(steps: &'static [Step], backoff: Backoff) -> Self {
        let budget = Budget::new().with_capacity(Self::CAPACITY).with_deposit(1.0);
        (Self::START..Self::CAPACITY).for_each(|_| assert!(budget.withdraw()));
        let policy = RetryPolicy::new()
            .with_attempts(40)
            .with_total_timeout(SECOND * 60)
            .with_backoff(backoff);
        let (timer, token) = (ManualTimer::new(), CancellationToken::new());
        let upstream = upstream(&timer).with_budget(budget);
        Self { script: Script::new(steps), timer, token, upstream, policy, unpolled: Cell::new(0) }
    }

    /// Checks the state after the call is gone. `done` is whether it succeeded, if it ended.
    fn check(&self, done: Option<bool>, polls: u32) {
        let retries = (self.script.begun() + self.unpolled.get()).saturating_sub(1);
        let deposits = u32::from(done == Some(true));
        let at = format!("dropped after {polls} polls, {:?}", self.script);
        assert_eq!(
            self.upstream.budget().unwrap().available(),
            Self::START - retries + deposits,
            "{at}"
        );
        assert_eq!(self.script.drops(), self.script.starts(), "{at}");
        assert_eq!(self.timer.sleepers(), 0, "{at}");
        assert!(!self.token.is_cancelled(), "{at}");
    }
}

/// Polls a call n times and drops it, for every n until the call completes.
fn drop_at_every_await(call: &impl AsyncFn(&Scene) -> Result<u32, ()>) {
    let mut longest = 0;
    for steps in SCRIPTS {
        for backoff in BACKOFFS {
            for polls in 0.. {
                let scene = Scene::new(steps, backoff);
                let done = {
                    let mut call = Box::pin(call(&scene));
                    let done = (0..polls).find_map(|_| match poll(call.as_mut()) {
                        Poll::Ready(outcome) => Some(outcome.is_ok()),
                        Poll::Pending => {
                            // A call that waits for the clock needs an advance. A call that wakes
                            // itself does not.
                            if let Some(left) = scene.timer.until_next() {
                                scene.timer.advance(left.min(SECOND));
                            }
                            None
                        }
                    });
                    drop(call);
                    done
                };
                scene.check(done, polls);
                longest = longest.max(polls);
                if done.is_some() {
                    break;
                }
            }
        }
    }
    assert!(longest > 10, "the scripts were pending too rarely");
}

#[test]
fn a_retry_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        retry(|_| scene.script.play(), &scene.policy, &scene.token)
            .on(&scene.upstream)
            .await
            .map_err(drop)
    });
}

#[test]
fn a_retry_of_timeouts_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        let op = |_| scene.script.play().timeout(SECOND * 5).on(&scene.upstream);
        retry(op, &scene.policy, &scene.token).on(&scene.upstream).await.map_err(drop)
    });
}

#[test]
fn a_retry_with_an_attempt_timeout_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        let policy = scene.policy.with_attempt_timeout(SECOND * 5);
        retry(|_| scene.script.play(), policy, &scene.token).on(&scene.upstream).await.map_err(drop)
    });
}

#[test]
fn a_timeout_of_a_retry_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        let call = retry(|_| scene.script.play(), &scene.policy, &scene.token).on(&scene.upstream);
        let flat = async { call.await.map_err(|gave_up| gave_up.into_last().unwrap_or(Down(0))) };
        flat.timeout(SECOND * 30).on(&scene.upstream).await.map_err(drop)
    });
}

#[test]
fn a_run_by_attempt_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        let mut run = Run::new(&scene.policy, &scene.token).on(&scene.upstream);
        loop {
            if let Some(value) = run.attempt(scene.script.play()).await.map_err(drop)? {
                return Ok(value);
            }
        }
    });
}

#[test]
fn a_run_by_next_dropped_at_any_await_leaks_nothing() {
    drop_at_every_await(&async |scene: &Scene| {
        let mut run = Run::new(&scene.policy, &scene.token).on(&scene.upstream);
        loop {
            run.next().await.map_err(drop)?;
            // In a run by hand only the caller can cut an attempt.
            match scene.script.play().timeout(SECOND * 5).on(&scene.upstream).await {
                Ok(value) => return Ok(run.succeeded(value)),
                Err(error) => run.failed(error).map_err(drop)?,
            }
        }
    });
}

/// A run outlives its attempts. Its attempts are dropped one by one at different points, and each
/// retry spends one token.
#[test]
fn a_run_spends_one_token_for_each_dropped_retry() {
    for (steps, backoff) in
        SCRIPTS.iter().flat_map(|steps| BACKOFFS.map(|backoff| (*steps, backoff)))
    {
        for polls in 1..6 {
            let scene = Scene::new(steps, backoff);
            let mut run = Run::new(&scene.policy, &scene.token).on(&scene.upstream);
            let mut success = false;
            for _ in 0..20 {
                let mut attempt = Box::pin(run.attempt(scene.script.play()));
                let done = (0..polls).find_map(|_| match poll(attempt.as_mut()) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                });
                success = matches!(done, Some(Ok(Some(_))));
                if success || matches!(done, Some(Err(_))) {
                    break;
                }
                drop(attempt);
                // Each wait is dropped in the middle, but the delay still ends.
                scene.timer.advance(SECOND / 2);
            }
            drop(run);
            scene.check(Some(success), polls);
        }
    }
}

/// In a run by hand the wait or the caller's own attempt is dropped.
#[test]
fn a_run_by_hand_spends_one_token_for_each_dropped_retry() {
    for (steps, backoff) in
        SCRIPTS.iter().flat_map(|steps| BACKOFFS.map(|backoff| (*steps, backoff)))
    {
        for polls in 0..6 {
            let scene = Scene::new(steps, backoff);
            let mut run = Run::<Down, _, _>::new(&scene.policy, &scene.token).on(&scene.upstream);
            let mut success = false;
            for _ in 0..20 {
                scene.timer.advance(SECOND / 2);
                let Poll::Ready(begun) = poll(Box::pin(run.next()).as_mut()) else { continue };
                if begun.is_err() {
                    break;
                }
                let mut attempt = Box::pin(scene.script.play());
                let done = (0..polls).find_map(|_| match poll(attempt.as_mut()) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                });
                drop(attempt);
                scene.unpolled.set(scene.unpolled.get() + u32::from(polls == 0));
                match done {
                    Some(Ok(_)) => success = true,
                    Some(Err(error)) if run.failed(error).is_err() => break,
                    Some(Err(_)) | None => continue,
                }
                break;
            }
            if success {
                let () = run.succeeded(());
            } else {
                drop(run);
            }
            scene.check(Some(success), polls);
        }
    }
}

/// A call without an upstream runs on tokio's clock. Each attempt is dropped once, before the next
/// begins.
#[tokio::test(start_paused = true)]
async fn calls_without_an_upstream_dropped_at_any_await_leak_nothing() {
    for (steps, backoff) in
        SCRIPTS.iter().flat_map(|steps| BACKOFFS.map(|backoff| (*steps, backoff)))
    {
        for limit in [None, Some(SECOND * 5)] {
            let policy = RetryPolicy::new()
                .with_attempts(40)
                .with_total_timeout(SECOND * 60)
                .with_backoff(backoff);
            let policy = limit.map_or(policy, |limit| policy.with_attempt_timeout(limit));
            for named in [false, true] {
                for polls in 0.. {
                    let (script, token, begun) =
                        (Script::new(steps), CancellationToken::new(), Cell::new(0));
                    let op = |attempt: Attempt| {
                        assert_eq!(script.starts(), script.drops(), "two attempts at once");
                        begun.set(begun.get() + 1);
                        assert_eq!(attempt.number(), begun.get());
                        script.play()
                    };
                    let call = async {
                        let call = retry(op, policy, &token);
                        if named { call.on("named").await } else { call.await }
                    };
                    let mut call = Box::pin(call);
                    let mut is_done = false;
                    for _ in 0..polls {
                        is_done = poll(call.as_mut()).is_ready();
                        if is_done {
                            break;
                        }
                        tokio::time::advance(SECOND).await;
                    }
                    drop(call);
                    assert_eq!(
                        (script.drops(), script.starts()),
                        (begun.get(), begun.get()),
                        "after {polls} polls"
                    );
                    if is_done {
                        break;
                    }
                }
            }
        }
    }
}
