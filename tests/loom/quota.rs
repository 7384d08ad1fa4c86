//! Models of `resile::Quota`: no unit is lost or made, and a waiter whose cost fits is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use resile::call::Admission;
use resile::quota::{Charge, Cost, Dimension, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::AtCost;
use resile::{Never, Quota, Upstream, Verdict};

use super::by_hand::ByHand;

/// One clock reading for all calls: nothing refills.
const NOW: Duration = Duration::ZERO;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A rate of so many tokens at once, and none later.
const fn tokens(burst: u32) -> Rate {
    Rate::per_day(1).with_burst(burst as u64)
}

/// Makes the atomics of a quota before it is shared.
fn shared(quota: Quota) -> Arc<ByHand> {
    let quota = ByHand::new(quota);
    drop(quota.try_reserve(Cost::input(1).with_max_output(1), NOW));
    Arc::new(quota)
}

fn level(quota: &ByHand, dimension: Dimension) -> i64 {
    quota.level_at(dimension, NOW).unwrap()
}

/// Checks all interleavings with at most so many preemptions: a call has too many steps for more.
fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(crate::roomy::roomy(check));
}

#[test]
fn a_burst_for_one_is_never_reserved_twice() {
    model(3, || {
        let quota = shared(Quota::new().with_tokens(tokens(10)));
        let other = Arc::clone(&quota);
        let reserve = |quota: &ByHand| match quota.try_reserve(Cost::input(6), NOW) {
            Ok(mut reservation) => {
                reservation.sent();
                true
            }
            Err(_) => false,
        };
        let thread = thread::spawn(move || reserve(&other));
        let mine = reserve(&quota);
        assert!(mine ^ thread.join().unwrap());
        assert_eq!(level(&quota, Dimension::Tokens), 4);
    });
}

/// Each thread takes in two dimensions. The second dimension has enough for one thread only.
#[test]
fn two_dimensions_are_taken_together_or_not_at_all() {
    model(3, || {
        let quota = Quota::new().with_requests(tokens(9)).with_tokens(tokens(10));
        let quota = shared(quota.with_concurrency(2));
        let other = Arc::clone(&quota);
        let reserve = |quota: &ByHand| match quota.try_reserve(Cost::input(6), NOW) {
            Ok(mut reservation) => {
                reservation.sent();
                1
            }
            Err(_) => 0,
        };
        let thread = thread::spawn(move || reserve(&other));
        let taken = reserve(&quota) + thread.join().unwrap();
        assert_eq!(taken, 1);
        assert_eq!(level(&quota, Dimension::Requests), 9 - taken);
        assert_eq!(level(&quota, Dimension::Tokens), 10 - 6 * taken);
        assert_eq!(quota.in_flight(), Some(0));
    });
}

/// One thread drops its reservation while the other settles.
#[test]
fn no_unit_is_lost_or_made() {
    model(3, || {
        let quota = shared(Quota::new().with_output(tokens(20)).with_tokens(tokens(20)));
        let other = Arc::clone(&quota);
        let cost = || Cost::input(2).with_max_output(5);
        let thread = thread::spawn(move || drop(other.try_reserve(cost(), NOW)));
        let used = match quota.try_reserve(cost(), NOW) {
            Ok(reservation) => {
                reservation.settle(Usage::new().with_input(3).with_output(8), NOW);
                1
            }
            Err(_) => 0,
        };
        thread.join().unwrap();
        assert_eq!(used, 1, "the burst has room for both");
        assert_eq!(level(&quota, Dimension::Output), 12);
        assert_eq!(level(&quota, Dimension::Tokens), 9);
        assert_eq!(quota.reserved(), 0);
    });
}

type Host = Upstream<ManualTimer>;
type Held = Admission<AtCost<'static, Arc<Host>>>;

/// Makes the atomics, the lock and the clock of an upstream before it is shared. The quota admits
/// ten tokens, or one attempt.
fn host(quota: Quota) -> Arc<Host> {
    host_for(quota, Cost::input(10))
}

/// Makes an upstream whose whole burst is `cost`.
fn host_for(quota: Quota, cost: Cost<'static>) -> Arc<Host> {
    let upstream = Upstream::new("limited").with_quota(quota).with_observer(&());
    let upstream = Arc::new(upstream.with_timer(ManualTimer::new()));
    let whole = hold(&upstream, cost);
    let mut waiter = Box::pin(upstream.at_cost(cost).admit(Never));
    assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waiter);
    whole.withdraw();
    upstream
}

fn hold(upstream: &Arc<Host>, cost: Cost<'static>) -> Held {
    AtCost::new(Arc::clone(upstream), cost).try_admit().unwrap()
}

/// Polls a waiter while `other` runs on another thread, and then runs `after`. A pending waiter
/// must be woken and admitted.
fn is_woken(
    upstream: &Arc<Host>,
    cost: Cost<'static>,
    other: impl FnOnce() + Send + 'static,
    after: impl FnOnce(),
) {
    let thread = thread::spawn(other);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut admit = Box::pin(upstream.at_cost(cost).admit(Never));
    let mut polled = admit.as_mut().poll(&mut Context::from_waker(&waker));
    after();
    // A first wake may come too early, because another thread takes and gives back again.
    if polled.is_pending() && woken.0.swap(false, Ordering::SeqCst) {
        polled = admit.as_mut().poll(&mut Context::from_waker(&waker));
    }
    thread.join().unwrap();
    if polled.is_pending() {
        assert!(woken.0.load(Ordering::SeqCst), "the waiter sleeps for ever");
        polled = admit.as_mut().poll(&mut Context::from_waker(&waker));
    }
    let Poll::Ready(admitted) = polled else { panic!("the waiter is not admitted") };
    admitted.unwrap().withdraw();
    drop(admit);
    assert_eq!(upstream.quota().unwrap().waiting(), 0);
}

