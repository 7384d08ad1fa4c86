//! Models of `resile::Bulkhead`: no permit is lost or made between the lock-free path and the
//! queue, and a waiter with a permit is woken. A learned limit is cut once for each epoch.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use resile::call::Admission;
use resile::time::{ManualTimer, Timer};
use resile::{Breaker, Bulkhead, Never, StopReason, Upstream, Verdict};

use super::by_hand::{Acquire, Gate, Permit};

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll<'a>(acquire: &mut Acquire<'a>) -> Poll<Permit<'a>> {
    Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())).map(|permit| permit.unwrap())
}

fn shared() -> Arc<Gate> {
    let bulkhead = Gate::of(Bulkhead::new(1).with_queue(2));
    {
        let _permit = bulkhead.try_acquire(); // makes its atomics and its lock before sharing
        let _ = poll(&mut bulkhead.acquire());
    }
    Arc::new(bulkhead)
}

#[test]
fn a_waiter_is_woken() {
    crate::roomy::model(|| {
        let bulkhead = shared();
        let other = Arc::clone(&bulkhead);
        let thread = thread::spawn(move || drop(other.try_acquire()));

        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let mut acquire = bulkhead.acquire();
        let first =
            Pin::new(&mut acquire).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
        thread.join().unwrap();
        if first.is_pending() {
            assert!(woken.0.load(Ordering::SeqCst));
            assert!(poll(&mut acquire).is_ready());
        }
        drop((first, acquire));
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// Two steps race: a permit is handed to a waiter, and that waiter gives up.
#[test]
fn a_waiter_that_gives_up_passes_its_permit_on() {
    crate::roomy::model(|| {
        let bulkhead = shared();
        let permit = bulkhead.try_acquire().unwrap();
        let other = Arc::clone(&bulkhead);
        let thread = thread::spawn(move || {
            let mut acquire = other.acquire();
            let _ = poll(&mut acquire);
        });
        drop(permit);
        thread.join().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

#[test]
fn one_permit_is_never_held_twice() {
    crate::roomy::model(|| {
        let bulkhead = shared();
        let inside = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (bulkhead, inside) = (Arc::clone(&bulkhead), Arc::clone(&inside));
                thread::spawn(move || {
                    if let Poll::Ready(_permit) = poll(&mut bulkhead.acquire()) {
                        assert!(!inside.swap(true, Ordering::SeqCst));
                        thread::yield_now();
                        inside.store(false, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

fn upstream() -> Arc<Upstream<ManualTimer>> {
    let bulkhead = Bulkhead::new(1).with_queue(2);
    let upstream = Upstream::new("limited").with_bulkhead(bulkhead).with_observer(&());
    let upstream = upstream.with_timer(ManualTimer::new());
    {
        let _permit = upstream.try_admit();
        let mut waits = Box::pin(upstream.admit(Never));
        let _ = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    Arc::new(upstream)
}

/// A call queues for an upstream while another call releases its permit.
#[test]
fn a_queued_call_is_woken() {
    crate::roomy::model(|| {
        let upstream = upstream();
        let other = Arc::clone(&upstream);
        let thread = thread::spawn(move || drop(other.try_admit()));

        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let mut admit = Box::pin(upstream.admit(Never));
        let first = admit.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
        thread.join().unwrap();
        if first.is_pending() {
            assert!(woken.0.load(Ordering::SeqCst));
            let second = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(second, Poll::Ready(Ok(_))));
        }
        drop((first, admit));
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// Two steps race: a permit is handed to a queued call, and that call is dropped.
#[test]
fn a_queued_call_that_is_dropped_passes_its_permit_on() {
    crate::roomy::model(|| {
        let upstream = upstream();
        let admission: Admission<_> = upstream.try_admit().unwrap();
        let other = Arc::clone(&upstream);
        let thread = thread::spawn(move || {
            let mut admit = Box::pin(other.admit(Never));
            let _ = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        });
        admission.succeeded();
        thread.join().unwrap();
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// The attempt ahead opens the breaker and hands its permit to a queued call. That call is then
/// refused or admitted.
#[test]
fn a_call_refused_after_the_queue_gives_its_permit_back() {
    crate::roomy::model(|| {
        let bulkhead = Bulkhead::new(1).with_queue(2);
        let breaker = Breaker::new().with_consecutive(1).without_failure_rate();
        let upstream = Upstream::new("limited")
            .with_bulkhead(bulkhead)
            .with_breaker(breaker)
            .with_observer(&());
        let upstream = Arc::new(upstream.with_timer(ManualTimer::new()));
        drop(upstream.try_admit());
        let _ = upstream.snapshot();
        let other = Arc::clone(&upstream);
        let thread = thread::spawn(move || {
            other.try_admit().map(|ahead| ahead.settle(&Verdict::transient())).is_ok()
        });

        let mut admit = Box::pin(upstream.admit(Never));
        let mut polled = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let opened = thread.join().unwrap();
        if polled.is_pending() {
            polled = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        match polled {
            Poll::Ready(Ok(admission)) => drop(admission),
            Poll::Ready(Err(refused)) => {
                assert!(opened && refused.reason() == StopReason::Open, "{refused}")
            }
            Poll::Pending => panic!("the queued call still waits"),
        }
        drop(admit);
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// A clock that moves with each reading, so that no two attempts begin at once.
#[derive(Clone, Default)]
struct Ticking(Arc<AtomicU64>);

impl Timer for Ticking {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
}

/// Two attempts of one epoch are refused at once. The limit is cut once, no attempt is admitted above
/// it, and no permit is lost.
#[test]
fn an_epoch_has_one_cut() {
    crate::roomy::model(|| {
        let upstream = Upstream::new("learned").with_bulkhead(Bulkhead::learned(10));
        let upstream = upstream.with_observer(&()).with_timer(Ticking::default());
        // An attempt borrows the upstream, and a thread needs it for ever.
        let upstream: &'static Upstream<Ticking> = Box::leak(Box::new(upstream));
        let bulkhead = upstream.bulkhead().unwrap();
        // The first epoch makes the atomics and the locks before sharing.
        upstream.try_admit().unwrap().succeeded();
        upstream.try_admit().unwrap().settle(&Verdict::throttled());
        let mut attempts: Vec<_> = std::iter::from_fn(|| upstream.try_admit().ok()).collect();
        assert_eq!((bulkhead.limit(), attempts.len()), (9, 9));

        let (first, second) = (attempts.pop().unwrap(), attempts.pop().unwrap());
        let thread = thread::spawn(move || first.settle(&Verdict::throttled()));
        second.settle(&Verdict::throttled());
        attempts.extend(upstream.try_admit());
        thread.join().unwrap();
        assert_eq!(bulkhead.limit(), 8);
        attempts.extend(std::iter::from_fn(|| upstream.try_admit().ok()));
        assert_eq!(attempts.len(), 8);
        drop(attempts);
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// Two steps race: a permit is handed to the waiter of a full line, and a newcomer of a higher priority
/// takes the place of this waiter. One of both gets the permit, and the other one is refused or waits.
#[test]
fn a_waiter_that_loses_its_place_loses_no_permit() {
    crate::roomy::model(|| {
        let bulkhead = Bulkhead::new(1).with_queue(1);
        let upstream = Upstream::new("limited").with_bulkhead(bulkhead).with_observer(&());
        let upstream: &'static Upstream<ManualTimer> =
            Box::leak(Box::new(upstream.with_timer(ManualTimer::new())));
        let bulkhead = upstream.bulkhead().unwrap();
        let permit = upstream.try_admit().unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut low = Box::pin(upstream.at_priority(1).admit(Never));
        assert!(low.as_mut().poll(&mut cx).is_pending());

        let thread = thread::spawn(move || drop(permit));
        let mut high = Box::pin(upstream.at_priority(2).admit(Never));
        let first = high.as_mut().poll(&mut cx);
        thread.join().unwrap();
        let second = low.as_mut().poll(&mut cx);
        let third = if first.is_pending() { high.as_mut().poll(&mut cx) } else { Poll::Pending };
        let granted = [&first, &second, &third].map(|it| matches!(it, Poll::Ready(Ok(_))));
        assert_eq!(granted.iter().filter(|it| **it).count(), 1);
        assert_eq!(bulkhead.in_flight(), 1);
        drop((first, second, third, low, high));
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}
