//! A thousand tasks share one breaker, bulkhead, cooldown and budget, with faults, cancellations,
//! drops and panics. At the end every permit, token and probe has returned.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::breaker::{State, Transition};
use resile::chaos::Chaos;
use resile::classify::Cut;
use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Seeded, Timer, TokioTimer};
use resile::timeout::{ClassifyOperation, Error};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, GaveUp, HedgePolicy, Jitter,
    ResilienceExt, RetryPolicy, Run, StopReason, Upstream, Verdict, hedge, retry,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

type CallError = Error<&'static str>;
type Classifier = ClassifyOperation<fn(&&'static str) -> Verdict>;

fn classify(error: &&'static str) -> Verdict {
    match *error {
        "throttled" => Verdict::throttled().after(Duration::from_millis(100)),
        "bad request" => Verdict::fatal(),
        _ => Verdict::transient(),
    }
}

const CLASSIFIER: Classifier = ClassifyOperation(classify);
const TASKS: u64 = 1000;
const CALLS: u32 = 4;
static HEDGE: HedgePolicy<Classifier> = HedgePolicy::new()
    .with_delay(Duration::from_millis(50))
    .with_total_timeout(Duration::from_secs(5))
    .with_classifier(CLASSIFIER);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Everything that the tasks share. `M` is the clock.
struct Shared<M: Timer> {
    timer: M,
    opened: Duration,
    chaos: Chaos<fn() -> CallError>,
    upstream: Upstream<M>,
    /// The tokens at the start.
    tokens: u32,
    policy: RetryPolicy<Classifier>,
    seed: u64,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    opened: AtomicU32,
    closed: AtomicU32,
    /// The calls that ended, counted by the observer.
    ended: AtomicU32,
    /// The attempts that need a token.
    retries: AtomicU32,
    /// The attempts that the policy's own timeout cut.
    cuts: AtomicU32,
    successes: AtomicU32,
    failures: AtomicU32,
    refusals: AtomicU32,
    unpaid: AtomicU32,
    cancels: AtomicU32,
    drops: AtomicU32,
    panics: AtomicU32,
}

impl Tally {
    fn note(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::Breaker { transition: Transition::Opened { .. }, .. } => count(&self.opened),
            EventKind::Breaker { transition: Transition::Closed { .. }, .. } => count(&self.closed),
            EventKind::Succeeded { .. } | EventKind::GaveUp { .. } => count(&self.ended),
            EventKind::Failed { failure, .. }
                if matches!(failure.cut, Some(Cut::AttemptTimeout(_))) =>
            {
                count(&self.cuts);
            }
            _ => {}
        }
    }
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Relaxed);
}

