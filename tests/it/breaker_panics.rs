//! What a breaker keeps when foreign code panics in the middle of it: an observer, a curve, a timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::breaker::{State, Transition};
use resile::observe::{Event, EventKind, Observe};
use resile::{Backoff, Breaker, Bulkhead, Cooldown, ManualTimer, Timer, Upstream, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// Panics the n-th time from when it is armed with n, and never at 0.
#[derive(Debug, Default)]
struct Fuse(AtomicU32);

impl Fuse {
    fn arm(&self, nth: u32) {
        self.0.store(nth, Relaxed);
    }

    fn burn(&self) {
        let left = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        assert_ne!(left, Ok(1), "the fuse has burned down");
    }
}

/// Writes down the transitions that it hears of, and panics once when it is told to.
#[derive(Debug, Default)]
struct Fragile {
    heard: Mutex<Vec<&'static str>>,
    at_event: Fuse,
    when_asked: Fuse,
    hands: ManualTimer,
    at_reading: Fuse,
}

impl Observe for Fragile {
    fn is_enabled(&self) -> bool {
        self.when_asked.burn();
        true
    }

    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Breaker(transition) = event.kind {
            self.heard.lock().unwrap().push(match transition {
                Transition::Opened { .. } => "opened",
                Transition::HalfOpened => "half-open",
                Transition::Closed => "closed",
                Transition::Isolated => "isolated",
                _ => "else",
            });
        }
        self.at_event.burn();
    }
}

impl Timer for Fragile {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        self.at_reading.burn();
        self.hands.now()
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
}

type Fragiles = Upstream<Arc<Fragile>>;

impl Fragile {
    fn heard(&self) -> Vec<&'static str> {
        self.heard.lock().unwrap().clone()
    }

    fn fuse(&self, what: What) -> &Fuse {
        match what {
            What::Event => &self.at_event,
            What::Question => &self.when_asked,
            What::Reading => &self.at_reading,
        }
    }
}

/// What panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Event,
    Question,
    Reading,
}

fn fragile(breaker: Breaker) -> (Arc<Fragile>, Fragiles) {
    let fragile = Arc::new(Fragile::default());
    let upstream = Upstream::new("fragile")
        .with_breaker(breaker)
        .with_bulkhead(Bulkhead::new(1).with_queue(0))
        .with_cooldown(
            Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO).with_cap(SECOND),
        )
        .with_shared_observer(Arc::clone(&fragile))
        .with_timer(Arc::clone(&fragile));
    (fragile, upstream)
}

/// With one probe, whose lease is much longer than the times in these tests.
fn breaker() -> Breaker {
    Breaker::new().with_consecutive(1).with_probes(1.0, 1).with_open_time(Backoff::fixed(SECOND))
}

fn half_open(breaker: Breaker) -> (Arc<Fragile>, Fragiles) {
    let (fragile, upstream) = fragile(breaker);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    fragile.hands.advance(SECOND);
    (fragile, upstream)
}

fn state(upstream: &Fragiles) -> State {
    upstream.breaker().unwrap().state()
}

fn panics<T>(step: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(step()))).is_err()
}

/// The only probe's place is free, or its outcome has been counted; so is the only place in the bulkhead.
fn goes_on(upstream: &Fragiles, fragile: &Fragile, context: &str) {
    assert_eq!(upstream.bulkhead().map(Bulkhead::in_flight), Some(0), "{context}");
    if state(upstream) == State::Open || upstream.held().is_some() {
        fragile.hands.advance(SECOND);
    }
    upstream.try_admit().unwrap_or_else(|refused| panic!("{refused}, {context}")).succeeded();
    assert_eq!(state(upstream), State::Closed, "{context}");
}

