//! A breaker with advice agrees with a simple model, in every state and at every transition.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::{Advice, State};
use resile::time::ManualTimer;
use resile::{Backoff, Jitter, Verdict};

use crate::guard::{Permit, guard};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Success,
    Transient,
    Throttled,
    Unknown,
    Dropped,
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    use Outcome::{Dropped, Success, Throttled, Transient, Unknown};
    prop::sample::select(vec![Success, Success, Transient, Transient, Throttled, Unknown, Dropped])
}

pub(crate) fn settle(permit: Permit<'_>, outcome: Outcome) {
    match outcome {
        Outcome::Success => permit.succeeded(),
        Outcome::Transient => permit.settle(&Verdict::transient()),
        Outcome::Throttled => permit.settle(&Verdict::throttled()),
        Outcome::Unknown => permit.settle(&Verdict::fatal()),
        Outcome::Dropped => drop(permit),
    }
}

const CONSECUTIVE: u32 = 5;
const SUSPICIOUS: u32 = 3;

// Times are in milliseconds. The open time is the shorter one, so that a pause may outlast several
// transitions.
const OPEN: u64 = 40;
const LEASE: u64 = 90;

const PROBES: usize = 2; // both must pass

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Closed,
    Open { until: u64 },
    HalfOpen,
}

/// The ticket of the model: the generation, and the number of a probe.
type Ticket = (u64, Option<u64>);

struct Model {
    now: u64,
    phase: Phase,
    generation: u64,
    streak: u32,
    passed: usize,
    probes: Vec<(u64, u64)>, // number, end of the lease
    numbers: u64,
    isolations: u64,
    suspect: bool,
    paused_until: u64,
}

impl Model {
    fn go(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
        self.probes.clear();
        (self.streak, self.passed) = (0, 0);
    }

    fn state(&self) -> State {
        match self.phase {
            _ if self.isolations > 0 => State::Isolated,
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen => State::HalfOpen,
        }
    }

    fn open_for(&self) -> Option<u64> {
        let Phase::Open { until } = self.phase else { return None };
        let left = until.max(self.paused_until).saturating_sub(self.now);
        (self.isolations == 0 && left > 0).then_some(left)
    }

    fn running(&self) -> impl Iterator<Item = u64> {
        self.probes.iter().map(|(_, end)| end.saturating_sub(self.now)).filter(|left| *left > 0)
    }

    fn admit(&mut self) -> Result<Ticket, Option<u64>> {
        if self.isolations > 0 || self.open_for().is_some() {
            return Err(self.open_for());
        }
        if let Phase::Open { .. } = self.phase {
            self.go(Phase::HalfOpen);
        }
        if self.phase == Phase::Closed {
            return Ok((self.generation, None));
        }
        if self.passed + self.running().count() >= PROBES {
            return Err(None); // the probes decide
        }
        self.numbers += 1;
        self.probes.push((self.numbers, self.now + LEASE));
        Ok((self.generation, Some(self.numbers)))
    }

    fn settle(&mut self, (generation, probe): Ticket, outcome: Outcome) {
        let until = self.now + OPEN;
        if generation != self.generation {
            return;
        }
        self.probes.retain(|(number, _)| Some(*number) != probe);
        match (probe, outcome) {
            (_, Outcome::Unknown | Outcome::Dropped) | (None, Outcome::Throttled) => {}
            (None, Outcome::Success) => self.streak = 0,
            (None, Outcome::Transient) => {
                self.streak += 1;
                if self.streak >= if self.suspect { SUSPICIOUS } else { CONSECUTIVE } {
                    self.go(Phase::Open { until });
                }
            }
            (Some(_), Outcome::Success) => {
                self.passed += 1;
                if self.passed == PROBES {
                    self.go(Phase::Closed);
                }
            }
            (Some(_), _) => self.go(Phase::Open { until }),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Admit,
    Settle(usize, Outcome),
    Advise { suspect: bool, pause: u64 },
    Isolate,
    Release,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0_u64..50).prop_map(Step::Advance),
        12 => Just(Step::Admit),
        14 => (0_usize..64, outcome()).prop_map(|(which, outcome)| Step::Settle(which, outcome)),
        4 => (any::<bool>(), 0_u64..150)
            .prop_map(|(suspect, pause)| Step::Advise { suspect, pause }),
        1 => Just(Step::Advise { suspect: false, pause: 0 }),
        1 => Just(Step::Isolate),
        2 => Just(Step::Release),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The advice holds until the next one, over every transition, a reset and an isolation.
    #[test]
    fn an_advised_breaker_agrees_with_the_model(steps in steps()) {
        let (timer, millis) = (ManualTimer::new(), Duration::from_millis);
        let breaker = guard(&timer, |b| {
            b.with_consecutive(CONSECUTIVE)
                .without_failure_rate()
                .with_open_time(Backoff::fixed(millis(OPEN)).with_jitter(Jitter::None))
                .with_probes(1.0, u32::try_from(PROBES).unwrap())
                .with_lease(millis(LEASE))
        });
        let mut model = Model {
            now: 0, phase: Phase::Closed, generation: 0, streak: 0, passed: 0, probes: vec![],
            numbers: 0, isolations: 0, suspect: false, paused_until: 0,
        };
        let (mut calls, mut isolations) = (VecDeque::new(), vec![]);
        for step in steps {
            match step {
                Step::Advance(by) => {
                    timer.advance(millis(by));
                    model.now += by;
                }
                Step::Admit => match (breaker.permit(), model.admit()) {
                    (Ok(permit), Ok(ticket)) => calls.push_back((permit, ticket)),
                    (Err(open), Err(left)) => prop_assert_eq!(open.retry_after(), left.map(millis)),
                    (real, model) => prop_assert!(false, "{:?} but the model {:?}", real, model),
                },
                Step::Settle(which, outcome) => {
                    if !calls.is_empty() {
                        let (permit, ticket) = calls.remove(which % calls.len()).unwrap();
                        settle(permit, outcome);
                        model.settle(ticket, outcome);
                    }
                }
                Step::Advise { suspect, pause } => {
                    let advice = Advice::new().with_suspicion(suspect);
                    breaker.0.advise(advice.without_probe_for(millis(pause)));
                    model.suspect = suspect;
                    model.paused_until = model.now + pause.min(LEASE);
                }
                Step::Isolate => {
                    isolations.push(breaker.isolate());
                    model.isolations += 1;
                    model.generation += 1;
                }
                Step::Release => {
                    if isolations.pop().is_some() {
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
            let seen = breaker.snapshot();
            prop_assert_eq!((breaker.state(), seen.state), (model.state(), model.state()));
            prop_assert_eq!(seen.retry_after, model.open_for().map(millis));
            let probes = if seen.state == State::HalfOpen { model.running().count() } else { 0 };
            prop_assert_eq!(seen.probes as usize, probes);
        }
    }
}