impl<M> Shared<M>
where
    M: Timer<Sleep: Send> + Clone + Send + Sync + 'static,
{
    /// With `rich` the budget has tokens for all, and each success returns one. Without it the
    /// budget runs out and is never refilled. No deposit is lost in either case, so the tokens can
    /// be counted.
    fn new(timer: M, seed: u64, rich: bool) -> Arc<Self> {
        let down: fn() -> CallError = || Error::Operation("down");
        let chaos = Chaos::new(seed).with_panics(0.004).with_hangs(0.02).with_latency(
            0.3,
            millis(1),
            millis(400),
        );
        let tally = Arc::new(Tally::default());
        let breaker = Breaker::new()
            .with_window(millis(1000))
            .with_open_time(Backoff::fixed(millis(200)).with_jitter(Jitter::Full))
            .with_lease(millis(500));
        let (capacity, tokens, deposit) = if rich { (40_000, 20_000, 1.0) } else { (50, 50, 0.0) };
        let budget = Budget::new().with_capacity(capacity).with_deposit(deposit);
        (tokens..capacity).for_each(|_| assert!(budget.withdraw()));
        let policy =
            RetryPolicy::new().with_attempts(5).with_total_timeout(Duration::from_secs(10));
        let observed = Arc::clone(&tally);
        let upstream = Upstream::new("shop")
            .with_breaker(breaker)
            .with_bulkhead(Bulkhead::new(40).with_queue(400))
            .with_cooldown(Cooldown::new())
            .with_budget(budget)
            .with_shared_observer(move |event: &Event<'_>| observed.note(event))
            .with_timer(timer.clone());
        Arc::new(Self {
            opened: timer.now(),
            chaos: chaos.with_errors(0.1, down),
            upstream,
            tokens,
            policy: policy
                .with_backoff(Backoff::exponential(millis(50)))
                .with_classifier(CLASSIFIER),
            seed,
            tally,
            timer,
        })
    }

    /// The operation: it is down for one second and mostly succeeds otherwise.
    async fn answer(&self, latency: Duration, luck: f64) -> Result<u32, CallError> {
        self.timer.sleep(latency).await;
        let down =
            (millis(1000)..millis(2000)).contains(&self.timer.now().saturating_sub(self.opened));
        match luck {
            _ if down => Err(Error::Operation("down")),
            0.0..0.02 => Err(Error::Operation("throttled")),
            0.02..0.04 => Err(Error::Operation("bad request")),
            _ => Ok(7),
        }
    }

    /// Counts an attempt that is about to begin.
    fn begin(&self, attempt: Attempt) {
        if !attempt.is_first() {
            count(&self.tally.retries);
        }
    }

    /// Makes one call in one of the four ways.
    async fn call(
        &self,
        way: u32,
        token: &CancellationToken,
        luck: f64,
    ) -> Result<u32, GaveUp<CallError>> {
        let latency = millis(1).mul_f64(1.0 + 30.0 * luck);
        let luck = |attempt: Attempt| (luck * 1000.0 + f64::from(attempt.number()) * 0.37).fract();
        let op = |attempt: Attempt| {
            self.begin(attempt);
            self.answer(latency, luck(attempt)).chaos(&self.chaos).on(&self.upstream)
        };
        match way {
            0 => {
                retry(
                    |attempt| op(attempt).timeout(millis(300)).on(&self.upstream),
                    &self.policy,
                    token,
                )
                .on(&self.upstream)
                .await
            }
            1 => {
                retry(op, self.policy.with_attempt_timeout(millis(300)), token)
                    .on(&self.upstream)
                    .await
            }
            2 => {
                hedge(|attempt| op(attempt).timeout(millis(300)).on(&self.upstream), &HEDGE, token)
                    .on(&self.upstream)
                    .await
            }
            _ => {
                let mut run = Run::new(self.policy, token).on(&self.upstream);
                loop {
                    let attempt = run.next().await?;
                    match op(attempt).timeout(millis(300)).on(&self.upstream).await {
                        Ok(value) => return Ok(run.succeeded(value)),
                        Err(error) => run.failed(error)?,
                    }
                }
            }
        }
    }

    /// Runs one task: calls in all four ways. Some calls are cancelled, some are dropped and some
    /// panic.
    async fn run_task(self: Arc<Self>, task: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (task << 20));
        let mut draw = |most: u64| millis(rng.random_range(0..most));
        for way in 0..CALLS {
            self.timer.sleep(draw(1500)).await;
            let (patience, cancels) = (draw(2500), draw(10).as_millis() == 0);
            let (drops, luck) = (draw(10).as_millis() == 0, draw(1_000_000).as_secs_f64() / 1000.0);
            let token = CancellationToken::new();
            let call = AssertUnwindSafe(self.call(way, &token, luck)).catch_unwind();
            let impatient = async {
                if cancels || drops {
                    self.timer.sleep(patience).await;
                } else {
                    std::future::pending::<()>().await;
                }
                if cancels {
                    token.cancel();
                }
            };
            let outcome = match select(Box::pin(call), Box::pin(impatient)).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), call)) if cancels => call.await,
                Either::Right(((), call)) => {
                    drop(call);
                    count(&self.tally.drops);
                    continue;
                }
            };
            let tally = &self.tally;
            count(match outcome {
                Ok(Ok(_)) => &tally.successes,
                Err(_panic) => &tally.panics,
                Ok(Err(gave_up)) => match gave_up.reason() {
                    StopReason::Cancelled => &tally.cancels,
                    StopReason::Budget => &tally.unpaid,
                    StopReason::Open | StopReason::Full => &tally.refusals,
                    _ => &tally.failures,
                },
            });
        }
    }

    /// Checks that nothing is in use any more, after drops, panics and aborted tasks.
    fn check_released(&self) {
        let (tally, at) = (&self.tally, format!("{:?} {:?}", self.tally, self.upstream));
        let (bulkhead, budget) =
            (self.upstream.bulkhead().unwrap(), self.upstream.budget().unwrap());
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{at}");
        let balance =
            if budget.capacity() > self.tokens { tally.successes.load(Relaxed) } else { 0 };
        assert_eq!(budget.available(), self.tokens + balance - tally.retries.load(Relaxed), "{at}");
        let Tally {
            opened,
            closed,
            cuts,
            successes,
            failures,
            refusals,
            cancels,
            drops,
            panics,
            ..
        } = &**tally;
        for met in [opened, closed, cuts, successes, failures, refusals, cancels, drops, panics] {
            assert!(met.load(Relaxed) > 0, "an expected event never occurred: {at}");
        }
        let unpaid = tally.unpaid.load(Relaxed);
        assert_eq!(unpaid > 0, balance == 0, "only the small budget runs out: {at}");
        // Each call that was not dropped reports its end exactly once.
        let ends = [successes, failures, refusals, cancels]
            .map(|count| count.load(Relaxed))
            .iter()
            .sum::<u32>();
        assert_eq!(tally.ended.load(Relaxed), ends + unpaid, "{at}");
    }

    /// Checks that calls pass some time later, and that they close the breaker.
    fn check_admits_calls(&self) {
        assert_eq!(self.upstream.held(), None);
        for _ in 0..5 {
            let admitted = self.upstream.try_admit();
            admitted.unwrap_or_else(|refused| panic!("{refused}: {:?}", self.upstream)).succeeded();
        }
        assert_eq!(self.upstream.breaker().unwrap().state(), State::Closed);
        let bulkhead = self.upstream.bulkhead().unwrap();
        let permits: Vec<_> = (0..bulkhead.limit()).map(|_| self.upstream.try_admit()).collect();
        assert!(permits.iter().all(Result::is_ok));
    }
}

