//! The window of a breaker counts every call, after any number of calls and transitions.

use std::time::Duration;

use resile::Verdict;
use resile::breaker::State;
use resile::call::Admission;
use resile::time::ManualTimer;

use crate::guard::guard;

const SECOND: Duration = Duration::from_secs(1);

/// The number of transitions before a count. A tag of a few bits would wrap at or near each of
/// these numbers.
const TRANSITIONS: [u32; 15] =
    [0, 1, 2, 127, 128, 129, 200, 254, 255, 256, 257, 400, 65_535, 65_536, 65_537];

#[test]
fn the_breaker_opens_after_any_number_of_transitions() {
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
fn a_transition_clears_the_counts() {
    for transitions in TRANSITIONS.into_iter().filter(|transitions| *transitions > 0) {
        let timer = ManualTimer::new();
        let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(f64::NAN, 1));
        (0..7).for_each(|_| breaker.fail());
        (0..transitions).for_each(|_| breaker.reset());
        assert_eq!(breaker.snapshot().calls, 0, "after {transitions} transitions");
    }
}

/// Example: a long stream was admitted before an outage and ends after it.
#[test]
fn a_call_from_many_transitions_ago_changes_no_count() {
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

/// With the defaults: successes, an outage with failing probes, a healthy day, then a bad minute.
#[test]
fn the_failure_rate_opens_the_breaker_after_an_outage_of_any_length() {
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
        // Each second has enough calls to open the breaker, closed or half-open.
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
        // Six of ten calls fail, but never ten in a row.
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

/// Half of the calls come in one burst and half are spread out. Every call has the same weight.
#[test]
fn calls_in_a_burst_count_as_much_as_spread_calls() {
    let timer = ManualTimer::new();
    // The failure rate is 0.1. With a third of the burst's weight it would be 0.15.
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
fn a_large_minimum_of_calls_is_reached() {
    let timer = ManualTimer::new();
    // Once within one slot, and once over the whole window.
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

/// Threads count in separate shards, and the snapshot adds them up.
#[test]
fn calls_of_all_threads_are_counted() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.without_consecutive().with_failure_rate(f64::NAN, 1));
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                (0..1_000).for_each(
                    |call| if call % 4 == 0 { breaker.fail() } else { breaker.succeed() },
                );
            });
        }
    });
    let seen = breaker.snapshot();
    assert_eq!((seen.calls, seen.failures), (9_000, 2_250));
}
