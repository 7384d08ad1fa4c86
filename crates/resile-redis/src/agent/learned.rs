use std::time::Duration;

use resile::fleet::State;
use resile::quota::{Dimension, Learning, Rate, Told};
use resile::time::Timer;
use resile::upstream::Resource;

use super::apart::Apart;
use super::step::Agent;
use crate::keys;
use crate::lease::Lease;
use crate::name;
use crate::scale::Scale;
use crate::scripts::{Known, Report};

/// The time for which a member remembers what the fleet has learned.
const MEMORY: Duration = Duration::from_secs(60);

/// The time without a silence of the store after which all members have renewed their presence twice, and
/// each knows all others.
const SETTLED: Duration = Duration::from_secs(3);

/// A limit of a member, and what operators were told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) dimension: Dimension,
    /// The limit that was set, or else that of the upstream.
    pub(super) rate: Rate,
    pub(super) is_set: bool,
    /// The limit that the fleet has, and the share of it that the fleet uses.
    base: Rate,
    share: f64,
    /// The time of the last answer with a learned limit, and this limit in units a second.
    used: Option<(Duration, f64)>,
    /// A change that the fleet does not know, in units a second: its exchange had no answer.
    pending: f64,
    /// The lesson of the process since it shared this limit last.
    apart: Option<Apart>,
    /// The lowest base of which operators were told, and the share.
    told_base: f64,
    told: Told,
    /// The time since which operators know of a member with a lower limit.
    differs_since: Option<Duration>,
}

impl Own {
    pub(super) const fn new(dimension: Dimension, rate: Rate, is_set: bool) -> Self {
        Self {
            dimension,
            rate,
            is_set,
            base: rate,
            share: 1.0,
            used: None,
            pending: 0.0,
            apart: None,
            told_base: f64::INFINITY,
            told: Told::WHOLE,
            differs_since: None,
        }
    }

    /// Takes a limit that was set, or that of the upstream again.
    pub(super) const fn set(&mut self, rate: Rate, is_set: bool) {
        let differs_since = self.differs_since;
        *self = Self { differs_since, ..Self::new(self.dimension, rate, is_set) };
    }

    fn per_second(&self) -> f64 {
        per_second(&self.rate)
    }

    /// Returns the change for the fleet, as a share of the limit of this member. `change` is what its calls
    /// have taught in a state in which it uses the `part` of the limit without the store.
    fn lesson(&mut self, change: f64, state: State, part: f64, members: f64) -> f64 {
        let used = self.used_share();
        if change != 0.0 && !matches!(state, State::Shared | State::Coasting) {
            let _ = self.apart.get_or_insert(Apart::new(used));
        }
        match &mut self.apart {
            Some(apart) if state != State::Shared => {
                apart.learn(change, part);
                0.0
            }
            Some(apart) => {
                let lesson = apart.lesson(used, members);
                self.apart = None;
                lesson + change.max(0.0)
            }
            // All members grow at the same time, but each refusal is seen by one of them.
            None if change > 0.0 => change / members,
            None => change,
        }
    }

    /// Returns what all members use as a share of the limit of this member.
    fn used_share(&self) -> f64 {
        self.share * (per_second(&self.base) / self.per_second()).min(1.0)
    }

    /// Returns the share of what all members use that this one has found right while it does not share. A process
    /// in safe mode uses no more of its part, or its refusals would teach it a lower limit without an end.
    pub(super) fn found_apart(&self) -> f64 {
        let used = self.used_share();
        match self.apart {
            Some(apart) if used > 0.0 => (apart.found() / used).clamp(0.001, 1.0),
            _ => 1.0,
        }
    }

    /// Returns the units that all members use in a period, and the period.
    pub(super) fn used(&self) -> (f64, Duration) {
        (f64::from(self.base.count()) * self.share, self.base.period())
    }

    /// Returns the scale of what all members use.
    pub(super) fn scale(&self) -> Scale {
        Scale::of_rate(&self.base).at_share(self.share)
    }
}

fn per_second(rate: &Rate) -> f64 {
    f64::from(rate.count()) / rate.period().as_secs_f64().max(1e-9)
}

