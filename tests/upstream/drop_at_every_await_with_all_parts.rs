//! A call with all shared parts may be dropped at any await. Every permit, probe and budget token
//! returns.

use std::cell::Cell;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::breaker::State;
use resile::call::Admission;
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Drain, FallbackPolicy, GaveUp,
    HedgePolicy, Jitter, Never, ResilienceExt, RetryPolicy, Run, Upstream, Verdict, fallback,
    hedge, retry, retry_stream,
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

type Classifier = fn(&Down) -> Verdict;

/// Every second start was throttled.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn classify(down: &Down) -> Verdict {
    if down.0 % 2 == 1 { Verdict::throttled().after(SECOND) } else { Verdict::transient() }
}

/// The start of a scene: a half-open breaker, a held cooldown, and the number of permits in use.
#[derive(Clone, Copy, Debug)]
struct Start {
    half_open: bool,
    held: bool,
    taken: u32,
}

/// An upstream with some or all parts.
type Host = Upstream<ManualTimer>;

/// Everything that outlives a call.
struct Scene {
    script: Script,
    timer: ManualTimer,
    token: CancellationToken,
    upstream: Host,
    /// The upstream of an outer call around other calls.
    outer: Host,
    policy: RetryPolicy<Classifier>,
    /// The number of attempts on each upstream that needed a token.
    paid: Cell<u32>,
    paid_outside: Cell<u32>,
}

/// The tokens at the start. They are few enough that no deposit is lost at the capacity.
const START: u32 = 50;

fn budget() -> Budget {
    let budget = Budget::new().with_capacity(2 * START).with_deposit(1.0);
    (0..START).for_each(|_| assert!(budget.withdraw()));
    budget
}

fn breaker(failures: u32) -> Breaker {
    Breaker::new()
        .with_consecutive(failures)
        .with_open_time(Backoff::fixed(SECOND))
        .with_probes(1.0, 1)
        .with_lease(Duration::MAX) // a probe that does not return is lost for ever
}

/// Two permits, so that one more attempt may start.
const PERMITS: u32 = 2;

fn available(upstream: &Host) -> u32 {
    upstream.budget().unwrap().available()
}

impl Scene {
    fn new(steps: &'static [Step], backoff: Backoff, start: Start) -> Self {
        let timer = ManualTimer::new();
        let upstream = Upstream::new("inner")
            .with_budget(budget())
            .with_breaker(breaker(if start.half_open { 1 } else { 3 }))
            .with_bulkhead(Bulkhead::new(PERMITS))
            .with_cooldown(Cooldown::new().with_jitter(0.0))
            .with_timer(timer.clone());
        let outer = Upstream::new("outer")
            .with_budget(budget())
            .with_breaker(breaker(3))
            .with_bulkhead(Bulkhead::new(PERMITS))
            .with_cooldown(Cooldown::new().with_jitter(0.0))
            .with_timer(timer.clone());
        Self {
            script: Script::new(steps),
            token: CancellationToken::new(),
            upstream,
            outer,
            policy: RetryPolicy::new()
                .with_attempts(8)
                .with_total_timeout(SECOND * 20)
                .with_backoff(backoff)
                .with_classifier(classify as Classifier),
            timer,
            paid: Cell::new(0),
            paid_outside: Cell::new(0),
        }
    }

    /// Brings the inner upstream into the state of the start. Returns what occupies its bulkhead.
    fn occupy(&self, start: Start) -> Vec<Admission<&Host>> {
        let occupants = (0..start.taken).map(|_| self.upstream.try_admit().unwrap()).collect();
        if start.half_open {
            self.upstream.try_admit().unwrap().settle(&Verdict::transient());
            self.timer.advance(SECOND);
        }
        if start.held {
            self.upstream.hold(SECOND * 3);
        }
        occupants
    }

    /// Counts an attempt on the inner upstream. It is called where the call makes the attempt,
    /// before the script sees it.
    fn begin(&self, attempt: Attempt) {
        self.paid.set(self.paid.get() + u32::from(!attempt.is_first()));
    }

