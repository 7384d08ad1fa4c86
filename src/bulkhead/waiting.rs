use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use super::Bulkhead;
use super::bulkhead::{IN_FLIGHT, ONE_WAITING};
use super::queue::Waiters;

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
            if !room && state >> u32::BITS >= u64::from(self.queue()) {
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
        let called = self.give_one(&mut queue);
        drop(queue);
        if let Some(waker) = called {
            if let Some(learner) = &self.learner {
                learner.note_pressed();
            }
            waker.wake();
        }
    }

    /// Gives one permit back, or hands it to the first waiter and returns its waker. A permit above
    /// the learned limit is not handed on.
    fn give_one(&self, queue: &mut Waiters) -> Option<Waker> {
        // While a call waits, the permits in use change only under the lock of the queue.
        let is_above = self.state.load(Ordering::Relaxed) & IN_FLIGHT > u64::from(self.limit);
        let called = if is_above { None } else { queue.tickets.pop_first() };
        // The waiter may have given up since `release` read the state. With an empty queue no call
        // waits (invariant 1), and none can join before the lock is free.
        let change = if called.is_some() { ONE_WAITING } else { 1 };
        self.state.fetch_sub(change, Ordering::Release);
        called.map(|(_, waker)| waker)
    }

    /// Lowers the learned limit by `permits`. They are in use until it rises again, also if this puts
    /// more permits in use than there are.
    pub(super) fn keep_back(&self, permits: u32) {
        let _queue = self.waiters.lock();
        self.state.fetch_add(u64::from(permits), Ordering::Relaxed);
    }

    /// Raises the learned limit by `permits`. Returns the wakers of the waiters that got one.
    pub(super) fn give_more(&self, permits: u32) -> Vec<Waker> {
        if permits == 0 {
            return Vec::new();
        }
        let mut queue = self.waiters.lock();
        (0..permits).filter_map(|_| self.give_one(&mut queue)).collect()
    }
}
