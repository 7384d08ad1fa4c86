//! An observer that panics at any step of a call: every token and every probe's place is back, or was used.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::breaker::State;
use resile::{
    Always, Attempt, Backoff, Breaker, Budget, Cooldown, HedgePolicy, ManualTimer, Never, Observe, RetryPolicy,
    Verdict, hedge, retry, retry_stream,
};

use super::script::{Down, Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);

/// Panics once, at the step of that number: a question whether it listens, or an event.
struct Fuse(AtomicU32);

impl Fuse {
    fn step(&self) {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left != 1, "the fuse");
    }

    fn is_burnt(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl<E> Observe<E> for &Fuse {
    fn is_enabled(&self) -> bool {
        self.step();
        true
    }

    fn observe(&self, _: &E) {
        self.step();
    }
}

struct Scene<'a> {
    script: Script,
    timer: ManualTimer,
    budget: Budget,
    breaker: Breaker<Always, &'a Fuse, ManualTimer>,
    cooldown: Cooldown,
    policy: RetryPolicy<fn(&Down) -> Verdict>,
    begun: Cell<u32>,
}

const CAPACITY: u32 = 50;

#[expect(clippy::trivially_copy_pass_by_ref)]
fn classify(down: &Down) -> Verdict {
    if down.0 % 2 == 1 { Verdict::throttled(Some(SECOND)) } else { Verdict::retry() }
}

impl<'a> Scene<'a> {
    /// A breaker that waits for its probe, and is then opened by the third failure in a row.
    fn new(steps: &'static [Step], backoff: Backoff, fuse: &'a Fuse) -> Self {
        let timer = ManualTimer::new();
        let budget = Budget::new().with_capacity(CAPACITY).with_deposit(0.0);
        let breaker = Breaker::new()
            .with_consecutive(3)
            .with_open(Backoff::fixed(SECOND))
            .with_probes(2, 1.0)
            .with_lease(Duration::MAX) // a place that is not given back is gone
            .with_observer(fuse)
            .with_timer(timer.clone());
        for _ in 0..3 {
            breaker.permit().unwrap().failure(Verdict::retry());
        }
        timer.advance(SECOND);
        let policy = RetryPolicy::new().with_attempts(5).with_backoff(backoff);
        let policy = policy.with_classify(classify as fn(&Down) -> Verdict);
        Self {
            script: Script::new(steps),
            timer,
            budget,
            breaker,
            cooldown: Cooldown::new(),
            policy,
            begun: Cell::new(0),
        }
    }

    async fn attempt(&self) -> Result<u32, Down> {
        self.begun.set(self.begun.get() + 1);
        self.script.play().await
    }

    /// Polls to the end or to the panic. Returns whether it panicked.
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

    /// The call is gone.
    fn is_whole(&self, what: &str) {
        let spent = CAPACITY - self.budget.available();
        let retries = self.begun.get().saturating_sub(1);
        assert!(spent == retries, "{what}: {spent} tokens were spent on {retries} retries");
        self.timer.advance(SECOND * 600);
        for _ in 0..2 {
            if self.breaker.state() != State::Closed {
                // With a place that nobody gave back, two probes could not both pass.
                self.breaker.permit().unwrap_or_else(|open| panic!("{what}: a place is lost, {open}")).success();
            }
        }
        assert_eq!(self.breaker.state(), State::Closed, "{what}");
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

/// Burns the fuse at one step after the other, until a call ends ahead of it.
fn at_every_step(what: &str, call: impl Fn(&Scene<'_>, &Fuse) -> bool) {
    for (script, steps) in SCRIPTS.into_iter().enumerate() {
        for backoff in BACKOFFS {
            let mut burnt = 0;
            loop {
                let fuse = Fuse(AtomicU32::new(u32::MAX));
                let scene = Scene::new(steps, backoff, &fuse);
                fuse.0.store(burnt + 1, Ordering::Relaxed);
                let panicked = call(&scene, &fuse);
                assert_eq!(panicked, fuse.is_burnt(), "{what}, script {script}: a panic was lost");
                fuse.0.store(u32::MAX, Ordering::Relaxed);
                scene.is_whole(&format!("{what}, script {script}, {backoff:?}, at step {}", burnt + 1));
                if !panicked {
                    break;
                }
                burnt += 1;
            }
            assert!(burnt >= 2, "{what}, script {script}: only {burnt} steps");
        }
    }
}

#[test]
fn of_a_retry() {
    at_every_step("retry", |scene, fuse| {
        scene.drive(async {
            let call = retry(|_| scene.attempt(), &scene.policy, Never).with_budget(&scene.budget);
            let call = call.with_breaker(&scene.breaker).with_cooldown(&scene.cooldown);
            drop(call.with_observer(fuse).with_timer(&scene.timer).await);
        })
    });
}

#[test]
fn of_a_run() {
    at_every_step("run", |scene, fuse| {
        scene.drive(async {
            let run = scene.policy.start(Never).with_budget(&scene.budget);
            let run = run.with_breaker(&scene.breaker).with_cooldown(&scene.cooldown);
            let mut run = run.with_observer(fuse).with_timer(&scene.timer);
            while let Ok(None) = run.attempt(scene.attempt()).await {}
        })
    });
}

#[test]
fn of_a_stream() {
    at_every_step("stream", |scene, fuse| {
        let open = |_: Attempt| async {
            let item = scene.attempt().await?;
            Ok::<_, Down>(stream::iter([Ok::<_, Down>(item)]))
        };
        scene.drive(async {
            let call = retry_stream(open, &scene.policy, Never).with_budget(&scene.budget);
            let mut call = Box::pin(call.with_observer(fuse).with_timer(&scene.timer));
            while call.next().await.is_some() {}
        })
    });
}

#[test]
fn of_a_hedge() {
    let policy = HedgePolicy::new().with_delay(SECOND).with_hedges(3).with_deadline(SECOND * 9);
    for (script, steps) in [&[Step::Hang][..], &[Step::Hang, Step::Hang, Step::Succeed]].into_iter().enumerate() {
        for burnt in 1.. {
            let fuse = Fuse(AtomicU32::new(u32::MAX));
            let scene = Scene::new(steps, BACKOFFS[0], &fuse);
            fuse.0.store(burnt, Ordering::Relaxed);
            let made = Cell::new(0);
            let next = |_| {
                made.set(made.get() + 1);
                scene.attempt()
            };
            let panicked = scene.drive(async {
                let call = hedge(next, &policy, Never).with_budget(&scene.budget);
                drop(call.with_observer(&fuse).with_timer(&scene.timer).await);
            });
            fuse.0.store(u32::MAX, Ordering::Relaxed);
            // A hedge is paid when it is made, also where a panic keeps it from its first poll.
            let (hedges, spent) = (made.get() - 1, CAPACITY - scene.budget.available());
            assert_eq!(spent, hedges, "script {script}, step {burnt}: tokens for hedges");
            if !panicked {
                assert!(burnt > 4, "only {burnt} steps");
                break;
            }
        }
    }
}
