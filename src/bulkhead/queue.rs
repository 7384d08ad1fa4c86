use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::task::Waker;

use super::pace::Pace;
use crate::sync::{Mutex, MutexGuard};

/// The waiters of a bulkhead.
pub(super) struct Queue(Mutex<Waiters>);

/// The line. Higher priorities go first. Within a priority the oldest waiter goes first while the line
/// moves, and the newest one while it does not.
#[derive(Default)]
pub(super) struct Waiters {
    next: u64,
    /// The waiters by ticket: the inverse of the priority, and below it a number in the order of
    /// arrival. A ticket is removed when a permit is handed to its holder.
    pub(super) tickets: BTreeMap<u64, Waiter>,
    /// The tickets of waiters that lost their places, until their holders ask.
    pub(super) lost: BTreeSet<u64>,
    pub(super) pace: Pace,
}

pub(super) struct Waiter {
    pub(super) waker: Waker,
    joined: u64,
}

/// The bits of a ticket below its priority.
const NUMBER: u64 = (1 << 56) - 1;

impl Queue {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Waiters {
            next: 0,
            tickets: BTreeMap::new(),
            lost: BTreeSet::new(),
            pace: Pace::new(),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Waiters> {
        // Wakers are cloned, woken and dropped outside the lock, so a poisoned queue is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    /// Adds a waiter and returns its ticket.
    pub(super) fn join(&mut self, priority: u8, waker: Waker, now: u64) -> u64 {
        if self.tickets.is_empty() {
            self.pace.begin(now);
        }
        let ticket = first_of(priority) | self.next;
        self.next = (self.next + 1) & NUMBER;
        self.tickets.insert(ticket, Waiter { waker, joined: now });
        ticket
    }

    /// Returns the time in which a newcomer gets a permit, as far as the line shows.
    pub(super) fn wait(&self, priority: u8, limit: u32) -> u64 {
        let Some((last, _)) = self.tickets.last_key_value() else { return 0 };
        let first = first_of(priority);
        let is_next = self.oldest(first).is_some_and(|oldest| !self.moves(oldest, limit));
        let place = if is_next { first } else { first | NUMBER };
        let all = self.tickets.len();
        let ahead = if *last < place { all } else { self.tickets.range(..place).count() };
        self.pace.wait(ahead as u64, limit)
    }

    /// Removes the waiter that goes first. Returns its waker.
    pub(super) fn pop(&mut self, limit: u32) -> Option<Waker> {
        let oldest = *self.tickets.first_key_value()?.0;
        let newest = || self.tickets.range(..=oldest | NUMBER).next_back().map(|(it, _)| *it);
        let first = if self.moves(oldest, limit) { oldest } else { newest()? };
        self.tickets.remove(&first).map(|waiter| waiter.waker)
    }

    /// Takes its place from the waiter that goes last, if a newcomer goes before it. Returns its waker.
    pub(super) fn evict(&mut self, priority: u8, limit: u32) -> Option<Waker> {
        let newest = *self.tickets.last_key_value()?.0;
        let (own, lowest) = (first_of(priority), newest & !NUMBER);
        let oldest = self.oldest(lowest)?;
        let moves = self.moves(oldest, limit);
        if own > lowest || own == lowest && moves {
            return None;
        }
        let last = if moves { newest } else { oldest };
        self.lost.insert(last);
        self.tickets.remove(&last).map(|waiter| waiter.waker)
    }

    /// Returns the ticket of the oldest waiter of a priority.
    fn oldest(&self, first: u64) -> Option<u64> {
        self.tickets.range(first..=first | NUMBER).next().map(|(ticket, _)| *ticket)
    }

    /// Returns whether the line moves whose oldest waiter has the ticket `oldest`.
    fn moves(&self, oldest: u64, limit: u32) -> bool {
        self.tickets.get(&oldest).is_none_or(|waiter| self.pace.moves(waiter.joined, limit))
    }
}

/// Returns the lowest ticket of a priority.
const fn first_of(priority: u8) -> u64 {
    (u8::MAX - priority) as u64 * (NUMBER + 1)
}
