//! An observer may panic at any step of a call. Every budget token and every permit has returned
//! or was used.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::breaker::State;
use resile::fallback::Alternative;
use resile::observe::{Event, Observe};
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, HedgePolicy, Never,
    RetryPolicy, Run, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};

use super::script::{Down, Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);

/// Panics once, at the step with this number. A step is a call of any method of the observer.
#[derive(Clone)]
struct Fuse(Arc<AtomicU32>);

impl Fuse {
    fn new() -> Self {
        Self(Arc::new(AtomicU32::new(u32::MAX)))
    }

    fn set(&self, steps: u32) {
        self.0.store(steps, Ordering::Relaxed);
    }

    fn step(&self) {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left != 1, "the fuse panics here");
    }

    fn is_burnt(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Observe for Fuse {
    fn is_enabled(&self) -> bool {
        self.step();
        true
    }

    fn wants_all(&self) -> bool {
        self.step();
        true
    }

    fn observe(&self, _: &Event<'_>) {
        self.step();
    }
}

struct Scene {
    script: Script,
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    policy: RetryPolicy<fn(&Down) -> Verdict>,
    /// The number of attempts that needed a token.
    paid: Cell<u32>,
}

const CAPACITY: u32 = 50;

#[expect(clippy::trivially_copy_pass_by_ref)]
fn classify(down: &Down) -> Verdict {
    if down.0 % 2 == 1 { Verdict::throttled().after(SECOND) } else { Verdict::transient() }
}

impl Scene {
    /// Creates a scene whose breaker is ready for a probe and opens at the third failure in a row.
    /// The fuse is the observer of the upstream.
    fn new(steps: &'static [Step], backoff: Backoff, fuse: &Fuse) -> Self {
        let timer = ManualTimer::new();
        let breaker = Breaker::new()
            .with_consecutive(3)
            .with_open_time(Backoff::fixed(SECOND))
            .with_probes(1.0, 2)
            .with_lease(Duration::MAX); // a permit that does not return is lost for ever
        let upstream = Upstream::new("watched")
            .with_budget(Budget::new().with_capacity(CAPACITY).with_deposit(0.0))
            .with_breaker(breaker)
            .with_bulkhead(Bulkhead::new(2))
            .with_cooldown(Cooldown::new())
            .with_shared_observer(fuse.clone())
            .with_timer(timer.clone());
        for _ in 0..3 {
            upstream.try_admit().unwrap().settle(&Verdict::transient());
        }
        timer.advance(SECOND);
        let policy = RetryPolicy::new().with_attempts(5).with_backoff(backoff);
        let policy = policy.with_classifier(classify as fn(&Down) -> Verdict);
        Self { script: Script::new(steps), timer, upstream, policy, paid: Cell::new(0) }
    }

    fn attempt(&self, is_first: bool) -> impl Future<Output = Result<u32, Down>> {
        self.paid.set(self.paid.get() + u32::from(!is_first));
        self.script.play()
    }

    /// Polls the call until it ends or panics. Returns whether it panicked.
    fn drive(&self, call: impl Future<Output = ()>) -> bool {
        let mut call = pin!(call);
        for _ in 0..200 {
            match catch_unwind(AssertUnwindSafe(|| poll(call.as_mut()))) {
                Err(_panic) => return true,
                Ok(Poll::Ready(())) => return false,
                Ok(Poll::Pending) => {
                    if let Some(next) = self.timer.until_next() {
                        self.timer.advance(next);
                    }
                }
            }
        }
        panic!("the call does not end")
    }

    /// Checks that nothing is held after the call is gone.
    fn check_released(&self, context: &str) {
        let spent = CAPACITY - self.upstream.budget().unwrap().available();
        let paid = self.paid.get();
        assert!(spent == paid, "{context}: {spent} tokens were spent on {paid} attempts");
        let bulkhead = self.upstream.bulkhead().unwrap();
        assert_eq!(
            (bulkhead.in_flight(), bulkhead.waiting(), self.timer.sleepers()),
            (0, 0, 0),
            "{context}"
        );
        assert_eq!(self.script.starts(), self.script.drops(), "{context}");
        self.timer.advance(SECOND * 600);
        let state = || self.upstream.breaker().unwrap().state();
        for _ in 0..2 {
            if state() != State::Closed {
                // With a lost permit two probes could not both pass.
                let admitted = self.upstream.try_admit();
                admitted
                    .unwrap_or_else(|refused| panic!("{context}: a permit is lost, {refused}"))
                    .succeeded();
            }
        }
        assert_eq!(state(), State::Closed, "{context}");
    }
}

const SCRIPTS: [&[Step]; 5] = [
    &[Step::Succeed],
    &[Step::Fail],
    &[Step::Pend(2, false), Step::Fail, Step::Pend(1, true)],
    &[Step::Fail, Step::Pend(2, true)],
    &[Step::Pend(1, true)],
];

const BACKOFFS: [Backoff; 2] = [Backoff::none(), Backoff::fixed(SECOND)];

/// Lets the fuse panic at one step after another, until a call ends before the fuse.
fn at_every_step(context: &str, call: impl Fn(&Scene) -> bool) {
    for (script, steps) in SCRIPTS.into_iter().enumerate() {
        for backoff in BACKOFFS {
            at_every_step_of(
                &format!("{context}, script {script}, {backoff:?}"),
                steps,
                backoff,
                3,
                &call,
            );
        }
    }
}

fn at_every_step_of(
    context: &str,
    steps: &'static [Step],
    backoff: Backoff,
    least: u32,
    call: &impl Fn(&Scene) -> bool,
) {
    for step in 1.. {
        let fuse = Fuse::new();
        let scene = Scene::new(steps, backoff, &fuse);
        fuse.set(step);
        let panicked = call(&scene);
        assert_eq!(panicked, fuse.is_burnt(), "{context}: a panic was lost");
        fuse.set(u32::MAX);
        scene.check_released(&format!("{context}, at step {step}"));
        if !panicked {
            assert!(step > least, "{context}: only {step} steps");
            return;
        }
    }
}

#[test]
fn an_observer_panic_in_a_retry_loses_nothing() {
    at_every_step("retry", |scene| {
        scene.drive(async {
            let call = retry(|attempt| scene.attempt(attempt.is_first()), &scene.policy, Never);
            drop(call.on(&scene.upstream).await);
        })
    });
}

/// The attempt timeout cuts some attempts and the total timeout cuts one. The call has a second
/// observer.
#[test]
fn an_observer_panic_in_a_retry_with_timeouts_loses_nothing() {
    let steps: &[Step] = &[Step::Hang, Step::Fail, Step::Hang];
    at_every_step_of("retry that is cut", steps, BACKOFFS[0], 10, &|scene| {
        scene.drive(async {
            let policy = scene.policy.with_attempt_timeout(SECOND).with_total_timeout(SECOND * 60);
            let call = retry(|attempt| scene.attempt(attempt.is_first()), policy, Never);
            drop(call.on(scene.upstream.observed_by(&())).await);
        })
    });
}

#[test]
fn an_observer_panic_in_a_run_loses_nothing() {
    at_every_step("run", |scene| {
        let mut run = Run::new(&scene.policy, Never).on(&scene.upstream);
        let panicked =
            scene.drive(async { while let Ok(None) = run.attempt(scene.script.play()).await {} });
        scene.paid.set(run.attempts().saturating_sub(1));
        panicked
    });
    at_every_step("run by hand", |scene| {
        scene.drive(async {
            let mut run = Run::new(&scene.policy, Never).on(&scene.upstream);
            while let Ok(attempt) = run.next().await {
                match scene.attempt(attempt.is_first()).await {
                    Ok(value) => {
                        let _ = run.succeeded(value);
                        return;
                    }
                    Err(error) if run.failed(error).is_err() => return,
                    Err(_) => {}
                }
            }
        })
    });
}

#[test]
fn an_observer_panic_in_a_stream_loses_nothing() {
    at_every_step("stream", |scene| {
        let open = |attempt: Attempt| {
            let attempt = scene.attempt(attempt.is_first());
            async {
                let item = attempt.await?;
                Ok::<_, Down>(stream::iter([Ok::<_, Down>(item)]))
            }
        };
        scene.drive(async {
            let mut call = Box::pin(retry_stream(open, &scene.policy, Never).on(&scene.upstream));
            while call.next().await.is_some() {}
        })
    });
}

#[test]
fn an_observer_panic_in_a_single_call_loses_nothing() {
    at_every_step("call", |scene| {
        scene.drive(async {
            drop(scene.upstream.call(scene.script.play(), classify as fn(&Down) -> Verdict).await);
        })
    });
    at_every_step("admission", |scene| {
        scene.drive(async {
            let Ok(admission) = scene.upstream.admit(Never).await else { return };
            match scene.attempt(true).await {
                Ok(_) => admission.succeeded(),
                Err(error) => admission.settle(&classify(&error)),
            }
        })
    });
}

#[test]
fn an_observer_panic_in_a_fallback_loses_nothing() {
    at_every_step("fallback", |scene| {
        scene.drive(async {
            let op = |alternative: Alternative<'_, u8>| scene.attempt(alternative.index() == 0);
            drop(fallback(&[1, 2, 3], op, FallbackPolicy::new(), Never).on(&scene.upstream).await);
        })
    });
}

#[test]
fn an_observer_panic_in_a_hedge_loses_nothing() {
    let policy =
        HedgePolicy::new().with_delay(SECOND).with_hedges(3).with_total_timeout(SECOND * 9);
    for (script, steps) in
        [&[Step::Hang][..], &[Step::Hang, Step::Hang, Step::Succeed]].into_iter().enumerate()
    {
        // A hedge spends its token when it is made, even if a panic prevents its first poll.
        at_every_step_of(&format!("hedge, script {script}"), steps, BACKOFFS[0], 5, &|scene| {
            scene.drive(async {
                let op = |attempt: Attempt| scene.attempt(attempt.is_first());
                drop(hedge(op, &policy, Never).on(&scene.upstream).await);
            })
        });
    }
}