    fn begin_outside(&self, is_first: bool) {
        self.paid_outside.set(self.paid_outside.get() + u32::from(!is_first));
    }

    async fn play(&self) -> Result<u32, Down> {
        self.script.play().await
    }

    /// Plays the script under its own adapters.
    async fn play_adapted(&self) -> Result<u32, Down> {
        self.play().timeout(SECOND * 5).on(&self.upstream).await
    }

    /// Checks the state after the call is gone and has reported this many successes to each budget.
    fn check(&self, deposits: [u32; 2], at: &str) {
        assert_eq!(
            available(&self.upstream),
            START - self.paid.get() + deposits[0],
            "the budget, {at}"
        );
        assert_eq!(
            available(&self.outer),
            START - self.paid_outside.get() + deposits[1],
            "the outer budget, {at}"
        );
        for bulkhead in [self.upstream.bulkhead().unwrap(), self.outer.bulkhead().unwrap()] {
            assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{at}");
        }
        assert_eq!(self.script.drops(), self.script.starts(), "the operations, {at}");
        assert_eq!(self.timer.sleepers(), 0, "the sleeps, {at}");
        // After its open time the breaker admits a probe and closes, in any state.
        self.timer.advance(SECOND * 60);
        for upstream in [&self.upstream, &self.outer] {
            assert_eq!(upstream.held(), None, "{at}");
            upstream.try_admit().unwrap_or_else(|refused| panic!("{refused}, {at}")).succeeded();
            assert_eq!(upstream.breaker().unwrap().state(), State::Closed, "{at}");
            assert_eq!(upstream.bulkhead().unwrap().in_flight(), 0, "{at}");
        }
    }
}

/// Polls a call n times and drops it, for every n until the call completes. `deposits` is the
/// number of deposits of a success to each budget.
fn drop_at_every_await(deposits: [u32; 2], call: &impl AsyncFn(&Scene) -> Result<u32, ()>) {
    const MOST: u32 = 60;
    let (mut completed, mut dropped) = (0, 0);
    for (steps, backoff) in
        SCRIPTS.iter().flat_map(|steps| BACKOFFS.map(|backoff| (*steps, backoff)))
    {
        for bits in 0..12 {
            let start = Start { half_open: bits & 1 > 0, held: bits & 2 > 0, taken: bits / 4 };
            if start.half_open && start.taken == PERMITS {
                continue; // the attempt that opens the breaker needs a permit
            }
            for polls in 0..MOST {
                let scene = Scene::new(steps, backoff, start);
                let mut occupants = scene.occupy(start);
                let done = {
                    let mut call = Box::pin(call(&scene));
                    let done = (0..polls).find_map(|polled| match poll(call.as_mut()) {
                        Poll::Ready(outcome) => Some(outcome.is_ok()),
                        Poll::Pending => {
                            // A call that waits for the clock needs an advance. A call that wakes
                            // itself does not.
                            if let Some(left) = scene.timer.until_next() {
                                scene.timer.advance(left.min(SECOND));
                            }
                            if polled == 2 {
                                occupants.clear();
                            }
                            None
                        }
                    });
                    drop(call);
                    done
                };
                drop(occupants);
                let deposits = if done == Some(true) { deposits } else { [0, 0] };
                scene.check(
                    deposits,
                    &format!("after {polls} polls, {:?}, {start:?}", scene.script),
                );
                if done.is_some() {
                    completed += 1;
                    break;
                }
                dropped += 1;
            }
        }
    }
    assert!(
        completed > 50 && dropped > 300,
        "too few calls were pending: {completed} completed, {dropped} dropped"
    );
}

