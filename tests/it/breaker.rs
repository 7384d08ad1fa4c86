//! The circuit breaker against a plain model of it, and its traps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::{Event, Permit, State, Trip};
use resile::{
    Backoff, Breaker, Error, Jitter, ManualTimer, Never, ResilienceExt, RetryPolicy, Stop, Timer, TokioTimer, Verdict,
    retry,
};

const SECOND: Duration = Duration::from_secs(1);

fn opening_for(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

pub(crate) type Manual<O = ()> = Breaker<resile::Always, O, ManualTimer>;

pub(crate) fn breaker(timer: &ManualTimer, settings: impl FnOnce(Breaker) -> Breaker) -> Manual {
    settings(Breaker::new()).with_observer(()).with_timer(timer.clone())
}

// ---- the model: lists and recounts, nothing clever

const WINDOW: u64 = 1600; // milliseconds, so a slot is 100
const SLOTS: u64 = 16;
const OPEN: u64 = 500;
const LEASE: u64 = 300;
const PROBES: usize = 3;
const NEEDED: usize = 2;
const CONSECUTIVE: usize = 4;
const OF_AT_LEAST: usize = 6;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Closed,
    Open { until: u64 },
    HalfOpen,
}

struct Model {
    now: u64,
    phase: Phase,
    generation: u64,
    ended: Vec<(u64, bool)>, // when, failed
    streak: usize,
    passed: usize,
    failed: usize,
    probes: Vec<(u64, u64)>, // id, lease
    next_id: u64,
    isolations: usize,
}

#[derive(Clone, Copy)]
struct Admitted {
    generation: u64,
    probe: Option<u64>,
}

impl Model {
    fn new() -> Self {
        Self {
            now: 0,
            phase: Phase::Closed,
            generation: 0,
            ended: vec![],
            streak: 0,
            passed: 0,
            failed: 0,
            probes: vec![],
            next_id: 0,
            isolations: 0,
        }
    }

    fn go(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
        self.ended.clear();
        self.probes.clear();
        (self.streak, self.passed, self.failed) = (0, 0, 0);
    }

    fn state(&self) -> State {
        match self.phase {
            _ if self.isolations > 0 => State::Isolated,
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen => State::HalfOpen,
        }
    }

    fn admit(&mut self) -> Result<Admitted, Option<u64>> {
        if self.isolations > 0 {
            return Err(None);
        }
        if let Phase::Open { until } = self.phase {
            if self.now < until {
                return Err(Some(until - self.now));
            }
            self.go(Phase::HalfOpen);
        }
        if self.phase == Phase::Closed {
            return Ok(Admitted { generation: self.generation, probe: None });
        }
        let now = self.now;
        self.probes.retain(|(_, lease)| *lease > now);
        if self.passed + self.failed + self.probes.len() >= PROBES {
            return Err(self.probes.iter().map(|(_, lease)| lease - now).min());
        }
        self.next_id += 1;
        self.probes.push((self.next_id, now + LEASE));
        Ok(Admitted { generation: self.generation, probe: Some(self.next_id) })
    }

    fn settle(&mut self, call: Admitted, outcome: Outcome) {
        if call.generation != self.generation {
            return;
        }
        if let Some(id) = call.probe {
            self.probes.retain(|(probe, _)| *probe != id);
            match outcome {
                Outcome::Success => self.passed += 1,
                Outcome::Fail | Outcome::Dropped => return,
                Outcome::Transient | Outcome::Throttled => self.failed += 1,
            }
            if self.passed >= NEEDED {
                self.go(Phase::Closed);
            } else if self.failed > PROBES - NEEDED {
                let until = self.now + OPEN;
                self.go(Phase::Open { until });
            }
            return;
        }
        match outcome {
            Outcome::Fail | Outcome::Dropped => return,
            Outcome::Success => self.streak = 0,
            Outcome::Transient => self.streak += 1,
            Outcome::Throttled => {}
        }
        let bad = outcome != Outcome::Success;
        self.ended.push((self.now, bad));
        let slot = self.now / (WINDOW / SLOTS);
        let inside: Vec<_> = self.ended.iter().filter(|(at, _)| at / (WINDOW / SLOTS) + SLOTS > slot).collect();
        let failures = inside.iter().filter(|(_, bad)| *bad).count();
        let streak = outcome == Outcome::Transient && self.streak >= CONSECUTIVE;
        if bad && (streak || inside.len() >= OF_AT_LEAST && failures * 2 >= inside.len()) {
            let until = self.now + OPEN;
            self.go(Phase::Open { until });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Success,
    Transient,
    Throttled,
    Fail,
    Dropped,
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Admit,
    Settle(usize, Outcome),
    Isolate,
    Release,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Success),
        5 => Just(Outcome::Transient),
        2 => Just(Outcome::Throttled),
        1 => Just(Outcome::Fail),
        1 => Just(Outcome::Dropped),
    ];
    let step = prop_oneof![
        6 => (0_u64..250).prop_map(Step::Advance),
        1 => (0_u64..3000).prop_map(Step::Advance),
        12 => Just(Step::Admit),
        14 => (0_usize..64, outcome).prop_map(|(which, outcome)| Step::Settle(which, outcome)),
        1 => Just(Step::Isolate),
        1 => Just(Step::Release),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..200)
}

