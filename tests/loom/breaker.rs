//! Models of `resile::Breaker`: it opens once, admits no extra probe and never stays half-open.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::thread;
use resile::breaker::{Advice, Snapshot, State};
use resile::call::Admission;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, GaveUp, Jitter, Upstream, Verdict};

const OPEN: Duration = Duration::from_secs(1);

/// An upstream with a breaker. Its attempts are made by hand.
struct Guard(Upstream<ManualTimer>);

impl Guard {
    fn permit(&self) -> Result<Admission<&Upstream<ManualTimer>>, GaveUp<Infallible>> {
        self.0.try_admit()
    }

    fn fail(&self) {
        self.permit().unwrap().settle(&Verdict::transient());
    }

    fn succeed(&self) {
        self.permit().unwrap().succeeded();
    }

    fn reset(&self) {
        self.0.reset();
    }

    fn state(&self) -> State {
        self.0.breaker().unwrap().state()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot().unwrap()
    }
}

fn shared(settings: impl FnOnce(Breaker) -> Breaker) -> (Arc<Guard>, ManualTimer) {
    let timer = ManualTimer::new();
    let breaker = Breaker::new()
        .with_open_time(Backoff::fixed(OPEN).with_jitter(Jitter::None))
        .with_probes(1.0, 1);
    let upstream = Upstream::new("guarded").with_breaker(settings(breaker)).with_observer(&());
    let guard = Guard(upstream.with_timer(timer.clone()));
    drop(guard.permit()); // makes its atomics and its lock before sharing
    let _ = guard.snapshot();
    (Arc::new(guard), timer)
}

fn tripped() -> (Arc<Guard>, ManualTimer) {
    let (breaker, timer) = shared(|b| b.with_consecutive(1).without_failure_rate());
    breaker.fail();
    timer.advance(OPEN);
    (breaker, timer)
}

#[test]
fn simultaneous_failures_open_the_breaker_once() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(2).without_failure_rate());
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || {
            if let Ok(permit) = other.permit() {
                permit.settle(&Verdict::transient());
            }
        });
        if let Ok(permit) = breaker.permit() {
            permit.settle(&Verdict::transient());
        }
        thread.join().unwrap();
        let seen = breaker.snapshot();
        assert_eq!((seen.state, seen.trips), (State::Open, 1));
    });
}

#[test]
fn a_refusal_beside_a_trip_says_for_how_long() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(1).without_failure_rate());
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.fail());
        if let Err(open) = breaker.permit() {
            assert_eq!(open.retry_after(), Some(OPEN));
        }
        thread.join().unwrap();
        assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(OPEN));
    });
}

#[test]
fn no_call_is_refused_after_a_reset() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(1).without_failure_rate());
        breaker.fail();
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.reset());
        let refused = breaker.permit().err();
        assert!(refused.is_none_or(|open| open.retry_after() == Some(OPEN)));
        thread.join().unwrap();
        breaker.succeed();
    });
}

#[test]
fn an_attempt_from_before_a_transition_decides_nothing_after_it() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(1).without_failure_rate());
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || {
            let early = other.permit();
            other.reset(); // a transition of its own
            if let Ok(early) = early {
                early.settle(&Verdict::transient());
            }
        });
        thread.join().unwrap();
        assert_eq!(breaker.state(), State::Closed);
        assert_eq!(breaker.snapshot().streak, 0);
    });
}

#[test]
fn a_stale_failure_beside_a_reset_leaves_no_streak() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(3).without_failure_rate());
        let early = breaker.permit().unwrap();
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.reset());
        early.settle(&Verdict::transient());
        thread.join().unwrap();
        assert_eq!(breaker.snapshot().streak, 0);
    });
}

#[test]
fn no_more_probes_run_than_allowed() {
    crate::roomy::model(|| {
        let (breaker, _) = tripped();
        let out = Arc::new(AtomicUsize::new(0));
        let ask = |breaker: Arc<Guard>, out: Arc<AtomicUsize>| {
            move || {
                if let Ok(probe) = breaker.permit() {
                    assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0, "two probes at once");
                    thread::yield_now();
                    out.fetch_sub(1, Ordering::SeqCst);
                    drop(probe);
                }
            }
        };
        let thread = thread::spawn(ask(Arc::clone(&breaker), Arc::clone(&out)));
        ask(Arc::clone(&breaker), out)();
        thread.join().unwrap();
        assert_eq!(breaker.state(), State::HalfOpen);
        breaker.permit().expect("the probe's slot is free again").succeeded();
        assert_eq!(breaker.state(), State::Closed);
    });
}

#[test]
fn a_good_probe_beside_a_call_closes_the_breaker() {
    crate::roomy::model(|| {
        let (breaker, _) = tripped();
        let probe = breaker.permit().unwrap();
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || match other.permit() {
            Ok(permit) => permit.succeeded(),
            Err(open) => assert_eq!(open.retry_after(), None), // the probe decides
        });
        probe.succeeded();
        thread.join().unwrap();
        assert_eq!(breaker.state(), State::Closed);
        breaker.succeed();
    });
}

