//! Models of the lease of a quota: no unit is made, no change is lost, and no call sleeps for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use resile::call::Admission;
use resile::quota::{Cost, Dimension, Limit, Limits, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::{AtCost, Resource, Shared};
use resile::{Never, Quota, StopReason, Upstream};

const TOKENS: Resource = Resource::Quota(Dimension::Tokens);
const SECOND: Duration = Duration::from_secs(1);

type Host = Upstream<ManualTimer>;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes the atomics and locks before the upstream is shared between threads. Without a lease it has
/// ten tokens, and none later.
fn host() -> Arc<Host> {
    host_on(&ManualTimer::new())
}

fn host_on(timer: &ManualTimer) -> Arc<Host> {
    let host = Upstream::new("model")
        .with_quota(Quota::new().with_tokens(Rate::per_day(1).with_burst(10)))
        .with_observer(&())
        .with_timer(timer.clone());
    let whole = host.at_cost(Cost::input(10)).try_admit().unwrap();
    let mut waits = Box::pin(host.at_cost(Cost::input(1)).admit(Never));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waits);
    whole.withdraw();
    let shared = host.share().unwrap();
    shared.set_low(TOKENS, 0);
    shared.extend(TOKENS, Duration::ZERO);
    let _ = (shared.balance(TOKENS), shared.reported_level(TOKENS));
    drop(shared);
    // The lease has ended without units. The next one fills the bucket again.
    let shared = host.share().unwrap();
    shared.extend(TOKENS, SECOND);
    shared.adjust(TOKENS, 10);
    drop(shared);
    assert_eq!(level(&host), 10);
    Arc::new(host)
}

fn level(host: &Host) -> i64 {
    host.quota_level(Dimension::Tokens).unwrap()
}

fn hold(host: &Arc<Host>, units: u64) -> Admission<AtCost<'static, Arc<Host>>> {
    AtCost::new(Arc::clone(host), Cost::input(units)).try_admit().unwrap()
}

/// Takes units, and returns how many it has.
fn take(host: &Host, units: u64) -> i64 {
    match host.at_cost(Cost::input(units)).try_admit() {
        Ok(admission) => {
            admission.succeeded();
            i64::try_from(units).unwrap()
        }
        Err(_) => 0,
    }
}

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(crate::roomy::roomy(check));
}

fn with<T: 'static>(
    host: &Arc<Host>,
    act: impl FnOnce(&Host) -> T + 'static,
) -> thread::JoinHandle<T> {
    let host = Arc::clone(host);
    thread::spawn(move || act(&host))
}

/// A take before the lease is paid by the process itself, and a take within it by the lease.
#[test]
fn a_take_beside_the_beginning_of_a_lease_makes_no_unit() {
    model(|| {
        let host = host();
        let takes = with(&host, |host| take(host, 6));
        let shared = host.share().unwrap();
        shared.adjust(TOKENS, 7);
        shared.extend(TOKENS, SECOND);
        let taken = takes.join().unwrap();
        let balance = shared.balance(TOKENS).unwrap();
        // 7 remain if the call came before the lease, or did not get its units.
        assert!(balance == 7 || (balance, taken) == (1, 6), "{balance} after {taken}");
    });
}

/// The end of an earlier lease says nothing about this one.
#[test]
fn a_lease_that_was_not_extended_gives_nothing() {
    model(|| {
        let host = host();
        assert_eq!(take(&host, 10), 10);
        let first = host.share().unwrap();
        first.extend(TOKENS, SECOND);
        drop(first);
        let takes = with(&host, |host| take(host, 4));
        let second = host.share().unwrap();
        second.adjust(TOKENS, 5);
        assert_eq!(takes.join().unwrap(), 0);
        assert_eq!(second.balance(TOKENS), Some(5));
    });
}

