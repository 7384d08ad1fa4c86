use std::time::Duration;

use super::guard::{Owned, TellFailure};
use super::held::{Held, HeldPermit, finish};
use super::strain::Limited;
use super::surge::SurgeOf;
use super::{Endpoint, Guard, Slot, limits};
use crate::breaker::{Outcome, Owner};
use crate::observe::{AttemptFailure, HeldBy};
use crate::quota::{CostKey, Demand, Quota};
use crate::throttle::Throttle;
use crate::time::{Timer, nanos};
use crate::verdict::{Health, Verdict};

/// An outcome that says nothing of the upstream.
const NEUTRAL: Outcome = Outcome { health: Health::Unknown, hint: None };

/// The report of an attempt to the parts, and the end of what it holds.
impl<X: Endpoint<Timer: Timer>, const N: usize> Guard<X, N> {
    /// Reports that an attempt succeeded at its first poll. It ends at its start: this saves a reading
    /// of the clock.
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn report_at_once(&mut self, slot: usize) {
        if self.finish_success(slot, End::AtStart, None) {
            self.deposit();
        }
        self.relieve(Health::Healthy);
    }

    /// Reports that an attempt succeeded. `at` is the end of the attempt if known. For a success at
    /// the first poll `at` may be the start of that poll.
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn report_success(&mut self, slot: usize, at: Option<u64>) {
        if self.finish_success(slot, End::At(at), None) {
            self.deposit();
        }
        self.relieve(Health::Healthy);
    }

    /// Returns false if another call reports the request of the attempt, or has reported it. `cost` is
    /// the cost of the reservation if another call made it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the other caller is cold")]
    pub(super) fn finish_success(&mut self, slot: usize, end: End, cost: Option<CostKey>) -> bool {
        let Some(parts) = self.target.parts() else { return true };
        let Some(held) = self.slots[slot].held() else { return true };
        let Held::Admitted { began, ticket, reserved } = *held else { return true };
        let learning = parts.bulkhead.as_ref().filter(|bulkhead| bulkhead.learns());
        // The timer may panic. `held` is then still set, and the guard's drop gives it back.
        let margin = parts.quota.as_ref().filter(|it| it.needs_time()).map(Quota::margin);
        let reads = parts.throttle.as_ref().is_some_and(Throttle::needs_time);
        let reading = || Some(Owned::new(&self.target).now());
        let ended = match end {
            End::At(at) if reads || learning.is_some() || margin.is_some() => at.or_else(reading),
            End::AtStart if reads => began.known().or_else(reading),
            _ => None,
        };
        *held = Held::Nothing;
        if reserved.is_shared() && self.has_moved(began, ticket, reserved) {
            return false;
        }
        let _permit = parts.bulkhead.as_ref().map(HeldPermit);
        if let Some(quota) = &parts.quota {
            let demand = match cost {
                None => self.target.demand(),
                Some(cost) => Demand::of(cost),
            };
            finish(quota, &demand, reserved);
        }
        if let Some(breaker) = &parts.breaker {
            let at = match end {
                End::AtStart => began.known(),
                End::At(at) => ended.or(at),
            };
            breaker.settle(ticket, began.known(), Outcome::HEALTHY, at, &Owned::new(&self.target));
        }
        if let Some(throttle) = &parts.throttle {
            throttle.note_accepted(ended);
        }
        if let (Some(margin), Some(began), Some(ended)) = (margin, began.known(), ended) {
            margin.note_whole(ended.saturating_sub(began));
        }
        if let (Some(bulkhead), Some(began), Some(ended)) = (learning, began.known(), ended) {
            bulkhead.learn(began, ended, || Owned::new(&self.target).draw_within(0..=1) == 1);
        }
        true
    }

