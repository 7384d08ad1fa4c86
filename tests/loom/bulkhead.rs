//! `resile::Bulkhead`: no place is lost or made between the fast way and the line, and who is called is woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use resile::{Bulkhead, bulkhead::Acquire};

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll<'a>(acquire: &mut Acquire<'a>) -> Poll<resile::Permit<'a>> {
    Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())).map(|permit| permit.unwrap())
}

fn shared() -> Arc<Bulkhead> {
    let bulkhead = Bulkhead::new(1).with_queue(2);
    {
        let _permit = bulkhead.try_permit(); // its atomics and its lock are made before it is shared
        let _ = poll(&mut bulkhead.permit());
    }
    Arc::new(bulkhead)
}

#[test]
fn who_waits_is_called() {
    loom::model(|| {
        let bulkhead = shared();
        let other = Arc::clone(&bulkhead);
        let thread = thread::spawn(move || drop(other.try_permit()));

        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let mut acquire = bulkhead.permit();
        let first = Pin::new(&mut acquire).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
        thread.join().unwrap();
        if first.is_pending() {
            assert!(woken.0.load(Ordering::SeqCst));
            assert!(poll(&mut acquire).is_ready());
        }
        drop((first, acquire));
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

/// The two that race: the place is handed to a waiter who is giving up at that moment.
#[test]
fn who_is_called_while_giving_up_passes_the_place_on() {
    loom::model(|| {
        let bulkhead = shared();
        let permit = bulkhead.try_permit().unwrap();
        let other = Arc::clone(&bulkhead);
        let thread = thread::spawn(move || {
            let mut acquire = other.permit();
            let _ = poll(&mut acquire);
        });
        drop(permit);
        thread.join().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    });
}

#[test]
fn never_two_at_once() {
    loom::model(|| {
        let bulkhead = shared();
        let inside = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (bulkhead, inside) = (Arc::clone(&bulkhead), Arc::clone(&inside));
                thread::spawn(move || {
                    if let Poll::Ready(_permit) = poll(&mut bulkhead.permit()) {
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
