//! What a breaker keeps when foreign code panics in the middle of it: an observer, a curve, a timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resile::breaker::{Event, State};
use resile::{Always, Backoff, Breaker, ManualTimer, Observe, Timer, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// Writes down what it hears, and panics once when it is told to.
#[derive(Default)]
struct Fragile {
    heard: Mutex<Vec<String>>,
    panics_at_event: AtomicBool,
    panics_when_asked: AtomicBool,
}

impl Observe<Event> for &Fragile {
    fn is_enabled(&self) -> bool {
        assert!(!self.panics_when_asked.swap(false, Ordering::Relaxed), "asked");
        true
    }

    fn observe(&self, event: &Event) {
        let word = event.to_string().split(' ').nth(1).unwrap().to_owned();
        self.heard.lock().unwrap().push(word);
        assert!(!self.panics_at_event.swap(false, Ordering::Relaxed), "told");
    }
}

impl Fragile {
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

type Fragiles<'a> = Breaker<Always, &'a Fragile, ManualTimer>;

fn half_open<'a>(observer: &'a Fragile, timer: &ManualTimer) -> Fragiles<'a> {
    let breaker = Breaker::new().with_consecutive(1).with_probes(1, 1.0).with_open(Backoff::fixed(SECOND));
    let breaker = breaker.with_observer(observer).with_timer(timer.clone());
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    breaker
}

fn panics<T>(step: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(|| drop(step()))).is_err(), "it was to panic");
}

#[test]
fn an_observer_that_panics_keeps_no_probe_from_going() {
    let (observer, timer) = (Fragile::default(), ManualTimer::new());
    let breaker = half_open(&observer, &timer);
    observer.panics_at_event.store(true, Ordering::Relaxed);
    panics(|| breaker.permit());
    assert_eq!(breaker.state(), State::HalfOpen);
    breaker.permit().expect("the place of the only probe is free").success();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(observer.heard(), ["opened", "half-open", "closed"]);
}

#[test]
fn an_observer_that_panics_at_a_question_keeps_no_probe() {
    let (observer, timer) = (Fragile::default(), ManualTimer::new());
    let breaker = half_open(&observer, &timer);
    let probe = breaker.permit().unwrap();
    observer.panics_when_asked.store(true, Ordering::Relaxed);
    panics(|| probe.success());
    breaker.permit().expect("the place is free").success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn a_curve_that_panics_keeps_no_probe() {
    let timer = ManualTimer::new();
    let breaker = Breaker::new()
        .with_consecutive(1)
        .with_probes(1, 1.0)
        .with_open(Backoff::custom(|times| if times == 1 { SECOND } else { panic!("no curve for that") }))
        .with_observer(())
        .with_timer(timer.clone());
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    let probe = breaker.permit().unwrap();
    panics(|| probe.failure(Verdict::retry()));
    breaker.permit().expect("the place is free").success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn a_timer_that_panics_keeps_no_probe() {
    struct Broken<'a>(&'a ManualTimer, &'a AtomicBool);

    impl Timer for Broken<'_> {
        type Sleep = std::future::Pending<()>;

        fn now(&self) -> Duration {
            assert!(!self.1.swap(false, Ordering::Relaxed), "no clock");
            self.0.now()
        }

        fn sleep(&self, _: Duration) -> Self::Sleep {
            std::future::pending()
        }
    }

    let (timer, breaks) = (ManualTimer::new(), AtomicBool::new(false));
    let breaker = Breaker::new()
        .with_consecutive(1)
        .with_probes(1, 1.0)
        .with_open(Backoff::fixed(SECOND))
        .with_observer(())
        .with_timer(Broken(&timer, &breaks));
    breaker.permit().unwrap().failure(Verdict::retry());
    timer.advance(SECOND);
    let probe = breaker.permit().unwrap();
    breaks.store(true, Ordering::Relaxed);
    panics(|| probe.failure(Verdict::retry()));
    breaker.permit().expect("the place is free").success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn an_observer_that_panics_isolates_nothing_for_good() {
    let (observer, timer) = (Fragile::default(), ManualTimer::new());
    let breaker = Breaker::new().with_observer(&observer).with_timer(timer);
    observer.panics_at_event.store(true, Ordering::Relaxed);
    panics(|| breaker.isolate());
    assert_eq!(breaker.state(), State::Closed);
    breaker.permit().unwrap().success();
    // Nothing was said while the thread unwound; it is said ahead of the next event.
    drop(breaker.isolate());
    assert_eq!(observer.heard(), ["isolated", "closed", "isolated", "closed"]);

    observer.panics_when_asked.store(true, Ordering::Relaxed);
    panics(|| breaker.isolate());
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn an_observer_that_panics_releases_all_the_same() {
    for at_question in [true, false] {
        let (observer, timer) = (Fragile::default(), ManualTimer::new());
        let breaker = Breaker::new().with_observer(&observer).with_timer(timer);
        let isolation = breaker.isolate();
        let flag = if at_question { &observer.panics_when_asked } else { &observer.panics_at_event };
        flag.store(true, Ordering::Relaxed);
        panics(|| drop(isolation));
        assert_eq!(breaker.state(), State::Closed, "panics at a question: {at_question}");
    }
}

#[test]
fn a_reset_while_isolated_is_no_closing() {
    let (observer, timer) = (Fragile::default(), ManualTimer::new());
    let breaker = Breaker::new().with_consecutive(1).with_observer(&observer).with_timer(timer);
    breaker.permit().unwrap().failure(Verdict::retry());
    let isolation = breaker.isolate();
    breaker.reset();
    assert_eq!(breaker.state(), State::Isolated);
    assert_eq!(observer.heard(), ["opened", "isolated"]);
    drop(isolation);
    assert_eq!(observer.heard(), ["opened", "isolated", "closed"]);
}
