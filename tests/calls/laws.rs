//! Every shell, a kind of call on an upstream, obeys the same laws. Each attempt begins with one
//! admission, ends with one report, and returns everything that it held.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::breaker::State;
use resile::classify::{ClassifyExt, Cut, CutIs};
use resile::policy::AsPolicy;
use resile::time::ManualTimer;
use resile::{
    Attempt, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp, Health, HedgePolicy,
    RetryPolicy, Run, StopReason, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// An error that carries its own verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Failed(Option<Verdict>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

type Classifier = CutIs<fn(&Failed) -> Option<Verdict>>;

fn classifier() -> Classifier {
    let classify: fn(&Failed) -> Option<Verdict> = |failed| failed.0;
    classify.cut_is(Verdict::transient())
}

const TRANSIENT: Failed = Failed(Some(Verdict::transient()));
const THROTTLED: Failed = Failed(Some(Verdict::throttled().after(Duration::from_secs(5))));
const NOT_AGAIN: Failed = Failed(Some(Verdict::transient().not_again()));
const NOT_FOUND: Failed = Failed(Some(Verdict::fatal().with_health(Health::Healthy)));
const LOCAL: Failed = Failed(Some(Verdict::fatal()));
const UNKNOWN: Failed = Failed(None);

/// The behaviour of one attempt.
#[derive(Clone, Copy, Debug)]
enum Does {
    Succeed,
    Fail(Failed),
    Hang,
    /// Stays pending once, then succeeds.
    Pend,
    Panic,
}

/// The kind of call that makes the attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shell {
    Retry,
    RunAttempt,
    RunByHand,
    Stream,
    Hedge,
    Fallback,
    Call,
}

use Shell::{Call, Fallback, Hedge, Retry, RunAttempt, RunByHand, Stream};

const ALL: [Shell; 7] = [Retry, RunAttempt, RunByHand, Stream, Hedge, Fallback, Call];
/// The shells that make another attempt after a failed one.
const SEQUENTIAL: [Shell; 5] = [Retry, RunAttempt, RunByHand, Stream, Fallback];
/// The shells that cut an attempt.
const TIMED: [Shell; 5] = [Retry, RunAttempt, Stream, Hedge, Fallback];

struct World {
    timer: ManualTimer,
    upstream: Upstream<ManualTimer>,
    token: CancellationToken,
    does: RefCell<Vec<Does>>,
    begun: Cell<u32>,
    limits: Limits,
}

#[derive(Clone, Copy, Default)]
struct Limits {
    total: Option<Duration>,
    attempt: Option<Duration>,
}

/// Lives as long as the future of an attempt. The attempt must be dropped before its permit is
/// released.
struct InFlight<'a>(&'a World);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let in_flight = self.0.upstream.bulkhead().unwrap().in_flight();
        assert!(
            in_flight > 0 || std::thread::panicking(),
            "the permit was released before the attempt was dropped"
        );
    }
}

type Outcome = Result<u32, GaveUp<Failed>>;

const ATTEMPTS: u32 = 4;

impl World {
    /// Creates a world with a breaker that opens at the third failure in a row and then admits one
    /// probe. The lease never ends, so a probe that does not return is lost for ever.
    fn new(does: &[Does]) -> Self {
        let timer = ManualTimer::new();
        let breaker = Breaker::new()
            .with_consecutive(3)
            .without_failure_rate()
            .with_open_time(resile::Backoff::fixed(SECOND * 100))
            .with_probes(1.0, 1)
            .with_lease(Duration::MAX);
        let upstream = Upstream::new("world")
            .with_budget(Budget::new().with_capacity(10).with_deposit(1.0))
            .with_breaker(breaker)
            .with_cooldown(Cooldown::new().with_jitter(0.0))
            .with_bulkhead(Bulkhead::new(2).with_queue(1))
            .with_timer(timer.clone());
        let (token, does) =
            (CancellationToken::new(), RefCell::new(does.iter().rev().copied().collect()));
        Self { timer, upstream, token, does, begun: Cell::new(0), limits: Limits::default() }
    }

    fn with_limits(mut self, total: Option<Duration>, attempt: Option<Duration>) -> Self {
        self.limits = Limits { total, attempt };
        self
    }