/// Returns a number of units with three digits or, from 1,000 on, all before the point.
pub(super) fn digits(limit: f64) -> String {
    const STEPS: [f64; 7] = [100.0, 10.0, 1.0, 0.1, 0.01, 0.001, 0.0001];
    let decimals = STEPS.iter().take_while(|step| limit < **step).count();
    let text = format!("{limit:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// The lessons of the members about the limits.
impl<M: Timer> Agent<'_, M> {
    /// Returns what this member has learned since the last call.
    pub(super) fn reports(&mut self, now: Duration) -> Vec<Report> {
        let members = self.divisor().max(1);
        let part = self.plan.fail_mode.share(members);
        let members = f64::from(members);
        let learns = self.learns();
        let is_settled = self.works_since.is_some_and(|since| now >= since + SETTLED);
        let (shared, leases) = (self.shared, &self.leases);
        let report = |own: &mut Own| {
            let learned = shared.learned(own.dimension).unwrap_or_default();
            let resource = Resource::Quota(own.dimension);
            let lease = leases.iter().find(|(lease, _)| lease.resource == resource);
            let mode = lease.map_or(State::Shared, |(lease, _)| lease.mode.state());
            let is_early = mode == State::Shared && !is_settled;
            let state = if is_early { State::Learning } else { mode };
            // The members share again, but not yet what they have found alone: these refusals are its effect.
            let has_found = is_early && own.apart.is_some();
            let change = if has_found { learned.change.max(0.0) } else { learned.change };
            let change = own.lesson(change, state, part, members);
            let limit = own.per_second();
            let pending = std::mem::take(&mut own.pending);
            Report {
                dimension: own.dimension,
                is_set: own.is_set,
                rate: own.rate,
                own: limit,
                change: if learns { pending + change * limit } else { 0.0 },
                reported: learned.reported.map(|share| share * limit),
                used: own.used.filter(|(at, _)| now <= *at + MEMORY).map(|(_, used)| used),
            }
        };
        self.owns.iter_mut().map(report).collect()
    }

    /// Keeps what could not be told.
    pub(super) fn keep(&mut self, reports: &[Report]) {
        for (own, report) in self.owns.iter_mut().zip(reports) {
            own.pending += report.change;
        }
    }

    fn learns(&self) -> bool {
        let quota = self.shared.upstream().quota();
        quota.is_some_and(|quota| quota.learning() != Learning::Off)
    }

    /// Takes what the fleet knows of the limits, as the answer to reports.
    pub(super) fn learn(&mut self, reports: &[Report], known: &[Known], now: Duration) {
        let learns = self.learns();
        for ((own, report), known) in self.owns.iter_mut().zip(reports).zip(known) {
            let limit = own.per_second();
            if report.own.to_bits() != limit.to_bits() || report.is_set != own.is_set {
                continue; // another limit was set meanwhile
            }
            let base = per_second(&known.base);
            let most = (base / limit).min(1.0);
            let share = if learns { (known.used / limit).min(most) } else { most };
            (own.base, own.share) = (known.base, share / most);
            own.used = (own.share < 0.999).then_some((now, known.used));
            let alone = self.shared.upstream().quota_rate(own.dimension);
            let has_warned = self.shared.use_share(own.dimension, share, most);
            let alone = alone.filter(|_| has_warned).map(|rate| per_second(&rate));
            let (upstream, noun) = (self.shared.upstream().name(), keys::word(own.dimension));
            let used = share * limit;
            // The line of the core that told this lower limit is at WARN, so its end has a line too.
            if let Some(alone) = alone.filter(|alone| *alone < used) {
                tracing::info!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the limit of {noun} is that of all processes again, {} a second, \
                     and no longer the {} that this one has learned alone",
                    digits(used),
                    digits(alone)
                );
            }
            if most < 0.999 && base < 0.999 * own.told_base {
                own.told_base = base;
                own.differs_since.get_or_insert(now);
                let by = name::of_id(&known.by);
                tracing::warn!(
                    target: "resile",
                    upstream,
                    by,
                    "{upstream}: fleet: the members have different limits of {noun}: this one {} a \
                     second, member {by} {}, and all use the lower one: give them the same",
                    digits(limit),
                    digits(base)
                );
            } else if let Some(since) = own.differs_since.take_if(|_| most >= 0.999) {
                own.told_base = f64::INFINITY;
                let lasted = now.saturating_sub(since);
                tracing::info!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the members have the same limit of {noun} again, {} a second, \
                     after {lasted:.1?}",
                    digits(limit)
                );
            }
            // The store asks one member to tell operators, when what all of them bring is known. It keeps
            // the share that was told last.
            let is_news = learns && known.is_news;
            let falls = own.told.falls_to(own.share);
            let ends = own.told.ends_at(own.share);
            let (used, base) = (digits(known.used), digits(base));
            if is_news && own.share < 0.97 {
                tracing::warn!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the members have learned that the limit of {noun} is lower, and use \
                     {used} of {base} a second: correct the setting or its burst"
                );
            } else if is_news {
                tracing::info!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the members use the whole limit of {noun} again"
                );
            } else if falls || ends {
                tracing::debug!(
                    target: "resile",
                    upstream,
                    "{upstream}: fleet: the members use {used} of {base} a second of {noun}, as one of them tells"
                );
            }
        }
        self.rescale();
    }

    /// Gives each lease the limit that all members use.
    pub(super) fn rescale(&mut self) {
        for own in &self.owns {
            let resource = Resource::Quota(own.dimension);
            let is_its = |(lease, _): &&mut (Lease, String)| lease.resource == resource;
            if let Some((lease, _)) = self.leases.iter_mut().find(is_its) {
                lease.scale = own.scale();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_three_digits() {
        let limits =
            [1_234.5, 100.0, 99.96, 44.788, 8.0, 2.5, 1.0 / 3.0, 1.0 / 60.0, 1.0 / 3_600.0];
        let words = ["1234", "100", "100", "44.8", "8", "2.5", "0.333", "0.0167", "0.000278"];
        assert_eq!(limits.map(digits), words);
    }
}
