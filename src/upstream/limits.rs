//! The start and the end of the strains on the parts of an upstream, reported to its observer.

use std::time::Duration;

use super::strain::{Ended, Limited};
use super::surge::{Over, SurgeOf, Told};
use super::{Endpoint, Parts, TellFailure};
use crate::breaker::State;
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
#[cfg(feature = "fleet")]
use crate::fleet::Shortage;
use crate::observe::{AttemptFailure, Event, EventKind, HeldBy, Kinds};
#[cfg(feature = "fleet")]
use crate::quota::Evidence;
use crate::quota::Findings;
use crate::time::{Timer, nanos};
use crate::verdict::Health;

const PARTS: [HeldBy; 5] =
    [HeldBy::Budget, HeldBy::Bulkhead, HeldBy::Quota, HeldBy::Cooldown, HeldBy::Throttle];

impl Parts {
    /// Returns whether a part has room for a call at `now`.
    fn has_room(&self, by: HeldBy, now: u64) -> bool {
        match by {
            HeldBy::Budget => self.budget.as_ref().is_none_or(|budget| !budget.is_spent()),
            HeldBy::Bulkhead => self.bulkhead.as_ref().is_none_or(Bulkhead::has_room),
            HeldBy::Quota => self.quota.as_ref().is_none_or(|quota| quota.waiting() == 0),
            HeldBy::Cooldown => self
                .cooldown
                .as_ref()
                .is_none_or(|cooldown| cooldown.is_free() || cooldown.remaining(now).is_none()),
            HeldBy::Throttle => self.throttle.as_ref().is_none_or(|it| it.percent(now) == 0),
            HeldBy::Breaker => false,
        }
    }

    /// Returns the length of the queue of a part, if the queue is full.
    pub(super) fn full_queue(&self, by: HeldBy) -> Option<u32> {
        let (queue, waiting) = match by {
            HeldBy::Bulkhead => self.bulkhead.as_ref().map(|it| (it.queue(), it.waiting()))?,
            HeldBy::Quota => self.quota.as_ref().map(|it| (it.queue(), it.waiting()))?,
            HeldBy::Budget | HeldBy::Cooldown | HeldBy::Throttle | HeldBy::Breaker => return None,
        };
        (queue > 0 && waiting >= queue).then_some(queue)
    }

    /// Returns the limit of a part, for the start of its strain.
    fn limit(&self, by: HeldBy) -> Option<u32> {
        match by {
            HeldBy::Budget => self.budget.as_ref().map(Budget::capacity),
            HeldBy::Bulkhead => self.bulkhead.as_ref().map(Bulkhead::limit),
            HeldBy::Quota | HeldBy::Cooldown | HeldBy::Throttle | HeldBy::Breaker => None,
        }
    }
}

/// Notes that a part makes a call wait or refuses it. `hold` is the time for which a cooldown holds all
/// calls, or a quota holds this one.
#[cold]
#[inline(never)]
pub(super) fn note<X: Endpoint<Timer: Timer>>(
    target: &X,
    by: HeldBy,
    hold: Option<Duration>,
    limited: Limited,
) {
    note_with(target, by, hold, limited, None);
}

