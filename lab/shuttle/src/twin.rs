//! Careless parts, which the schedules must find.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

/// A permit with a queue.
#[derive(Default)]
struct Gate {
    is_taken: Mutex<bool>,
    waiters: Mutex<Vec<Waker>>,
}

impl Gate {
    /// Looks for the permit, and then waits. A permit that comes back in between wakes nobody.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut *self.is_taken.lock().expect("no panic"), true) {
            return Poll::Ready(());
        }
        self.waiters.lock().expect("no panic").push(cx.waker().clone());
        Poll::Pending
    }

    fn release(&self) {
        *self.is_taken.lock().expect("no panic") = false;
        if let Some(waiter) = self.waiters.lock().expect("no panic").pop() {
            waiter.wake();
        }
    }
}

/// Two threads take and return one permit. Some schedule leaves one of them waiting.
pub(crate) fn queue() {
    let gate = Arc::new(Gate::default());
    let other = Arc::clone(&gate);
    let work = |gate: &Gate| {
        block_on(poll_fn(|cx| gate.poll(cx)));
        gate.release();
    };
    let thread = thread::spawn(move || work(&other));
    work(&gate);
    thread.join().expect("a thread works");
}

/// Two threads take a token and give it back, in two steps each. Some schedule loses one.
pub(crate) fn token() {
    let tokens = Arc::new(AtomicU32::new(2));
    let other = Arc::clone(&tokens);
    let work = |tokens: &AtomicU32| {
        let left = tokens.load(Ordering::SeqCst);
        tokens.store(left - 1, Ordering::SeqCst);
        tokens.fetch_add(1, Ordering::SeqCst);
    };
    let thread = thread::spawn(move || work(&other));
    work(&tokens);
    thread.join().expect("a thread works");
    assert_eq!(tokens.load(Ordering::SeqCst), 2, "a token is lost");
}
