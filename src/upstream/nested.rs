use std::mem;

use super::began::Began;
use super::held::{Held, release};
use super::lending::{self, Place, Taken};
use super::payment::Payment;
use super::report::End;
use super::{Endpoint, Guard, Parts, Slot};
use crate::breaker::Ticket;
use crate::observe::CallKind;
use crate::quota::{CostKey, Demand, Reserved};
use crate::time::Timer;

/// A guard that offers the admission of an attempt to the calls within the attempt. It lives while
/// the attempt is polled or dropped.
///
/// A call on the same upstream takes the admission, because it sends the request. It gives the
/// admission back with a good answer, or if it is dropped before it has an answer.
pub(crate) struct Lending<'g, X: Endpoint, const N: usize> {
    guard: &'g mut Guard<X, N>,
    slot: usize,
    is_inner: bool,
}

impl<X: Endpoint, const N: usize> Drop for Lending<'_, X, N> {
    #[inline]
    fn drop(&mut self) {
        if lending::end() || self.is_inner {
            self.guard.take_back(self.slot, self.is_inner);
        }
    }
}

/// The admission of an attempt with calls within it.
impl<X: Endpoint, const N: usize> Guard<X, N> {
    /// Offers the admission of the attempt in `slot` to the calls within the attempt, while the
    /// result lives.
    #[inline]
    pub(crate) fn lend(&mut self, slot: usize) -> Option<Lending<'_, X, N>> {
        if X::ALONE {
            return None;
        }
        let parts = self.target.parts()?;
        let Held::Admitted { began, ticket, reserved } = *self.slots[slot].held()? else {
            return None;
        };
        let is_inner = match lending::offer(parts, began, ticket, reserved, self.progress.payment) {
            Place::Outermost => false,
            Place::Inner => true,
            Place::Nowhere => return None,
        };
        if parts.quota.is_some() {
            self.offer_cost();
        }
        Some(Lending { guard: self, slot, is_inner })
    }

    #[inline(never)] // compiled once for all call sites
    fn offer_cost(&self) {
        lending::offer_cost(self.target.demand().cost.key());
    }

    #[cold]
    #[inline(never)]
    fn take_back(&mut self, slot: usize, is_inner: bool) {
        if let Some((changed, payment)) = lending::take_back(is_inner) {
            self.progress.payment = payment;
            if let Some(held) = self.slots[slot].held() {
                *held = changed;
            }
        }
    }

    /// Offers the admission while the future of the attempt is dropped, if a call within the attempt
    /// has taken it. `is_cut` is true if a limit ended the attempt.
    #[cold]
    #[inline(never)]
    pub(crate) fn lend_to_drop(&mut self, slot: usize, is_cut: bool) -> Option<Lending<'_, X, N>> {
        let lending = self.lend(slot)?;
        if is_cut {
            lending::note_cut();
        }
        Some(lending)
    }

    /// Drops the future of the attempt in `slot` by `drop`. If a call within the attempt has taken its
    /// admission, the call may give it back meanwhile.
    #[inline]
    pub(crate) fn dropping(&mut self, slot: usize, is_cut: bool, drop: impl FnOnce()) {
        let _lending = if self.is_lent(slot) { self.lend_to_drop(slot, is_cut) } else { None };
        drop();
    }

    /// Returns true if a call within the attempt in `slot` has taken its admission.
    pub(crate) fn is_lent(&mut self, slot: usize) -> bool {
        self.reserved_of(slot).is_some_and(Reserved::is_lent)
    }

    /// Returns true if a call within the attempt in `slot` has sent its request.
    pub(crate) fn was_lent(&mut self, slot: usize) -> bool {
        self.reserved_of(slot).is_some_and(Reserved::was_lent)
    }

    fn reserved_of(&mut self, slot: usize) -> Option<Reserved> {
        match self.slots[slot].held() {
            Some(Held::Admitted { reserved, .. }) => Some(*reserved),
            _ => None,
        }
    }

    /// Notes that this call waits, for the attempt around it.
    #[cold]
    pub(crate) fn contend(&self) {
        if let Some(parts) = self.target.parts().filter(|_| lending::is_within_any()) {
            lending::contend(parts);
        }
    }

    /// Ends the attempt in `slot` because its future was dropped. The attempt around this call gets an
    /// admission back that it has lent, if this thread polls or drops that attempt. Otherwise the
    /// attempt does not count.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_dropped(&mut self, slot: usize) {
        if lending::is_within_any() {
            if let (Some(parts), Some(held)) = (self.target.parts(), self.slots[slot].held()) {
                let cost = cost_of(&self.target, parts);
                if held.is_nested() && lending::hand_back(parts, cost, *held, None) {
                    *held = Held::Nothing;
                }
            }
        }
        self.release(slot);
    }

    /// Gives the admission of a good answer back to the attempt around this call that has lent it.
    /// Returns true if this call has nothing to report.
    #[cold]
    #[inline(never)]
    pub(super) fn has_moved(&self, began: Began, ticket: Ticket, reserved: Reserved) -> bool {
        let Some(parts) = self.target.parts() else { return false };
        // A hedge never gives its cost back.
        let is_hedge = self.progress.kind() == CallKind::Hedge;
        let payment = if is_hedge { Payment::NONE } else { self.progress.payment };
        let held = Held::Admitted { began, ticket, reserved };
        let cost = cost_of(&self.target, parts);
        if reserved.is_unanswered() {
            // The attempt has its success from elsewhere. Nothing is known about the request.
            release(held, parts, &self.target.demand());
            return true;
        }
        reserved.is_lent() || lending::hand_back(parts, cost, held, Some(payment))
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Takes the admission of the attempt around this call if that attempt runs on the same upstream
    /// and has sent nothing yet. Returns false if the attempt in `slot` must ask the upstream.
    #[cold]
    #[inline(never)]
    pub(super) fn take_inward(&mut self, slot: usize) -> bool {
        let Some(parts) = self.target.parts() else { return false };
        let Some(held) = self.slots[slot].held() else { return false };
        if held.is_some() {
            return false; // the attempt waits in a queue
        }
        match lending::take(parts, cost_of(&self.target, parts)) {
            None => return false,
            Some(Taken::Admission(moved)) => *held = moved,
            Some(Taken::Answered(before, payment, cost)) => {
                *held = before.map_reserved(Reserved::unnested);
                let own = mem::replace(&mut self.progress.payment, payment);
                if self.finish_success(slot, End::At(None), Some(cost)) {
                    self.deposit();
                }
                self.progress.payment = own;
                return false;
            }
            Some(Taken::Unanswered(before, cost)) => {
                release(before, parts, &Demand::of(cost));
                return false;
            }
            Some(Taken::OtherCost(before, cost)) => {
                release(before.map_reserved(Reserved::unsent), parts, &Demand::of(cost));
                return false;
            }
        }
        true
    }
}

/// Returns what tells the cost of a call from that of another one. Without a quota no cost counts.
#[inline]
fn cost_of(target: &impl Endpoint, parts: &Parts) -> Option<CostKey> {
    parts.quota.is_some().then(|| target.demand().cost.key())
}