/// Returns whether the task is aborted in the middle. This is every fiftieth task.
const fn is_aborted(task: u64) -> bool {
    task % 50 == 7
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_leave_nothing_behind() {
    for (seed, rich) in [(1, true), (2, false)] {
        let timer = Arc::new(Seeded::new(TokioTimer::new(), seed));
        let shared = Shared::new(timer, seed, rich);
        let mut tasks = JoinSet::new();
        let handles: Vec<_> =
            (0..TASKS).map(|task| tasks.spawn(Arc::clone(&shared).run_task(task))).collect();
        tokio::time::sleep(millis(1200)).await;
        (0..TASKS)
            .zip(&handles)
            .filter(|(task, _)| is_aborted(*task))
            .for_each(|(_, handle)| handle.abort());
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(300), all).await.expect("a task hangs");
        shared.check_released();
        tokio::time::sleep(Duration::from_secs(60)).await;
        shared.check_admits_calls();
    }
}

/// The tasks run on two threads and wake each other. The clock advances after the woken tasks were
/// polled a few times.
#[test]
fn a_thousand_tasks_on_two_threads_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let timer = ManualTimer::new();
    let shared = Shared::new(timer.clone(), 3, true);
    let tasks: Vec<_> =
        (0..TASKS).map(|task| runtime.spawn(Arc::clone(&shared).run_task(task))).collect();
    // Five minutes in steps of five milliseconds. A task that is not done by then hangs.
    for step in 0..60_000 {
        timer.advance(millis(5));
        if step == 240 {
            (0..TASKS)
                .zip(&tasks)
                .filter(|(task, _)| is_aborted(*task))
                .for_each(|(_, run_task)| run_task.abort());
        }
        if tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
        let turns = runtime.spawn(async {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        });
        runtime.block_on(turns).unwrap();
    }
    assert!(
        tasks.iter().all(tokio::task::JoinHandle::is_finished),
        "a task hangs: {:?}",
        shared.tally
    );
    shared.check_released();
    timer.advance(Duration::from_secs(60));
    shared.check_admits_calls();
}
