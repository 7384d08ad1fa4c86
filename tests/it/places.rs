//! Dropped at every await point, with all that can be shared attached: every permit, place and token is back.

use std::cell::Cell;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::breaker::State;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp, HedgePolicy, Jitter, ManualTimer,
    Never, ResilienceExt, RetryPolicy, Verdict, Withdrawal, fallback, hedge, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, poll};

const SECOND: Duration = Duration::from_secs(1);

const SCRIPTS: &[&[Step]] = &[
    &[Step::Succeed],
    &[Step::Hang],
    &[Step::Pend(3, true)],
    &[Step::Pend(2, false)],
    &[Step::Fail, Step::Fail, Step::Pend(2, true)],
    &[Step::Pend(1, false), Step::Fail, Step::Pend(2, false), Step::Succeed],
    &[Step::Fail, Step::Fail, Step::Hang, Step::Hang, Step::Succeed],
];

const BACKOFFS: [Backoff; 2] = [Backoff::none(), Backoff::fixed(SECOND).with_jitter(Jitter::None)];

type Judge = fn(&Down) -> Verdict;

/// Every second start was throttled.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn judge(down: &Down) -> Verdict {
    if down.0 % 2 == 1 { Verdict::throttled(Some(SECOND)) } else { Verdict::retry() }
}

/// How a scene begins: the breaker half-open, the cooldown held, the bulkhead full.
#[derive(Clone, Copy, Debug)]
struct Start {
    half_open: bool,
    held: bool,
    full: bool,
}

/// What stays when a call is gone.
struct Scene {
    script: Script,
    timer: ManualTimer,
    token: CancellationToken,
    budget: Budget,
    breaker: Breaker<Judge, (), ManualTimer>,
    bulkhead: Bulkhead,
    cooldown: Cooldown<Judge, ManualTimer>,
    policy: RetryPolicy<Judge>,
    begun: Cell<u32>,
}

impl Scene {
    const CAPACITY: u32 = 100;
    /// Tokens at the start: few enough that no deposit is lost at the brim.
    const START: u32 = 50;

    fn new(steps: &'static [Step], backoff: Backoff, start: Start) -> Self {
        let timer = ManualTimer::new();
        let budget = Budget::new().with_capacity(Self::CAPACITY).with_deposit(1.0);
        (Self::START..Self::CAPACITY).for_each(|_| budget.withdraw().map(Withdrawal::spend).unwrap());
        let breaker = Breaker::new()
            .with_consecutive(if start.half_open { 1 } else { 3 })
            .with_open(Backoff::fixed(SECOND).with_jitter(Jitter::None))
            .with_probes(1, 1.0)
            .with_lease(Duration::MAX); // a place that is not given back is gone
        let breaker = breaker.with_classify(judge as Judge).with_observer(()).with_timer(timer.clone());
        let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
        let scene = Self {
            script: Script::new(steps),
            token: CancellationToken::new(),
            budget,
            breaker,
            bulkhead: Bulkhead::new(1),
            cooldown: cooldown.with_classify(judge as Judge).with_timer(timer.clone()),
            policy: RetryPolicy::new()
                .with_attempts(8)
                .with_deadline(SECOND * 20)
                .with_backoff(backoff)
                .with_classify(judge as Judge),
            timer,
            begun: Cell::new(0),
        };
        if start.half_open {
            scene.breaker.permit().unwrap().failure(Verdict::retry());
            scene.timer.advance(SECOND);
        }
        if start.held {
            scene.cooldown.hold(SECOND * 3);
        }
        scene
    }

    /// An attempt begins. Called where the call makes it, not where the script gets to see it.
    fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    async fn play(&self) -> Result<u32, Down> {
        self.script.play().await
    }

    /// Everything around it, the breaker innermost.
    async fn play_in_all(&self) -> Result<u32, Down> {
        self.play()
            .guarded_by(&self.breaker)
            .limited_by(&self.bulkhead)
            .paced_by(&self.cooldown)
            .timeout(SECOND * 5)
            .with_timer(&self.timer)
            .await
    }

