//! The advice of other processes: suspicion halves the thresholds of a breaker, and a pause delays
//! its probes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use resile::breaker::{Advice, State};
use resile::observe::Event;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Jitter, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};

use super::advice_model::{Outcome, outcome, settle};
use crate::guard::{Guard, guard};

const SECOND: Duration = Duration::from_secs(1);

fn opening_for(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

fn suspicion() -> Advice {
    Advice::new().with_suspicion(true)
}

fn pause(pause: Duration) -> Advice {
    Advice::new().without_probe_for(pause)
}

/// The three thresholds, each of which may be off.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    consecutive: Option<u32>,
    failures: Option<(f64, u32)>,
    slow: Option<(f64, u32)>,
}

impl Thresholds {
    fn halved(self) -> Self {
        let half = |(share, of)| (if share > 1.0 { share } else { share / 2.0 }, of - of / 2);
        Self {
            consecutive: self.consecutive.map(|failures| failures - failures / 2),
            failures: self.failures.map(half),
            slow: self.slow.map(half),
        }
    }

    fn guard(self, timer: &ManualTimer) -> Guard {
        guard(timer, |breaker| {
            let breaker = match self.consecutive {
                Some(failures) => breaker.with_consecutive(failures),
                None => breaker.without_consecutive(),
            };
            let breaker = match self.failures {
                Some((share, of)) => breaker.with_failure_rate(share, of),
                None => breaker.without_failure_rate(),
            };
            let breaker = match self.slow {
                Some((share, of)) => breaker.with_slow_rate(SLOW, share, of),
                None => breaker,
            };
            breaker.with_open_time(opening_for(SECOND)).with_probes(0.5, 2)
        })
    }
}

const SLOW: Duration = Duration::from_millis(50);

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let share = prop_oneof![
        6 => 0.0..=1.0,
        1 => Just(1.0),
        2 => 1.0..2.5,
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, -1.0]),
    ];
    let rate = prop::option::of((share, 0_u32..16));
    (prop::option::of(0_u32..12), rate.clone(), rate)
        .prop_map(|(consecutive, failures, slow)| Thresholds { consecutive, failures, slow })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each call ends after `took` milliseconds, and the next one begins after `pause` more.
    #[test]
    fn a_suspicious_breaker_is_one_with_halved_thresholds(
        thresholds in thresholds(),
        calls in prop::collection::vec((outcome(), 0_u64..90, 0_u64..300), 1..100),
    ) {
        let timer = ManualTimer::new();
        let (suspicious, halved) = (thresholds.guard(&timer), thresholds.halved().guard(&timer));
        suspicious.0.advise(suspicion());
        for (outcome, took, pause) in calls {
            let (one, other) = (suspicious.permit(), halved.permit());
            timer.advance(Duration::from_millis(took));
            match (one, other) {
                (Ok(one), Ok(other)) => {
                    settle(one, outcome);
                    settle(other, outcome);
                }
                (Err(one), Err(other)) => prop_assert_eq!(one.retry_after(), other.retry_after()),
                (one, other) => prop_assert!(false, "{:?} but the other {:?}", one, other),
            }
            prop_assert_eq!(suspicious.snapshot(), halved.snapshot());
            timer.advance(Duration::from_millis(pause));
        }
    }

    /// The breaker has the lowest thresholds that there are.
    #[test]
    fn advice_alone_never_opens_a_breaker(
        steps in prop::collection::vec((any::<bool>(), 0_u64..500, outcome()), 1..100),
    ) {
        let timer = ManualTimer::new();
        let lowest =
            Thresholds { consecutive: Some(0), failures: Some((0.0, 0)), slow: Some((0.0, 0)) };
        let breaker = lowest.guard(&timer);
        for (suspect, millis, outcome) in steps {
            let millis = Duration::from_millis(millis);
            breaker.0.advise(pause(millis).with_suspicion(suspect));
            timer.advance(millis);
            if !matches!(outcome, Outcome::Transient | Outcome::Throttled) {
                settle(breaker.permit().unwrap(), outcome);
            }
            prop_assert_eq!(breaker.state(), State::Closed);
        }
    }

    /// Times are in nanoseconds. The advice comes before, in or after the open time. A call within
    /// the told time is refused. After it the usual number of probes goes.
    #[test]
    fn a_pause_outlasts_neither_the_lease_nor_the_told_time(
        (open, lease) in (0_u64..1000, 0_u64..1000),
        wanted in prop_oneof![0..1500_u64, Just(u64::MAX)],
        (advised, opened) in (0..2000_u64, 0..2000_u64),
        probes in 1_u32..5,
    ) {
        let (timer, nanos) = (ManualTimer::new(), Duration::from_nanos);
        let breaker = guard(&timer, |b| {
            b.with_consecutive(1)
                .with_open_time(opening_for(nanos(open)))
                .with_lease(nanos(lease))
                .with_probes(1.0, probes)
        });
        let advice = pause(if wanted == u64::MAX { Duration::MAX } else { nanos(wanted) });
        timer.advance(nanos(advised.min(opened)));
        if advised <= opened {
            breaker.0.advise(advice);
            timer.advance(nanos(opened - advised));
            breaker.fail();
        } else {
            breaker.fail();
            timer.advance(nanos(advised - opened));
            breaker.0.advise(advice);
        }
        let (now, end) = (advised.max(opened), (opened + open).max(advised + wanted.min(lease)));
        if now < end {
            for (left, step) in [(end - now, end - now - 1), (1, 1)] {
                prop_assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(nanos(left)));
                prop_assert_eq!(breaker.snapshot().retry_after, Some(nanos(left)));
                prop_assert_eq!((breaker.state(), breaker.snapshot().probes), (State::Open, 0));
                timer.advance(nanos(step));
            }
        }
        prop_assert_eq!(breaker.snapshot().retry_after, None);
        let held: Vec<_> = (0..probes).map(|_| breaker.permit()).collect();
        prop_assert!(held.iter().all(Result::is_ok));
        prop_assert!(breaker.permit().is_err());
        prop_assert_eq!((breaker.state(), breaker.snapshot().probes), (State::HalfOpen, probes));
    }
}

