use resile::time::Timer;
use resile::upstream::Resource;

use super::step::Agent;
use crate::keys;
use crate::scale::counted_burst;
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
                self.shared.use_limit(dimension, set);
                let upstream = upstream.name();
                let counted =
                    counted_burst(&rate).map(|burst| format!(", which counts as {burst}"));
                tracing::info!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the limit of {} is {} per {:?} now, with a burst of {}{}",
                    keys::word(dimension),
                    rate.count(),
                    rate.period(),
                    rate.burst(),
                    counted.unwrap_or_default(),
                );
            }
        }
        self.set = limits;
        self.rescale();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use resile::quota::{Dimension, Limit, Limits, Rate};
    use resile::upstream::Resource;
    use resile::{Quota, Upstream};

    use crate::agent::Plan;
    use crate::agent::step::Agent;
    use crate::agent::world::context;
    use crate::scripts::SetLimit;

    const REQUESTS: Dimension = Dimension::Requests;

    /// The limits in the store.
    fn set(rate: Option<Rate>) -> Vec<SetLimit> {
        vec![SetLimit { dimension: REQUESTS, rate, version: 1 }]
    }

    #[test]
    fn the_limit_that_was_set_is_the_limit_in_use() {
        let code = Rate::per_second(38).with_burst(8);
        let upstream = Upstream::new("shop").with_quota(Quota::new().with_requests(code));
        let (shared, context) = (upstream.share().unwrap(), context(0, Plan::new()));
        let mut agent = Agent::new(&shared, &context);
        for rate in [Rate::per_second(20).with_burst(5), Rate::per_second(400).with_burst(80)] {
            agent.limit(set(Some(rate)));
            assert_eq!(upstream.quota_rate(REQUESTS), Some(rate));
            assert_eq!(agent.owns[0].rate, rate);
        }
        agent.limit(set(None));
        assert_eq!(upstream.quota_rate(REQUESTS), Some(code));
        agent.limit(set(Some(Rate::per_second(20))));
        agent.limit(Vec::new());
        assert_eq!(upstream.quota_rate(REQUESTS), Some(code));
        agent.limit(set(Some(Rate::per_second(20))));
        drop(agent);
        drop(shared);
        assert_eq!(upstream.quota_rate(REQUESTS), Some(code), "the process has left");
    }

    /// The provider tells the limit that an operator has set before. So the members use all of it.
    #[test]
    fn a_reported_limit_is_compared_with_the_one_that_was_set() {
        let code = Rate::per_second(40).with_burst(8);
        let upstream = Upstream::new("shop").with_quota(Quota::new().with_requests(code));
        let (shared, context) = (upstream.share().unwrap(), context(0, Plan::new()));
        let mut agent = Agent::new(&shared, &context);
        agent.limit(set(Some(Rate::per_second(20).with_burst(8))));
        let mut reported = |count| {
            let limits =
                Limits::new().with(REQUESTS, Limit::of(count, Some(Duration::from_secs(1))));
            shared.adjust(Resource::Quota(REQUESTS), 1);
            shared.extend(Resource::Quota(REQUESTS), Duration::from_secs(9));
            let mut told = upstream.try_admit().unwrap();
            told.learn(limits);
            told.succeeded();
            agent.reports(Duration::ZERO)[0].reported
        };
        assert_eq!(reported(20), None, "as much as was set");
        assert_eq!(reported(10), Some(10.0));
    }
}