    /// The other way round.
    async fn play_inside_out(&self) -> Result<u32, Down> {
        self.play()
            .timeout(SECOND * 5)
            .with_timer(&self.timer)
            .paced_by(&self.cooldown)
            .limited_by(&self.bulkhead)
            .guarded_by(&self.breaker)
            .await
    }

    /// The call is gone, having told the budget of that many successes.
    fn check(&self, deposits: u32, at: &str) {
        let retries = self.begun.get().saturating_sub(1);
        assert_eq!(self.budget.available(), Self::START - retries + deposits, "the budget, {at}");
        assert_eq!((self.bulkhead.in_flight(), self.bulkhead.waiting()), (0, 0), "the bulkhead, {at}");
        assert_eq!(self.script.drops(), self.script.starts(), "the operations, {at}");
        assert_eq!(self.timer.sleepers(), 0, "the sleeps, {at}");
        // However it stands now, once its time is over it lets a probe through and closes.
        self.timer.advance(SECOND * 60);
        self.breaker.permit().unwrap_or_else(|open| panic!("{open}, {at}")).success();
        assert_eq!(self.breaker.state(), State::Closed, "{at}");
        let mut until = pin!(self.cooldown.until(Never));
        assert!(poll(until.as_mut()).is_ready(), "the cooldown, {at}");
    }
}

/// Polls what `call` makes n times, then drops it, for every n until it completes. A success is told the budget
/// `deposits` times.
fn sweep(deposits: u32, call: &impl AsyncFn(&Scene) -> Result<u32, ()>) {
    const MOST: u32 = 60;
    let (mut completed, mut dropped) = (0, 0);
    for (steps, backoff) in SCRIPTS.iter().flat_map(|steps| BACKOFFS.map(|backoff| (*steps, backoff))) {
        for bits in 0..8 {
            let start = Start { half_open: bits & 1 > 0, held: bits & 2 > 0, full: bits & 4 > 0 };
            for polls in 0..MOST {
                let scene = Scene::new(steps, backoff, start);
                let mut occupant = start.full.then(|| scene.bulkhead.try_permit().unwrap());
                let done = {
                    let mut call = Box::pin(call(&scene));
                    let done = (0..polls).find_map(|polled| match poll(call.as_mut()) {
                        Poll::Ready(outcome) => Some(outcome.is_ok()),
                        Poll::Pending => {
                            // What waits only for the clock is let on; what wakes itself needs no clock.
                            if let Some(left) = scene.timer.until_next() {
                                scene.timer.advance(left.min(SECOND));
                            }
                            if polled == 2 {
                                occupant = None;
                            }
                            None
                        }
                    });
                    drop(call);
                    done
                };
                drop(occupant);
                let deposits = if done == Some(true) { deposits } else { 0 };
                scene.check(deposits, &format!("after {polls} polls, {:?}, {start:?}", scene.script));
                if done.is_some() {
                    completed += 1;
                    break;
                }
                dropped += 1;
            }
        }
    }
    assert!(completed > 50 && dropped > 300, "{completed} {dropped}: the scripts were hardly pending");
}

#[test]
fn each_adapter_dropped_anywhere() {
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        scene.play().guarded_by(&scene.breaker).await.map_err(drop)
    });
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        scene.play().limited_by(&scene.bulkhead).await.map_err(drop)
    });
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        scene.play().paced_by(&scene.cooldown).await.map_err(drop)
    });
}

#[test]
fn all_adapters_dropped_anywhere() {
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        scene.play_in_all().await.map_err(drop)
    });
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        scene.play_inside_out().await.map_err(drop)
    });
}

#[test]
fn retry_of_all_adapters_dropped_anywhere() {
    sweep(1, &async |scene: &Scene| {
        let op = |_| {
            scene.begin();
            scene.play_in_all()
        };
        retry(op, &scene.policy, &scene.token).with_timer(&scene.timer).with_budget(&scene.budget).await.map_err(drop)
    });
}

