use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::began::Began;
use super::guard::Owned;
use super::held::{Admit, Asked, Held, enter, refused_within, release, reserve, resume};
use super::progress::{Progress, Refuser};
use super::strain::Limited;
use super::{Endpoint, Guard, Slot, lending, limits, priority};
use crate::breaker::{Open, Owner, Ticket};
use crate::cooldown::Cooldown;
use crate::observe::HeldBy;
use crate::policy::StopReason;
use crate::quota::{Demand, Reserved};
use crate::throttle::Throttle;
use crate::time::{Timer, nanos};

/// The admission of an attempt. [`admit`](Guard::admit) has the order of the parts.
impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Admits an attempt if the cooldown is free, the throttle idle, the breaker closed, and no bulkhead
    /// and no quota set. Otherwise returns false and leaves the decision to [`admit`](Self::admit).
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn admit_at_once(&mut self, slot: usize, now: Option<u64>) -> bool {
        let Some(parts) = self.target.parts() else { return true };
        let Some(held) = self.slots[slot].held() else { return true };
        let is_free = parts.cooldown.as_ref().is_none_or(Cooldown::is_free);
        if held.is_some()
            || parts.bulkhead.is_some()
            || parts.quota.is_some()
            || !is_free
            || !parts.throttle.as_ref().is_none_or(Throttle::is_idle)
            || lending::is_within_any()
        {
            return false;
        }
        let ticket = match &parts.breaker {
            None => Ticket::NONE,
            Some(breaker) => match breaker.admit_closed() {
                Some(ticket) => ticket,
                None => return false,
            },
        };
        *held = Held::Admitted { began: now.into(), ticket, reserved: Reserved::NONE };
        if self.times_attempts() {
            self.read_began(slot);
        }
        true
    }

    /// Asks the cooldown, the throttle, the bulkhead, the quota and the breaker to admit an attempt. `now` is the
    /// clock reading if known. Without a `waker` the attempt does not queue. The call ends at
    /// `ends_at`.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        slot: usize,
        now: Option<u64>,
        waker: Option<&Waker>,
        ends_at: u64,
    ) -> Admit {
        if !X::ALONE && lending::is_within_any() && self.take_inward(slot) {
            return Admit::Moved;
        }
        let Some(parts) = self.target.parts() else { return Admit::Go };
        let Some(held) = self.slots[slot].held() else { return Admit::Go };
        let owned = Owned::new(&self.target);
        if held.is_some() {
            let was_queued = matches!(held, Held::Queued { .. });
            if let Some(admission) = resume(held, parts, &self.target.demand(), waker, &owned) {
                return admission;
            }
            if was_queued {
                limits::note_waited(&self.target, parts, HeldBy::Bulkhead);
            }
        }
        let is_in_line = matches!(held, Held::InLine(_));
        let cooldown = parts.cooldown.as_ref().filter(|it| !is_in_line && !it.is_free());
        if let Some(cooldown) = cooldown {
            let now = now.unwrap_or_else(|| owned.now());
            let is_new = self.progress.refuser() != Some(Refuser::Cooldown);
            let draw = |range| owned.draw_within(range);
            if let Some(delay) = cooldown.wait(now, ends_at, is_new, draw) {
                release(mem::take(held), parts, &self.target.demand());
                // An attempt does not wait out a hold only to be refused by the breaker.
                let rest = cooldown.remaining(now).unwrap_or_default();
                // During a release an attempt asks again and again. A hold that goes on is another one.
                let is_new = is_new || !rest.is_zero();
                return refused_within(parts, rest, &owned)
                    .unwrap_or(Admit::Hold { delay, is_new });
            }
        }
        let throttle = parts.throttle.as_ref().filter(|it| !held.is_some() && !it.is_idle());
        if let Some(throttle) = throttle {
            let now = now.unwrap_or_else(|| owned.now());
            if throttle.refuses(now, |range| owned.draw_within(range)) {
                return Admit::Refused {
                    by: Refuser::Throttle,
                    reason: StopReason::Throttled,
                    retry_after: None,
                };
            }
        }
        if parts.bulkhead.is_some() && !held.is_some() {
            if let Some(admission) =
                enter(held, parts, &self.target.demand(), waker, &owned, ends_at)
            {
                return admission;
            }
        }
        let mut reserved = Reserved::NONE;
        if let Some(quota) = &parts.quota {
            let demand = next_demand(&self.target, &self.progress);
            let asked = Asked { waker, now, ends_at };
            reserved = match reserve(held, parts, quota, &demand, &asked, &owned) {
                Ok((reserved, false)) => reserved,
                Ok((reserved, true)) => {
                    // Held before foreign code runs, so that a panic gives it back.
                    *held =
                        Held::Admitted { began: Began::UNKNOWN, ticket: Ticket::NONE, reserved };
                    limits::note(&self.target, HeldBy::Quota, None, Limited::Waits);
                    reserved
                }
                Err(admit) => {
                    if let Some(findings) = quota.accepted() {
                        limits::tell(&self.target, &findings);
                    }
                    return admit;
                }
            };
            *held = Held::Admitted { began: Began::UNKNOWN, ticket: Ticket::NONE, reserved };
            if is_in_line {
                limits::note_waited(&self.target, parts, HeldBy::Quota);
            }
        }
        let ticket = match &parts.breaker {
            None => Ticket::NONE,
            Some(breaker) => match breaker.admit(&owned) {
                Ok(ticket) => ticket,
                Err(open) => {
                    if held.is_some() {
                        release(mem::take(held), parts, &self.target.demand());
                    }
                    return Admit::refused_by(open);
                }
            },
        };
        *held = Held::Admitted { began: now.into(), ticket, reserved };
        if self.times_attempts() {
            self.read_began(slot); // the timer may panic, and then the slot gives the ticket back
        }
        Admit::Go
    }

    /// Returns the time that a waiter of the quota must have left to begin, if the call has this total
    /// timeout.
    pub(crate) fn margin(&self, total: u64) -> u64 {
        let quota = self.target.parts().and_then(|parts| parts.quota.as_ref());
        quota.map_or(0, |quota| quota.margin().within(total))
    }

    /// Notes that the deadline cut an attempt at `now` that began too late for it, after a long wait of its
    /// call since `started`.
    #[cold]
    pub(crate) fn note_too_late(&mut self, slot: usize, started: u64, now: u64) {
        let Some(began) = self.began(slot) else { return };
        let (waited, had) = (began.saturating_sub(started), now.saturating_sub(began));
        let quota = self.target.parts().and_then(|parts| parts.quota.as_ref());
        if let Some(quota) = quota.filter(|_| waited > had) {
            quota.margin().note_cut(had);
        }
    }

    /// Returns the time at which the cooldown lets the next attempt go, if the call asks at `at` and ends at
    /// `ends_at`, during the hold or its release. The place in the release is drawn here.
    pub(crate) fn place(&self, at: u64, ends_at: u64) -> Option<u64> {
        let cooldown = self.target.parts()?.cooldown.as_ref().filter(|it| !it.is_free())?;
        if lending::is_within_any() {
            return None; // the attempt around the call may have been admitted
        }
        let owned = Owned::new(&self.target);
        cooldown.place(at, ends_at, |range| owned.draw_within(range))
    }

    /// Returns a time before which the quota surely has no room for the next attempt. `None` without a quota,
    /// and within an attempt on the same upstream, which may lend its admission.
    #[inline]
    pub(crate) fn quota_forecast(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        let parts = self.target.parts()?;
        let quota = parts.quota.as_ref()?;
        let is_lent = lending::is_within_any() && lending::is_within(parts);
        let demand = || priority::inherited(&next_demand(&self.target, &self.progress));
        (!is_lent).then(|| quota.forecast(&demand(), now))
    }

    /// Returns the rest of the cooldown's hold at `now` if it lasts until `ends_at` or longer.
    #[cold]
    pub(crate) fn hold_until(&self, now: u64, ends_at: u64) -> Option<Duration> {
        self.hold_left(|| now).filter(|rest| now.saturating_add(nanos(*rest)) >= ends_at)
    }

    /// Returns the rest of the cooldown's hold.
    #[cold]
    pub(crate) fn hold_left(&self, now: impl FnOnce() -> u64) -> Option<Duration> {
        let cooldown = self.target.parts()?.cooldown.as_ref().filter(|it| !it.is_free())?;
        cooldown.remaining(now())
    }

    /// Returns the breaker's refusal of an attempt after `delay` if that refusal is certain.
    pub(crate) fn refusal_within(&self, delay: Duration) -> Option<Open> {
        let breaker = self.target.parts()?.breaker.as_ref()?;
        breaker.refusal_within(delay, &Owned::new(&self.target))
    }
}

/// Returns the demand of the next attempt of a call that has come so far.
fn next_demand<'a>(target: &'a impl Endpoint, progress: &Progress) -> Demand<'a> {
    let mut demand = target.demand();
    demand.standing.is_retry = progress.is_retry();
    demand
}
