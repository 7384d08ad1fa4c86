use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use super::{Bulkhead, Full, IN, ONE_WAITING};
use crate::sync::{Mutex, MutexGuard};

/// Those who wait, in the order of their tickets.
pub(super) struct Queue(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    next: u64,
    /// A ticket that was given out and is not here was called: its holder has a place.
    tickets: BTreeMap<u64, Waker>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Waiters { next: 0, tickets: BTreeMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // Wakers are cloned, woken and dropped outside the lock: a poisoned one still holds a whole queue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a call that finds no room goes on.
pub(crate) enum Entry {
    In,
    Pending(u64),
}

impl Bulkhead {
    /// A place in line, or in the house if one has become free meanwhile.
    #[cold]
    pub(crate) fn enqueue(&self, waker: &Waker) -> Result<Entry, Full> {
        let waker = waker.clone();
        let mut queue = self.waiters.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let room = state & IN < u64::from(self.limit);
            if !room && state >> u32::BITS >= u64::from(self.queue) {
                drop(queue);
                return Err(self.full(state));
            }
            let changed = if room { state + 1 } else { state + ONE_WAITING };
            match self.state.compare_exchange_weak(
                state,
                changed,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if room => {
                    drop(queue);
                    return Ok(Entry::In);
                }
                Ok(_) => break,
                Err(seen) => state = seen,
            }
        }
        let ticket = queue.next;
        queue.next = queue.next.wrapping_add(1);
        queue.tickets.insert(ticket, waker);
        Ok(Entry::Pending(ticket))
    }

    /// Whether `ticket` was called.
    pub(crate) fn poll_ticket(&self, ticket: u64, waker: &Waker) -> Poll<()> {
        let mut waker = waker.clone();
        let mut queue = self.waiters.lock();
        let pending =
            queue.tickets.get_mut(&ticket).map(|kept| std::mem::swap(kept, &mut waker)).is_some();
        drop(queue);
        if pending { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Gives up a place in line; the place in the house where the ticket was called already.
    #[cold]
    pub(crate) fn give_up(&self, ticket: u64) {
        let mut queue = self.waiters.lock();
        let waker = queue.tickets.remove(&ticket);
        if waker.is_some() {
            self.state.fetch_sub(ONE_WAITING, Ordering::Relaxed);
        }
        drop(queue);
        if waker.is_none() {
            self.leave();
        }
    }

    /// Hands a place that becomes free to the first waiter.
    #[cold]
    pub(super) fn hand_over(&self) {
        let mut queue = self.waiters.lock();
        let called = queue.tickets.pop_first();
        // Who waited may have given up since we looked; by invariant 1 there is then nobody in line, nor can be
        // before the lock is free.
        let change = if called.is_some() { ONE_WAITING } else { 1 };
        self.state.fetch_sub(change, Ordering::Release);
        drop(queue);
        if let Some((_, waker)) = called {
            waker.wake();
        }
    }
}
