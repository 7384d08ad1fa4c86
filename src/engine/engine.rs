use std::time::Duration;

use super::last_cut::LastCut;
use super::nesting::{self, Polled, Site};
use super::until::{LATEST, Packed, Until};
use super::{Limits, NO_LIMIT};
use crate::adaptive::AdaptiveTimeout;
use crate::observe::CallKind;
use crate::time::{Timer, nanos};
use crate::upstream::{Endpoint, Guard};

pub(super) const UNKNOWN: u64 = u64::MAX;

/// The part of a call's state that depends on its target alone.
///
/// The policy, the token and the error are not part of its type, so its functions are compiled once
/// for each kind of target and not again for each call site. Times are in nanoseconds, for up to
/// 584 years.
pub(crate) struct Engine<X: Endpoint, const N: usize> {
    pub(crate) guard: Guard<X, N>,
    pub(super) site: Site,
    /// The start of the call on the timer, or `UNKNOWN` before a step needs it.
    pub(super) started: u64,
    /// The delay before the next attempt or, in flight, before the current attempt.
    pub(super) delay: u64,
    /// The end of the wait between attempts or, in flight, the limit of the current attempt.
    pub(super) until: Packed,
    /// The cut of the last attempt that has finished.
    pub(super) last_cut: LastCut,
    /// The place of the attempt in flight, if a drop of it would leave a doubt.
    pub(super) place: Option<Box<str>>,
}

impl<X: Endpoint, const N: usize> Engine<X, N> {
    #[inline]
    pub(super) fn new(target: X, kind: CallKind, site: Site) -> Self {
        let guard = Guard::new(target, kind);
        let (until, last_cut) = (Packed::new(Until::Nothing), LastCut::new(None));
        Self { guard, site, started: UNKNOWN, delay: 0, until, last_cut, place: None }
    }

    /// Sets the call site.
    #[inline]
    pub(crate) const fn set_site(&mut self, site: Site) {
        self.site = site;
    }

    #[inline]
    pub(super) const fn clock_runs(&self) -> bool {
        self.started != UNKNOWN
    }

    /// Starts the clock, if the target has a clock and it does not run yet.
    #[inline]
    pub(crate) fn note_start(&mut self) {
        if !self.clock_runs() {
            self.read_start();
        }
    }

    #[inline(never)] // most calls succeed at once and need no clock
    fn read_start(&mut self) {
        self.started = self.guard.target.reading().map_or(UNKNOWN, |now| now.min(LATEST));
    }

    /// Returns the start of the call if the clock runs.
    #[inline]
    pub(crate) fn started(&self) -> Option<u64> {
        self.clock_runs().then_some(self.started)
    }

    /// Returns the deadline of a call with the total timeout `total`, or `NO_LIMIT`. A deadline after the last
    /// time that is kept never comes.
    #[inline]
    pub(super) fn ends_at(&self, total: u64) -> u64 {
        match self.started.saturating_add(total) {
            LATEST => NO_LIMIT,
            ends_at => ends_at,
        }
    }

    /// Returns the upstream's adaptive timeout if the policy uses learned limits.
    #[inline]
    pub(super) fn learns(&self, is_learned: bool) -> Option<&AdaptiveTimeout> {
        if X::ALONE || !is_learned {
            return None;
        }
        self.guard.target.parts()?.adaptive.as_ref()
    }

    /// Notes that an attempt may have had an effect.
    #[inline]
    pub(super) const fn note_effect(&mut self) {
        self.last_cut = self.last_cut.with_effect();
    }

    /// Marks this call as the outer call while the guard lives, if it may make several attempts. Held while
    /// an attempt is polled.
    #[inline]
    pub(super) fn polled(&self, allowed: u32) -> Polled {
        let is_counted = !X::ALONE && self.guard.target.wants_all() && self.count();
        let tells = self.guard.progress.kind() == CallKind::Fallback && self.tell();
        let repeats = allowed > 1 && self.guard.progress.repeats();
        Polled::enter(repeats.then_some(self.site), is_counted, tells)
    }

    /// Marks the calls within a fallback whose lines have the words of their errors. Returns false if it
    /// has no such lines.
    #[cold]
    fn tell(&self) -> bool {
        let target = &self.guard.target;
        target.name().is_some() && target.writes_log() && nesting::tell()
    }

    /// Counts this call among those whose attempts are polled. Returns false if it has no name.
    #[cold]
    fn count(&self) -> bool {
        let has_attempts = self.guard.progress.kind() != CallKind::Fallback;
        self.guard.target.name().is_some_and(|name| nesting::count(name, has_attempts))
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanos(self.guard.target.timer().now())
    }

    /// Returns the time since the start, or 0 if the clock does not run.
    #[inline]
    pub(crate) fn elapsed(&self) -> u64 {
        if self.clock_runs() { self.now().saturating_sub(self.started) } else { 0 }
    }

    /// Returns the timeout of one attempt: `own` of the policy, or the learned limit if that is
    /// shorter.
    #[inline]
    pub(super) fn attempt_limit(&self, own: u64, is_learned: bool) -> u64 {
        match self.learns(is_learned) {
            Some(adaptive) => nanos(adaptive.limit_at(Duration::from_nanos(self.now())))
                .min(NO_LIMIT - 1)
                .min(own),
            None => own,
        }
    }

    /// Sets the limit that cuts the attempt, and returns the time of the cut, or `NO_LIMIT`. The
    /// attempt's first poll has just returned `Pending`, and the attempt's timeout, `own` of the
    /// policy, counts from now.
    #[inline(never)] // compiled once for all call sites
    pub(super) fn set_cut(&mut self, slot: usize, own: u64, limits: Limits) -> u64 {
        let starts = !self.clock_runs();
        self.note_start();
        let ends_at = self.ends_at(limits.total);
        let own = self.attempt_limit(own, limits.is_learned);
        let mut times_out_at = NO_LIMIT;
        if own != NO_LIMIT {
            let now = if starts { self.started } else { self.now() };
            self.guard.note_began(slot, now);
            times_out_at = now.saturating_add(own);
        }
        let cut_at = times_out_at.min(ends_at);
        self.until.set(match cut_at {
            NO_LIMIT => Until::Finish,
            at if at == ends_at => Until::Deadline,
            _ => Until::Timeout(own),
        });
        cut_at
    }

    /// Records the time since the start of the attempt as a latency of the upstream.
    #[inline(never)]
    pub(super) fn learn_from(&mut self, slot: usize, is_learned: bool) {
        // The call within the attempt knows the latency of the request.
        if !X::ALONE && self.guard.was_lent(slot) {
            return;
        }
        let began = self.guard.began(slot);
        if let (Some(adaptive), Some(began)) = (self.learns(is_learned), began) {
            let now = self.now();
            adaptive
                .record(Duration::from_nanos(now), Duration::from_nanos(now.saturating_sub(began)));
        }
    }
}

/// Returns the time left of a total timeout of `total` after `elapsed`, or `NO_LIMIT`.
#[inline]
pub(super) const fn remaining(total: u64, elapsed: u64) -> u64 {
    if total == NO_LIMIT { NO_LIMIT } else { total.saturating_sub(elapsed) }
}
