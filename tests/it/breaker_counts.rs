//! What a breaker's window counts: all of it, however many calls there are and however many transitions there were before.

use std::time::Duration;

use resile::breaker::State;
use resile::{Admission, ManualTimer, Verdict};

use super::guard::guard;

const SECOND: Duration = Duration::from_secs(1);

/// Each of these numbers of transitions is a distance at which a tag of few bits wraps, or looks as if it had.
const TRANSITIONS: [u32; 15] =
    [0, 1, 2, 127, 128, 129, 200, 254, 255, 256, 257, 400, 65_535, 65_536, 65_537];

#[test]
fn opens_after_any_number_of_transitions() {
    for transitions in TRANSITIONS {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 10));
        breaker.succeed();
        (0..transitions).for_each(|_| breaker.reset());
        (0..9).for_each(|_| breaker.fail());
        if transitions > 0 {
            assert_eq!(breaker.state(), State::Closed, "after {transitions} transitions");
            breaker.fail();
        }
        assert_eq!(breaker.state(), State::Open, "after {transitions} transitions");
    }
}

#[test]
fn counts_nothing_of_before_a_transition() {
    for transitions in TRANSITIONS.into_iter().filter(|transitions| *transitions > 0) {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(f64::NAN, 1));
        (0..7).for_each(|_| breaker.fail());
        (0..transitions).for_each(|_| breaker.reset());
        assert_eq!(breaker.snapshot().calls, 0, "after {transitions} transitions");
    }
}

/// A long stream, say, that was admitted before an outage and ends after it.
#[test]
fn a_call_that_was_admitted_many_transitions_ago_wipes_nothing() {
    for transitions in TRANSITIONS.into_iter().filter(|transitions| *transitions > 0) {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 10));
        let (one, other) = (breaker.permit().unwrap(), breaker.permit().unwrap());
        (0..transitions).for_each(|_| breaker.reset());
        (0..5).for_each(|_| breaker.fail());
        one.succeeded();
        other.settle(&Verdict::transient());
        let seen = breaker.snapshot();
        assert_eq!((seen.calls, seen.failures), (5, 5), "after {transitions} transitions");
        (0..5).for_each(|_| breaker.fail());
        assert_eq!(breaker.state(), State::Open, "after {transitions} transitions");
    }
}

/// With the defaults: calls that succeed, an outage in which all probes fail, a day of health, then a bad minute.
#[test]
fn opens_for_a_rate_after_an_outage_of_any_length() {
    for minutes in [10, 70, 130, 200] {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b);
        let healthy = |seconds| {
            for _ in 0..seconds * 4 {
                timer.advance(SECOND / 4);
                breaker.succeed();
            }
        };
        healthy(60);
        // More calls a second than it takes to open it, closed or half-open.
        for _ in 0..minutes * 60 {
            timer.advance(SECOND);
            (0..12)
                .filter_map(|_| breaker.permit().ok())
                .for_each(|permit| permit.settle(&Verdict::transient()));
        }
        assert_ne!(breaker.state(), State::Closed, "in an outage of {minutes} minutes");
        for _ in 0..2 * 60 {
            timer.advance(SECOND);
            (0..3).filter_map(|_| breaker.permit().ok()).for_each(Admission::succeeded);
        }
        assert_eq!(breaker.state(), State::Closed, "after an outage of {minutes} minutes");
        healthy(86_400);
        // Six of ten fail, never ten in a row.
        let opened = (0..1000).any(|call| {
            timer.advance(SECOND / 20);
            let Ok(permit) = breaker.permit() else { return true };
            if call % 10 < 6 {
                permit.settle(&Verdict::transient());
            } else {
                permit.succeeded();
            }
            false
        });
        assert!(opened, "after an outage of {minutes} minutes");
    }
}

#[test]
fn counts_are_exact() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.without_consecutive().with_failure_rate(f64::NAN, 1).with_slow_rate(SECOND, f64::NAN, 1)
    });
    for call in 0..100_000_u32 {
        if call % 9 == 0 { breaker.fail() } else { breaker.succeed() }
    }
    let slow = breaker.permit().unwrap();
    timer.advance(2 * SECOND);
    slow.succeeded();
    let seen = breaker.snapshot();
    assert_eq!((seen.calls, seen.failures, seen.slow), (100_001, 11_112, 1));
}

/// Half of the calls in one burst, the others spread: each counts as much as another.
#[test]
fn a_burst_weighs_no_less_than_calls_that_are_spread() {
    let timer = ManualTimer::new();
    // The share is 0.1. It would be 0.15 if the burst counted a third.
    let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.15, 100));
    (0..40_000).for_each(|_| breaker.succeed());
    for call in 0..40_000_u32 {
        timer.advance(SECOND / 8_000);
        if call % 5 == 0 { breaker.fail() } else { breaker.succeed() }
    }
    assert_eq!(breaker.state(), State::Closed);
    let seen = breaker.snapshot();
    assert_eq!((seen.calls, seen.failures), (80_000, 8_000));
}

#[test]
fn a_large_number_of_calls_is_reached() {
    let timer = ManualTimer::new();
    // Within one slot, and over the window.
    for step in [Duration::ZERO, SECOND / 50_000] {
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(0.5, 300_000));
        for call in 1..=300_000_u32 {
            timer.advance(step);
            assert_eq!(breaker.state(), State::Closed, "before call {call}");
            breaker.fail();
        }
        assert_eq!(breaker.state(), State::Open);
    }
}

/// Threads count in places of their own, and are summed.
#[test]
fn calls_of_all_threads_are_counted() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(f64::NAN, 1));
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                (0..1_000)
                    .for_each(|call| if call % 4 == 0 { breaker.fail() } else { breaker.succeed() })
            });
        }
    });
    let seen = breaker.snapshot();
    assert_eq!((seen.calls, seen.failures), (9_000, 2_250));
}
