//! Models of the signal to the owner of a lease: what it does not see wakes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use loom::thread;
use resile::quota::{Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::upstream::{Resource, Shared};
use resile::{Cooldown, Never, Quota, Upstream};

const TOKENS: Resource = Resource::Quota(Dimension::Tokens);

type Host = Upstream<ManualTimer>;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn is_ready(shared: &Shared<'_, ManualTimer>, waker: &Waker) -> bool {
    shared.poll_changed(&mut Context::from_waker(waker)).is_ready()
}

/// Looks until nothing has changed. Returns whether `sees` is true at a look, or the listener was
/// woken after the last one. One of both must be true.
fn listens(host: &Host, other: impl FnOnce() + Send + 'static, sees: impl Fn(&Host) -> bool) {
    let shared = host.share().unwrap();
    while is_ready(&shared, Waker::noop()) {}
    let thread = thread::spawn(other);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut seen = false;
    while is_ready(&shared, &waker) {
        seen |= sees(host);
    }
    thread.join().unwrap();
    assert!(seen || woken.0.load(Ordering::SeqCst), "the listener sleeps for ever");
    if !seen {
        assert!(is_ready(&shared, &waker), "the signal is lost");
        assert!(sees(host));
    }
}

/// Makes the atomics and locks before the upstream is shared between threads.
fn host() -> Arc<Host> {
    let host = Upstream::new("model")
        .with_cooldown(Cooldown::new())
        .with_quota(Quota::new().with_tokens(Rate::per_day(1).with_burst(9)))
        .with_observer(&())
        .with_timer(ManualTimer::new());
    let _ = (format!("{:?}", host.cooldown()), host.quota_level(Dimension::Tokens));
    let shared = host.share().unwrap();
    while is_ready(&shared, Waker::noop()) {}
    let mut waits = Box::pin(host.at_cost(Cost::input(1)).admit(Never));
    let _ = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let _ = shared.waiting(TOKENS);
    drop((waits, shared));
    Arc::new(host)
}

#[test]
fn a_hold_is_never_missed() {
    crate::roomy::model(|| {
        let host = host();
        let other = Arc::clone(&host);
        let hold = move || other.hold(Duration::from_secs(5));
        listens(&host, hold, |host| host.held().is_some());
    });
}

#[test]
fn of_two_holds_the_longer_one_is_never_missed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(crate::roomy::roomy(|| {
        let host = host();
        let other = Arc::clone(&host);
        let holds = move || {
            other.hold(Duration::from_secs(5));
            other.hold(Duration::from_secs(9));
        };
        listens(&host, holds, |host| host.held() == Some(Duration::from_secs(9)));
    }));
}

/// The owner counts the waiting calls after the signal. So the call must stand in the queue before.
#[test]
fn a_call_that_begins_to_wait_is_never_missed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(crate::roomy::roomy(|| {
        let host = host();
        let other = Arc::clone(&host);
        let waits = move || {
            let mut call = Box::pin(other.at_cost(Cost::input(3)).admit(Never));
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            std::mem::forget(call); // it goes on waiting
        };
        listens(&host, waits, |host| host.quota().unwrap().waiting() == 1);
    }));
}