#[test]
fn no_failure_within_the_window_is_lost() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.without_consecutive().with_failure_rate(1.0, 2));
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || {
            if let Ok(permit) = other.permit() {
                permit.settle(&Verdict::throttled());
            }
        });
        if let Ok(permit) = breaker.permit() {
            permit.settle(&Verdict::transient());
        }
        thread.join().unwrap();
        assert_eq!(breaker.state(), State::Open);
    });
}

/// The pause of an advice. It is shorter than the lease.
const PAUSE: Duration = Duration::from_secs(2);

#[test]
fn a_pause_comes_before_a_probe_or_has_no_effect_on_it() {
    crate::roomy::model(|| {
        let (breaker, timer) = tripped();
        let other = Arc::clone(&breaker);
        let advice = Advice::new().without_probe_for(PAUSE);
        let thread = thread::spawn(move || other.0.advise(advice));
        let asked = breaker.permit();
        thread.join().unwrap();
        match asked {
            Ok(probe) => {
                assert_eq!(breaker.state(), State::HalfOpen);
                probe.succeeded();
            }
            Err(open) => {
                assert_eq!((breaker.state(), open.retry_after()), (State::Open, Some(PAUSE)));
                assert_eq!(breaker.snapshot().retry_after, Some(PAUSE));
                timer.advance(PAUSE);
                breaker.succeed();
            }
        }
        assert_eq!(breaker.state(), State::Closed);
    });
}

#[test]
fn a_failure_beside_a_suspicion_is_counted_once() {
    crate::roomy::model(|| {
        let (breaker, _) = shared(|b| b.with_consecutive(3).without_failure_rate());
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.0.advise(Advice::new().with_suspicion(true)));
        breaker.fail();
        assert_eq!(breaker.state(), State::Closed);
        thread.join().unwrap();
        breaker.fail(); // the second of two
        let seen = breaker.snapshot();
        assert_eq!((seen.state, seen.trips), (State::Open, 1));
    });
}

#[test]
fn two_advices_are_never_mixed() {
    crate::roomy::model(|| {
        let (breaker, timer) = shared(|b| b.with_consecutive(2).without_failure_rate());
        breaker.fail();
        breaker.fail();
        timer.advance(OPEN);
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.0.advise(Advice::new().with_suspicion(true)));
        breaker.0.advise(Advice::new().without_probe_for(PAUSE));
        thread.join().unwrap();
        let is_suspicious = match breaker.permit() {
            Ok(probe) => {
                probe.succeeded();
                true
            }
            Err(_) => {
                timer.advance(PAUSE);
                breaker.succeed();
                false
            }
        };
        breaker.fail();
        assert_eq!(breaker.state() == State::Open, is_suspicious);
    });
}

/// Runs a model of a breaker after a number of transitions. It counts and never opens by itself.
fn after_transitions(transitions: u32, model: impl Fn(Arc<Guard>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000; // the transitions before the threads are steps too
    builder.check(crate::roomy::roomy(move || {
        let (breaker, _) = shared(|b| b.without_consecutive().with_failure_rate(f64::NAN, 1));
        breaker.succeed();
        (0..transitions).for_each(|_| breaker.reset());
        model(breaker);
    }));
}

/// The numbers of transitions at which the window is emptied and a tag of seven bits wraps.
const WRAPS: [u32; 2] = [64, 128];

#[test]
fn a_late_call_erases_no_current_count() {
    for transitions in WRAPS {
        after_transitions(0, move |breaker| {
            let early = breaker.permit().unwrap();
            (0..transitions).for_each(|_| breaker.reset());
            let other = Arc::clone(&breaker);
            let thread = thread::spawn(move || other.fail());
            early.succeeded();
            thread.join().unwrap();
            let seen = breaker.snapshot();
            assert_eq!((seen.calls, seen.failures), (1, 1), "after {transitions} transitions");
        });
    }
}

#[test]
fn a_transition_that_empties_the_window_loses_no_count_after_it() {
    for transitions in WRAPS {
        after_transitions(transitions - 1, move |breaker| {
            let early = breaker.permit().unwrap();
            let other = Arc::clone(&breaker);
            let thread = thread::spawn(move || {
                other.reset();
                other.fail();
            });
            early.settle(&Verdict::transient());
            thread.join().unwrap();
            assert_eq!(breaker.snapshot().calls, 1, "at transition {transitions}");
        });
    }
}

#[test]
fn two_threads_that_begin_a_slot_lose_no_count() {
    after_transitions(1, |breaker| {
        let other = Arc::clone(&breaker);
        let thread = thread::spawn(move || other.succeed());
        breaker.fail();
        thread.join().unwrap();
        let seen = breaker.snapshot();
        assert_eq!((seen.calls, seen.failures), (2, 1));
    });
}
