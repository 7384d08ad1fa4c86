use std::time::Duration;

use super::held::Held;
use super::progress::Refuser;
use super::{Endpoint, Guard, Parts, Slot, lending, limits};
use crate::observe::NoRoom;
use crate::quota::{Lack, Report, TooLarge};
use crate::time::{Timer, nanos};

/// The quota's part of an attempt.
impl<X: Endpoint, const N: usize> Guard<X, N> {
    /// Marks the request of the attempt as sent: from now on its reservation stands.
    #[inline]
    pub(crate) fn note_sent(&mut self, slot: usize) {
        let Some(parts) = self.target.parts() else { return };
        if let Some(Held::Admitted { reserved, .. }) = self.slots[slot].held() {
            reserved.note_sent();
            if lending::is_within_any() && lending::is_within(parts) {
                *reserved = reserved.nested();
            }
        }
    }

    /// Returns whether the upstream has a quota.
    #[inline]
    pub(crate) fn has_quota(&self) -> bool {
        !X::ALONE && self.target.parts().is_some_and(|parts| parts.quota.is_some())
    }

    /// Returns the part of the cost that is above the quota.
    #[cold]
    pub(crate) fn too_large(&self) -> Option<TooLarge> {
        self.target.parts()?.quota.as_ref()?.excess(&self.target.demand().cost)
    }

    /// Returns what the next attempt would cost, and the limit of the quota that holds it.
    #[cold]
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.target.parts()?.quota.as_ref()?.lack(&self.target.demand().cost)
    }

    /// Returns the queue that had no room for the latest attempt.
    #[cold]
    pub(crate) fn no_room(&self) -> Option<NoRoom> {
        let Parts { bulkhead, quota, .. } = self.target.parts()?;
        Some(match self.progress.refuser()? {
            Refuser::Bulkhead => {
                let bulkhead = bulkhead.as_ref()?;
                NoRoom::Bulkhead { in_flight: bulkhead.limit(), queued: bulkhead.waiting() }
            }
            Refuser::BulkheadWait => {
                NoRoom::BulkheadWait { limit: Duration::from_nanos(bulkhead.as_ref()?.max_wait()) }
            }
            Refuser::Quota => NoRoom::Quota { queued: quota.as_ref()?.waiting() },
            Refuser::Budget | Refuser::Cooldown | Refuser::Throttle | Refuser::Breaker => {
                return None;
            }
        })
    }

    /// Returns whether the budget is spent in this process only, while the fleet may have tokens.
    #[cold]
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "no other process"))]
    pub(crate) fn lacks_lease(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.target.parts().is_some_and(Parts::lacks_lease);
        #[cfg(not(feature = "fleet"))]
        false
    }

    /// Returns the words for a breaker that refuses calls without a known end, if this process knows why.
    #[cold]
    pub(crate) fn open_in_words(&self) -> Option<&'static str> {
        let breaker = self.target.parts()?.breaker.as_ref()?;
        breaker.state().endless_in_words(breaker.is_probed())
    }

    /// Ends the attempt in `slot` as if its request had never been sent.
    pub(crate) fn release_unsent(&mut self, slot: usize) {
        if let Some(Held::Admitted { reserved, .. }) = self.slots[slot].held() {
            *reserved = reserved.unsent();
        }
        self.release(slot);
    }

    /// Returns the tokens that the attempt in `slot` has reserved. `None` without a quota.
    pub(crate) fn reserved(&mut self, slot: usize) -> Option<u64> {
        self.target.parts()?.quota.as_ref()?;
        let cost = self.target.demand().cost;
        match self.slots[slot].held() {
            Some(Held::Admitted { reserved, .. }) => Some(reserved.tokens(&cost)),
            _ => None,
        }
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Charges the usage of the attempt and learns the limits that it reported. Returns the tokens
    /// charged before and now if the charge was settled.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_report(&mut self, slot: usize, report: &Report) -> Option<(u64, u64)> {
        let quota = self.target.parts()?.quota.as_ref()?;
        let Some(Held::Admitted { reserved, .. }) = self.slots[slot].held() else { return None };
        let now = nanos(self.target.timer().now());
        let cost = self.target.demand().cost;
        let findings = report.limits.map(|limits| quota.learn(&cost, reserved, &limits, now));
        // A call within the attempt has charged and ended the reservation.
        let usage = report.usage.filter(|_| !reserved.is_lent());
        let charge = |usage| quota.charge_usage(&cost, reserved, usage, now);
        let charged = usage.map(charge);
        if let Some(findings) = &findings {
            limits::tell(&self.target, findings);
        }
        charged
    }
}