    /// Makes one attempt. After the end of the script, attempts succeed.
    async fn attempt(&self) -> Result<u32, Failed> {
        let _in_flight = InFlight(self);
        self.begun.set(self.begun.get() + 1);
        let number = self.begun.get();
        let does = self.does.borrow_mut().pop().unwrap_or(Does::Succeed);
        match does {
            Does::Succeed => Ok(number),
            Does::Fail(failed) => Err(failed),
            Does::Hang => pending().await,
            Does::Pend => {
                let mut is_pending = true;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::take(&mut is_pending) { Poll::Pending } else { Poll::Ready(()) }
                })
                .await;
                Ok(number)
            }
            Does::Panic => panic!("the operation"),
        }
    }

    fn retry_policy(&self) -> RetryPolicy<Classifier> {
        let backoff = resile::Backoff::fixed(SECOND);
        let mut policy = RetryPolicy::new().with_attempts(ATTEMPTS).with_backoff(backoff);
        if let Some(limit) = self.limits.total {
            policy = policy.with_total_timeout(limit);
        }
        if let Some(limit) = self.limits.attempt {
            policy = policy.with_attempt_timeout(limit);
        }
        policy.with_classifier(classifier())
    }

    async fn call(&self, shell: Shell) -> Outcome {
        let (policy, upstream, token) = (self.retry_policy(), &self.upstream, &self.token);
        match shell {
            Retry => retry(|_| self.attempt(), policy, token).on(upstream).await,
            RunAttempt => {
                let mut run = Run::new(policy, token).on(upstream);
                loop {
                    if let Some(value) = run.attempt(self.attempt()).await? {
                        return Ok(value);
                    }
                }
            }
            RunByHand => {
                let mut run = Run::new(policy, token).on(upstream);
                loop {
                    run.next().await?;
                    match self.attempt().await {
                        Ok(value) => return Ok(run.succeeded(value)),
                        Err(failed) => run.failed(failed)?,
                    }
                }
            }
            Stream => {
                let open =
                    |_: Attempt| async { Ok(stream::once(ready(Ok(self.attempt().await?)))) };
                let mut stream = Box::pin(retry_stream(open, policy, token).on(upstream));
                let first = stream.next().await.expect("an item or an error");
                if first.is_ok() {
                    assert!(stream.next().await.is_none());
                }
                first
            }
            Hedge => {
                let mut policy = HedgePolicy::new().with_delay(SECOND).with_hedges(ATTEMPTS - 1);
                if let Some(limit) = self.limits.total {
                    policy = policy.with_total_timeout(limit);
                }
                if let Some(limit) = self.limits.attempt {
                    policy = policy.with_attempt_timeout(limit);
                }
                hedge(|_| self.attempt(), policy.with_classifier(classifier()), token)
                    .on(upstream)
                    .await
            }
            Fallback => {
                let mut policy = FallbackPolicy::new();
                if let Some(limit) = self.limits.total {
                    policy = policy.with_total_timeout(limit);
                }
                if let Some(limit) = self.limits.attempt {
                    policy = policy.with_attempt_timeout(limit);
                }
                let policy = policy.with_classifier(classifier());
                fallback(&[(); ATTEMPTS as usize], |_| self.attempt(), policy, token)
                    .on(upstream)
                    .await
            }
            Call => upstream.call(self.attempt(), classifier()).await,
        }
    }

    /// Polls the call until it ends. The clock advances whenever the call is pending.
    fn run(&self, shell: Shell) -> Outcome {
        self.finish(&mut Box::pin(self.call(shell)), 10_000)
            .unwrap_or_else(|| panic!("{shell:?} does not end"))
    }

    fn finish(
        &self,
        call: &mut Pin<Box<impl Future<Output = Outcome>>>,
        polls: u32,
    ) -> Option<Outcome> {
        for _ in 0..polls {
            match poll(call) {
                Poll::Ready(outcome) => return Some(outcome),
                Poll::Pending => self.advance(),
            }
        }
        None
    }

    fn advance(&self) {
        if let Some(next) = self.timer.until_next() {
            self.timer.advance(next);
        }
    }

    fn tokens(&self) -> u32 {
        self.upstream.budget().unwrap().available()
    }

    fn streak(&self) -> u32 {
        self.upstream.snapshot().unwrap().streak
    }

    fn state(&self) -> State {
        self.upstream.breaker().unwrap().state()
    }

    /// Opens the breaker and advances the clock until it admits a probe.
    fn await_probe(&self) {
        for _ in 0..3 {
            self.upstream.try_admit().unwrap().settle(&Verdict::transient());
        }
        assert_eq!(self.state(), State::Open);
        self.timer.advance(SECOND * 100);
    }

    /// Checks that nothing is held any more.
    fn check_released(&self, context: &str) {
        let bulkhead = self.upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{context}: permits");
        assert_eq!(self.timer.sleepers(), 0, "{context}: sleepers");
        self.timer.advance(SECOND * 1000);
        if self.state() != State::Closed {
            // A probe that did not return is lost for ever.
            self.upstream
                .try_admit()
                .unwrap_or_else(|refused| panic!("{context}: {refused}"))
                .succeeded();
            assert_eq!(self.state(), State::Closed, "{context}");
        }
    }
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_success_is_reported() {
    for shell in ALL {
        let world = World::new(&[]);
        assert!(world.upstream.budget().unwrap().withdraw());
        world.upstream.try_admit().unwrap().settle(&Verdict::transient());
        assert_eq!(world.streak(), 1);
        assert_eq!(world.run(shell).unwrap(), 1, "{shell:?}");
        assert_eq!((world.streak(), world.tokens()), (0, 10), "{shell:?}");
        world.check_released("a success");
    }
}

