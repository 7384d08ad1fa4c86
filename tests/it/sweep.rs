//! Dropped at every await point: nothing is leaked, paid twice or left waiting.

use std::task::Poll;
use std::time::Duration;

use resile::{Backoff, Budget, Jitter, ManualTimer, ResilienceExt, RetryPolicy, Withdrawal, retry};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);

/// Failing, pending, hanging and recovering, in many orders.
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

/// What stays when a call is gone.
struct Scene {
    script: Script,
    timer: ManualTimer,
    token: CancellationToken,
    budget: Budget,
    policy: RetryPolicy,
}

impl Scene {
    const CAPACITY: u32 = 100;
    /// Tokens at the start: few enough that no deposit is lost at the brim.
    const START: u32 = 50;

    fn new(steps: &'static [Step], backoff: Backoff) -> Self {
        let budget = Budget::new().with_capacity(Self::CAPACITY).with_deposit(1.0);
        (Self::START..Self::CAPACITY).for_each(|_| budget.withdraw().map(Withdrawal::spend).unwrap());
        let policy = RetryPolicy::new().with_attempts(40).with_deadline(SECOND * 60).with_backoff(backoff);
        Self { script: Script::new(steps), timer: ManualTimer::new(), token: CancellationToken::new(), budget, policy }
    }

    /// The call is gone; `done` is its outcome if it came to one.
    fn check(&self, done: Option<bool>, polls: u32) {
        let retries = self.script.begun().saturating_sub(1);
        let deposits = u32::from(done == Some(true));
        let at = format!("dropped after {polls} polls, {:?}", self.script);
        assert_eq!(self.budget.available(), Self::START - retries + deposits, "{at}");
        assert_eq!(self.script.drops(), self.script.starts(), "{at}");
        assert_eq!(self.timer.sleepers(), 0, "{at}");
        assert!(!self.token.is_cancelled(), "{at}");
    }
}

/// Polls what `call` makes n times, then drops it, for every n until it completes.
fn sweep(call: &impl AsyncFn(&Scene) -> Result<u32, ()>) {
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
                            // What waits only for the clock is let on; what wakes itself needs no clock.
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
    assert!(longest > 10, "the scripts were hardly pending");
}

#[test]
fn retry_dropped_anywhere() {
    sweep(&async |scene: &Scene| {
        retry(|_| scene.script.play(), &scene.policy, &scene.token)
            .with_timer(&scene.timer)
            .with_budget(&scene.budget)
            .await
            .map_err(drop)
    });
}

#[test]
fn retry_of_timeouts_dropped_anywhere() {
    sweep(&async |scene: &Scene| {
        let op = |_| scene.script.play().timeout(SECOND * 5).with_timer(&scene.timer);
        let call = retry(op, &scene.policy, &scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        call.await.map_err(drop)
    });
}

#[test]
fn timeout_of_a_retry_dropped_anywhere() {
    sweep(&async |scene: &Scene| {
        let call = retry(|_| scene.script.play(), &scene.policy, &scene.token)
            .with_timer(&scene.timer)
            .with_budget(&scene.budget);
        let flat = async { call.await.map_err(|gave_up| gave_up.into_last().unwrap_or(Down(0))) };
        flat.timeout(SECOND * 30).with_timer(&scene.timer).await.map_err(drop)
    });
}

#[test]
fn run_attempt_dropped_anywhere() {
    sweep(&async |scene: &Scene| {
        let mut run = scene.policy.start(&scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        loop {
            if let Some(value) = run.attempt(scene.script.play()).await.map_err(drop)? {
                return Ok(value);
            }
        }
    });
}

#[test]
fn run_again_dropped_anywhere() {
    sweep(&async |scene: &Scene| {
        let mut run = scene.policy.start(&scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        loop {
            // By hand, nothing but the caller cuts an attempt.
            match scene.script.play().timeout(SECOND * 5).with_timer(&scene.timer).await {
                Ok(value) => return Ok(run.success(value)),
                Err(error) => run.again(error).await.map_err(drop)?,
            }
        }
    });
}

/// A run outlives its attempts: dropped one by one, each at another point, they are paid like all others.
#[test]
fn a_run_whose_attempts_are_dropped_pays_for_each() {
    for steps in SCRIPTS {
        for backoff in BACKOFFS {
            for polls in 1..6 {
                let scene = Scene::new(steps, backoff);
                let mut run =
                    scene.policy.start::<Down, _>(&scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
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
                }
                drop(run);
                scene.check(Some(success), polls);
            }
        }
    }
}