/// Does the same with the failure of the attempt whose retry is refused, which a line then has.
#[cold]
#[inline(never)]
pub(super) fn note_with<X: Endpoint<Timer: Timer>>(
    target: &X,
    by: HeldBy,
    hold: Option<Duration>,
    limited: Limited,
    failure: Option<TellFailure<'_>>,
) {
    let Some(parts) = target.parts().filter(|_| target.listens()) else { return };
    let now = nanos(target.timer().now());
    let hold = match &parts.cooldown {
        Some(cooldown) if by == HeldBy::Cooldown => hold.or_else(|| cooldown.remaining(now)),
        _ => hold,
    };
    // After a hold its calls leave one by one. That is its end and not the start of a strain: a hold that
    // another member has asked for began with a line of the fleet.
    if by == HeldBy::Cooldown && hold.is_none() && !parts.strains.has(by) {
        return;
    }
    #[cfg(feature = "fleet")]
    if let (HeldBy::Cooldown, Some(hold)) = (by, hold) {
        parts.fleet.holds(now.saturating_add(nanos(hold)));
    }
    let (began, times) = (now, u64::from(limited.counts()));
    #[cfg(feature = "fleet")]
    let (began, times) = if parts.strains.has(by) {
        (began, times)
    } else {
        let Some(Shortage { since, times, refused }) = strain(parts, by, limited, now) else {
            return;
        };
        parts.strains.refused_before(by, refused.saturating_sub(limited.is_refusal().into()));
        (since, times)
    };
    // A wait for a quota counts when it ends.
    let end = hold.filter(|_| by == HeldBy::Cooldown).unwrap_or_default();
    let until = now.saturating_add(nanos(end));
    let begins = parts.strains.note(by, began / MS, until / MS, times);
    let full = parts.full_queue(by).filter(|_| limited == Limited::Full);
    let limited =
        if limited == Limited::Full && full.is_none() { Limited::Refused } else { limited };
    let fills = parts.strains.refuse(by, limited);
    let grows = by == HeldBy::Cooldown && parts.strains.outgrows(begins, nanos(end) / MS);
    let goes_on = if begins || fills || grows {
        None
    } else {
        let Some(strain) = parts.strains.goes_on(by, now / MS, minutes(parts, by)) else { return };
        Some(strain)
    };
    let tell = |failure: Option<AttemptFailure<'_>>| {
        let kind = if let Some(Ended { lasted, times, refused, holds, .. }) = goes_on {
            EventKind::StillLimiting { by, lasted, times, refused, holds, failure }
        } else {
            let (limit, full) = (parts.limit(by), full.filter(|_| !begins));
            EventKind::Limiting { by, limit, hold, full, failure }
        };
        emit(target, parts, now, kind);
    };
    match failure {
        Some(failure) => failure(&mut |failure| tell(Some(failure))),
        None => tell(None),
    }
}

/// Returns the number of minutes between two reports of a strain that goes on. The processes of a fleet share a
/// part, so they report in turn, and each of them every ten minutes at least.
#[cfg(feature = "fleet")]
fn minutes(parts: &Parts, by: HeldBy) -> u64 {
    match by {
        HeldBy::Budget | HeldBy::Quota | HeldBy::Cooldown => {
            parts.fleet.status(|| 0).map_or(1, |status| status.members.clamp(1, 10).into())
        }
        HeldBy::Bulkhead | HeldBy::Throttle | HeldBy::Breaker => 1,
    }
}

#[cfg(not(feature = "fleet"))]
const fn minutes(_: &Parts, _: HeldBy) -> u64 {
    1
}

/// Returns the start of a strain, and the waits and refusals that it begins with. `None` if a call waits only
/// because the lease of this process is too small, while the fleet may have units.
#[cfg(feature = "fleet")]
fn strain(parts: &Parts, by: HeldBy, limited: Limited, now: u64) -> Option<Shortage> {
    let (counts, is_refusal) = (limited.counts(), limited.is_refusal());
    match (by, &parts.quota) {
        (HeldBy::Quota, _) if parts.fleet.lacks_share(now) => None,
        (HeldBy::Quota, Some(quota)) if parts.fleet.is_shared() => {
            let waiting = quota.waiting();
            let (times, refused) = (u64::from(counts), u64::from(is_refusal));
            let shortage =
                parts.fleet.lacks_units(limited.is_new() && waiting <= 1, times, refused, now)?;
            // Each call that waits belongs to the strain, and those that have waited meanwhile.
            let times = shortage.times.max(u64::from(waiting)).max(1);
            Some(Shortage { times, ..shortage })
        }
        _ => Some(Shortage { since: now, times: counts.into(), refused: is_refusal.into() }),
    }
}

