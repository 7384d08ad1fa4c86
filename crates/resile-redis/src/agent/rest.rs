use std::time::Duration;

use resile::fleet::State;
use resile::quota::Waiting;
use resile::time::Timer;

use super::step::{Agent, account};
use crate::lease::Lease;
use crate::mode::Mode;

/// The demand of calls, and the rest of a member without calls.
impl<M: Timer> Agent<'_, M> {
    /// Counts what calls have used and what they want. Returns the account of each lease.
    pub(super) fn count_demand(&mut self, now: Duration) -> Vec<(i64, Waiting)> {
        let shared = self.shared;
        let count = |(lease, _): &mut (Lease, String)| {
            let (balance, waiting) = account(shared, lease.resource);
            lease.refuse(shared.refused(lease.resource));
            lease.observe(balance, waiting, now);
            let told = shared.reported_level(lease.resource);
            lease.learn(told, now.saturating_add(shared.resumes_in(lease.resource)));
            (balance, waiting)
        };
        self.leases.iter_mut().map(count).collect()
    }

    /// Begins a rest if nothing was used for a while, and ends it with the first use.
    ///
    /// Only a quota shows each call. The votes of a breaker need an exchange for each window.
    pub(super) fn look_for_rest(&mut self, now: Duration) {
        let is_well = |mode: &Mode| mode.state() == State::Shared && mode.retry_at().is_none();
        let is_idle = |(lease, _): &(Lease, String)| is_well(&lease.mode) && lease.is_idle(now);
        let rests = self.has_quota()
            && !self.votes_count()
            && is_well(&self.presence)
            && self.leases.iter().all(is_idle);
        if rests != self.rests {
            self.rests = rests;
            self.renewed_at = None; // the server must know at once how long to count the member
            self.leases.iter_mut().for_each(|(lease, _)| lease.rest(rests));
        }
    }
}