#[test]
fn a_call_on_one_part_dropped_at_any_await_returns_everything() {
    fn part(scene: &Scene) -> Host {
        Upstream::new("part").with_timer(scene.timer.clone())
    }
    drop_at_every_await([0, 0], &async |scene: &Scene| {
        let upstream = part(scene).with_breaker(breaker(1));
        let outcome = upstream.call(scene.play(), classify as Classifier).await.map_err(drop);
        drop(upstream.try_admit());
        outcome
    });
    drop_at_every_await([0, 0], &async |scene: &Scene| {
        let upstream = part(scene).with_cooldown(Cooldown::new());
        upstream.hold(SECOND);
        upstream.call(scene.play(), classify as Classifier).await.map_err(drop)
    });
    drop_at_every_await([0, 0], &async |scene: &Scene| {
        let upstream = part(scene).with_bulkhead(Bulkhead::new(1));
        let outcome = scene.play().through(&upstream, classify as Classifier).await.map_err(drop);
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
        outcome
    });
}

#[test]
fn a_single_call_dropped_at_any_await_returns_everything() {
    // Each success on an upstream deposits to its budget, for every kind of call.
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        scene.upstream.call(scene.play_adapted(), classify as Classifier).await.map_err(drop)
    });
    // Nested single calls, as in the documentation of upstreams.
    drop_at_every_await([1, 1], &async |scene: &Scene| {
        let inner = async {
            let outcome = scene.upstream.call(scene.play(), classify as Classifier).await;
            outcome.map_err(|gave_up| gave_up.into_last().unwrap_or(Down(0)))
        };
        scene.outer.call(inner, classify as Classifier).await.map_err(drop)
    });
}

#[test]
fn a_single_call_with_limits_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let call = scene.upstream.call(scene.play(), classify as Classifier);
        let call = call.with_token(&scene.token).with_total_timeout(SECOND * 7);
        call.with_attempt_timeout(SECOND * 3).await.map_err(drop)
    });
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let admitting = scene.upstream.admit(Drain(&scene.token)).with_max_wait(SECOND * 7);
        let admission = admitting.await.map_err(drop)?;
        let outcome = scene.play_adapted().await;
        match &outcome {
            Ok(_) => admission.succeeded(),
            Err(error) => admission.settle(&classify(error)),
        }
        outcome.map_err(drop)
    });
}

#[test]
fn an_admission_by_hand_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let admission = scene.upstream.admit(&scene.token).await.map_err(drop)?;
        match scene.play_adapted().await {
            Ok(value) => {
                admission.succeeded();
                Ok(value)
            }
            Err(error) => {
                admission.settle(&classify(&error));
                Err(())
            }
        }
    });
}

#[test]
fn a_retry_of_single_calls_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 1], &async |scene: &Scene| {
        let policy = scene.policy.with_classifier(|gave_up: &GaveUp<Down>| gave_up.verdict());
        let op = |attempt: Attempt| {
            scene.begin_outside(attempt.is_first());
            scene.upstream.call(scene.play_adapted(), classify as Classifier)
        };
        retry(op, policy, &scene.token).on(&scene.outer).await.map_err(drop)
    });
}

#[test]
fn a_retry_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let op = |attempt: Attempt| {
            scene.begin(attempt);
            scene.play_adapted()
        };
        retry(op, &scene.policy, &scene.token).on(&scene.upstream).await.map_err(drop)
    });
}

#[test]
fn a_retry_with_all_timeouts_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let op = |attempt: Attempt| {
            scene.begin(attempt);
            scene.play()
        };
        let policy = scene.policy.with_attempt_timeout(SECOND * 5);
        retry(op, policy, Drain(&scene.token)).on(&scene.upstream).await.map_err(drop)
    });
}

#[test]
fn a_run_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let mut run = Run::new(&scene.policy, &scene.token).on(&scene.upstream);
        loop {
            // The future exists before its admission, so it reports its own beginning.
            let retries = run.attempts();
            let op = async {
                scene.begin(Attempt::new(retries + 1));
                scene.play_adapted().await
            };
            if let Some(value) = run.attempt(op).await.map_err(drop)? {
                return Ok(value);
            }
        }
    });
}