#[test]
fn the_longest_pause_is_told_right_and_ends_with_the_next_advice() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.with_consecutive(1).with_lease(Duration::MAX));
    breaker.0.advise(pause(Duration::MAX));
    breaker.fail();
    let year = Duration::from_secs(365 * 86_400);
    for years in [0, 1, 500] {
        timer.advance(years * year);
        let told = breaker.permit().unwrap_err().retry_after();
        assert_eq!(told, breaker.snapshot().retry_after);
        assert!(told.is_some_and(|told| told > 80 * year));
    }
    breaker.0.advise(Advice::default());
    breaker.succeed();
}

/// The delay is longer than the open time and shorter than the pause.
#[tokio::test(start_paused = true)]
async fn a_retry_within_the_pause_ends_the_call_at_once() {
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(opening_for(5 * SECOND));
    let upstream = Upstream::new("guarded")
        .with_breaker(Breaker::new().with_consecutive(1).with_open_time(opening_for(SECOND)));
    for (advice, attempts, reason) in
        [(pause(10 * SECOND), 1, StopReason::Open), (Advice::new(), 2, StopReason::Attempts)]
    {
        upstream.reset();
        upstream.advise(advice);
        let call = retry(|_| async { Err::<(), _>("down") }, &policy, Never).on(&upstream);
        let error = call.await.unwrap_err();
        assert_eq!((error.attempts(), error.reason()), (attempts, reason));
        if reason == StopReason::Open {
            assert_eq!(error.retry_after(), Some(10 * SECOND));
        }
    }
}

/// A probe of another process ends the open time once. A pause still holds, and the breaker's own
/// failed probe opens it for the whole time again.
#[test]
fn a_probe_of_another_process_ends_the_open_time() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| {
        b.with_consecutive(1).with_open_time(opening_for(9 * SECOND)).with_probes(1.0, 1)
    });
    let passed = Advice::new().with_probe(true);
    breaker.0.advise(passed);
    assert_eq!(breaker.snapshot().state, State::Closed);
    breaker.fail();
    timer.advance(SECOND);
    breaker.0.advise(passed.without_probe_for(2 * SECOND));
    assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(2 * SECOND));
    timer.advance(2 * SECOND);
    breaker.fail();
    assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(9 * SECOND));
    breaker.0.advise(passed);
    breaker.succeed();
    assert_eq!(breaker.snapshot().state, State::Closed);
    let isolation = breaker.isolate();
    breaker.0.advise(passed);
    assert!(breaker.permit().is_err());
    drop(isolation);
}

