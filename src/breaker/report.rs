use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::{Core, Outcome, Owner, failures, is_of};
use super::machine::{Machine, Probe};
use super::ticket::{Ticket, lower};
use super::unwind::OnUnwind;
use super::window::Ended;
use crate::verdict::Health;

/// The report of a call at its end.
impl Core {
    /// Counts the outcome of a call. `began` and `at` are its start and its end, if known. For a
    /// success at the first poll, `at` is the start of that poll.
    #[inline]
    pub(super) fn settle(
        &self,
        ticket: Ticket,
        began: Option<u64>,
        outcome: Outcome,
        at: Option<u64>,
        owner: &impl Owner,
    ) {
        if outcome.health != Health::Healthy || ticket.probe().is_some() {
            return self.settle_trouble(ticket, began, outcome, at, owner);
        }
        // A success ends the streak. Successes do not write an empty streak: its cache line stays
        // shared between cores.
        if failures(self.streak.load(Ordering::Relaxed)) != 0 {
            self.end_streak(ticket.generation());
        }
        let settings = &self.settings;
        if settings.counts_in_window() {
            // `at` may be old here: it may only join an existing slot, and it cannot time the call.
            let joins =
                |at| self.window.join(settings.slot, at, ticket.generation(), || self.generation());
            if settings.times_calls() || !at.is_some_and(joins) {
                self.count(ticket, began, Outcome::HEALTHY, None, owner);
            }
        }
    }

    /// Returns the live generation.
    #[inline]
    fn generation(&self) -> u32 {
        lower(self.phase.load(Ordering::Acquire) >> 1)
    }

    /// Settles a probe, or a call that did not succeed.
    #[cold]
    fn settle_trouble(
        &self,
        ticket: Ticket,
        began: Option<u64>,
        outcome: Outcome,
        at: Option<u64>,
        owner: &impl Owner,
    ) {
        if let Some(probe) = ticket.probe() {
            return self.settle_probe(ticket, probe, began, outcome, owner);
        }
        if self.generation() != ticket.generation() {
            return; // a stale call does not count
        }
        let streak = match outcome.health {
            Health::Throttling if !self.settings.overloads => 0,
            Health::Failing | Health::Throttling => self.lengthen_streak(ticket.generation()),
            Health::Healthy | Health::Unknown => return, // neutral (healthy calls do not get here)
        };
        let now = if self.settings.counts_in_window() {
            Some(self.count(ticket, began, outcome, at, owner))
        } else {
            at
        };
        self.record(ticket.generation(), streak, outcome, now, owner);
    }

    /// Counts the call in the window and returns the time of its end. The window ignores a call of
    /// an earlier generation.
    fn count(
        &self,
        ticket: Ticket,
        began: Option<u64>,
        outcome: Outcome,
        at: Option<u64>,
        owner: &impl Owner,
    ) -> u64 {
        let (settings, ended) = (&self.settings, at.unwrap_or_else(|| owner.now()));
        let slow = settings.is_slow(ended.saturating_sub(began.unwrap_or_default()));
        let failed = outcome.health != Health::Healthy;
        let call = Ended { at: ended, generation: ticket.generation(), failed, slow };
        self.window.count(settings.slot, call, || self.generation());
        if slow && !failed {
            self.record(ticket.generation(), 0, outcome, Some(ended), owner);
        }
        ended
    }

    /// Checks after a failed or slow call whether the breaker trips.
    #[cold]
    fn record(
        &self,
        generation: u32,
        streak: u32,
        outcome: Outcome,
        now: Option<u64>,
        owner: &impl Owner,
    ) {
        let settings = &self.settings;
        let counts = || {
            now.map(|now| self.window.counts(now, settings.slot, generation)).unwrap_or_default()
        };
        let trip = if self.is_suspicious() {
            settings.halved().trips_on(streak, counts)
        } else {
            settings.trips_on(streak, counts)
        };
        let Some(trip) = trip else { return };
        let now = now.unwrap_or_else(|| owner.now());
        let after = outcome.hint;
        let drawn = settings.draw_open(Machine::FIRST_OPEN, |range| owner.draw_within(range));
        let listens = owner.listens();
        let mut guarded = self.lock();
        let event = guarded.machine.trip(generation, trip, after, now, settings, drawn);
        self.publish_and_emit(guarded, event.filter(|_| listens), owner);
    }

    #[cold]
    fn settle_probe(
        &self,
        ticket: Ticket,
        probe: Probe,
        began: Option<u64>,
        outcome: Outcome,
        owner: &impl Owner,
    ) {
        let settings = &self.settings;
        // Timer, curve and observer are foreign code. If one panics, the place is still freed.
        let give_back = OnUnwind(|| self.forget(ticket));
        let healthy = outcome.health == Health::Healthy;
        let now = owner.now();
        let passed = healthy && !settings.is_slow(now.saturating_sub(began.unwrap_or_default()));
        let after = outcome.hint;
        let neutral = outcome.health == Health::Unknown;
        // A curve may be a caller's function, so the delay is not drawn under the lock. If the
        // breaker transitions meanwhile, the machine ignores the drawn delay.
        let next = || self.lock().machine.next_open();
        let drawn = if passed || neutral {
            Duration::ZERO
        } else {
            settings.draw_open(next(), |range| owner.draw_within(range))
        };
        let listens = owner.listens();
        give_back.disarm();
        let mut guarded = self.lock();
        let ours = guarded.machine.take_back(probe, ticket.generation());
        let event = if ours && !neutral {
            guarded.machine.count(passed, after, now, settings, drawn)
        } else {
            None
        };
        self.publish_and_emit(guarded, event.filter(|_| listens), owner);
    }

    /// Releases the ticket of a call that was dropped unfinished. The drop does not count, but it
    /// frees a probe's place.
    #[inline]
    pub(super) fn forget(&self, ticket: Ticket) {
        if let Some(probe) = ticket.probe() {
            self.lock().machine.take_back(probe, ticket.generation());
        }
    }

    #[cold]
    pub(super) fn end_streak(&self, generation: u32) {
        let mut seen = self.streak.load(Ordering::Relaxed);
        while failures(seen) != 0 && is_of(seen, generation) {
            let none = seen & !u64::from(u32::MAX);
            match self.streak.compare_exchange_weak(
                seen,
                none,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    pub(super) fn lengthen_streak(&self, generation: u32) -> u32 {
        let longer =
            |seen| (is_of(seen, generation) && failures(seen) < u32::MAX).then(|| seen + 1);
        match self.streak.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer) {
            Ok(seen) => failures(seen) + 1,
            Err(_) => 0,
        }
    }
}