/// Each failed attempt is reported once, by its health. Whether it may be sent again makes no
/// difference.
#[test]
fn a_failure_is_reported_once_by_its_health() {
    let table = [
        (TRANSIENT, 1, true),
        (NOT_AGAIN, 1, false),
        (THROTTLED, 0, true),
        (NOT_FOUND, 0, false),
        (LOCAL, 0, false),
        (UNKNOWN, 0, false),
    ];
    for shell in ALL {
        for (failed, streak, again) in table {
            let world = World::new(&[Does::Fail(failed)]);
            let mut call = Box::pin(world.call(shell));
            let first = poll(&mut call);
            // A fallback starts the next alternative in the same poll.
            if shell != Fallback || !again {
                assert_eq!(
                    (world.begun.get(), world.streak()),
                    (1, streak),
                    "{shell:?} after {failed:?}"
                );
            }
            match (first, again && SEQUENTIAL.contains(&shell)) {
                (Poll::Ready(Err(gave_up)), false) => {
                    let reason = match failed.0 {
                        None => StopReason::Unclassified,
                        Some(verdict) if verdict.is_again() => StopReason::Attempts,
                        Some(_) => StopReason::Fatal,
                    };
                    let seen = (
                        gave_up.reason(),
                        gave_up.attempts(),
                        gave_up.verdict(),
                        gave_up.last().copied(),
                    );
                    assert_eq!(seen, (reason, 1, failed.0, Some(failed)), "{shell:?}");
                    assert_eq!(gave_up.upstream(), Some("world"));
                }
                (first, true) => {
                    let outcome = match first {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => world.finish(&mut call, 100).expect("an end"),
                    };
                    assert_eq!(outcome.unwrap(), 2, "{shell:?}");
                }
                (first, false) => panic!("{shell:?} after {failed:?}: {first:?}"),
            }
            drop(call);
            world.check_released("a failure");
        }
    }
}

#[test]
fn a_retry_spends_a_token_and_a_success_deposits_one() {
    for shell in SEQUENTIAL {
        let world = World::new(&[Does::Fail(TRANSIENT), Does::Fail(TRANSIENT)]);
        assert_eq!(world.run(shell).unwrap(), 3, "{shell:?}");
        assert_eq!(world.tokens(), 10 - 2 + 1, "{shell:?}");
    }
    let world = World::new(&[Does::Hang]);
    (0..2).for_each(|_| assert!(world.upstream.budget().unwrap().withdraw()));
    assert_eq!(world.run(Hedge).unwrap(), 2);
    assert_eq!(world.tokens(), 8 - 1 + 1);
}

#[test]
fn without_a_token_there_is_no_second_attempt() {
    for shell in SEQUENTIAL {
        let world = World::new(&[Does::Fail(TRANSIENT)]);
        (0..10).for_each(|_| assert!(world.upstream.budget().unwrap().withdraw()));
        let gave_up = world.run(shell).unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Budget, 1), "{shell:?}");
        assert_eq!(world.begun.get(), 1);
        world.check_released("no token");
    }
    let world = World::new(&[Does::Hang]).with_limits(Some(SECOND * 9), None);
    (0..10).for_each(|_| assert!(world.upstream.budget().unwrap().withdraw()));
    assert_eq!(world.run(Hedge).unwrap_err().attempts(), 1);
}