fn settle<C, O: resile::Observe<Event>>(permit: Permit<'_, C, O, ManualTimer>, outcome: Outcome) {
    match outcome {
        Outcome::Success => permit.success(),
        Outcome::Transient => permit.failure(Verdict::retry()),
        Outcome::Throttled => permit.failure(Verdict::throttled(None)),
        Outcome::Fail => permit.failure(Verdict::Fail),
        Outcome::Dropped => drop(permit),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn behaves_as_the_plain_model(steps in steps()) {
        let timer = ManualTimer::new();
        let breaker = breaker(&timer, |b| {
            b.with_consecutive(u32::try_from(CONSECUTIVE).unwrap())
                .with_failure_rate(0.5, u32::try_from(OF_AT_LEAST).unwrap())
                .with_window(Duration::from_millis(WINDOW))
                .with_open(opening_for(Duration::from_millis(OPEN)))
                .with_probes(u32::try_from(PROBES).unwrap(), 0.6)
                .with_lease(Duration::from_millis(LEASE))
        });
        let mut model = Model::new();
        let mut calls = VecDeque::new();
        let mut guards = vec![];
        for step in steps {
            match step {
                Step::Advance(by) => {
                    timer.advance(Duration::from_millis(by));
                    model.now += by;
                }
                Step::Admit => match (breaker.permit(), model.admit()) {
                    (Ok(permit), Ok(admitted)) => calls.push_back((permit, admitted)),
                    (Err(open), Err(after)) => {
                        prop_assert_eq!(open.retry_after(), after.map(Duration::from_millis));
                    }
                    (real, expected) => prop_assert!(false, "{:?} but the model {}", real, expected.is_ok()),
                },
                Step::Settle(which, outcome) => {
                    if !calls.is_empty() {
                        let (permit, admitted) = calls.remove(which % calls.len()).unwrap();
                        settle(permit, outcome);
                        model.settle(admitted, outcome);
                    }
                }
                Step::Isolate => {
                    guards.push(breaker.isolate());
                    model.isolations += 1;
                    if model.isolations == 1 {
                        let phase = model.phase;
                        model.go(phase);
                    }
                }
                Step::Release => {
                    if guards.pop().is_some() {
                        model.isolations -= 1;
                        if model.isolations == 0 {
                            model.go(Phase::Closed);
                        }
                    }
                }
                Step::Reset => {
                    breaker.reset();
                    model.go(Phase::Closed);
                }
            }
            prop_assert_eq!(breaker.state(), model.state());
        }
    }
}

// ---- traps

#[test]
fn trap_06_a_stale_result_does_not_decide() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| b.with_consecutive(2).with_probes(1, 1.0).with_open(opening_for(SECOND)));
    let (early, late) = (breaker.permit().unwrap(), breaker.permit().unwrap());
    for _ in 0..2 {
        breaker.permit().unwrap().failure(Verdict::retry());
    }
    assert_eq!(breaker.state(), State::Open);
    timer.advance(SECOND);
    let probe = breaker.permit().unwrap();
    early.success(); // admitted before the trip: closes nothing
    assert_eq!(breaker.state(), State::HalfOpen);
    late.failure(Verdict::retry()); // and opens nothing
    assert_eq!(breaker.state(), State::HalfOpen);
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.snapshot().streak, 0);
}

