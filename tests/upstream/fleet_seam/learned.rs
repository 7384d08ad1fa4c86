//! What one member learns of a limit is used by all.

use std::collections::HashMap;
use std::sync::Mutex;

use resile::quota::Dimension;
use resile::time::Timer;
use resile::upstream::Shared;

/// The shares of the limits that all members use.
#[derive(Default)]
pub(super) struct Learned {
    shares: Mutex<HashMap<Dimension, f64>>,
}

impl Learned {
    /// Adds what a member has learned, and gives it the share of all. All members have one limit.
    pub(super) fn exchange<M: Timer>(
        &self,
        shared: &Shared<'_, M>,
        dimension: Dimension,
        members: u32,
    ) {
        let Some(learned) = shared.learned(dimension) else { return };
        let mut all = self.shares.lock().unwrap();
        let share = all.entry(dimension).or_insert(1.0);
        // Each refusal is seen by one member, and growth by all.
        let growth = learned.change.max(0.0) / f64::from(members);
        *share += learned.change.min(0.0) + growth;
        *share = share.clamp(0.01, 1.0).min(learned.reported.unwrap_or(1.0));
        shared.use_share(dimension, *share, 1.0);
    }

    pub(super) fn share(&self, dimension: Dimension) -> f64 {
        self.shares.lock().unwrap().get(&dimension).copied().unwrap_or(1.0)
    }
}