#[test]
fn an_open_breaker_refuses_at_once() {
    for shell in ALL {
        let world = World::new(&[]);
        for _ in 0..3 {
            world.upstream.try_admit().unwrap().settle(&Verdict::transient());
        }
        let gave_up = world.run(shell).unwrap_err();
        let seen = (gave_up.reason(), gave_up.attempts(), gave_up.retry_after());
        assert_eq!(seen, (StopReason::Open, 0, Some(SECOND * 100)), "{shell:?}");
        assert_eq!(world.begun.get(), 0, "{shell:?}: the operation was called");
        world.check_released("refused");
    }
}

/// The third failure in a row opens the breaker. The call does not wait for a retry that the
/// breaker would refuse.
#[test]
fn failures_open_the_breaker_and_end_the_call() {
    for shell in SEQUENTIAL {
        let world = World::new(&[Does::Fail(TRANSIENT); 9]);
        let gave_up = world.run(shell).unwrap_err();
        let seen = (gave_up.reason(), gave_up.attempts(), world.state());
        assert_eq!(seen, (StopReason::Open, 3, State::Open), "{shell:?}");
        world.check_released("opened");
    }
}

/// The breaker counts failures even if no request may be sent again.
#[test]
fn failures_that_must_not_be_sent_again_open_the_breaker() {
    for shell in ALL {
        let world = World::new(&[Does::Fail(NOT_AGAIN); 200]);
        for _ in 0..3 {
            assert_eq!(world.run(shell).unwrap_err().reason(), StopReason::Fatal, "{shell:?}");
        }
        assert_eq!(world.state(), State::Open, "{shell:?}");
    }
}

#[test]
fn the_outcome_of_a_probe_closes_or_opens_the_breaker() {
    for shell in ALL {
        for (does, state) in [
            (Does::Succeed, State::Closed),
            (Does::Fail(NOT_FOUND), State::Closed),
            (Does::Fail(NOT_AGAIN), State::Open),
        ] {
            let world = World::new(&[does]);
            world.await_probe();
            let _ = world.run(shell);
            assert_eq!(world.state(), state, "{shell:?} {does:?}");
        }
    }
}

#[test]
fn a_hold_is_waited_out() {
    for shell in ALL {
        let world = World::new(&[]);
        world.upstream.hold(SECOND * 7);
        let mut call = Box::pin(world.call(shell));
        assert!(poll(&mut call).is_pending());
        world.timer.advance(SECOND * 6);
        assert!(poll(&mut call).is_pending());
        assert_eq!(world.begun.get(), 0, "{shell:?}");
        world.timer.advance(SECOND);
        assert_eq!(world.finish(&mut call, 100).unwrap().unwrap(), 1, "{shell:?}");
        drop(call);
        world.check_released("held");
    }
}

#[test]
fn a_throttled_attempt_holds_every_call() {
    for shell in ALL {
        let world = World::new(&[Does::Fail(THROTTLED)]);
        let mut call = Box::pin(world.call(shell));
        let _ = poll(&mut call);
        assert_eq!(world.upstream.held(), Some(SECOND * 5), "{shell:?}");
    }
}

/// A call that cannot begin before its deadline ends at once. The error gives the time of the next
/// possible start.
#[test]
fn a_hold_that_does_not_fit_the_deadline_ends_the_call_at_once() {
    for shell in TIMED {
        let world = World::new(&[]).with_limits(Some(SECOND * 3), None);
        world.upstream.hold(SECOND * 7);
        let Poll::Ready(Err(gave_up)) = poll(&mut Box::pin(world.call(shell))) else {
            panic!("{shell:?} waits")
        };
        let seen = (gave_up.reason(), gave_up.attempts(), gave_up.retry_after());
        assert_eq!(seen, (StopReason::Deadline, 0, Some(SECOND * 7)), "{shell:?}");
        assert_eq!(world.begun.get(), 0);
    }
}

#[test]
fn a_cancelled_token_begins_nothing() {
    for shell in ALL.into_iter().filter(|shell| *shell != Call) {
        let world = World::new(&[]);
        world.token.cancel();
        let gave_up = world.run(shell).unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 0), "{shell:?}");
        assert_eq!(world.begun.get(), 0, "{shell:?}");
        world.check_released("cancelled");
    }
}

