use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{Mutex, MutexGuard};

/// The waiters, in the order of their tickets.
pub(super) struct Queue(Mutex<Waiters>);

#[derive(Default)]
pub(super) struct Waiters {
    pub(super) next: u64,
    /// The wakers by ticket. A ticket is removed when a permit is handed to its holder.
    pub(super) tickets: BTreeMap<u64, Waker>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Waiters { next: 0, tickets: BTreeMap::new() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Waiters> {
        // Wakers are cloned, woken and dropped outside the lock, so a poisoned queue is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