#[test]
fn takes_beside_a_grant_have_what_was_granted() {
    model(|| {
        let host = host();
        let shared = host.share().unwrap();
        shared.extend(TOKENS, SECOND);
        shared.adjust(TOKENS, 3);
        let takes = with(&host, |host| take(host, 4));
        shared.adjust(TOKENS, 2);
        shared.adjust(TOKENS, -1);
        let taken = takes.join().unwrap();
        assert_eq!(shared.balance(TOKENS), Some(4 - taken));
    });
}

#[test]
fn no_change_is_lost_beside_the_end_of_a_lease() {
    model(|| {
        let host = host();
        let shared = host.share().unwrap();
        shared.extend(TOKENS, SECOND);
        shared.adjust(TOKENS, 9);
        let mut held = hold(&host, 2);
        let takes = with(&host, |host| take(host, 4));
        let settles = thread::spawn(move || {
            held.record(Usage::new().with_input(3));
            held.succeeded();
        });
        drop(shared);
        let taken = takes.join().unwrap();
        settles.join().unwrap();
        assert_eq!((level(&host), taken), (2, 4));
    });
}

/// A header arrives while a lease begins or ends. It must not leave the bucket with a debt of years.
#[test]
fn a_report_beside_a_change_of_mode_lowers_the_level_only() {
    model(|| {
        let host = host();
        let mut held = hold(&host, 1);
        let shared = host.share().unwrap();
        shared.extend(TOKENS, SECOND);
        shared.adjust(TOKENS, 5);
        let learns = thread::spawn(move || {
            held.learn(Limits::new().with(Dimension::Tokens, Limit::of_remaining(2)));
            held.succeeded();
        });
        drop(shared);
        assert!((2..=5).contains(&level(&host)), "no forecast and no level in between");
        learns.join().unwrap();
        assert_eq!(level(&host), 2);
    });
}

/// The wait of a refusal beside the end of a lease is that of the lease or of the refill.
#[test]
fn no_forecast_mixes_both_modes() {
    model(|| {
        let host = host();
        let shared = host.share().unwrap();
        shared.extend(TOKENS, SECOND);
        shared.adjust(TOKENS, 2);
        let asks = with(&host, |host| {
            let refused = host.at_cost(Cost::input(4)).try_admit().unwrap_err();
            assert_eq!(refused.reason(), StopReason::Deadline, "it is smaller than the burst");
            refused.retry_after().unwrap()
        });
        drop(shared);
        let day = Duration::from_secs(86_400);
        assert_eq!(asks.join().unwrap(), 2 * day);
    });
}

/// Polls a call while `change` runs on another thread. If the call is pending then, it must be
/// woken, or it sleeps until its units have refilled.
fn is_woken(granted: i64, after: Duration, change: impl FnOnce(Shared<'_, ManualTimer>)) {
    let timer = ManualTimer::new();
    let host = host_on(&timer);
    let shared = host.share().unwrap();
    shared.adjust(TOKENS, granted);
    shared.extend(TOKENS, after);
    let waits = with(&host, |host| {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut call = Box::pin(host.at_cost(Cost::input(4)).admit(Never));
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(admitted) = polled {
            admitted.unwrap().succeeded();
            return None;
        }
        std::mem::forget(call); // it goes on waiting
        Some(woken)
    });
    change(shared);
    if let Some(woken) = waits.join().unwrap() {
        let is_woken = woken.0.load(Ordering::SeqCst) || timer.until_next().is_some();
        assert!(is_woken, "the call sleeps for ever");
    }
}

#[test]
fn a_waiting_call_is_woken_by_a_grant() {
    model(|| {
        is_woken(0, SECOND, |shared| {
            shared.adjust(TOKENS, 4);
            std::mem::forget(shared);
        });
    });
}

#[test]
fn a_waiting_call_is_woken_by_a_longer_lease() {
    model(|| {
        is_woken(4, Duration::ZERO, |shared| {
            shared.extend(TOKENS, SECOND);
            std::mem::forget(shared);
        });
    });
}

#[test]
fn a_waiting_call_is_woken_by_the_end_of_sharing() {
    model(|| is_woken(-4, SECOND, |shared| drop(shared)));
}