#[test]
fn trap_07_a_cancelled_probe_is_neutral_and_gives_its_place_back() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| b.with_consecutive(1).with_probes(1, 1.0).with_open(opening_for(SECOND)));
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    for _ in 0..100 {
        let probe = breaker.permit().unwrap();
        assert!(breaker.permit().is_err(), "one probe at a time");
        drop(probe);
        assert_eq!(breaker.state(), State::HalfOpen);
    }
    breaker.permit().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn trap_08_a_hung_probe_loses_its_place_when_its_lease_runs_out() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| {
        b.with_consecutive(1).with_probes(1, 1.0).with_open(opening_for(SECOND)).with_lease(30 * SECOND)
    });
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    let _hung = breaker.permit().unwrap();
    assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(30 * SECOND));
    timer.advance(30 * SECOND);
    breaker.permit().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn calls_that_all_outlast_the_lease_still_close_it() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| {
        b.with_consecutive(1).with_probes(1, 1.0).with_open(opening_for(SECOND)).with_lease(SECOND)
    });
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    let slow = breaker.permit().unwrap();
    timer.advance(2 * SECOND);
    let _next = breaker.permit().unwrap();
    slow.success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn trap_16_windows_slide_however_many_successes_came_before() {
    for successes in [0, 10, 1_000, 1_000_000] {
        let timer = ManualTimer::new();
        let breaker = breaker(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 20));
        for _ in 0..successes {
            breaker.permit().unwrap().success();
        }
        timer.advance(11 * SECOND);
        let mut failures = 0;
        while breaker.state() == State::Closed {
            breaker.permit().unwrap().failure(Verdict::retry());
            failures += 1;
        }
        assert_eq!(failures, 20, "after {successes} successes");

        let consecutive = self::breaker(&timer, |b| b.with_consecutive(7).without_failure_rate());
        for _ in 0..successes {
            consecutive.permit().unwrap().success();
        }
        for _ in 0..7 {
            assert_eq!(consecutive.state(), State::Closed);
            consecutive.permit().unwrap().failure(Verdict::retry());
        }
        assert_eq!(consecutive.state(), State::Open);
    }
}

// ---- what opens it, for how long

#[test]
fn a_crowded_slot_keeps_its_proportions() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 20));
    for call in 0..200_000 {
        let permit = breaker.permit().unwrap();
        if call % 4 == 0 { permit.failure(Verdict::retry()) } else { permit.success() }
    }
    assert_eq!(breaker.state(), State::Closed);
    let seen = breaker.snapshot();
    let per_mille = seen.failures * 1000 / seen.calls;
    assert!((240..=260).contains(&per_mille), "{seen:?}");
}

#[test]
fn slow_calls_open_it_good_or_bad() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| b.with_slow_rate(SECOND, 0.5, 4));
    for _ in 0..4 {
        let permit = breaker.permit().unwrap();
        timer.advance(SECOND + Duration::from_nanos(1));
        permit.success();
    }
    assert_eq!(breaker.snapshot().why, Some(Trip::SlowRate));
}

#[test]
fn repeated_trips_wait_longer_and_a_hint_is_a_floor() {
    let timer = ManualTimer::new();
    let backoff = Backoff::exponential(5 * SECOND).with_jitter(Jitter::None);
    let breaker = breaker(&timer, |b| b.with_consecutive(1).with_probes(1, 1.0).with_open(backoff));
    let wait = || breaker.permit().unwrap_err().retry_after().unwrap();
    breaker.permit().unwrap().failure(Verdict::retry());
    assert_eq!(wait(), 5 * SECOND);
    timer.advance(5 * SECOND);
    breaker.permit().unwrap().failure(Verdict::retry());
    assert_eq!(wait(), 10 * SECOND);
    timer.advance(10 * SECOND);
    breaker.permit().unwrap().failure(Verdict::retry_after(100 * SECOND));
    assert_eq!(wait(), 100 * SECOND);
    timer.advance(100 * SECOND);
    breaker.permit().unwrap().failure(Verdict::retry_after(Duration::MAX));
    assert_eq!(wait(), 300 * SECOND, "held to the hint cap");
    timer.advance(300 * SECOND);
    breaker.permit().unwrap().success();
    breaker.permit().unwrap().failure(Verdict::retry());
    assert_eq!(wait(), 5 * SECOND, "closed, it starts anew");
}