#[test]
fn a_run_by_hand_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        let mut run = Run::new(&scene.policy, &scene.token).on(&scene.upstream);
        loop {
            scene.begin(run.next().await.map_err(drop)?);
            match scene.play_adapted().await {
                Ok(value) => return Ok(run.succeeded(value)),
                Err(error) => run.failed(error).map_err(drop)?,
            }
        }
    });
}

static HEDGE: HedgePolicy = HedgePolicy::new().with_delay(SECOND);

#[test]
fn a_hedge_dropped_at_any_await_returns_everything() {
    for policy in [
        HEDGE,
        HEDGE.with_hedges(4),
        HEDGE.with_attempt_timeout(SECOND * 3).with_total_timeout(SECOND * 9),
    ] {
        drop_at_every_await([1, 0], &async |scene: &Scene| {
            let op = |attempt: Attempt| {
                scene.begin(attempt);
                scene.play_adapted()
            };
            let policy = policy.with_classifier(classify as Classifier);
            hedge(op, policy, &scene.token).on(&scene.upstream).await.map_err(drop)
        });
    }
}

#[test]
fn a_retry_of_hedges_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 1], &async |scene: &Scene| {
        let policy = scene.policy.with_classifier(|gave_up: &GaveUp<Down>| gave_up.verdict());
        let hedged = |attempt: Attempt| {
            scene.begin_outside(attempt.is_first());
            let op = |attempt: Attempt| {
                scene.begin(attempt);
                scene.play_adapted()
            };
            hedge(op, HEDGE.with_classifier(classify as Classifier), &scene.token)
                .on(&scene.upstream)
        };
        retry(hedged, policy, &scene.token).on(&scene.outer).await.map_err(drop)
    });
}

#[test]
fn a_hedge_of_retries_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 1], &async |scene: &Scene| {
        let retried = |attempt: Attempt| {
            scene.begin_outside(attempt.is_first());
            let op = |attempt: Attempt| {
                scene.begin(attempt);
                scene.play_adapted()
            };
            retry(op, &scene.policy, &scene.token).on(&scene.upstream)
        };
        hedge(retried, &HEDGE, &scene.token).on(&scene.outer).await.map_err(drop)
    });
}

#[test]
fn a_fallback_over_retries_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 1], &async |scene: &Scene| {
        let policy = FallbackPolicy::new().with_total_timeout(SECOND * 20);
        let tried = |alternative: resile::fallback::Alternative<'_, &str>| {
            scene.begin_outside(alternative.index() == 0);
            let op = |attempt: Attempt| {
                scene.begin(attempt);
                scene.play_adapted()
            };
            retry(op, &scene.policy, &scene.token).on(&scene.upstream)
        };
        fallback(&["one", "other"], tried, policy, &scene.token)
            .on(&scene.outer)
            .await
            .map_err(drop)
    });
}

#[test]
fn a_retried_stream_dropped_at_any_await_returns_everything() {
    drop_at_every_await([1, 0], &async |scene: &Scene| {
        // Each item plays the script again.
        let open = |attempt: Attempt| {
            scene.begin(attempt);
            async {
                let first = scene.play_adapted().await?;
                Ok(stream::iter([Ok(first)]).chain(stream::once(Box::pin(scene.play()))))
            }
        };
        let call = retry_stream(open, &scene.policy, &scene.token).on(&scene.upstream);
        let mut call = pin!(call.with_parts(|_| resile::stream::Part::Preamble));
        let mut last = Err(());
        while let Some(item) = call.next().await {
            last = Ok(item.map_err(drop)?);
        }
        last
    });
}

