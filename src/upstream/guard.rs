use std::mem;
use std::ops::RangeInclusive;

use super::held::{Held, release};
use super::progress::Progress;
use super::sending::note_sent;
use super::{Endpoint, Slot};
use crate::breaker::{Owner, Transition};
use crate::observe::{AttemptFailure, CallKind, Event, EventKind};
use crate::time::{Timer, nanos};

/// The permits, tickets and budget token that a call holds at its target.
///
/// Each attempt in flight has a slot. The budget's tokens belong to an attempt that has not begun.
/// Dropping the guard gives everything back.
pub(crate) struct Guard<X: Endpoint, const N: usize> {
    pub(crate) target: X,
    pub(super) slots: [X::Slot; N],
    pub(crate) progress: Progress,
}

impl<X: Endpoint, const N: usize> Guard<X, N> {
    #[inline]
    pub(crate) fn new(target: X, kind: CallKind) -> Self {
        let progress = Progress::new(kind);
        Self { target, slots: std::array::from_fn(|_| X::Slot::default()), progress }
    }

    /// Gives back everything that the attempt in `slot` holds. The attempt does not count.
    #[inline]
    pub(crate) fn release(&mut self, slot: usize) {
        let held = self.slots[slot].held().map_or(Held::Nothing, mem::take);
        if held.is_some() {
            self.release_held(held);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_held(&self, held: Held) {
        if let Some(parts) = self.target.parts() {
            release(held, parts, &self.target.demand());
        }
    }

    /// Gives back everything that all attempts hold, and the budget token.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_all(&mut self) {
        (0..N).for_each(|slot| self.release(slot));
        self.release_payment();
    }

    /// Leaves the queue of the bulkhead or the quota if the attempt in `slot` waits there.
    pub(crate) fn leave_queue(&mut self, slot: usize) {
        if let Some(Held::Queued { .. } | Held::InLine(_)) = self.slots[slot].held() {
            self.release(slot);
        }
    }
}

impl<X: Endpoint, const N: usize> Drop for Guard<X, N> {
    #[inline]
    fn drop(&mut self) {
        // A call around this one may drop it and ask whether the request was sent.
        if self.progress.attempts > 1 {
            note_sent();
        }
        if !X::ALONE
            && (self.progress.payment.is_held()
                || self.slots.iter_mut().any(|slot| slot.held().is_some_and(|held| held.is_some())))
        {
            (0..N).for_each(|slot| self.release_dropped(slot));
            self.release_payment();
        }
    }
}

/// A function that passes the failure of an attempt on. The failure borrows the error of the call, so it
/// is made only if somebody wants it.
pub(crate) type TellFailure<'a> = &'a dyn Fn(&mut dyn FnMut(AttemptFailure<'_>));

/// A target in its role as the owner of its breaker.
pub(crate) struct Owned<'a, X> {
    target: &'a X,
    /// The failure that is reported to the breaker and may open it.
    failure: Option<TellFailure<'a>>,
}

impl<'a, X> Owned<'a, X> {
    #[inline]
    pub(crate) const fn new(target: &'a X) -> Self {
        Self { target, failure: None }
    }

    /// Creates the owner that reports `failure` to the breaker.
    #[inline]
    pub(super) const fn with_failure(target: &'a X, failure: Option<TellFailure<'a>>) -> Self {
        Self { target, failure }
    }
}

impl<X: Endpoint<Timer: Timer>> Owner for Owned<'_, X> {
    #[inline]
    fn now(&self) -> u64 {
        nanos(self.target.timer().now())
    }

    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        self.target.timer().draw_within(range)
    }

    #[inline]
    fn listens(&self) -> bool {
        self.target.listens()
    }

    fn emit(&self, transition: Transition, is_own: bool) {
        let target = self.target;
        let observe = |failure: Option<AttemptFailure<'_>>| {
            let gauges =
                target.parts().map(|parts| parts.gauges(|| self.now())).unwrap_or_default();
            let kind = EventKind::Breaker { transition, failure };
            target.observe(&Event {
                upstream: target.name(),
                call: None,
                kind,
                gauges,
                place: None,
                kinds: None,
            });
        };
        let opened = is_own && matches!(transition, Transition::Opened { .. });
        match self.failure.filter(|_| opened) {
            Some(tell) => tell(&mut |failure| observe(Some(failure))),
            None => observe(None),
        }
    }
}
