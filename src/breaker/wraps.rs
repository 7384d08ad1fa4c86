//! Tests of a breaker after many transitions: its generation and the window's tags wrap around.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::prelude::*;

use super::core::Core;
use super::{Breaker, Outcome, Owner, Snapshot, State, Ticket, Transition};
use crate::backoff::Backoff;
use crate::time::{ManualTimer, Timer, nanos};
use crate::verdict::Health;

/// A breaker with past transitions, on the clock of an upstream without an observer.
struct Manual {
    breaker: Breaker,
    clock: Clock,
}

struct Clock(ManualTimer);

/// A call that the breaker has admitted.
#[derive(Clone, Copy)]
struct Call {
    ticket: Ticket,
    began: u64,
}

impl Owner for Clock {
    fn now(&self) -> u64 {
        nanos(self.0.now())
    }

    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        self.0.draw_within(range)
    }

    fn listens(&self) -> bool {
        false
    }

    fn emit(&self, transition: Transition, _: bool) {
        unreachable!("no observer listens, but `{transition}` was emitted")
    }
}

impl Manual {
    fn new(breaker: &Breaker, timer: &ManualTimer, transitions: u32) -> Self {
        let mut core = Core::after_transitions(transitions);
        core.settings = breaker.core.settings;
        Self { breaker: Breaker { core }, clock: Clock(timer.clone()) }
    }

    fn admit(&self) -> Option<Call> {
        let ticket = self.breaker.admit(&self.clock).ok()?;
        Some(Call { ticket, began: self.clock.now() })
    }

    fn settle(&self, call: Call, health: Health) {
        let Call { ticket, began } = call;
        let outcome = Outcome { health, hint: None };
        self.breaker.settle(ticket, Some(began), outcome, None, &self.clock);
    }

    fn fail(&self) {
        self.settle(self.admit().unwrap(), Health::Failing);
    }

    fn reset(&self) {
        self.breaker.reset(&self.clock);
    }

    fn snapshot(&self) -> Snapshot {
        self.breaker.snapshot(&self.clock)
    }
}

/// The length of a slot, in milliseconds.
const SLOT: u64 = 100;
const SLOTS: u64 = 16;
const SLOW: u64 = 250;

/// Creates a breaker that counts both rates. It never trips, because no share reaches NaN.
fn counting(timer: &ManualTimer, transitions: u32) -> Manual {
    let breaker = Breaker::new()
        .without_consecutive()
        .with_failure_rate(f64::NAN, 1)
        .with_slow_rate(Duration::from_millis(SLOW), f64::NAN, 1)
        .with_window(Duration::from_millis(SLOT * SLOTS));
    Manual::new(&breaker, timer, transitions)
}

