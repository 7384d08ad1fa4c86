use resile::quota::{Dimension, Rate};
use resile::time::Timer;
use resile::upstream::Resource;

use super::step::Agent;
use crate::keys;
use crate::scale::Scale;

/// The limits that were set at run time.
impl<M: Timer> Agent<'_, M> {
    pub(super) fn has_quota(&self) -> bool {
        self.leases.iter().any(|(lease, _)| matches!(lease.resource, Resource::Quota(_)))
    }

    /// Takes the limits of the fleet. A dimension without one has that of the upstream again.
    pub(super) fn limit(&mut self, limits: &[(Dimension, Rate)]) {
        let upstream = self.shared.upstream();
        for (lease, _) in &mut self.leases {
            let Resource::Quota(dimension) = lease.resource else { continue };
            let set = limits.iter().find(|(other, _)| *other == dimension).map(|(_, rate)| *rate);
            let own = || upstream.quota().and_then(|quota| quota.rate(dimension));
            let Some(rate) = set.or_else(own) else { continue };
            let scale = Scale::of_rate(&rate);
            if lease.scale != scale {
                lease.scale = scale;
                tracing::info!(
                    target: "resile",
                    upstream = upstream.name(),
                    "fleet: the limit of {} is {rate:?} now",
                    keys::word(dimension),
                );
            }
        }
    }
}