/// The token ends a delay, a hold and an attempt in flight. The breaker counts none of this.
#[test]
fn the_token_ends_a_wait_and_an_attempt_in_flight() {
    for shell in [Retry, RunAttempt, Stream, Hedge, Fallback] {
        for (does, held) in
            [(&[Does::Hang][..], false), (&[], true), (&[Does::Fail(TRANSIENT)], false)]
        {
            let world = World::new(does);
            if held {
                world.upstream.hold(SECOND * 7);
            }
            let mut call = Box::pin(world.call(shell));
            let Poll::Pending = poll(&mut call) else { continue };
            let streak = world.streak();
            world.token.cancel();
            let Poll::Ready(outcome) = poll(&mut call) else { panic!("{shell:?} did not end") };
            assert_eq!(outcome.unwrap_err().reason(), StopReason::Cancelled, "{shell:?}");
            assert_eq!(world.streak(), streak, "{shell:?}");
            drop(call);
            world.check_released("cancelled in flight");
            assert_eq!(world.tokens(), 10, "{shell:?}");
        }
    }
}

#[test]
fn a_hanging_attempt_is_cut_and_counts_as_a_failure() {
    for shell in TIMED {
        let world = World::new(&[Does::Hang; 9]).with_limits(None, Some(SECOND / 2));
        let mut call = Box::pin(world.call(shell));
        assert!(poll(&mut call).is_pending());
        world.timer.advance(SECOND / 2);
        let first = poll(&mut call);
        assert!(world.streak() >= 1, "{shell:?}");
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => world.finish(&mut call, 1000).unwrap(),
        };
        let gave_up = outcome.unwrap_err();
        assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND / 2)), "{shell:?}");
        // The breaker may have opened. The verdict then has its wait.
        let expected = gave_up.retry_after().map_or(Verdict::transient(), |after| {
            assert_eq!(gave_up.reason(), StopReason::Open, "{shell:?}");
            Verdict::transient().at_least(after)
        });
        assert_eq!(gave_up.verdict(), Some(expected), "{shell:?}");
        let words = gave_up.to_string();
        let is_cut = ["did not finish", "no content"].map(|end| format!("{end} within 500ms"));
        assert!(is_cut.iter().any(|cut| words.contains(cut)), "{words}");
        drop(call);
        world.check_released("cut");
    }
}

/// The total timeout ends the call to the nanosecond. An attempt cut by it counts if it had at
/// least half of the time.
#[test]
fn the_total_timeout_ends_the_call() {
    for shell in TIMED {
        let world = World::new(&[Does::Hang; 9]).with_limits(Some(SECOND * 3 / 4), None);
        let gave_up = world.run(shell).unwrap_err();
        let seen = (gave_up.reason(), gave_up.elapsed(), gave_up.cut());
        assert_eq!(seen, (StopReason::Deadline, SECOND * 3 / 4, Some(Cut::Deadline)), "{shell:?}");
        assert_eq!(world.streak(), 1, "{shell:?}");
        world.check_released("deadline");
    }
    for shell in [Retry, RunAttempt, Stream] {
        // The first attempt and its delay take 1 s of the 1.5 s.
        let world = World::new(&[Does::Fail(LOCAL_AGAIN), Does::Hang])
            .with_limits(Some(SECOND * 3 / 2), None);
        let gave_up = world.run(shell).unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 2), "{shell:?}");
        assert_eq!(world.streak(), 0, "{shell:?}: the attempt had a third of the time");
    }
}

const LOCAL_AGAIN: Failed = Failed(Some(Verdict::transient().with_health(Health::Unknown)));

const SCRIPTS: [&[Does]; 6] = [
    &[Does::Succeed],
    &[Does::Hang, Does::Hang],
    &[Does::Pend],
    &[Does::Fail(TRANSIENT), Does::Pend, Does::Hang],
    &[Does::Fail(THROTTLED), Does::Fail(LOCAL_AGAIN), Does::Hang],
    &[Does::Fail(LOCAL_AGAIN), Does::Fail(LOCAL_AGAIN), Does::Pend],
];