/// Draws numbers of transitions around which 8, 16 or 32 bits, or their sign, wrap.
fn transitions() -> impl Strategy<Value = u32> {
    let edge =
        prop::sample::select(vec![0, 1 << 6, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, u32::MAX]);
    prop_oneof![
        3 => (edge, 0..260_u32, any::<bool>())
            .prop_map(|(edge, off, above)| if above { edge.wrapping_add(off) } else { edge.wrapping_sub(off) }),
        1 => any::<u32>(),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Admit,
    Settle { which: usize, failed: bool },
    Transitions(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = prop::sample::select(vec![
        1, 2, 3, 63, 64, 65, 127, 128, 129, 130, 191, 254, 255, 256, 257, 384, 512,
    ]);
    let step = prop_oneof![
        4 => (0..SLOT * 3).prop_map(Step::Advance),
        1 => (0..SLOT * SLOTS * 2).prop_map(Step::Advance),
        12 => Just(Step::Admit),
        14 => (any::<usize>(), any::<bool>()).prop_map(|(which, failed)| Step::Settle { which, failed }),
        3 => few.prop_map(Step::Transitions),
    ];
    prop::collection::vec(step, 1..120)
}

/// A call of the model: the number of transitions before its admission, and its time.
struct Admitted {
    transitions: u64,
    at: u64,
}

struct Counted {
    slot: u64,
    failed: bool,
    slow: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The counts equal those of a plain list of the calls admitted since the last transition and
    /// ended within the window.
    #[test]
    fn counts_are_exact_after_any_number_of_transitions(start in transitions(), steps in steps()) {
        let timer = ManualTimer::new();
        let breaker = counting(&timer, start);
        let (mut now, mut transitioned) = (0_u64, 0_u64);
        let mut calls: VecDeque<(Call, Admitted)> = VecDeque::new();
        let mut counted: Vec<Counted> = vec![];
        for step in steps {
            match step {
                Step::Advance(by) => {
                    timer.advance(Duration::from_millis(by));
                    now += by;
                }
                Step::Admit => calls.push_back((breaker.admit().unwrap(), Admitted { transitions: transitioned, at: now })),
                Step::Settle { which, failed } => {
                    let Some((call, admitted)) = (!calls.is_empty()).then(|| calls.remove(which % calls.len())).flatten()
                    else {
                        continue;
                    };
                    breaker.settle(call, if failed { Health::Failing } else { Health::Healthy });
                    if admitted.transitions == transitioned {
                        counted.push(Counted { slot: now / SLOT, failed, slow: now - admitted.at > SLOW });
                    }
                }
                Step::Transitions(transitions) => {
                    (0..transitions).for_each(|_| breaker.reset());
                    transitioned += u64::from(transitions);
                    counted.clear();
                }
            }
            let inside = |call: &&Counted| call.slot + SLOTS > now / SLOT;
            let count = |of: fn(&Counted) -> bool| counted.iter().filter(inside).filter(|call| of(call)).count() as u64;
            let seen = breaker.snapshot();
            prop_assert_eq!(seen.calls, count(|_| true));
            prop_assert_eq!(seen.failures, count(|call| call.failed));
            prop_assert_eq!(seen.slow, count(|call| call.slow));
        }
    }

    /// The breaker opens on failures and closes on passed probes, exactly like a new one.
    #[test]
    fn opens_and_closes_after_any_number_of_transitions(start in transitions()) {
        let timer = ManualTimer::new();
        let second = Duration::from_secs(1);
        let breaker = Breaker::new()
            .with_consecutive(3)
            .with_probes(1.0, 1)
            .with_open_time(Backoff::fixed(second));
        let breaker = Manual::new(&breaker, &timer, start);
        for _ in 0..5 {
            let early = breaker.admit().unwrap();
            for _ in 0..3 {
                prop_assert_eq!(breaker.breaker.state(), State::Closed);
                breaker.fail();
            }
            prop_assert_eq!(breaker.breaker.state(), State::Open);
            prop_assert!(breaker.admit().is_none());
            timer.advance(second);
            let probe = breaker.admit().unwrap();
            breaker.settle(early, Health::Failing);
            prop_assert_eq!(breaker.breaker.state(), State::HalfOpen);
            prop_assert!(breaker.admit().is_none());
            breaker.settle(probe, Health::Healthy);
            prop_assert_eq!(breaker.breaker.state(), State::Closed);
            prop_assert_eq!(breaker.snapshot().streak, 0);
        }
    }
}

/// Performs the wrap itself step by step (two minutes in a release build).
#[test]
#[ignore = "four billion transitions"]
fn counts_are_exact_after_four_billion_transitions() {
    let timer = ManualTimer::new();
    let breaker = counting(&timer, 0);
    let early = breaker.admit().unwrap();
    for _ in 0..=1_u64 << 32 {
        breaker.reset();
    }
    breaker.fail();
    breaker.settle(early, Health::Healthy);
    breaker.settle(breaker.admit().unwrap(), Health::Healthy);
    let seen = breaker.snapshot();
    assert_eq!((seen.calls, seen.failures), (2, 1));
}
