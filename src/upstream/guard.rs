use std::mem;
use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::Duration;

use super::held::{Admit, Held, HeldPermit, enter, finish, release, reserve, resume};
use super::progress::{Progress, Refuser};
use super::{Endpoint, Slot, lending, limits};
use crate::breaker::{Open, Outcome, Owner, Ticket, Transition};
use crate::cooldown::Cooldown;
use crate::observe::{CallKind, Event, EventKind, HeldBy};
use crate::policy::StopReason;
use crate::quota::{CostKey, Demand, Reserved};
use crate::time::{Timer, nanos};
use crate::verdict::{Health, Verdict};

/// The permits, tickets and budget token that a call holds at its target.
///
/// Each attempt in flight has a slot. The budget's tokens belong to an attempt that has not begun.
/// Dropping the guard gives everything back.
pub(crate) struct Guard<X: Endpoint, const N: usize> {
    pub(crate) target: X,
    pub(super) slots: [X::Slot; N],
    pub(crate) progress: Progress,
}

/// The end of an attempt that succeeded.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The attempt was never pending.
    AtStart,
    /// The time of the end if known.
    At(Option<u64>),
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

impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Admits an attempt if the cooldown is free, the breaker closed, and no bulkhead and no quota
    /// set. Otherwise returns false and leaves the decision to [`admit`](Self::admit).
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn admit_at_once(&mut self, slot: usize, now: Option<u64>) -> bool {
        let Some(parts) = self.target.parts() else { return true };
        let Some(held) = self.slots[slot].held() else { return true };
        let is_free = parts.cooldown.as_ref().is_none_or(Cooldown::is_free);
        if held.is_some()
            || parts.bulkhead.is_some()
            || parts.quota.is_some()
            || !is_free
            || lending::is_within_any()
        {
            return false;
        }
        let ticket = match &parts.breaker {
            None => Ticket::NONE,
            Some(breaker) => match breaker.admit_closed(&Owned(&self.target)) {
                Some(ticket) => ticket,
                None => return false,
            },
        };
        let ticket = if let Some(now) = now { ticket.starting_at(now) } else { ticket };
        *held = Held::Admitted { ticket, reserved: Reserved::NONE };
        true
    }

    /// Asks the cooldown, the bulkhead, the quota and the breaker to admit an attempt. `now` is the
    /// clock reading if known. Without a `waker` the attempt does not queue.
    #[inline]
    pub(crate) fn admit(&mut self, slot: usize, now: Option<u64>, waker: Option<&Waker>) -> Admit {
        if !X::ALONE && lending::is_within_any() && self.take_inward(slot) {
            return Admit::Moved;
        }
        let Some(parts) = self.target.parts() else { return Admit::Go };
        let Some(held) = self.slots[slot].held() else { return Admit::Go };
        let owned = Owned(&self.target);
        if held.is_some() {
            if let Some(admission) = resume(held, parts, &self.target.demand(), waker, &owned) {
                return admission;
            }
        }
        let is_in_line = matches!(held, Held::InLine(_));
        let cooldown = parts.cooldown.as_ref().filter(|it| !is_in_line && !it.is_free());
        if let Some(cooldown) = cooldown {
            let now = now.unwrap_or_else(|| owned.now());
            if let Some(delay) = cooldown.wait(now, |range| owned.draw_within(range)) {
                release(mem::take(held), parts, &self.target.demand());
                return Admit::Hold(delay);
            }
        }
        if parts.bulkhead.is_some() && !held.is_some() {
            if let Some(admission) = enter(held, parts, waker, &owned) {
                return admission;
            }
        }
        let mut reserved = Reserved::NONE;
        if let Some(quota) = &parts.quota {
            let demand = self.target.demand();
            reserved = match reserve(held, parts, quota, &demand, waker, &owned, now) {
                Ok(reserved) => reserved,
                Err(admit) => return admit,
            };
            *held = Held::Admitted { ticket: Ticket::NONE, reserved };
        }
        let ticket = match &parts.breaker {
            None => Ticket::NONE,
            Some(breaker) => match breaker.admit(&owned) {
                Ok(ticket) => ticket,
                Err(open) => {
                    if held.is_some() {
                        release(mem::take(held), parts, &self.target.demand());
                    }
                    return Admit::Refused {
                        by: Refuser::Breaker,
                        reason: StopReason::Open,
                        retry_after: open.retry_after(),
                    };
                }
            },
        };
        let ticket = if let Some(now) = now { ticket.starting_at(now) } else { ticket };
        *held = Held::Admitted { ticket, reserved };
        Admit::Go
    }

    /// Returns the breaker's refusal of an attempt after `delay` if that refusal is certain.
    pub(crate) fn refusal_within(&self, delay: Duration) -> Option<Open> {
        let breaker = self.target.parts()?.breaker.as_ref()?;
        breaker.refusal_within(delay, &Owned(&self.target))
    }

    /// Reports that an attempt succeeded at its first poll. It ends at its start: this saves a reading
    /// of the clock.
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn report_at_once(&mut self, slot: usize) {
        if self.finish_success(slot, End::AtStart, None) {
            self.deposit();
        }
        self.relieve();
    }

    /// Reports that an attempt succeeded. `at` is the end of the attempt if known. For a success at
    /// the first poll `at` may be the start of that poll.
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn report_success(&mut self, slot: usize, at: Option<u64>) {
        if self.finish_success(slot, End::At(at), None) {
            self.deposit();
        }
        self.relieve();
    }

    /// Returns false if another call reports the request of the attempt, or has reported it. `cost` is
    /// the cost of the reservation if another call made it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the other caller is cold")]
    pub(super) fn finish_success(&mut self, slot: usize, end: End, cost: Option<CostKey>) -> bool {
        let Some(parts) = self.target.parts() else { return true };
        let Some(held) = self.slots[slot].held() else { return true };
        let Held::Admitted { ticket, reserved } = *held else { return true };
        *held = Held::Nothing;
        if reserved.is_shared() && self.has_moved(ticket, reserved) {
            return false;
        }
        let _permit = parts.bulkhead.as_ref().map(HeldPermit);
        if let Some(quota) = &parts.quota {
            let demand = match cost {
                None => self.target.demand(),
                Some(cost) => Demand::of(cost),
            };
            finish(quota, &demand, reserved);
        }
        if let Some(breaker) = &parts.breaker {
            let at = match end {
                End::AtStart => ticket.began(),
                End::At(at) => at,
            };
            breaker.settle(ticket, Outcome::HEALTHY, at, &Owned(&self.target));
        }
        true
    }

    /// Reports a failed attempt. `at` is the end of the attempt if known.
    pub(crate) fn report(&mut self, slot: usize, verdict: Option<Verdict>, at: Option<u64>) {
        let Some(parts) = self.target.parts() else { return };
        let Some(held) = self.slots[slot].held() else { return };
        let Held::Admitted { ticket, reserved } = *held else { return };
        if reserved.is_lent() {
            *held = Held::Nothing; // the call within the attempt has reported the request
            return;
        }
        let owned = Owned(&self.target);
        let outcome = verdict.map_or(Outcome { health: Health::Unknown, hint: None }, |verdict| {
            Outcome { health: verdict.health(), hint: verdict.wait() }
        });
        let is_refused = outcome.health == Health::Throttling;
        // The timer may panic. `held` is then still set, and the guard's drop gives it back.
        let now = if is_refused && (parts.cooldown.is_some() || parts.quota.is_some()) {
            owned.now()
        } else {
            0
        };
        if let Some(cooldown) = parts.cooldown.as_ref().filter(|_| is_refused) {
            cooldown.hold(now, outcome.hint);
        }
        let cooldown = parts.cooldown.as_ref().filter(|_| is_refused);
        let new_hold = cooldown.and_then(|cooldown| cooldown.remaining(now));
        *held = Held::Nothing;
        let permit = parts.bulkhead.as_ref().map(HeldPermit);
        if let Some(quota) = &parts.quota {
            let demand = self.target.demand();
            match verdict.filter(|_| is_refused) {
                Some(verdict) => {
                    quota.refuse(&demand.cost, reserved, verdict.is_own_limit(), now);
                }
                None => finish(quota, &demand, reserved),
            }
        }
        if let Some(breaker) = &parts.breaker {
            breaker.settle(ticket, outcome, at, &owned);
        }
        drop(permit); // an end of a strain asks for room
        if new_hold.is_some() {
            limits::note(&self.target, HeldBy::Cooldown, new_hold);
        }
        self.relieve();
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Notes that a part makes an attempt wait or refuses it.
    #[cold]
    pub(crate) fn note_limit(&self, by: HeldBy) {
        limits::note(&self.target, by, None);
    }

    /// Ends the strains that have ended. Called after each report.
    #[inline]
    fn relieve(&self) {
        if X::ALONE {
            return;
        }
        if let Some(parts) = self.target.parts().filter(|parts| parts.strains.is_any()) {
            limits::relieve(&self.target, parts);
        }
    }
}

impl<X: Endpoint, const N: usize> Drop for Guard<X, N> {
    #[inline]
    fn drop(&mut self) {
        if !X::ALONE
            && (self.progress.payment.is_held()
                || self.slots.iter_mut().any(|slot| slot.held().is_some_and(|held| held.is_some())))
        {
            (0..N).for_each(|slot| self.release_dropped(slot));
            self.release_payment();
        }
    }
}

/// A target in its role as the owner of its breaker.
pub(crate) struct Owned<'a, X>(pub(crate) &'a X);

impl<X: Endpoint<Timer: Timer>> Owner for Owned<'_, X> {
    #[inline]
    fn now(&self) -> u64 {
        nanos(self.0.timer().now())
    }

    fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        self.0.timer().draw_within(range)
    }

    #[inline]
    fn listens(&self) -> bool {
        self.0.listens()
    }

    fn emit(&self, transition: Transition) {
        let gauges = self.0.parts().map(|parts| parts.gauges(|| self.now())).unwrap_or_default();
        let kind = EventKind::Breaker(transition);
        self.0.observe(&Event { upstream: self.0.name(), call: None, kind, gauges });
    }
}
