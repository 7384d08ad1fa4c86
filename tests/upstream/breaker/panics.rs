//! A breaker stays usable when foreign code panics inside it: an observer, a curve or a timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::breaker::{State, Transition};
use resile::observe::{Event, EventKind, Observe};
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, Breaker, Bulkhead, Cooldown, Upstream, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// Panics at the n-th passage after it is armed with n. Zero means never.
#[derive(Debug, Default)]
struct Fuse(AtomicU32);

impl Fuse {
    fn arm(&self, nth: u32) {
        self.0.store(nth, Relaxed);
    }

    fn pass(&self) {
        let left = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        assert_ne!(left, Ok(1), "the fuse panics here");
    }
}

/// An observer and timer. It records the transitions, and panics once when a fuse is armed.
#[derive(Debug, Default)]
struct Fragile {
    transitions: Mutex<Vec<&'static str>>,
    at_event: Fuse,
    at_enabled: Fuse,
    hands: ManualTimer,
    at_reading: Fuse,
}

impl Observe for Fragile {
    fn is_enabled(&self) -> bool {
        self.at_enabled.pass();
        true
    }

    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Breaker { transition, .. } = event.kind {
            self.transitions.lock().unwrap().push(match transition {
                Transition::Opened { .. } => "opened",
                Transition::HalfOpened => "half-open",
                Transition::Closed { .. } => "closed",
                Transition::Isolated => "isolated",
                _ => "else",
            });
        }
        self.at_event.pass();
    }
}

impl Timer for Fragile {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        self.at_reading.pass();
        self.hands.now()
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
}

type Fragiles = Upstream<Arc<Fragile>>;

impl Fragile {
    fn transitions(&self) -> Vec<&'static str> {
        self.transitions.lock().unwrap().clone()
    }

    fn fuse(&self, site: Site) -> &Fuse {
        match site {
            Site::Event => &self.at_event,
            Site::Enabled => &self.at_enabled,
            Site::Reading => &self.at_reading,
        }
    }
}

/// The function that panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Site {
    Event,
    Enabled,
    Reading,
}

fn fragile(breaker: Breaker) -> (Arc<Fragile>, Fragiles) {
    let fragile = Arc::new(Fragile::default());
    let upstream = Upstream::new("fragile")
        .with_breaker(breaker)
        .with_bulkhead(Bulkhead::new(1).with_queue(0))
        .with_cooldown(Cooldown::new().with_jitter(0.0).with_cap(SECOND))
        .with_shared_observer(Arc::clone(&fragile))
        .with_timer(Arc::clone(&fragile));
    (fragile, upstream)
}

/// Creates a breaker with one probe. The lease is much longer than the times in these tests.
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

/// Checks that the only probe and the only permit of the bulkhead are free, or the probe has been
/// counted.
fn goes_on(upstream: &Fragiles, fragile: &Fragile, context: &str) {
    assert_eq!(upstream.bulkhead().map(Bulkhead::in_flight), Some(0), "{context}");
    if state(upstream) == State::Open || upstream.held().is_some() {
        fragile.hands.advance(SECOND);
    }
    upstream.try_admit().unwrap_or_else(|refused| panic!("{refused}, {context}")).succeeded();
    assert_eq!(state(upstream), State::Closed, "{context}");
}

/// Repeats the step, with a panic at each passage of that site.
fn at_each(
    site: Site,
    step: impl Fn(&Fragiles, &Fragile),
    check: impl Fn(&Fragiles, &Fragile, &str),
) {
    for nth in 1.. {
        let (fragile, upstream) = half_open(breaker());
        let panicked = panics(|| {
            fragile.fuse(site).arm(nth);
            step(&upstream, &fragile);
        });
        fragile.fuse(site).arm(0);
        if !panicked {
            assert!(nth > 1, "that step never calls {site:?}");
            return;
        }
        assert!(nth < 50, "the step panics without a fuse");
        check(&upstream, &fragile, &format!("{site:?} {nth} panicked"));
    }
}

#[test]
fn a_panic_at_an_admission_loses_no_probe() {
    for site in [Site::Event, Site::Enabled, Site::Reading] {
        let check = |upstream: &Fragiles, fragile: &Fragile, context: &str| {
            goes_on(upstream, fragile, context);
            if site == Site::Event {
                assert_eq!(fragile.transitions(), ["opened", "half-open", "closed"], "{context}");
            }
        };
        at_each(site, |upstream, _| drop(upstream.try_admit()), check);
    }
}

#[test]
fn a_panic_at_a_report_loses_no_probe() {
    for site in [Site::Event, Site::Enabled, Site::Reading] {
        for verdict in
            [None, Some(Verdict::transient()), Some(Verdict::throttled()), Some(Verdict::fatal())]
        {
            let step = |upstream: &Fragiles, fragile: &Fragile| {
                let nth = fragile.fuse(site).0.swap(0, Relaxed);
                let probe = upstream.try_admit().unwrap();
                fragile.fuse(site).arm(nth);
                match verdict {
                    None => probe.succeeded(),
                    Some(verdict) => probe.settle(&verdict),
                }
            };
            let check = |upstream: &Fragiles, fragile: &Fragile, context: &str| {
                goes_on(upstream, fragile, &format!("{context} at the report of {verdict:?}"));
            };
            at_each(site, step, check);
        }
    }
}

#[test]
fn a_curve_that_panics_loses_no_probe() {
    let curve =
        Backoff::custom(|times| if times == 1 { SECOND } else { panic!("the curve panics") });
    let (fragile, upstream) = half_open(breaker().with_open_time(curve));
    let probe = upstream.try_admit().unwrap();
    assert!(panics(|| probe.settle(&Verdict::transient())));
    assert_eq!(state(&upstream), State::HalfOpen);
    goes_on(&upstream, &fragile, "the curve panicked");
}

#[test]
fn an_observer_that_panics_leaves_nothing_isolated() {
    for site in [Site::Event, Site::Enabled] {
        for nth in 1.. {
            let (fragile, upstream) = fragile(Breaker::new());
            fragile.fuse(site).arm(nth);
            if !panics(|| upstream.isolate()) {
                assert!(nth > 1, "{site:?} is never called");
                break;
            }
            fragile.fuse(site).arm(0);
            assert_eq!(state(&upstream), State::Closed, "{site:?} {nth}");
            upstream.try_admit().unwrap().succeeded();
            // While the thread unwinds nothing is reported. The missing event comes before the next
            // event.
            drop(upstream.isolate());
            if site == Site::Event && nth == 1 {
                assert_eq!(fragile.transitions(), ["isolated", "closed", "isolated", "closed"]);
            }
        }
    }
}

#[test]
fn an_observer_that_panics_does_not_prevent_the_release() {
    for site in [Site::Event, Site::Enabled] {
        for nth in 1.. {
            let (fragile, upstream) = fragile(Breaker::new());
            let isolation = upstream.isolate();
            fragile.fuse(site).arm(nth);
            if !panics(|| drop(isolation)) {
                assert!(nth > 1, "{site:?} is never called");
                break;
            }
            assert_eq!(state(&upstream), State::Closed, "{site:?} {nth}");
        }
    }
}

#[test]
fn a_reset_during_an_isolation_does_not_close_the_breaker() {
    let (fragile, upstream) = fragile(Breaker::new().with_consecutive(1));
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    let isolation = upstream.isolate();
    upstream.reset();
    assert_eq!(state(&upstream), State::Isolated);
    assert_eq!(fragile.transitions(), ["opened", "isolated"]);
    drop(isolation);
    assert_eq!(fragile.transitions(), ["opened", "isolated", "closed"]);
}
