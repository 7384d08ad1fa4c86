use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "metrics")]
use ::metrics::{
    SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use resile::upstream::Resource;

use crate::keys;
#[cfg(feature = "metrics")]
use crate::member::Tally;
use crate::member::{Leased, Snapshot};

/// The figures of the exchanges of one member. With the feature `metrics` it publishes them.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// The duration of the last exchange with an answer in nanoseconds, or [`NONE`].
    latency: Arc<AtomicU64>,
    /// True while the series of the votes has their numbers.
    #[cfg(feature = "metrics")]
    has_votes: Arc<AtomicBool>,
    #[cfg(feature = "metrics")]
    name: SharedString,
}

const NONE: u64 = u64::MAX;

impl Meter {
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "a label"))]
    pub(crate) fn new(name: &str) -> Self {
        #[cfg(feature = "metrics")]
        describe();
        Self {
            latency: Arc::new(AtomicU64::new(NONE)),
            #[cfg(feature = "metrics")]
            has_votes: Arc::new(AtomicBool::new(false)),
            #[cfg(feature = "metrics")]
            name: SharedString::from(name.to_owned()),
        }
    }

    /// Counts an exchange.
    pub(crate) fn exchanged(&self, took: Duration, has_answer: bool) {
        if has_answer {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(NONE - 1);
            self.latency.store(nanos, Ordering::Relaxed);
        }
        #[cfg(feature = "metrics")]
        {
            let outcome = if has_answer { "ok" } else { "failed" };
            let name = || self.name.clone();
            let series = "resile_fleet_exchanges_total";
            counter!(series, "upstream" => name(), "outcome" => outcome).increment(1);
            let series = "resile_fleet_exchange_duration_seconds";
            histogram!(series, "upstream" => name(), "outcome" => outcome)
                .record(took.as_secs_f64());
        }
    }

    /// Returns the duration of the last exchange with an answer.
    pub(crate) fn latency(&self) -> Option<Duration> {
        let nanos = self.latency.load(Ordering::Relaxed);
        (nanos != NONE).then(|| Duration::from_nanos(nanos))
    }

    /// Publishes the state.
    #[cfg(feature = "metrics")]
    pub(crate) fn publish(&self, snapshot: &Snapshot) {
        for Leased { resource, balance, level } in &snapshot.leases {
            self.publish_lease(*resource, *balance, *level);
        }
        self.publish_votes(snapshot.votes);
        self.publish_starving(snapshot.starves_for.is_some());
    }

    /// Publishes that the process has left. It has no units and calls do not starve, and the rest is not known.
    #[cfg(feature = "metrics")]
    pub(crate) fn left(&self, leases: &[Leased]) {
        for Leased { resource, level, .. } in leases {
            self.publish_lease(*resource, 0.0, level.map(|_| f64::NAN));
        }
        self.publish_votes(None);
        if !leases.is_empty() {
            self.publish_starving(false);
        }
    }

    #[cfg(feature = "metrics")]
    fn publish_lease(&self, resource: Resource, balance: f64, level: Option<f64>) {
        let (name, limit) = (|| self.name.clone(), word(resource));
        gauge!("resile_fleet_lease", "upstream" => name(), "limit" => limit).set(balance);
        if let Some(level) = level {
            gauge!("resile_fleet_level", "upstream" => name(), "limit" => limit).set(level);
        }
    }

    #[cfg(feature = "metrics")]
    #[expect(clippy::cast_precision_loss, reason = "votes are shown to people")]
    fn publish_votes(&self, votes: Option<Tally>) {
        let votes = votes.map(|Tally { open, needed, members }| {
            let needed = needed.map_or(f64::INFINITY, |needed| needed as f64);
            [open as f64, needed, members as f64]
        });
        let had_votes = self.has_votes.swap(votes.is_some(), Ordering::Relaxed);
        if votes.is_some() || had_votes {
            // A gauge cannot be taken back, and the last numbers are not those of now.
            let counts = votes.unwrap_or([f64::NAN; 3]);
            for (kind, count) in ["open", "needed", "members"].into_iter().zip(counts) {
                let upstream = self.name.clone();
                gauge!("resile_fleet_votes", "upstream" => upstream, "kind" => kind).set(count);
            }
        }
    }

    #[cfg(feature = "metrics")]
    fn publish_starving(&self, starves: bool) {
        let starves = if starves { 1.0 } else { 0.0 };
        gauge!("resile_fleet_starving", "upstream" => self.name.clone()).set(starves);
    }

    /// Without the feature there is nothing to do.
    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn publish(&self, _: &Snapshot) {}

    /// Without the feature there is nothing to do.
    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn left(&self, _: &[Leased]) {}
}

/// Returns a stable word for a limit.
pub(crate) const fn word(resource: Resource) -> &'static str {
    match resource {
        Resource::Quota(dimension) => keys::word(dimension),
        _ => "budget",
    }
}

/// Describes every series to the recorder installed at that time.
#[cfg(feature = "metrics")]
fn describe() {
    describe_counter!("resile_fleet_exchanges_total", "Exchanges with the store, by outcome.");
    describe_histogram!(
        "resile_fleet_exchange_duration_seconds",
        Unit::Seconds,
        "Duration of exchanges with the store, by outcome."
    );
    describe_gauge!("resile_fleet_lease", "Units that the process has. Negative units are a debt.");
    describe_gauge!("resile_fleet_level", "Units that the fleet has left, as last reported.");
    describe_gauge!(
        "resile_fleet_votes",
        "Votes of the breakers: those for open, those needed, and the members that vote."
    );
    describe_gauge!(
        "resile_fleet_starving",
        "1 while calls wait, the store answers and nothing is granted for seconds."
    );
}