/// The advice is not the breaker's own count.
#[test]
fn a_reset_and_an_isolation_leave_the_advice() {
    let actions: [fn(&Guard); 3] = [|_| (), Guard::reset, |breaker| drop(breaker.isolate())];
    for action in actions {
        let breaker = guard(&ManualTimer::new(), |b| {
            b.with_consecutive(2).with_open_time(opening_for(SECOND))
        });
        breaker.0.advise(suspicion().without_probe_for(10 * SECOND));
        action(&breaker);
        breaker.fail();
        assert_eq!(breaker.permit().unwrap_err().retry_after(), Some(10 * SECOND));
    }
}

#[test]
fn advice_without_a_breaker_does_nothing() {
    let upstream = Upstream::new("bare").with_timer(ManualTimer::new());
    upstream.advise(suspicion().without_probe_for(SECOND));
    assert!(upstream.snapshot().is_none());
    upstream.try_admit().unwrap().succeeded();
}

/// The error and the lines say why they have no time.
#[test]
fn a_refusal_while_another_process_probes_says_so() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let timer = ManualTimer::new();
    let open = opening_for(SECOND);
    let breaker = Breaker::new().with_consecutive(1).with_open_time(open);
    let store = Upstream::new("store")
        .with_breaker(breaker)
        .with_timer(timer.clone())
        .with_shared_observer(move |event: &Event<'_>| {
            seen.lock().unwrap().push(event.to_string());
        });
    let refused = || {
        let call = retry(|_| async { Ok::<_, &str>(()) }, RetryPolicy::new(), Never).on(&store);
        let refused = call.now_or_never().unwrap().unwrap_err();
        (refused.to_string(), lines.lock().unwrap().pop().unwrap())
    };
    let end = |words: &str| {
        let ends = ["0", "0 of 3"];
        let [error, line] =
            ends.map(|ends| format!("store: gave up after {ends} attempts, {words}"));
        (error, line)
    };
    store.try_admit().unwrap().settle(&Verdict::transient());
    store.advise(pause(SECOND * 3).with_prober(true));
    assert_eq!(refused(), end("the circuit breaker is open, try again in 1.0s"));
    timer.advance(SECOND);
    let probed = "the circuit breaker is open while another process has the turn to probe";
    assert_eq!(refused(), end(probed));
    store.advise(pause(SECOND * 3));
    assert_eq!(refused(), end("the circuit breaker is open, try again in 3.0s"));
    let isolation = store.isolate();
    store.advise(pause(SECOND * 3).with_prober(true));
    assert_eq!(refused(), end("the circuit breaker is open"));
    drop(isolation);
    store.try_admit().unwrap().succeeded();
}

/// The lease of a process that probes is no open time: its probe decides, and nobody knows when.
#[test]
fn while_another_process_probes_only_the_own_open_time_is_told() {
    let timer = ManualTimer::new();
    let breaker = guard(&timer, |b| b.with_consecutive(1).with_open_time(opening_for(SECOND)));
    breaker.fail();
    let told = || (breaker.permit().unwrap_err().retry_after(), breaker.snapshot().retry_after);
    breaker.0.advise(pause(SECOND * 3));
    assert_eq!(told(), (Some(SECOND * 3), Some(SECOND * 3)), "a failed probe");
    breaker.0.advise(pause(SECOND * 3).with_prober(true));
    assert_eq!(told(), (Some(SECOND), Some(SECOND)));
    timer.advance(SECOND);
    assert_eq!(told(), (None, None), "its probe decides");
    timer.advance(SECOND);
    breaker.0.advise(pause(SECOND).with_prober(false));
    assert_eq!(told(), (Some(SECOND), Some(SECOND)), "it has failed");
    timer.advance(SECOND);
    assert!(breaker.permit().is_ok());
}
