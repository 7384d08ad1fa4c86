use resile::time::Timer;
use resile::upstream::Resource;

use super::step::Agent;
use crate::keys;
use crate::scripts::SetLimit;

/// The limits that were set at run time.
impl<M: Timer> Agent<'_, M> {
    pub(super) fn has_quota(&self) -> bool {
        self.leases.iter().any(|(lease, _)| matches!(lease.resource, Resource::Quota(_)))
    }

    /// Takes the limits of the fleet. A dimension without one has that of the upstream again.
    pub(super) fn limit(&mut self, limits: Vec<SetLimit>) {
        let upstream = self.shared.upstream();
        for own in &mut self.owns {
            let dimension = own.dimension;
            let set = limits.iter().find(|set| set.dimension == dimension).and_then(|set| set.rate);
            let code = || upstream.quota().and_then(|quota| quota.rate(dimension));
            let Some(rate) = set.or_else(code) else { continue };
            if own.rate != rate || own.is_set != set.is_some() {
                own.set(rate, set.is_some());
                let upstream = upstream.name();
                tracing::info!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the limit of {} is {} per {:?} now, with a burst of {}",
                    keys::word(dimension),
                    rate.count(),
                    rate.period(),
                    rate.burst(),
                );
            }
        }
        self.set = limits;
        self.rescale();
    }
}
