use std::time::Duration;

use resile::fleet::State;
use resile::time::Timer;

use super::step::{Agent, account};
use crate::alarm::Change;
use crate::meter::word;

/// The alarm "shared, and nothing granted".
impl<M: Timer> Agent<'_, M> {
    /// Looks at the calls that wait, and logs the begin and the end of an alarm.
    pub(super) fn watch(&mut self, now: Duration) {
        let upstream = self.shared.upstream().name();
        let members = self.census.last();
        for ((lease, _), alarm) in self.leases.iter().zip(&mut self.alarms) {
            let (balance, waiting) = account(self.shared, lease.resource);
            let first = i64::try_from(waiting.first).unwrap_or(i64::MAX);
            let lacks = first > balance.max(0) && lease.mode.state() == State::Shared;
            let pace = pace(waiting.first, lease.scale.per_second, members);
            let (limit, level) = (word(lease.resource), lease.level().unwrap_or(0));
            match alarm.look(lacks, pace, now) {
                Some(Change::Begins(silence)) => tracing::warn!(
                    target: "resile", upstream,
                    "{upstream}: fleet: shared, and nothing granted for {silence:.1?}: calls wait \
                     for {} units of {limit}, the fleet has {level} left",
                    waiting.all,
                ),
                Some(Change::Ends) => {
                    let end = match (lease.mode.state(), lacks) {
                        (State::Shared, true) => "units are granted again",
                        (State::Shared, false) => "no call lacks units any more",
                        _ => "the server does not answer any more",
                    };
                    tracing::info!(target: "resile", upstream, "{upstream}: fleet: {limit}: {end}");
                }
                None => {}
            }
        }
        self.starves_for = self.alarms.iter().filter_map(|alarm| alarm.lasts(now)).max();
    }
}

/// Returns the time in which the limit gives one of the members so many units.
#[expect(clippy::cast_precision_loss, reason = "a duration for people")]
fn pace(units: u64, per_second: f64, members: u32) -> Duration {
    let seconds = units as f64 * f64::from(members.max(1)) / per_second;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