#[test]
fn linked_retry_dropped_anywhere() {
    sweep(1, &async |scene: &Scene| {
        let op = |_| {
            scene.begin();
            scene.play().limited_by(&scene.bulkhead).timeout(SECOND * 5).with_timer(&scene.timer)
        };
        retry(op, &scene.policy, &scene.token)
            .with_timer(&scene.timer)
            .with_budget(&scene.budget)
            .with_breaker(&scene.breaker)
            .with_cooldown(&scene.cooldown)
            .await
            .map_err(drop)
    });
}

#[test]
fn linked_run_dropped_anywhere() {
    sweep(1, &async |scene: &Scene| {
        let run = scene.policy.start(&scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        let mut run = run.with_breaker(&scene.breaker).with_cooldown(&scene.cooldown);
        loop {
            let op = async {
                scene.begin();
                scene.play().limited_by(&scene.bulkhead).timeout(SECOND * 5).with_timer(&scene.timer).await
            };
            if let Some(value) = run.attempt(op).await.map_err(drop)? {
                return Ok(value);
            }
        }
    });
}

#[test]
fn linked_run_by_hand_dropped_anywhere() {
    sweep(1, &async |scene: &Scene| {
        let run = scene.policy.start(&scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        let mut run = run.with_breaker(&scene.breaker).with_cooldown(&scene.cooldown);
        loop {
            scene.begin();
            match scene.play().limited_by(&scene.bulkhead).timeout(SECOND * 5).with_timer(&scene.timer).await {
                Ok(value) => return Ok(run.success(value)),
                Err(error) => run.again(error).await.map_err(drop)?,
            }
        }
    });
}

static HEDGE: HedgePolicy = HedgePolicy::new().with_delay(SECOND);

#[test]
fn retry_of_hedges_dropped_anywhere() {
    sweep(2, &async |scene: &Scene| {
        let policy =
            scene.policy.with_classify(|gave_up: &GaveUp<Down>| gave_up.last().map_or(Verdict::retry(), judge));
        let hedged = |_| {
            let op = |_| {
                scene.begin();
                scene.play_in_all()
            };
            hedge(op, &HEDGE, &scene.token).with_timer(&scene.timer).with_budget(&scene.budget)
        };
        let call = retry(hedged, &policy, &scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        call.with_cooldown(&scene.cooldown).await.map_err(drop)
    });
}

#[test]
fn hedge_of_retries_dropped_anywhere() {
    sweep(2, &async |scene: &Scene| {
        let retried = |_| {
            // Paid for where it joins, though a cooldown may yet hold its first attempt.
            scene.begin();
            let op = |attempt: Attempt| {
                if !attempt.is_first() {
                    scene.begin();
                }
                scene.play().limited_by(&scene.bulkhead).timeout(SECOND * 5).with_timer(&scene.timer)
            };
            retry(op, &scene.policy, &scene.token)
                .with_timer(&scene.timer)
                .with_budget(&scene.budget)
                .with_cooldown(&scene.cooldown)
        };
        let call = hedge(retried, &HEDGE, &scene.token).with_timer(&scene.timer).with_budget(&scene.budget);
        call.await.map_err(drop)
    });
}

#[test]
fn fallback_over_retries_dropped_anywhere() {
    sweep(0, &async |scene: &Scene| {
        scene.begin();
        let policy = FallbackPolicy::new().with_deadline(SECOND * 20);
        let tried = |_| {
            let call = retry(|_| scene.play_in_all(), &scene.policy, &scene.token).with_timer(&scene.timer);
            call.with_breaker(&scene.breaker).with_cooldown(&scene.cooldown)
        };
        fallback(&["one", "other"], tried, &policy, &scene.token).with_timer(&scene.timer).await.map_err(drop)
    });
}

#[test]
fn retry_stream_dropped_anywhere() {
    sweep(1, &async |scene: &Scene| {
        // Opened under all adapters; each item is played again, under the place that its reading takes.
        let open = async |_| {
            scene.begin();
            let first = scene.play_in_all().await?;
            let rest = stream::once(Box::pin(scene.play().limited_by(&scene.bulkhead)));
            Ok(stream::iter([Ok(first)]).chain(rest))
        };
        let call = retry_stream(open, &scene.policy, &scene.token);
        let call = call.with_timer(&scene.timer).with_budget(&scene.budget);
        let mut call = pin!(call.with_parts(|_| resile::stream::Part::Preamble));
        let mut last = Err(());
        while let Some(item) = call.next().await {
            last = Ok(item.map_err(drop)?);
        }
        last
    });
}

/// A run outlives its attempts: an attempt that is dropped in flight gives its place at the breaker back at once, to whoever comes
/// next, the run itself included.
#[test]
fn a_run_whose_probe_is_dropped_holds_no_place() {
    let scene =
        Scene::new(&[Step::Hang, Step::Succeed], BACKOFFS[0], Start { half_open: true, held: false, full: false });
    let mut run = scene.policy.start(Never).with_timer(&scene.timer).with_breaker(&scene.breaker);
    let mut attempt = Box::pin(run.attempt(scene.play()));
    assert!(poll(attempt.as_mut()).is_pending());
    assert!(scene.breaker.permit().is_err(), "the attempt in flight is the probe");
    drop(attempt);
    assert!(scene.breaker.permit().is_ok(), "another call may be the probe");
    let mut attempt = pin!(run.attempt(scene.play()));
    assert!(matches!(poll(attempt.as_mut()), Poll::Ready(Ok(Some(2)))));
    assert_eq!(scene.breaker.state(), State::Closed);
}

/// A place that was promised to an attempt which the caller is yet to make stays promised, whatever is dropped before.
#[test]
fn a_run_by_hand_keeps_the_place_that_it_announced() {
    let scene = Scene::new(&[Step::Succeed], BACKOFFS[0], Start { half_open: true, held: false, full: false });
    let mut run = scene.policy.start::<Down, _>(Never).with_timer(&scene.timer).with_breaker(&scene.breaker);
    let mut again = Box::pin(run.again(Down(2)));
    assert!(poll(again.as_mut()).is_ready());
    drop(again);
    drop(run.attempt(scene.play()));
    assert!(scene.breaker.permit().is_err(), "the attempt that was announced is the probe");
    assert_eq!(run.success(7), 7);
    assert_eq!(scene.breaker.state(), State::Closed);
}

/// The token of a retry that a cooldown holds goes back when the wait is dropped, while the run lives on.
#[test]
fn a_held_retry_that_is_dropped_gives_its_token_back() {
    let held = Start { half_open: false, held: true, full: false };
    let scene = Scene::new(&[Step::Hang], BACKOFFS[0], held);
    let run = scene.policy.start(Never).with_timer(&scene.timer).with_budget(&scene.budget);
    let mut run = run.with_cooldown(&scene.cooldown);
    let mut again = Box::pin(run.again(Down(0)));
    assert!(poll(again.as_mut()).is_pending());
    assert_eq!(scene.budget.available(), Scene::START - 1, "paid before the wait");
    drop(again);
    assert_eq!(scene.budget.available(), Scene::START);

    let mut attempt = Box::pin(run.attempt(scene.play()));
    assert!(poll(attempt.as_mut()).is_pending());
    assert_eq!(scene.budget.available(), Scene::START - 1);
    drop(attempt);
    assert_eq!(scene.budget.available(), Scene::START);

    let mut attempt = Box::pin(run.attempt(scene.play()));
    assert!(poll(attempt.as_mut()).is_pending());
    scene.timer.advance(SECOND * 3);
    assert!(poll(attempt.as_mut()).is_pending());
    assert_eq!(scene.script.begun(), 1);
    drop(attempt);
    assert_eq!(scene.budget.available(), Scene::START - 1, "paid once for all that");
}