#[test]
fn isolation_holds_until_the_last_guard_goes() {
    let timer = ManualTimer::new();
    let breaker = breaker(&timer, |b| b);
    let (first, second) = (breaker.isolate(), breaker.isolate());
    breaker.reset();
    drop(first);
    assert_eq!(breaker.permit().unwrap_err().retry_after(), None);
    assert_eq!(breaker.state(), State::Isolated);
    drop(second);
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn odd_settings_neither_panic_nor_stick() {
    let timer = ManualTimer::new();
    for share in [f64::NAN, -1.0, 0.0, 2.0, f64::INFINITY] {
        let breaker = breaker(&timer, |b| {
            b.with_consecutive(0)
                .with_failure_rate(share, 0)
                .with_slow_rate(Duration::ZERO, share, 0)
                .with_window(Duration::ZERO)
                .with_probes(0, share)
                .with_lease(Duration::ZERO)
                .with_open(Backoff::none())
        });
        for _ in 0..3 {
            breaker.permit().unwrap().failure(Verdict::retry());
            timer.advance(SECOND);
            breaker.permit().unwrap().success();
            assert_eq!(breaker.state(), State::Closed, "share {share}");
        }
        let breaker = self::breaker(&timer, |b| {
            b.with_window(Duration::MAX).with_lease(Duration::MAX).with_consecutive(1).with_probes(u32::MAX, 1.0)
        });
        breaker.permit().unwrap().failure(Verdict::retry_after(Duration::MAX));
        assert!(breaker.permit().is_err());
    }
}

// ---- who is told

#[test]
fn moves_are_told_in_order_and_outside_the_lock() {
    let timer = ManualTimer::new();
    let told = Mutex::new(vec![]);
    let breaker = Breaker::new()
        .with_consecutive(1)
        .with_probes(1, 1.0)
        .with_open(opening_for(SECOND))
        .with_observer(|event: &Event| told.lock().unwrap().push(*event))
        .with_timer(timer.clone());
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    breaker.permit().unwrap().success();
    drop(breaker.isolate());
    let told: Vec<_> = told.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "breaker opened for 1.0s: too many failures in a row",
            "breaker half-open",
            "breaker closed",
            "breaker isolated",
            "breaker closed"
        ]
    );
}

#[test]
fn an_observer_may_ask_the_breaker_and_may_panic() {
    static BREAKER: OnceLock<Manual<fn(&Event)>> = OnceLock::new();
    static TOLD: AtomicU32 = AtomicU32::new(0);
    fn ask(_: &Event) {
        let _ = BREAKER.get().map(Breaker::snapshot); // would deadlock under a lock
        assert!(TOLD.fetch_add(1, Ordering::Relaxed) > 0, "the first one panics");
    }
    let timer = ManualTimer::new();
    let breaker = BREAKER.get_or_init(|| {
        Breaker::new().with_consecutive(1).with_observer(ask as fn(&Event)).with_timer(ManualTimer::new())
    });
    drop(timer);
    let failure = std::panic::catch_unwind(|| breaker.permit().unwrap().failure(Verdict::retry()));
    assert!(failure.is_err());
    assert_eq!(breaker.state(), State::Open);
    breaker.reset();
    assert_eq!(TOLD.load(Ordering::Relaxed), 2, "and the next one is told");
}

// ---- in a run and around a future