/// Notes that an attempt goes on to wait for the units of a lease.
#[cfg(feature = "fleet")]
#[cold]
pub(super) fn note_waits<X: Endpoint<Timer: Timer>>(target: &X) {
    let is_shared = |parts: &Parts| parts.fleet.is_shared() && !parts.strains.has(HeldBy::Quota);
    if target.parts().is_some_and(is_shared) {
        note(target, HeldBy::Quota, None, Limited::Again);
    }
}

/// Notes that an attempt has waited for a part until now. Its strain then lasts at least as long.
#[cold]
#[inline(never)]
pub(super) fn note_waited<X: Endpoint<Timer: Timer>>(target: &X, parts: &Parts, by: HeldBy) {
    #[cfg(feature = "fleet")]
    if by == HeldBy::Quota && parts.has_room(by, 0) {
        parts.fleet.has_units();
    }
    if parts.strains.has(by) {
        let now = nanos(target.timer().now()) / MS;
        parts.strains.prolong(by, now, now);
    }
}

/// Notes at `now` that a cooldown holds all calls until `end`, as another member does. A strain then lasts at
/// least as long.
#[cfg(feature = "fleet")]
pub(super) fn note_joined(parts: &Parts, now: u64, end: Option<u64>) {
    if let Some(end) = end {
        parts.fleet.holds(end);
        parts.strains.prolong(HeldBy::Cooldown, now / MS, end / MS);
    }
}

/// Counts a failure in its surge. Returns the report that is due. A failure beside an open breaker does not count
/// unless it ends a call within a fallback: the event of the breaker tells of it, and its retry is hardly ever sent.
#[cold]
#[inline(never)]
pub(super) fn note_failure<X: Endpoint<Timer: Timer>>(
    target: &X,
    of: SurgeOf,
    failure: AttemptFailure<'_>,
) -> Option<Told> {
    let parts = target.parts().filter(|_| target.listens())?;
    let is_open = || parts.breaker.as_ref().is_some_and(|it| it.state() == State::Open);
    if matches!(of, SurgeOf::Failures | SurgeOf::Ends) && is_open() {
        return None;
    }
    parts.strains.note_failure(of, nanos(target.timer().now()) / MS, failure.error_type)
}

/// Reports a surge of failures that begins or goes on, with the latest one.
#[cold]
#[inline(never)]
pub(super) fn tell_surge<X: Endpoint<Timer: Timer>>(
    target: &X,
    of: SurgeOf,
    told: &Told,
    failure: AttemptFailure<'_>,
) {
    let Some(parts) = target.parts() else { return };
    let Told { failures, lasted, begins, kinds } = told;
    let (failures, lasted, begins) = (*failures, *lasted, *begins);
    let (in_fallback, at_first) = (of == SurgeOf::Alternatives, of == SurgeOf::Ends);
    let kind = EventKind::Surge { failures, lasted, begins, in_fallback, at_first, failure };
    emit_of(target, parts, nanos(target.timer().now()), kind, Some(kinds));
}

