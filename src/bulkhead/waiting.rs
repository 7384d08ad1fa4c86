use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use super::Bulkhead;
use super::bulkhead::{IN_FLIGHT, ONE_WAITING};

/// The result of [`Bulkhead::enqueue`]: a permit or a ticket.
pub(crate) enum Entry {
    In,
    Pending(u64),
}

impl Bulkhead {
    /// Joins the queue, or takes a permit if one was released meanwhile. `None` if the queue is full.
    #[cold]
    pub(crate) fn enqueue(&self, waker: &Waker) -> Option<Entry> {
        let waker = waker.clone();
        let mut queue = self.waiters.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let room = state & IN_FLIGHT < u64::from(self.limit);
            if !room && state >> u32::BITS >= u64::from(self.queue) {
                drop(queue);
                return None;
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
                    return Some(Entry::In);
                }
                Ok(_) => break,
                Err(seen) => state = seen,
            }
        }
        let ticket = queue.next;
        queue.next = queue.next.wrapping_add(1);
        queue.tickets.insert(ticket, waker);
        Some(Entry::Pending(ticket))
    }

    /// Returns `Ready` if a permit was handed to the holder of `ticket`.
    pub(crate) fn poll_ticket(&self, ticket: u64, waker: &Waker) -> Poll<()> {
        let mut waker = waker.clone();
        let mut queue = self.waiters.lock();
        let pending =
            queue.tickets.get_mut(&ticket).map(|kept| std::mem::swap(kept, &mut waker)).is_some();
        drop(queue);
        if pending { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Leaves the queue, or releases the permit if one was already handed to the holder of
    /// `ticket`.
    #[cold]
    pub(crate) fn give_up(&self, ticket: u64) {
        let mut queue = self.waiters.lock();
        let waker = queue.tickets.remove(&ticket);
        if waker.is_some() {
            self.state.fetch_sub(ONE_WAITING, Ordering::Relaxed);
        }
        drop(queue);
        if waker.is_none() {
            self.release();
        }
    }

    /// Hands a released permit to the first waiter.
    #[cold]
    pub(super) fn hand_over(&self) {
        let mut queue = self.waiters.lock();
        let called = queue.tickets.pop_first();
        // The waiter may have given up since `leave` read the state. With an empty queue no call
        // waits (invariant 1), and none can join before the lock is free.
        let change = if called.is_some() { ONE_WAITING } else { 1 };
        self.state.fetch_sub(change, Ordering::Release);
        drop(queue);
        if let Some((_, waker)) = called {
            waker.wake();
        }
    }
}