/// A call may be dropped after any number of polls, in every scene: free, as a probe, held or
/// queued.
#[test]
fn a_drop_at_any_await_returns_everything() {
    for shell in ALL {
        for (index, script) in SCRIPTS.into_iter().enumerate() {
            for scene in ["free", "probe", "held", "queued"] {
                for polls in 0..40 {
                    let context =
                        format!("{shell:?}, script {index}, {scene}, after {polls} polls");
                    let world = World::new(script).with_limits(Some(SECOND * 20), Some(SECOND * 2));
                    match scene {
                        "probe" => world.await_probe(),
                        "held" => world.upstream.hold(SECOND * 3),
                        _ => {}
                    }
                    let others: Vec<_> = if scene == "queued" {
                        (0..2).map(|_| world.upstream.try_admit().unwrap()).collect()
                    } else {
                        Vec::new()
                    };
                    let mut call = Box::pin(world.call(shell));
                    let ended = world.finish(&mut call, polls).is_some();
                    drop(call);
                    drop(others);
                    let (spent, retries) = (
                        10_u32.saturating_sub(world.tokens()),
                        world.begun.get().saturating_sub(1),
                    );
                    assert!(spent <= retries, "{context}: {spent} tokens for {retries} retries");
                    world.check_released(&context);
                    if ended {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn a_panic_in_the_operation_returns_everything() {
    for shell in ALL {
        for probe in [false, true] {
            let world = World::new(&[Does::Panic]);
            if probe {
                world.await_probe();
            }
            let mut call = Box::pin(world.call(shell));
            assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut call))).is_err(), "{shell:?}");
            drop(call);
            world.check_released(&format!("{shell:?}, panicked"));
            assert_eq!(world.tokens(), 10);
        }
    }
}

#[test]
fn a_bulkhead_limits_the_attempts_and_its_queue() {
    for shell in ALL {
        let world = World::new(&[Does::Hang, Does::Hang]);
        let mut inside: Vec<_> = (0..2).map(|_| Box::pin(world.call(shell))).collect();
        for call in &mut inside {
            assert!(poll(call).is_pending());
        }
        let mut waits = Box::pin(world.call(shell));
        assert!(poll(&mut waits).is_pending());
        let bulkhead = world.upstream.bulkhead().unwrap();
        assert_eq!(
            (world.begun.get(), bulkhead.in_flight(), bulkhead.waiting()),
            (2, 2, 1),
            "{shell:?}"
        );
        let Poll::Ready(Err(gave_up)) = poll(&mut Box::pin(world.call(shell))) else {
            panic!("{shell:?} joins the queue")
        };
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Full, 0), "{shell:?}");
        inside.pop();
        let Poll::Ready(Ok(value)) = poll(&mut waits) else { panic!("{shell:?} still waits") };
        assert_eq!(value, 3, "{shell:?}");
        drop((inside, waits));
        world.check_released("bulkhead");
    }
}

/// A policy may be passed by value, by reference or in an `Arc`.
#[test]
fn a_policy_may_be_passed_by_value_reference_or_arc() {
    static POLICY: RetryPolicy = RetryPolicy::new().with_attempts(7);

    fn attempts<C>(policy: &impl AsPolicy<Policy = RetryPolicy<C>>) -> u32 {
        policy.as_policy().attempts()
    }
    let shared = std::sync::Arc::new(POLICY);
    assert_eq!((attempts(&POLICY), attempts(&&POLICY), attempts(&shared)), (7, 7, 7));
}

/// The wait for an admission does not count against the attempt timeout.
#[test]
fn a_hold_does_not_count_against_the_attempt_timeout() {
    for shell in TIMED {
        let world = World::new(&[Does::Hang; 9]).with_limits(None, Some(SECOND * 5));
        world.upstream.hold(SECOND * 10);
        let mut call = Box::pin(world.call(shell));
        assert!(poll(&mut call).is_pending());
        world.timer.advance(SECOND * 10);
        for _ in 0..3 {
            assert!(poll(&mut call).is_pending(), "{shell:?}");
        }
        assert_eq!(world.begun.get(), 1, "{shell:?}: a hedge started during the hold");
        world.timer.advance((SECOND * 5).saturating_sub(Duration::from_nanos(1)));
        let _ = poll(&mut call);
        assert_eq!(world.streak(), 0, "{shell:?}: the attempt was cut early");
        world.timer.advance(Duration::from_nanos(1));
        let _ = poll(&mut call);
        assert_eq!(world.streak(), 1, "{shell:?}");
    }
}