#[tokio::test(start_paused = true)]
async fn a_run_shares_its_verdict_with_its_breaker() {
    let breaker = Breaker::new().with_consecutive(2).with_open(opening_for(60 * SECOND));
    let policy = RetryPolicy::new().with_attempts(9).with_classify(|e: &u32| *e != 400);
    let permanent = || retry(|_| async { Err::<(), _>(400) }, &policy, Never).with_breaker(&breaker);
    for _ in 0..5 {
        assert_eq!(permanent().await.unwrap_err().stop(), Stop::Fatal);
    }
    assert_eq!(breaker.state(), State::Closed, "permanent errors are neutral");
    let error = retry(|_| async { Err::<(), _>(503) }, &policy, Never).with_breaker(&breaker).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.last()), (Stop::Open, 2, Some(&503)));
    assert!(error.retry_after().is_some_and(|after| after > 55 * SECOND), "{error}");
    let error = permanent().await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.last()), (Stop::Open, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_or_cut_gives_its_probe_back() {
    let breaker = Breaker::new().with_consecutive(1).with_probes(1, 1.0).with_open(opening_for(SECOND));
    breaker.permit().unwrap().failure(Verdict::retry());
    tokio::time::sleep(SECOND).await;
    let policy = RetryPolicy::new().with_deadline(SECOND);
    for _ in 0..3 {
        let hangs = retry(|_| std::future::pending::<Result<(), ()>>(), &policy, Never).with_breaker(&breaker);
        assert_eq!(hangs.await.unwrap_err().stop(), Stop::Deadline);
        let mut dropped =
            Box::pin(retry(|_| std::future::pending::<Result<(), ()>>(), &policy, Never).with_breaker(&breaker));
        assert!(futures_poll(dropped.as_mut()).is_pending());
        drop(dropped);
        let mut run = policy.start::<(), _>(Never).with_breaker(&breaker);
        let mut attempt = Box::pin(run.attempt(std::future::pending::<Result<(), ()>>()));
        assert!(futures_poll(attempt.as_mut()).is_pending());
        drop(attempt);
        drop(run);
    }
    let works = retry(|_| async { Ok::<_, ()>(1) }, &policy, Never).with_breaker(&breaker);
    assert_eq!(works.await.unwrap(), 1);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_panics_ahead_of_its_attempt_gives_its_probe_back() {
    let breaker = Breaker::new().with_consecutive(1).with_probes(1, 1.0).with_open(opening_for(SECOND));
    breaker.permit().unwrap().failure(Verdict::retry());
    tokio::time::sleep(SECOND).await;
    let (policy, mut calls) = (RetryPolicy::new(), 0);
    let op = |_| {
        calls += 1;
        assert!(calls > 1, "no attempt");
        std::future::ready(Ok::<_, ()>(()))
    };
    let mut call = Box::pin(retry(op, &policy, Never).with_breaker(&breaker));
    let panics = std::panic::AssertUnwindSafe(|| futures_poll(call.as_mut()));
    assert!(std::panic::catch_unwind(panics).is_err());
    call.await.unwrap();
    assert_eq!(breaker.state(), State::Closed);
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn a_guarded_future_that_is_refused_is_not_polled() {
    let breaker = Breaker::new().with_consecutive(1);
    let polls = AtomicU32::new(0);
    let call = || async {
        polls.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>(Error::Operation("down"))
    };
    assert_eq!(call().guarded_by(&breaker).await, Err(Error::Operation("down")));
    assert!(matches!(call().guarded_by(&breaker).await, Err(Error::Open(_))));
    assert_eq!(polls.load(Ordering::Relaxed), 1);
}

// ---- on one clock and on two

/// Never trips; its slots are seconds.
fn counting() -> Breaker {
    Breaker::new().without_consecutive().with_failure_rate(1.0, u32::MAX).with_window(16 * SECOND)
}

/// What a run read of its own clock it hands on to its breaker. That changes nothing of what is counted, and when.
#[tokio::test(start_paused = true)]
async fn a_breaker_on_the_clock_of_its_run_counts_as_one_alone() {
    let (linked, alone) = (counting(), counting());
    let once = RetryPolicy::new().with_attempts(1);
    for policy in [once, once.with_deadline(60 * SECOND)] {
        for step in 0_u64..300 {
            let (waits, works) = (step % 3 == 0, step % 5 != 0);
            let call = || async move {
                if waits {
                    tokio::time::sleep(Duration::from_millis(step * 37 % 2000)).await;
                }
                if works { Ok(()) } else { Err(Error::Operation("down")) }
            };
            let of_run = retry(|_| call(), &policy, Never).with_breaker(&linked);
            let of_call = call().guarded_by(&alone);
            let (of_run, of_call) = tokio::join!(of_run, of_call);
            assert_eq!((of_run.is_ok(), of_call.is_ok()), (works, works));
            assert_eq!(linked.snapshot(), alone.snapshot(), "step {step}, {policy:?}");
            tokio::time::advance(Duration::from_millis(step * 91 % 1500)).await;
        }
    }
    assert!(alone.snapshot().calls > 0);
}

/// Readings of two clocks do not compare: none is handed on.
#[tokio::test(start_paused = true)]
async fn a_breaker_on_another_clock_keeps_its_own_time() {
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none()).with_deadline(60 * SECOND);
    let timer = ManualTimer::new();
    let far = counting().with_timer(&timer);
    let near = counting();
    // Far from where readings begin, so that the two clocks' do not agree by chance.
    let _ = TokioTimer::new().now();
    tokio::time::advance(1000 * SECOND).await;
    for works in [true, false] {
        let call = || async move { if works { Ok(()) } else { Err("down") } };
        let _ = retry(|_| call(), &policy, Never).with_breaker(&far).await;
        let _ = retry(|_| call(), &policy, Never).with_timer(&timer).with_breaker(&near).await;
    }
    let seen = |now: resile::breaker::Snapshot| (now.calls, now.failures);
    assert_eq!((seen(far.snapshot()), seen(near.snapshot())), ((3, 2), (3, 2)));
    timer.advance(17 * SECOND);
    assert_eq!((seen(far.snapshot()), seen(near.snapshot())), ((0, 0), (3, 2)));
    tokio::time::advance(17 * SECOND).await;
    assert_eq!(seen(near.snapshot()), (0, 0));
}

/// A turn that takes as long as the window, on whose end the clock is read anew: what others counted meanwhile stays.
#[tokio::test(start_paused = true)]
async fn a_long_turn_erases_nothing_that_was_counted_meanwhile() {
    let once = RetryPolicy::new().with_attempts(1);
    for policy in [once, once.with_deadline(60 * SECOND)] {
        for windows in 1..4 {
            let breaker = counting();
            breaker.permit().unwrap().success();
            let op = |_| {
                let mut jump = Box::pin(tokio::time::advance(16 * windows * SECOND));
                assert!(futures_poll(jump.as_mut()).is_pending(), "the clock has moved on and nobody ran");
                drop(jump);
                for _ in 0..7 {
                    breaker.permit().unwrap().failure(Verdict::retry());
                }
                std::future::ready(Ok::<_, ()>(()))
            };
            retry(op, &policy, Never).with_breaker(&breaker).await.unwrap();
            let seen = breaker.snapshot();
            assert_eq!((seen.calls, seen.failures), (8, 7), "{windows} windows, {policy:?}");
        }
    }
}

/// A time that was spelled out is that time. One that grows has a little jitter, and any other that is asked for.
#[test]
fn opens_for_as_long_as_was_said() {
    let opened = |open: Backoff| -> Vec<Duration> {
        let open_once = || {
            let timer = ManualTimer::new();
            let breaker = breaker(&timer, |b| b.with_consecutive(1).with_open(open));
            breaker.permit().unwrap().failure(Verdict::retry());
            breaker.permit().unwrap_err().retry_after().unwrap()
        };
        (0..200).map(|_| open_once()).collect()
    };
    for spelled_out in [Backoff::fixed(SECOND), Backoff::steps(&[SECOND]), Backoff::custom(|_| SECOND)] {
        assert!(opened(spelled_out).iter().all(|time| *time == SECOND), "{spelled_out:?}");
        let asked = opened(spelled_out.with_jitter(Jitter::Full));
        assert!(asked.iter().any(|time| *time < SECOND / 4), "{spelled_out:?}");
    }
    for growing in [Backoff::linear(SECOND), Backoff::exponential(SECOND), Backoff::fibonacci(SECOND)] {
        let times = opened(growing);
        assert!(times.iter().all(|time| (SECOND * 4 / 5..=SECOND * 6 / 5).contains(time)), "{growing:?}: {times:?}");
        assert!(times.iter().any(|time| *time < SECOND) && times.iter().any(|time| *time > SECOND), "{growing:?}");
        assert!(opened(growing.with_jitter(Jitter::Full)).iter().any(|time| *time < SECOND / 4), "{growing:?}");
        assert!(opened(growing.with_jitter(Jitter::None)).iter().all(|time| *time == SECOND), "{growing:?}");
    }
}
