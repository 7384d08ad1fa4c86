//! A whole program is the same every time: with one seed, two runs of a thousand agents write the
//! same bytes.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use resile::chaos::Chaos;
use resile::fallback::Alternative;
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Rate};
use resile::time::{ManualSleep, ManualTimer, Timer, TokioTimer};
use resile::timeout::{ClassifyOperation, Error};
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp,
    HedgePolicy, Never, Quota, ResilienceExt, RetryPolicy, Upstream, Verdict, fallback, hedge,
    retry,
};
use tokio::task::JoinSet;

use super::script::drive;

const AGENTS: u64 = 1_000;
const STEPS: u8 = 3;

type CallError = Error<&'static str>;
type Classifier = ClassifyOperation<fn(&&'static str) -> Verdict>;

const CLASSIFIER: Classifier = ClassifyOperation(|error| match *error {
    "too many requests" => Verdict::throttled().after(Duration::from_secs(1)),
    "bad request" => Verdict::fatal(),
    _ => Verdict::transient(),
});

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Opens by its window or after ten failures in a row, for about a second.
fn breaker() -> Breaker {
    let open = Backoff::exponential(Duration::from_secs(1));
    Breaker::new().with_failure_rate(0.7, 40).with_open_time(open)
}

/// Everything that the agents share. `C` is the clock of the model, and `T` that of the upstreams.
struct Scene<C, T> {
    clock: C,
    opened: Duration,
    model: Upstream<T>,
    spare: Upstream<T>,
    agents: Upstream<T>,
    chaos: Chaos<fn() -> CallError>,
    /// The second of the last request, and the number of requests in it.
    load: Mutex<(u64, u32)>,
    log: Arc<Mutex<String>>,
}

impl<C, T> Scene<C, T>
where
    C: Timer<Sleep: Send> + Clone + Send + Sync + 'static,
    T: Timer<Sleep: Send> + Send + Sync + 'static,
{
    /// Creates a scene. `seeded` sets the timer of the nth upstream.
    fn new(clock: C, seeded: impl Fn(Upstream, u64) -> Upstream<T>) -> Arc<Self> {
        let (log, opened) = (Arc::new(Mutex::new(String::new())), clock.now());
        let upstream = |name, number| {
            let (log, clock) = (Arc::clone(&log), clock.clone());
            let write = move |event: &Event<'_>| {
                let now = clock.now().saturating_sub(opened);
                write_line(&mut log.lock().unwrap(), now, event);
            };
            seeded(Upstream::new(name).with_shared_observer(write), number)
        };
        let down: fn() -> CallError = || Error::Operation("connection reset");
        let model = upstream("model", 0)
            .with_budget(Budget::new().with_capacity(4))
            .with_breaker(breaker())
            .with_cooldown(Cooldown::new())
            .with_bulkhead(Bulkhead::new(40).with_queue(400))
            .with_quota(
                Quota::new()
                    .with_requests(Rate::per_second(130))
                    .with_tokens(Rate::per_second(40_000).with_burst(8_000)),
            )
            .with_adaptive_timeout(AdaptiveTimeout::new());
        Arc::new(Self {
            model,
            spare: upstream("spare", 1).with_breaker(breaker()),
            agents: upstream("agents", 2),
            chaos: Chaos::unseeded()
                .with_hangs(0.01)
                .with_latency(0.2, millis(1), millis(400))
                .with_errors(0.05, down),
            load: Mutex::default(),
            clock,
            opened,
            log,
        })
    }

    /// The model: it refuses the load above its limit, and is down for two seconds.
    async fn answer(&self, agent: u64, step: u8, attempt: Attempt) -> Result<u32, CallError> {
        // Differs between the attempts, and is the same in each run.
        let luck = (agent * 31 + u64::from(step) * 7 + u64::from(attempt.number()) * 13) % 97;
        self.clock.sleep(millis(if luck < 4 { 3_000 } else { 20 + luck })).await;
        let now = self.clock.now().saturating_sub(self.opened);
        {
            let mut load = self.load.lock().unwrap();
            *load = if load.0 == now.as_secs() { (load.0, load.1 + 1) } else { (now.as_secs(), 1) };
            if load.1 > 120 {
                return Err(Error::Operation("too many requests"));
            }
        }
        match luck {
            _ if (millis(3_000)..millis(5_000)).contains(&now) => Err(Error::Operation("down")),
            5 => Err(Error::Operation("bad request")),
            _ => Ok(attempt.number()),
        }
    }

    /// Makes one call with retries or hedges.
    async fn ask(
        &self,
        upstream: &Upstream<T>,
        agent: u64,
        step: u8,
    ) -> Result<u32, GaveUp<CallError>> {
        let op = |attempt| self.answer(agent, step, attempt).chaos(&self.chaos).on(upstream);
        let cost = Cost::input(200 + agent % 7 * 100);
        let target = upstream.at_cost(cost).with_priority(step).with_group(agent % 5);
        let (limit, own) = (millis(20_000), millis(2_500));
        if agent % 3 == 0 {
            let policy = HedgePolicy::new().with_delay(millis(150)).with_learned_delay();
            let policy = policy.with_total_timeout(limit).with_attempt_timeout(own);
            return hedge(op, policy.with_classifier(CLASSIFIER), Never).on(target).await;
        }
        let policy = RetryPolicy::new().with_attempts(5).with_learned_attempt_timeout();
        let policy = policy.with_total_timeout(limit).with_attempt_timeout(own);
        retry(op, policy.with_classifier(CLASSIFIER), Never).on(target).await
    }

    /// Runs one agent: three steps, with a second model as the alternative.
    async fn run(self: Arc<Self>, agent: u64) {
        self.clock.sleep(millis(agent * 10)).await;
        for step in 0..STEPS {
            let op = |alternative: Alternative<'_, bool>| {
                let upstream = if *alternative.value() { &self.model } else { &self.spare };
                self.ask(upstream, agent, step)
            };
            let elsewhere = |_: &GaveUp<CallError>| true;
            let policy = FallbackPolicy::new().with_classifier(elsewhere);
            drop(fallback(&[true, false], op, policy, Never).on(&self.agents).await);
            self.clock.sleep(millis(1_000)).await;
        }
    }

    fn into_log(self: Arc<Self>) -> String {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// Writes every field of an event as one line.
fn write_line(log: &mut String, now: Duration, event: &Event<'_>) {
    let Event { upstream, call, kind, gauges, .. } = event;
    let times = match kind {
        EventKind::Started { attempt, reserved, .. } => format!("{attempt:?} {reserved:?}"),
        EventKind::Held { delay, .. } => format!("{delay:?}"),
        EventKind::Failed { attempt, latency, .. } => format!("{attempt:?} {latency:?}"),
        EventKind::Waiting { attempt, delay, resumes_at, .. } => {
            format!("{attempt:?} {delay:?} {resumes_at:?}")
        }
        EventKind::Succeeded { elapsed, latency, .. } => format!("{elapsed:?} {latency:?}"),
        EventKind::GaveUp { elapsed, retry_after, .. } => format!("{elapsed:?} {retry_after:?}"),
        _ => String::new(),
    };
    writeln!(log, "{now:?} {kind:?} {upstream:?} {event} | {times} | {call:?} {gauges:?}").unwrap();
}

/// Runs the agents as tasks of a tokio runtime with a paused clock.
fn on_tokio(seed: u64) -> String {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let seeded = |upstream: Upstream, number| upstream.with_seed(seed + number);
        let scene = Scene::new(TokioTimer::new(), seeded);
        let mut agents: JoinSet<()> =
            (0..AGENTS).map(|agent| Arc::clone(&scene).run(agent)).collect();
        while let Some(ended) = agents.join_next().await {
            ended.unwrap();
        }
        scene.into_log()
    })
}