    /// Reports a failed attempt. `at` is the end of the attempt if known.
    /// `is_cut` tells that a limit of the call ended it. The event of a breaker that it opens has the
    /// `failure`.
    pub(crate) fn report(
        &mut self,
        slot: usize,
        verdict: Option<Verdict>,
        at: Option<u64>,
        is_cut: bool,
        failure: Option<TellFailure<'_>>,
    ) {
        let Some(parts) = self.target.parts() else { return };
        let Some(held) = self.slots[slot].held() else { return };
        let Held::Admitted { began, ticket, reserved } = *held else { return };
        if reserved.is_lent() {
            *held = Held::Nothing; // the call within the attempt has reported the request
            return;
        }
        let outcome = verdict
            .map_or(NEUTRAL, |verdict| Outcome { health: verdict.health(), hint: verdict.wait() });
        let is_refused = outcome.health == Health::Throttling;
        let own_limit = is_refused && verdict.is_some_and(|verdict| verdict.is_own_limit());
        let is_failure = is_refused || outcome.health == Health::Failing;
        let owned = Owned::with_failure(&self.target, failure.filter(|_| is_failure));
        // The timer may panic. `held` is then still set, and the guard's drop gives it back.
        let learning = parts.bulkhead.as_ref().filter(|bulkhead| bulkhead.learns());
        let throttle = parts.throttle.as_ref();
        let reads = is_refused
            && (parts.cooldown.is_some() || parts.quota.is_some() || throttle.is_some())
            || throttle.is_some_and(Throttle::needs_time);
        let now = if reads || learning.is_some() { owned.now() } else { 0 };
        if let Some(cooldown) = parts.cooldown.as_ref().filter(|_| is_refused) {
            cooldown.hold(now, outcome.hint);
        }
        let cooldown = parts.cooldown.as_ref().filter(|_| is_refused);
        let new_hold = cooldown.and_then(|cooldown| cooldown.remaining(now));
        *held = Held::Nothing;
        let permit = parts.bulkhead.as_ref().map(HeldPermit);
        let mut findings = None;
        if let Some(quota) = &parts.quota {
            let demand = self.target.demand();
            match verdict {
                _ if is_refused => {
                    let resume = now.saturating_add(new_hold.map_or(0, nanos));
                    #[cfg(feature = "fleet")]
                    if own_limit && parts.fleet.is_shared() {
                        parts.fleet.empties(resume);
                    }
                    findings = Some(quota.refuse(&demand.cost, reserved, own_limit, resume, now));
                }
                Some(verdict) if verdict.is_not_sent() && !reserved.is_told() => {
                    quota.cancel(&demand.cost, reserved);
                }
                // An earlier request of the attempt may have been charged.
                Some(verdict) if verdict.is_not_sent() || reserved.was_lent() => {
                    finish(quota, &demand, reserved);
                }
                // The request was refused before any work. Only a limit of the caller empties the quota.
                Some(verdict) if verdict.is_without_effect() => {
                    quota.refuse(&demand.cost, reserved, false, 0, 0);
                }
                _ => finish(quota, &demand, reserved),
            }
        }
        if let Some(breaker) = &parts.breaker {
            let at = at.or(learning.map(|_| now));
            let outcome = if own_limit && parts.answers_own_limits() { NEUTRAL } else { outcome };
            breaker.settle(ticket, began.known(), outcome, at, &owned);
        }
        if let Some(budget) = parts.budget.as_ref().filter(|_| is_failure) {
            budget.note_failure();
        }
        match throttle {
            Some(throttle) if is_refused => throttle.note_refused(now),
            Some(throttle) => throttle.note_accepted(reads.then_some(now)),
            None => {}
        }
        let mut lowered = None;
        if let (Some(bulkhead), Some(began)) = (learning, began.known()) {
            let draw = || owned.draw_within(0..=1) == 1;
            match outcome.health {
                Health::Throttling => lowered = bulkhead.learn_refused(began, now),
                Health::Healthy => bulkhead.learn(began, now, draw),
                Health::Failing if is_cut => bulkhead.learn_cut(began, now, draw),
                Health::Failing => bulkhead.learn_failed(began, now, draw),
                Health::Unknown => {}
            }
        }
        drop(permit); // an end of a strain asks for room
        if new_hold.is_some() {
            limits::note(&self.target, HeldBy::Cooldown, new_hold, Limited::Again);
        }
        if let Some((before, after)) = lowered {
            limits::tell_lowered(&self.target, now, before, after);
        }
        if let Some(findings) = &findings {
            limits::tell(&self.target, findings);
        }
        self.relieve(outcome.health);
    }

    /// Ends the strains and the surges that have ended. Called after each report, with the health that it shows.
    #[inline]
    fn relieve(&self, shown: Health) {
        if X::ALONE {
            return;
        }
        if let Some(parts) = self.target.parts().filter(|parts| parts.strains.is_any()) {
            limits::relieve(&self.target, parts, Some(shown));
        }
    }

    /// Counts a failure after which a retry is announced, and reports it by `report`. Then reports a surge of
    /// such failures if that is due.
    #[cold]
    pub(crate) fn note_failure(&self, failure: AttemptFailure<'_>, report: impl FnOnce()) {
        let is_healthy = failure.is_of_healthy();
        let of = if is_healthy { SurgeOf::Healthy } else { SurgeOf::Failures };
        self.note_in(of, failure, report);
    }

    /// Does the same for a call that gives up in an alternative of a fallback. Returns whether the call is one of
    /// a surge.
    #[cold]
    pub(crate) fn note_alternative(
        &self,
        failure: AttemptFailure<'_>,
        report: impl FnOnce(),
    ) -> bool {
        let of = SurgeOf::Alternatives;
        self.note_in(of, failure, report);
        self.target.parts().is_some_and(|parts| parts.strains.is_surge(of))
    }

    /// Does the same for a call that ends at its first attempt, with an error that is not of a healthy upstream.
    #[cold]
    pub(crate) fn note_end(&self, failure: AttemptFailure<'_>, report: impl FnOnce()) {
        self.note_in(SurgeOf::Ends, failure, report);
    }

    fn note_in(&self, of: SurgeOf, failure: AttemptFailure<'_>, report: impl FnOnce()) {
        let told = limits::note_failure(&self.target, of, failure);
        report();
        if let Some(told) = told {
            limits::tell_surge(&self.target, of, &told, failure);
        }
    }

    /// Notes that a part makes an attempt wait, for this time if it is known, or refuses it.
    #[cold]
    pub(crate) fn note_limit(&self, by: HeldBy, wait: Option<Duration>, limited: Limited) {
        limits::note(&self.target, by, wait, limited);
    }

    /// Notes that an attempt goes on to wait for the quota.
    #[cfg(feature = "fleet")]
    #[cold]
    pub(crate) fn note_waits(&self) {
        limits::note_waits(&self.target);
    }
}

/// The end of an attempt that succeeded.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The attempt was never pending.
    AtStart,
    /// The time of the end if known.
    At(Option<u64>),
}