/// Takes the step again and again, with a panic at each place of that kind that it passes.
fn at_each(
    what: What,
    step: impl Fn(&Fragiles, &Fragile),
    check: impl Fn(&Fragiles, &Fragile, &str),
) {
    for nth in 1.. {
        let (fragile, upstream) = half_open(breaker());
        let panicked = panics(|| {
            fragile.fuse(what).arm(nth);
            step(&upstream, &fragile);
        });
        fragile.fuse(what).arm(0);
        if !panicked {
            assert!(nth > 1, "no {what:?} in that step");
            return;
        }
        assert!(nth < 50, "it panics of itself");
        check(&upstream, &fragile, &format!("{what:?} {nth} panicked"));
    }
}

#[test]
fn what_panics_at_an_admission_keeps_no_probe_from_going() {
    for what in [What::Event, What::Question, What::Reading] {
        let check = |upstream: &Fragiles, fragile: &Fragile, context: &str| {
            goes_on(upstream, fragile, context);
            if what == What::Event {
                assert_eq!(fragile.heard(), ["opened", "half-open", "closed"], "{context}");
            }
        };
        at_each(what, |upstream, _| drop(upstream.try_admit()), check);
    }
}

#[test]
fn what_panics_at_a_report_keeps_no_probe() {
    for what in [What::Event, What::Question, What::Reading] {
        for verdict in
            [None, Some(Verdict::transient()), Some(Verdict::throttled()), Some(Verdict::fatal())]
        {
            let step = |upstream: &Fragiles, fragile: &Fragile| {
                let nth = fragile.fuse(what).0.swap(0, Relaxed);
                let probe = upstream.try_admit().unwrap();
                fragile.fuse(what).arm(nth);
                match verdict {
                    None => probe.succeeded(),
                    Some(verdict) => probe.settle(&verdict),
                }
            };
            let check = |upstream: &Fragiles, fragile: &Fragile, context: &str| {
                goes_on(upstream, fragile, &format!("{context} at the report of {verdict:?}"));
            };
            at_each(what, step, check);
        }
    }
}

#[test]
fn a_curve_that_panics_keeps_no_probe() {
    let curve =
        Backoff::custom(|times| if times == 1 { SECOND } else { panic!("no curve for that") });
    let (fragile, upstream) = half_open(breaker().with_open_time(curve));
    let probe = upstream.try_admit().unwrap();
    assert!(panics(|| probe.settle(&Verdict::transient())));
    assert_eq!(state(&upstream), State::HalfOpen);
    goes_on(&upstream, &fragile, "the curve panicked");
}

#[test]
fn an_observer_that_panics_isolates_nothing_for_good() {
    for what in [What::Event, What::Question] {
        for nth in 1.. {
            let (fragile, upstream) = fragile(Breaker::new());
            fragile.fuse(what).arm(nth);
            if !panics(|| upstream.isolate()) {
                assert!(nth > 1, "no {what:?}");
                break;
            }
            fragile.fuse(what).arm(0);
            assert_eq!(state(&upstream), State::Closed, "{what:?} {nth}");
            upstream.try_admit().unwrap().succeeded();
            // Nothing was reported while the thread unwound; it is reported ahead of the next event.
            drop(upstream.isolate());
            if what == What::Event && nth == 1 {
                assert_eq!(fragile.heard(), ["isolated", "closed", "isolated", "closed"]);
            }
        }
    }
}

#[test]
fn an_observer_that_panics_releases_all_the_same() {
    for what in [What::Event, What::Question] {
        for nth in 1.. {
            let (fragile, upstream) = fragile(Breaker::new());
            let isolation = upstream.isolate();
            fragile.fuse(what).arm(nth);
            if !panics(|| drop(isolation)) {
                assert!(nth > 1, "no {what:?}");
                break;
            }
            assert_eq!(state(&upstream), State::Closed, "{what:?} {nth}");
        }
    }
}

#[test]
fn a_reset_while_isolated_is_no_closing() {
    let (fragile, upstream) = fragile(Breaker::new().with_consecutive(1));
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    let isolation = upstream.isolate();
    upstream.reset();
    assert_eq!(state(&upstream), State::Isolated);
    assert_eq!(fragile.heard(), ["opened", "isolated"]);
    drop(isolation);
    assert_eq!(fragile.heard(), ["opened", "isolated", "closed"]);
}
