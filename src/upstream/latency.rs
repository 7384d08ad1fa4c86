use super::began::Began;
use super::held::Held;
use super::{Endpoint, Guard, Slot};
use crate::breaker::Breaker;
use crate::bulkhead::Bulkhead;
use crate::time::{Timer, nanos};

/// The start of an attempt, from which its latency counts.
impl<X: Endpoint, const N: usize> Guard<X, N> {
    /// Sets the start of the attempt unless the start is known.
    #[inline]
    pub(crate) fn note_began(&mut self, slot: usize, now: u64) {
        if let Some(Held::Admitted { began, .. }) = self.slots[slot].held() {
            if began.known().is_none() {
                *began = Began::at(now);
            }
        }
    }

    /// Returns the start of the attempt if known.
    #[inline]
    pub(crate) fn began(&mut self, slot: usize) -> Option<u64> {
        match self.slots[slot].held() {
            Some(Held::Admitted { began, .. }) => began.known(),
            _ => None,
        }
    }

    /// Returns true if the breaker counts slow attempts or the bulkhead learns from latencies.
    #[inline]
    pub(crate) fn times_attempts(&self) -> bool {
        self.target.parts().is_some_and(|parts| {
            parts.breaker.as_ref().is_some_and(Breaker::times_calls)
                || parts.bulkhead.as_ref().is_some_and(Bulkhead::learns)
        })
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Sets the start of the attempt to now unless the start is known.
    #[inline(never)] // keeps the clock out of the code of breakers without a slow-call rate
    pub(super) fn read_began(&mut self, slot: usize) {
        if self.began(slot).is_none() {
            self.note_began(slot, nanos(self.target.timer().now()));
        }
    }

    /// Leaves the time since `since` out of the latency of the attempt: since then its stream flows.
    #[cold]
    pub(crate) fn leave_out(&mut self, slot: usize, since: u64) {
        let now = nanos(self.target.timer().now());
        if let Some(Held::Admitted { began, .. }) = self.slots[slot].held() {
            if let Some(start) = began.known() {
                let flowed = now.saturating_sub(since);
                *began = Began::at(start.saturating_add(flowed));
            }
        }
    }
}