/// Ends each strain of a part that has had room for a while, and each surge. In an outage no attempt fails while the
/// breaker refuses them, and the next one fails too. So a surge of failures goes on while the breaker is not closed,
/// and after a report of a failure. `shown` is the health that a report shows.
#[cold]
#[inline(never)]
pub(super) fn relieve<X: Endpoint<Timer: Timer>>(target: &X, parts: &Parts, shown: Option<Health>) {
    let now = nanos(target.timer().now());
    for by in PARTS {
        if parts.has_room(by, now) {
            if let Some(ended) = parts.strains.end(by, now / MS) {
                emit(target, parts, now, relieved(by, ended, false));
            }
        }
    }
    let is_closed = parts.breaker.as_ref().is_none_or(|it| it.state() == State::Closed);
    let is_failure = matches!(shown, Some(Health::Failing | Health::Throttling));
    if shown == Some(Health::Healthy) {
        parts.strains.end_row();
    }
    let may_end = |of: &SurgeOf| match of {
        SurgeOf::Healthy => true,
        SurgeOf::Failures | SurgeOf::Alternatives => !is_failure && is_closed,
        // An unknown health is what its calls show.
        SurgeOf::Ends => !is_failure && is_closed && shown != Some(Health::Unknown),
    };
    for of in SurgeOf::ALL.into_iter().filter(may_end) {
        if let Some(Over { failures, lasted, ago, kinds }) = parts.strains.end_surge(of, now / MS) {
            let (is_healthy, in_fallback) = (of == SurgeOf::Healthy, of == SurgeOf::Alternatives);
            let at_first = of == SurgeOf::Ends;
            let kind =
                EventKind::SurgeOver { failures, lasted, ago, is_healthy, in_fallback, at_first };
            emit_of(target, parts, now, kind, Some(&kinds));
        }
    }
}

/// Ends each strain at once.
#[cfg(feature = "fleet")]
#[cold]
pub(super) fn cut<X: Endpoint<Timer: Timer>>(target: &X, parts: &Parts) {
    let now = nanos(target.timer().now());
    for by in PARTS {
        if let Some(ended) = parts.strains.cut(by, now / MS) {
            emit(target, parts, now, relieved(by, ended, true));
        }
    }
}

/// Returns the event of a strain that has ended, or that the process leaves.
const fn relieved(by: HeldBy, ended: Ended, leaves: bool) -> EventKind<'static> {
    let Ended { lasted, ago, times, refused, holds } = ended;
    EventKind::Relieved { by, lasted, ago, times, refused, holds, leaves }
}

/// Tells the observer what a quota has found out about its limits.
pub(super) fn tell<X: Endpoint<Timer: Timer>>(target: &X, findings: &Findings) {
    if findings.iter().any(Option::is_some) {
        tell_all(target, findings);
    }
}

#[cold]
#[inline(never)]
fn tell_all<X: Endpoint<Timer: Timer>>(target: &X, findings: &Findings) {
    let Some(parts) = target.parts().filter(|_| target.listens()) else { return };
    let now = nanos(target.timer().now());
    for finding in findings.iter().flatten() {
        #[cfg(feature = "fleet")]
        if let Some(quota) = parts.quota.as_ref().filter(|_| !parts.fleet.shares()) {
            let is_lower = finding.is_used && finding.is_lower();
            quota.note_alone(finding.dimension, is_lower && finding.by != Evidence::Accepted);
        }
        emit(target, parts, now, EventKind::Learned(*finding));
    }
}

/// Tells the observer that a refusal has lowered the learned limit of the bulkhead.
#[cold]
#[inline(never)]
pub(super) fn tell_lowered<X: Endpoint>(target: &X, now: u64, before: u32, after: u32) {
    if let Some(parts) = target.parts().filter(|_| target.listens()) {
        emit(target, parts, now, EventKind::Lowered { before, after });
    }
}

const MS: u64 = 1_000_000;

fn emit<X: Endpoint>(target: &X, parts: &Parts, now: u64, kind: EventKind<'_>) {
    emit_of(target, parts, now, kind, None);
}

/// Reports an event, for a surge with the types of its errors.
fn emit_of<X: Endpoint>(
    target: &X,
    parts: &Parts,
    now: u64,
    kind: EventKind<'_>,
    kinds: Option<&Kinds>,
) {
    let (upstream, mut gauges) = (target.name(), parts.gauges(|| now));
    if let EventKind::Limiting { by: HeldBy::Quota, .. }
    | EventKind::StillLimiting { by: HeldBy::Quota, .. } = kind
    {
        let quota = parts.quota.as_ref();
        gauges.scarce = quota.and_then(|quota| quota.scarce(&target.demand().cost, now));
    }
    target.observe(&Event { upstream, call: None, kind, gauges, place: None, kinds });
}