/// If the outer call ended for its own reason, that reason stays.
#[test]
fn flatten_keeps_the_reason_that_ended_the_call() {
    let outer = |total: Option<Duration>| {
        let world = World::new(&[Does::Fail(NOT_AGAIN); 9]);
        let policy =
            FallbackPolicy::new().with_classifier(|inner: &GaveUp<Failed>| inner.cut().is_none());
        let policy = total.map_or(policy, |total| policy.with_total_timeout(total));
        let inner = |_| async {
            let outcome = retry(|_| world.attempt(), world.retry_policy(), &world.token)
                .on(&world.upstream)
                .await;
            if total.is_some() && world.begun.get() == 2 { pending().await } else { outcome }
        };
        let call = fallback(&["one", "other"], inner, policy, &world.token).on(&world.upstream);
        let mut call = Box::pin(async { call.await.map_err(GaveUp::flatten) });
        world.finish(&mut call, 100).unwrap().unwrap_err()
    };
    let flat = outer(None);
    let seen = (flat.reason(), flat.attempts(), flat.last().copied(), flat.verdict());
    assert_eq!(seen, (StopReason::Fatal, 2, Some(NOT_AGAIN), NOT_AGAIN.0));
    let flat = outer(Some(SECOND));
    let seen = (flat.reason(), flat.attempts(), flat.cut(), flat.last().copied());
    assert_eq!(seen, (StopReason::Deadline, 2, Some(Cut::Deadline), Some(NOT_AGAIN)));
}

/// The total timeout of a run counts from its creation. A total timeout of zero gives one poll.
#[test]
fn the_total_timeout_of_a_run_counts_from_its_creation() {
    let world = World::new(&[]).with_limits(Some(SECOND * 5), None);
    let mut run = Run::<Failed, _, _>::new(world.retry_policy(), &world.token).on(&world.upstream);
    world.timer.advance(SECOND * 9);
    let Poll::Ready(Err(gave_up)) = poll(&mut Box::pin(run.next())) else {
        panic!("an attempt begins")
    };
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 0));

    let world = World::new(&[]).with_limits(Some(Duration::ZERO), None);
    assert_eq!(world.run(RunAttempt).unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_an_upstream_also_counts_from_its_creation() {
    let policy = RetryPolicy::new().with_total_timeout(SECOND * 5);
    let mut run = Run::<Failed, _, _>::new(policy, resile::Never);
    tokio::time::advance(SECOND * 2).await;
    assert_eq!(run.next().await.unwrap().remaining(), Some(SECOND * 3));
    let mut run = Run::<Failed, _, _>::new(policy, resile::Never);
    tokio::time::advance(SECOND * 9).await;
    assert_eq!(run.next().await.unwrap_err().reason(), StopReason::Deadline);
}

/// A reopened stream counts its time again from the start, also for the question whether a cut
/// attempt counts.
#[test]
fn a_stream_that_hangs_after_its_first_item_counts() {
    let world = World::new(&[Does::Succeed, Does::Hang]).with_limits(Some(SECOND * 60), None);
    let open = |_: Attempt| async {
        let item = world.attempt().await?;
        let broken = stream::once(ready(Ok(item))).chain(stream::once(async { Err(TRANSIENT) }));
        Ok(Box::pin(broken))
    };
    let call = retry_stream(open, world.retry_policy(), &world.token).on(&world.upstream);
    let mut call = Box::pin(call.with_resumption(|_| resile::stream::Resumption::Resume));
    let mut next = || call.as_mut().poll_next_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(next(), Poll::Ready(Some(Ok(1)))));
    world.timer.advance(SECOND * 600);
    for _ in 0..2 {
        assert!(next().is_pending());
        world.advance();
    }
    assert!(matches!(next(), Poll::Ready(Some(Err(_)))));
    assert_eq!(world.streak(), 2);
}

/// A caller's loop may never call `next`. The run still ends after the last attempt.
#[test]
fn a_run_without_next_ends_after_its_attempts() {
    let world = World::new(&[]);
    let mut run = Run::new(world.retry_policy(), &world.token).on(&world.upstream);
    let mut failures = 0;
    let gave_up = loop {
        failures += 1;
        if let Err(gave_up) = run.failed(TRANSIENT) {
            break gave_up;
        }
    };
    assert_eq!(
        (failures, gave_up.reason(), gave_up.attempts()),
        (ATTEMPTS, StopReason::Attempts, ATTEMPTS)
    );
}
