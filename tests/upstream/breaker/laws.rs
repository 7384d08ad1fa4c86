//! The circuit breaker agrees with a simple model.
//!
//! Tests named `trap_06_…`, `trap_07_…`, `trap_08_…` and `trap_16_…` stand for the points of the
//! same numbers in the section "The behaviour" of `COMPARE.md`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::{State, Transition, TripReason};
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Health, Jitter, Upstream, Verdict};

use crate::guard::{Guard, Permit, guard};

const SECOND: Duration = Duration::from_secs(1);

fn opening_for(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

// The model: it keeps every outcome in a list and recounts.

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

    /// Returns the time until the open state ends, or 0 in any other state.
    fn open_for(&self) -> u64 {
        match self.phase {
            Phase::Open { until } if self.isolations == 0 => until.saturating_sub(self.now),
            _ => 0,
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
            return Err(None); // the probes decide
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
                Outcome::Success | Outcome::Refused => self.passed += 1,
                Outcome::Fail | Outcome::Dropped => return,
                Outcome::Transient | Outcome::NotAgain | Outcome::Throttled => self.failed += 1,
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
            Outcome::Success | Outcome::Refused => self.streak = 0,
            Outcome::Transient | Outcome::NotAgain => self.streak += 1,
            Outcome::Throttled => {}
        }
        let bad = !matches!(outcome, Outcome::Success | Outcome::Refused);
        self.ended.push((self.now, bad));
        let slot = self.now / (WINDOW / SLOTS);
        let inside: Vec<_> =
            self.ended.iter().filter(|(at, _)| at / (WINDOW / SLOTS) + SLOTS > slot).collect();
        let failures = inside.iter().filter(|(_, bad)| *bad).count();
        let streak =
            matches!(outcome, Outcome::Transient | Outcome::NotAgain) && self.streak >= CONSECUTIVE;
        if bad && (streak || inside.len() >= OF_AT_LEAST && failures * 2 >= inside.len()) {
            let until = self.now + OPEN;
            self.go(Phase::Open { until });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Success,
    /// A healthy answer that is an error, such as a 404.
    Refused,
    Transient,
    /// A failure that must not be sent again, such as a 500 to a POST.
    NotAgain,
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
        3 => Just(Outcome::Success),
        1 => Just(Outcome::Refused),
        3 => Just(Outcome::Transient),
        2 => Just(Outcome::NotAgain),
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

fn settle(permit: Permit<'_>, outcome: Outcome) {
    match outcome {
        Outcome::Success => permit.succeeded(),
        Outcome::Refused => permit.settle(&Verdict::fatal().with_health(Health::Healthy)),
        Outcome::NotAgain => permit.settle(&Verdict::transient().not_again()),
        Outcome::Transient => permit.settle(&Verdict::transient()),
        Outcome::Throttled => permit.settle(&Verdict::throttled()),
        Outcome::Fail => permit.settle(&Verdict::fatal()),
        Outcome::Dropped => drop(permit),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_breaker_agrees_with_the_model(steps in steps()) {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| {
            b.with_consecutive(u32::try_from(CONSECUTIVE).unwrap())
                .with_failure_rate(0.5, u32::try_from(OF_AT_LEAST).unwrap())
                .with_window(Duration::from_millis(WINDOW))
                .with_open_time(opening_for(Duration::from_millis(OPEN)))
                .with_probes(0.6, u32::try_from(PROBES).unwrap())
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
            let seen = breaker.snapshot();
            prop_assert_eq!(seen.state, model.state());
            prop_assert_eq!(seen.retry_after.map_or(0, |after| after.as_millis()), u128::from(model.open_for()));
        }
    }
}

#[test]
fn trap_06_a_stale_result_changes_nothing() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(2).with_probes(1.0, 1).with_open_time(opening_for(SECOND))
    });
    let (early, late) = (breaker.permit().unwrap(), breaker.permit().unwrap());
    for _ in 0..2 {
        breaker.fail();
    }
    assert_eq!(breaker.state(), State::Open);
    timer.advance(SECOND);
    let probe = breaker.permit().unwrap();
    early.succeeded(); // admitted before the trip, so it does not close the breaker
    assert_eq!(breaker.state(), State::HalfOpen);
    late.settle(&Verdict::transient()); // nor does a failure open it
    assert_eq!(breaker.state(), State::HalfOpen);
    probe.succeeded();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.snapshot().streak, 0);
}