fn check_whole(upstream: &Host, level: i64) {
    let quota = upstream.quota().unwrap();
    assert_eq!((quota.reserved(), quota.in_flight().unwrap_or(0), quota.waiting()), (0, 0, 0));
    assert_eq!(upstream.quota_level(Dimension::Tokens).unwrap_or(level), level);
}

#[test]
fn a_waiter_is_woken_by_a_withdrawn_attempt() {
    model(3, || {
        let upstream = host(Quota::new().with_tokens(tokens(10)));
        let held = hold(&upstream, Cost::input(6));
        is_woken(&upstream, Cost::input(6), || held.withdraw(), || {});
        check_whole(&upstream, 10);
    });
}

#[test]
fn a_waiter_is_woken_by_an_attempt_that_used_less() {
    model(3, || {
        let upstream = host(Quota::new().with_output(tokens(10)).with_tokens(tokens(10)));
        let mut held = hold(&upstream, Cost::input(2).with_max_output(5));
        let settle = || {
            held.record(Usage::new().with_output(1));
            held.succeeded();
        };
        is_woken(&upstream, Cost::input(6), settle, || {});
        check_whole(&upstream, 7);
    });
}

#[test]
fn a_waiter_is_woken_by_a_refused_attempt() {
    model(3, || {
        let upstream = host(Quota::new().with_tokens(tokens(10)));
        let held = hold(&upstream, Cost::input(6));
        let refuse = || held.settle(&Verdict::overloaded());
        is_woken(&upstream, Cost::input(6), refuse, || {});
        check_whole(&upstream, 10);
    });
}

#[test]
fn a_waiter_is_woken_by_the_end_of_an_attempt() {
    model(3, || {
        let upstream = host(Quota::new().with_concurrency(1));
        let held = hold(&upstream, Cost::new());
        is_woken(&upstream, Cost::new(), || held.succeeded(), || {});
        check_whole(&upstream, 0);
    });
}

/// Units are handed to the first waiter, and that waiter leaves.
#[test]
fn a_waiter_that_leaves_passes_the_turn_on() {
    model(3, || {
        let upstream = host(Quota::new().with_tokens(tokens(10)));
        let held = hold(&upstream, Cost::input(6));
        let other = Arc::clone(&upstream);
        let leave = move || {
            let mut admit = Box::pin(other.at_cost(Cost::input(6)).admit(Never));
            let polled = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(Ok(admission)) = polled {
                admission.withdraw();
            }
        };
        is_woken(&upstream, Cost::input(6), leave, || held.withdraw());
        check_whole(&upstream, 10);
    });
}

/// The other thread holds the whole input for a moment, and then finds too few tokens.
#[test]
fn a_part_held_for_a_moment_stops_no_waiter() {
    model(3, || {
        let large = Cost::input(3).with_max_output(7);
        let quota = Quota::new().with_input(tokens(3)).with_tokens(tokens(10));
        let upstream = host_for(
            quota.with_charge(Charge::ACTUAL.with_maximum_reserved(true).with_refund(false)),
            large,
        );
        hold(&upstream, Cost::input(0).with_max_output(1)).succeeded();
        let other = Arc::clone(&upstream);
        let asks = move || {
            assert!(other.at_cost(large).try_admit().is_err());
        };
        is_woken(&upstream, Cost::input(3).with_max_output(0), asks, || {});
        check_whole(&upstream, 9);
        assert_eq!(upstream.quota_level(Dimension::Input), Some(3));
    });
}

/// The other thread holds the only place for a moment, and then finds too few tokens.
#[test]
fn a_place_held_for_a_moment_stops_no_waiter() {
    model(3, || {
        let upstream = host(Quota::new().with_tokens(tokens(10)).with_concurrency(1));
        hold(&upstream, Cost::input(5)).succeeded();
        let other = Arc::clone(&upstream);
        let asks = move || {
            assert!(other.at_cost(Cost::input(6)).try_admit().is_err());
        };
        is_woken(&upstream, Cost::input(4), asks, || {});
        check_whole(&upstream, 5);
    });
}

/// A part is held for a moment while a third thread gives units back.
#[test]
fn a_part_held_for_a_moment_hides_no_units() {
    model(2, || {
        let upstream = host(Quota::new().with_input(tokens(10)).with_tokens(tokens(10)));
        let held = hold(&upstream, Cost::input(6));
        let other = Arc::clone(&upstream);
        let large = move || {
            if let Ok(admission) = other.at_cost(Cost::input(5)).try_admit() {
                admission.withdraw();
            }
        };
        let withdraws = thread::spawn(|| held.withdraw());
        is_woken(&upstream, Cost::input(6), large, || withdraws.join().unwrap());
        check_whole(&upstream, 10);
    });
}
