use std::sync::atomic::Ordering;
use std::task::Waker;

use super::Bulkhead;
use super::bulkhead::{IN_FLIGHT, ONE_WAITING};
use super::queue::Waiters;

/// A call that wants to join the line.
pub(crate) struct Newcomer<'a> {
    pub(crate) waker: &'a Waker,
    pub(crate) priority: u8,
    pub(crate) now: u64,
    /// The time at which it gives up.
    pub(crate) until: u64,
}

/// The result of [`Bulkhead::enqueue`].
pub(crate) enum Entry {
    In,
    /// It waits with this ticket.
    Pending(u64),
    Full,
    /// It cannot begin in time, but in this time at the earliest.
    TooLate(u64),
}

/// The result of [`Bulkhead::poll_ticket`].
pub(crate) enum Turn {
    Waits,
    /// The holder of the ticket has a permit.
    Comes,
    /// Another call took the place of the holder.
    Lost,
}

impl Bulkhead {
    /// Joins the queue, or takes a permit if one was released meanwhile.
    #[cold]
    pub(crate) fn enqueue(&self, newcomer: &Newcomer<'_>) -> Entry {
        let Newcomer { priority, now, until, .. } = *newcomer;
        let waker = newcomer.waker.clone();
        let mut queue = self.waiters.lock();
        queue.pace.note(now);
        let limit = self.limit();
        let mut state = self.state.load(Ordering::Relaxed);
        let evicted = loop {
            let room = state & IN_FLIGHT < u64::from(self.limit);
            let mut changed = state + 1;
            if !room {
                let wait = queue.wait(priority, limit);
                if now.saturating_add(wait) >= until && wait > 0 {
                    drop(queue);
                    return Entry::TooLate(wait);
                }
                // With waiters the state changes only under the lock of the queue.
                if state >> u32::BITS >= u64::from(self.queue()) {
                    let evicted = queue.evict(priority, limit);
                    if evicted.is_none() {
                        drop(queue);
                        return Entry::Full;
                    }
                    break evicted;
                }
                changed = state + ONE_WAITING;
            }
            match self.state.compare_exchange_weak(
                state,
                changed,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if room => {
                    drop(queue);
                    return Entry::In;
                }
                Ok(_) => break None,
                Err(seen) => state = seen,
            }
        };
        let ticket = queue.join(priority, waker, now);
        drop(queue);
        evicted.into_iter().for_each(Waker::wake);
        Entry::Pending(ticket)
    }

    /// Asks whether a permit was handed to the holder of `ticket`.
    pub(crate) fn poll_ticket(&self, ticket: u64, waker: &Waker, now: u64) -> Turn {
        let mut waker = waker.clone();
        let mut queue = self.waiters.lock();
        queue.pace.note(now);
        if let Some(waiter) = queue.tickets.get_mut(&ticket) {
            std::mem::swap(&mut waiter.waker, &mut waker);
            drop(queue);
            return Turn::Waits;
        }
        if queue.lost.remove(&ticket) {
            return Turn::Lost;
        }
        queue.pace.turn(now, self.limit());
        Turn::Comes
    }

    /// Leaves the queue, or releases the permit if one was already handed to the holder of
    /// `ticket`.
    #[cold]
    pub(crate) fn give_up(&self, ticket: u64) {
        let mut queue = self.waiters.lock();
        let left = queue.tickets.remove(&ticket);
        if left.is_some() {
            self.state.fetch_sub(ONE_WAITING, Ordering::Relaxed);
        }
        let has_permit = left.is_none() && !queue.lost.remove(&ticket);
        drop(queue);
        if has_permit {
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
        let called = if is_above { None } else { queue.pop(self.limit()) };
        // The waiter may have given up since `release` read the state. With an empty queue no call
        // waits (invariant 1), and none can join before the lock is free.
        let change = if called.is_some() { ONE_WAITING } else { 1 };
        self.state.fetch_sub(change, Ordering::Release);
        called
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
