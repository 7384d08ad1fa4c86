//! Tests of the parts that a call reaches only if another thread was quicker: between a check
//! without the lock and the lock there may be a transition.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Core;
use super::machine::Machine;
use super::settings::Settings;
use super::trip::Trip;
use super::window::{Counts, Ended, Slot, Window};
use super::{Open, State, TripReason};

const SECOND: u64 = 1_000_000_000;

const TRIP: Trip = Trip { reason: TripReason::Consecutive, times: 1, of: 1 };

/// Opens a machine at 0 for one second.
fn opened(settings: &Settings) -> Machine {
    let mut machine = Machine::new();
    let drawn = Duration::from_secs(1);
    let event = machine.trip(0, TRIP, None, 0, settings, drawn);
    assert!(event.is_some());
    machine
}

#[test]
fn only_a_closed_machine_of_the_same_generation_trips() {
    let settings = Settings::new();
    let trip = |machine: &mut Machine, generation| {
        machine.trip(generation, TRIP, None, 0, &settings, Duration::ZERO).is_some()
    };
    let mut machine = opened(&settings);
    let open = machine.generation();
    assert!(!trip(&mut machine, open), "it is open");
    assert!(machine.reset().is_some());
    assert!(!trip(&mut machine, 0), "the call is of an earlier generation");
    let closed = machine.generation();
    assert!(trip(&mut machine, closed));
}

#[test]
fn a_refusal_under_the_lock_names_the_rest_of_the_open_time() {
    let settings = Settings::new();
    let mut machine = opened(&settings);
    for (now, left) in [(0, 1_000), (SECOND / 4, 750), (SECOND - 1_000_000, 1)] {
        let (admitted, event) = machine.admit(now, &settings);
        let refused = admitted.err().and_then(Open::retry_after);
        assert_eq!((refused, event), (Some(Duration::from_millis(left)), None));
    }
    assert!(machine.admit(SECOND, &settings).0.is_ok());
    assert_eq!(machine.state(), State::HalfOpen);
}

#[test]
fn a_streak_belongs_to_its_generation_and_has_an_end() {
    let core = Core::after_transitions(7);
    let streak = |failures: u32| u64::from(7_u32) << 32 | u64::from(failures);
    assert_eq!(core.lengthen_streak(7), 1);
    assert_eq!(core.lengthen_streak(6), 0, "another generation");
    core.end_streak(6);
    assert_eq!(core.streak.load(Ordering::Relaxed), streak(1));
    core.streak.store(streak(u32::MAX - 1), Ordering::Relaxed);
    assert_eq!(core.lengthen_streak(7), u32::MAX);
    assert_eq!(core.lengthen_streak(7), 0, "the count stops, and the generation stays");
    assert_eq!(core.streak.load(Ordering::Relaxed), streak(u32::MAX));
    core.end_streak(7);
    assert_eq!(core.streak.load(Ordering::Relaxed), streak(0));
}

/// The length of a window and of its sixteen slots, in nanoseconds.
const WINDOW: u64 = 16 * SLOT;
const SLOT: u64 = 1_000;

fn slot() -> Slot {
    Slot::of(Duration::from_nanos(WINDOW))
}

fn count(window: &Window, at: u64, failed: bool) {
    window.count(slot(), Ended { at, generation: 3, failed, slow: false }, || 3);
}

fn counts(window: &Window, now: u64) -> Counts {
    window.counts(now, slot(), 3)
}

#[test]
fn a_late_success_joins_only_its_own_time() {
    let window = Window::new();
    let join = |at| window.join(slot(), at, 3, || 3);
    assert!(!join(0), "the slot has no counts");
    count(&window, 0, false);
    assert!(join(SLOT - 1));
    assert_eq!(counts(&window, 0), Counts { ok: 2, failed: 0, slow: 0 });
    // A failure begins the same slot for a later time.
    count(&window, WINDOW, true);
    assert!(!join(0));
    assert_eq!(counts(&window, WINDOW), Counts { ok: 0, failed: 1, slow: 0 });
}

#[test]
fn the_counts_of_all_threads_are_summed() {
    let window = Window::new();
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                count(&window, 0, true);
                count(&window, 0, false);
            });
        }
    });
    assert_eq!(counts(&window, 0), Counts { ok: 9, failed: 9, slow: 0 });
}