#[test]
fn trap_07_a_cancelled_probe_counts_nothing_and_frees_its_slot() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(1).with_probes(1.0, 1).with_open_time(opening_for(SECOND))
    });
    breaker.fail();
    timer.advance(SECOND);
    for _ in 0..100 {
        let probe = breaker.permit().unwrap();
        assert!(breaker.permit().is_err(), "one probe at a time");
        drop(probe);
        assert_eq!(breaker.state(), State::HalfOpen);
    }
    breaker.succeed();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn trap_08_a_hung_probe_frees_its_slot_when_its_lease_ends() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(1)
            .with_probes(1.0, 1)
            .with_open_time(opening_for(SECOND))
            .with_lease(30 * SECOND)
    });
    breaker.fail();
    timer.advance(SECOND);
    let _hung = breaker.permit().unwrap();
    timer.advance(Duration::new(29, 999_999_999));
    assert_eq!(breaker.permit().unwrap_err().retry_after(), None, "the probe may end at any time");
    timer.advance(Duration::from_nanos(1));
    breaker.succeed();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn probes_slower_than_the_lease_still_close_the_breaker() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(1)
            .with_probes(1.0, 1)
            .with_open_time(opening_for(SECOND))
            .with_lease(SECOND)
    });
    breaker.fail();
    timer.advance(SECOND);
    let slow = breaker.permit().unwrap();
    timer.advance(2 * SECOND);
    let _next = breaker.permit().unwrap();
    slow.succeeded();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn trap_16_old_successes_leave_the_window() {
    for successes in [0, 10, 1_000, 1_000_000] {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 20));
        for _ in 0..successes {
            breaker.succeed();
        }
        timer.advance(11 * SECOND);
        let mut failures = 0;
        while breaker.state() == State::Closed {
            breaker.fail();
            failures += 1;
        }
        assert_eq!(failures, 20, "after {successes} successes");

        let consecutive = guard(&timer, |b| b.with_consecutive(7).without_failure_rate());
        for _ in 0..successes {
            consecutive.succeed();
        }
        for _ in 0..7 {
            assert_eq!(consecutive.state(), State::Closed);
            consecutive.fail();
        }
        assert_eq!(consecutive.state(), State::Open);
    }
}

// ---- the reasons for opening, and the open times

#[test]
fn a_window_slot_with_many_calls_keeps_its_failure_rate() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 20));
    for call in 0..200_000 {
        let permit = breaker.permit().unwrap();
        if call % 4 == 0 { permit.settle(&Verdict::transient()) } else { permit.succeeded() }
    }
    assert_eq!(breaker.state(), State::Closed);
    let seen = breaker.snapshot();
    let per_mille = seen.failures * 1000 / seen.calls;
    assert!((240..=260).contains(&per_mille), "{seen:?}");
}

#[test]
fn slow_successes_open_the_breaker() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.with_slow_rate(SECOND, 0.5, 4));
    for _ in 0..4 {
        let permit = breaker.permit().unwrap();
        timer.advance(SECOND + Duration::from_nanos(1));
        permit.succeeded();
    }
    assert_eq!(breaker.snapshot().reason, Some(TripReason::SlowRate));
}

#[test]
fn repeated_trips_open_longer_and_a_hint_is_a_lower_bound() {
    let timer = ManualTimer::new();
    let backoff = Backoff::exponential(5 * SECOND).with_jitter(Jitter::None);
    let breaker =
        guard(&timer, |b| b.with_consecutive(1).with_probes(1.0, 1).with_open_time(backoff));
    let wait = || breaker.permit().unwrap_err().retry_after().unwrap();
    breaker.fail();
    assert_eq!(wait(), 5 * SECOND);
    timer.advance(5 * SECOND);
    breaker.fail();
    assert_eq!(wait(), 10 * SECOND);
    timer.advance(10 * SECOND);
    breaker.permit().unwrap().settle(&Verdict::transient().after(100 * SECOND));
    assert_eq!(wait(), 100 * SECOND);
    timer.advance(100 * SECOND);
    breaker.permit().unwrap().settle(&Verdict::transient().after(Duration::MAX));
    assert_eq!(wait(), 300 * SECOND, "the hint is cut to the hint cap");
    timer.advance(300 * SECOND);
    breaker.succeed();
    breaker.fail();
    assert_eq!(wait(), 5 * SECOND, "after closing, the open time starts from the base again");
}

#[test]
fn isolation_ends_when_its_last_guard_is_dropped() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b);
    let (first, second) = (breaker.isolate(), breaker.isolate());
    breaker.reset();
    drop(first);
    assert_eq!(breaker.permit().unwrap_err().retry_after(), None);
    assert_eq!(breaker.state(), State::Isolated);
    drop(second);
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn extreme_settings_neither_panic_nor_keep_the_breaker_open() {
    let timer = ManualTimer::new();
    for share in [f64::NAN, -1.0, 0.0, 2.0, f64::INFINITY] {
        let breaker = guard(&timer, |b| {
            b.with_consecutive(0)
                .with_failure_rate(share, 0)
                .with_slow_rate(Duration::ZERO, share, 0)
                .with_window(Duration::ZERO)
                .with_probes(share, 0)
                .with_lease(Duration::ZERO)
                .with_open_time(Backoff::none())
        });
        for _ in 0..3 {
            breaker.fail();
            timer.advance(SECOND);
            breaker.succeed();
            assert_eq!(breaker.state(), State::Closed, "share {share}");
        }
        let breaker = guard(&timer, |b| {
            b.with_window(Duration::MAX)
                .with_lease(Duration::MAX)
                .with_consecutive(1)
                .with_probes(1.0, u32::MAX)
        });
        breaker.permit().unwrap().settle(&Verdict::transient().after(Duration::MAX));
        assert!(breaker.permit().is_err());
    }
}