/// Runs the agents on a manual clock without a runtime. `of` is the timer of the upstreams.
fn by_hand<T>(timer: &ManualTimer, of: impl Fn(&ManualTimer) -> T) -> String
where
    T: Timer<Sleep: Send> + Send + Sync + 'static,
{
    let scene = Scene::new(timer.clone(), |upstream, _| upstream.with_timer(of(timer)));
    drive(join_all((0..AGENTS).map(|agent| Arc::clone(&scene).run(agent))), timer);
    scene.into_log()
}

/// Compares two logs. They are long, so a failure shows their first difference only.
fn assert_equal(one: &str, two: &str) {
    let difference = one.lines().zip(two.lines()).enumerate().find(|(_, (one, two))| one != two);
    assert!(difference.is_none() && one.cmp(two) == Ordering::Equal, "{difference:#?}");
}

/// Checks that every draw and every part had its effect.
fn assert_rich(log: &str) {
    assert!(log.lines().count() > 10_000, "{} lines", log.lines().count());
    for part in [
        " held Some(\"model\") model: attempt 1 of 5 waits ",
        "for the cooldown",
        "for the bulkhead",
        "for the quota",
        "connection reset",
        ", the upstream asked for a wait of 1.0s: too many requests",
        "bad request",
        "s, all attempts are refused: too ",
        "breaker closed: ",
        "hedge not started",
        "another attempt ended the call",
        "the retry budget is spent",
        "the circuit breaker is open",
        "trying the next",
        "did not finish within",
        "spare",
    ] {
        assert!(log.contains(part), "no event with `{part}`");
    }
}

/// Runs a program twice with one seed and once with another.
fn assert_reproducible(run: impl Fn(u64) -> String) {
    let log = run(7);
    assert_rich(&log);
    assert_equal(&log, &run(7));
    let other = run(8);
    assert!(log != other, "another seed has another log");
    // Not only the order of some lines differs.
    let count = |log: &str| log.lines().filter(|line| line.contains("waiting")).count();
    assert!(count(&log) > 100 && count(&other) > 100);
}

#[test]
fn a_thousand_agents_on_tokio_write_the_same_log_twice() {
    assert_reproducible(on_tokio);
}

#[test]
fn a_thousand_agents_on_a_manual_timer_write_the_same_log_twice() {
    assert_reproducible(|seed| by_hand(&ManualTimer::with_seed(seed), ManualTimer::clone));
}

/// A manual clock with the draws of the operating system.
struct Unseeded(ManualTimer);

impl Timer for Unseeded {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        self.0.sleep(delay)
    }
}

/// The tests above can fail: without a seed two runs differ.
#[test]
fn without_a_seed_two_runs_differ() {
    let run = || by_hand(&ManualTimer::new(), |timer| Unseeded(timer.clone()));
    assert!(run() != run());
}