/// A run outlives its attempts. An attempt dropped in flight returns its probe and its permit at
/// once, for any caller including the run itself.
#[test]
fn a_run_returns_the_permits_of_a_dropped_attempt_at_once() {
    let start = Start { half_open: true, held: false, taken: 0 };
    let scene = Scene::new(&[Step::Hang, Step::Succeed], BACKOFFS[0], start);
    drop(scene.occupy(start));
    let in_flight = || scene.upstream.bulkhead().unwrap().in_flight();
    let mut run = Run::new(&scene.policy, Never).on(&scene.upstream);
    let mut attempt = Box::pin(run.attempt(scene.play()));
    assert!(poll(attempt.as_mut()).is_pending());
    assert!(scene.upstream.try_admit().is_err(), "the attempt in flight is the probe");
    assert_eq!(in_flight(), 1);
    drop(attempt);
    assert_eq!(in_flight(), 0);
    assert!(scene.upstream.try_admit().is_ok(), "another call may be the probe");
    let mut attempt = Box::pin(run.attempt(scene.play()));
    assert!(matches!(poll(attempt.as_mut()), Poll::Ready(Ok(Some(2)))));
    assert_eq!((scene.upstream.breaker().unwrap().state(), in_flight()), (State::Closed, 0));
}

/// An attempt made by hand keeps its probe and its permit until its outcome is reported, even if
/// other futures are dropped before.
#[test]
fn a_run_by_hand_keeps_the_permits_of_its_attempt() {
    let start = Start { half_open: true, held: false, taken: 0 };
    let scene = Scene::new(&[Step::Succeed], BACKOFFS[0], start);
    drop(scene.occupy(start));
    let in_flight = || scene.upstream.bulkhead().unwrap().in_flight();
    let mut run = Run::<Down, _, _>::new(&scene.policy, Never).on(&scene.upstream);
    for attempt in 1..3 {
        // The second attempt reuses the permits of the first, because the first has no report.
        let mut next = Box::pin(run.next());
        let Poll::Ready(Ok(begun)) = poll(next.as_mut()) else { panic!("a permit is free") };
        assert_eq!(begun.number(), attempt);
        drop(next);
        drop(run.attempt(scene.play()));
        assert!(scene.upstream.try_admit().is_err(), "the attempt that began is the probe");
        assert_eq!(in_flight(), 1);
    }
    assert_eq!(run.succeeded(7), 7);
    assert_eq!((scene.upstream.breaker().unwrap().state(), in_flight()), (State::Closed, 0));
}

/// A cooldown holds a retry and its wait is dropped. The run keeps the budget token, so the retry
/// spends one token. The token returns with the run if the retry is never made.
#[test]
fn a_held_retry_that_is_dropped_spends_one_token() {
    for is_made in [true, false] {
        let start = Start { half_open: false, held: true, taken: 0 };
        let scene = Scene::new(&[Step::Hang], BACKOFFS[0], start);
        drop(scene.occupy(start));
        let mut run = Run::new(&scene.policy, Never).on(&scene.upstream);
        let mut next = Box::pin(run.next());
        assert!(poll(next.as_mut()).is_pending(), "the first attempt is held too");
        assert_eq!(available(&scene.upstream), START, "the first attempt spends no token");
        scene.timer.advance(SECOND * 3);
        while poll(next.as_mut()).is_pending() {}
        drop(next);
        scene.upstream.hold(SECOND * 3);
        run.failed(Down(0)).unwrap();

        for _ in 0..3 {
            let mut attempt = Box::pin(run.attempt(scene.play()));
            for _ in 0..3 {
                assert!(poll(attempt.as_mut()).is_pending());
                assert_eq!(
                    available(&scene.upstream),
                    START - 1,
                    "one token is spent, before the wait"
                );
            }
            drop(attempt);
            assert_eq!((available(&scene.upstream), scene.timer.sleepers()), (START - 1, 0));
        }
        assert_eq!((scene.script.begun(), run.attempts()), (0, 1));
        if is_made {
            let mut attempt = Box::pin(run.attempt(scene.play()));
            scene.timer.advance(SECOND * 3);
            for _ in 0..3 {
                assert!(poll(attempt.as_mut()).is_pending());
            }
            assert_eq!(scene.script.begun(), 1);
            drop(attempt);
        }
        drop(run);
        assert_eq!(
            available(&scene.upstream),
            START - u32::from(is_made),
            "a retry that was made spent one token"
        );
    }
}