/// Returns the state after a transition.
fn after(transition: Transition) -> State {
    match transition {
        Transition::Opened { .. } => State::Open,
        Transition::HalfOpened => State::HalfOpen,
        Transition::Isolated => State::Isolated,
        _ => State::Closed,
    }
}

// ---- events

#[test]
fn transitions_are_reported_in_order_and_outside_the_lock() {
    let timer = ManualTimer::new();
    let heard = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&heard);
    let breaker =
        Breaker::new().with_consecutive(1).with_probes(1.0, 1).with_open_time(opening_for(SECOND));
    let upstream = Upstream::new("guarded").with_breaker(breaker).with_timer(timer.clone());
    let breaker = Guard(upstream.with_shared_observer(move |event: &Event<'_>| {
        if let EventKind::Breaker { transition, .. } = event.kind {
            assert_eq!(
                (event.upstream, event.call, event.gauges.breaker),
                (Some("guarded"), None, Some(after(transition)))
            );
            assert_eq!(event.to_string(), format!("guarded: {transition}"));
            sink.lock().unwrap().push(transition);
        }
    }));
    breaker.fail();
    timer.advance(SECOND);
    breaker.succeed();
    drop(breaker.isolate());
    let heard: Vec<_> = heard.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        heard,
        [
            "breaker opened for 1.0s, all attempts are refused: too many failures in a row (1)",
            "breaker half-open, probing",
            "breaker closed: 0 attempts refused within 1.0s",
            "breaker isolated",
            "breaker closed: 0 attempts refused"
        ]
    );
}

#[test]
fn an_observer_may_query_the_breaker_and_may_panic() {
    static BREAKER: OnceLock<Guard> = OnceLock::new();
    static HEARD: AtomicU32 = AtomicU32::new(0);
    fn ask(event: &Event<'_>) {
        let _ = BREAKER.get().map(Guard::snapshot); // deadlocks if the breaker's lock is held
        if let EventKind::Breaker { .. } = event.kind {
            assert!(HEARD.fetch_add(1, Ordering::Relaxed) > 0, "the first event panics");
        }
    }
    let breaker = BREAKER.get_or_init(|| {
        let upstream = Upstream::new("guarded").with_breaker(Breaker::new().with_consecutive(1));
        Guard(upstream.with_observer(&(ask as fn(&Event<'_>))).with_timer(ManualTimer::new()))
    });
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| breaker.fail()));
    assert!(failure.is_err());
    assert_eq!(breaker.state(), State::Open);
    breaker.reset();
    assert_eq!(HEARD.load(Ordering::Relaxed), 2, "the next transition is reported");
}

/// An explicit open time has no jitter by default. A growing open time has a jitter of at most a
/// fifth. A jitter that is set replaces the default.
#[test]
fn an_explicit_open_time_has_no_jitter_by_default() {
    let opened = |open: Backoff| -> Vec<Duration> {
        let open_once = |seed| {
            let timer = ManualTimer::with_seed(seed);
            let breaker = guard(&timer, |b| b.with_consecutive(1).with_open_time(open));
            breaker.fail();
            breaker.permit().unwrap_err().retry_after().unwrap()
        };
        (0..200).map(open_once).collect()
    };
    for explicit in [Backoff::fixed(SECOND), Backoff::steps(&[SECOND]), Backoff::custom(|_| SECOND)]
    {
        assert!(opened(explicit).iter().all(|time| *time == SECOND), "{explicit:?}");
        let with_jitter = opened(explicit.with_jitter(Jitter::Full));
        assert!(with_jitter.iter().any(|time| *time < SECOND / 4), "{explicit:?}");
    }
    for growing in
        [Backoff::linear(SECOND), Backoff::exponential(SECOND), Backoff::fibonacci(SECOND)]
    {
        let times = opened(growing);
        assert!(
            times.iter().all(|time| (SECOND * 4 / 5..=SECOND * 6 / 5).contains(time)),
            "{growing:?}: {times:?}"
        );
        assert!(
            times.iter().any(|time| *time < SECOND) && times.iter().any(|time| *time > SECOND),
            "{growing:?}"
        );
        assert!(
            opened(growing.with_jitter(Jitter::Full)).iter().any(|time| *time < SECOND / 4),
            "{growing:?}"
        );
        assert!(
            opened(growing.with_jitter(Jitter::None)).iter().all(|time| *time == SECOND),
            "{growing:?}"
        );
    }
}
