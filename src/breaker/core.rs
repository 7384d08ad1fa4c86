use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::machine::{Machine, Probe};
use super::settings::Settings;
use super::ticket::{Ticket, lower, upper};
use super::unwind::OnUnwind;
use super::window::{Counts, Ended, Window};
use super::{Event, Open, Snapshot, State};
use crate::classify::{Cause, Verdict};
use crate::sync::{AtomicU64, Mutex, MutexGuard};
use crate::time::nanos;

/// What the state needs of the breaker around it.
pub(super) trait Host {
    fn settings(&self) -> &Settings;
    fn now(&self) -> Duration;
    /// Whether anybody wants to be told; not to be asked under the lock.
    fn listens(&self) -> bool;
    fn tell(&self, event: &Event);
}

/// The shared state of a breaker: counters that closed calls touch, and the machine behind a lock for all else.
///
/// Invariants:
/// 1. `phase` is written under the lock only, and is `generation << 1 | refusing`, where `refusing` says that the
///    machine must be asked.
/// 2. `streak` is `generation << 32 | failures since the last success`; who is of another generation leaves it alone.
///    While the breaker refuses, it is that of the move with which that began, which no call to be counted has.
/// 3. `shut` is until when the machine refuses whoever asks, where that is certain, else 0. It is written under the lock
///    and before `phase`.
/// 4. Events leave the queue in the order in which they entered it under the lock, and are told outside of it.
pub(super) struct Core {
    pub(super) phase: AtomicU64,
    pub(super) shut: AtomicU64,
    pub(super) streak: AtomicU64,
    pub(super) window: Window,
    guarded: Mutex<Guarded>,
}

#[derive(Default)]
pub(super) struct Guarded {
    pub(super) machine: Machine,
    pub(super) untold: VecDeque<Event>,
    /// Somebody tells the events; what others add, that one tells.
    pub(super) telling: bool,
}

impl Core {
    pub(super) const fn new() -> Self {
        Self {
            phase: AtomicU64::new(0),
            shut: AtomicU64::new(0),
            streak: AtomicU64::new(0),
            window: Window::new(),
            guarded: Mutex::new(Guarded { machine: Machine::new(), untold: VecDeque::new(), telling: false }),
        }
    }

    /// A closed one after that many transitions.
    #[cfg(test)]
    pub(super) fn after_transitions(generation: u32) -> Self {
        let core = Self::new();
        core.phase.store(u64::from(generation) << 1, Ordering::Relaxed);
        core.streak.store(u64::from(generation) << 32, Ordering::Relaxed);
        core.lock().machine = Machine::after_transitions(generation);
        core
    }

    /// Lets a call through or refuses it.
    #[inline]
    pub(super) fn admit(&self, host: &impl Host) -> Result<Ticket, Open> {
        let phase = self.phase.load(Ordering::Acquire);
        if phase & 1 != 0 {
            return self.ask(host);
        }
        let ticket = Ticket { stamp: (phase >> 1) << 32, began: 0 };
        Ok(if host.settings().times_calls() { ticket.timed(|| host.now()) } else { ticket })
    }

    #[cold]
    fn ask(&self, host: &impl Host) -> Result<Ticket, Open> {
        let now = nanos(host.now());
        // Most who come while it is open need no lock to be told so.
        let shut = self.shut.load(Ordering::Relaxed);
        if now < shut { Err(Open::new(Some(shut - now))) } else { self.ask_machine(now, host) }
    }

    #[inline(never)]
    fn ask_machine(&self, now: u64, host: &impl Host) -> Result<Ticket, Open> {
        let listens = host.listens();
        let mut guarded = self.lock();
        let (admitted, event) = guarded.machine.admit(now, host.settings());
        let generation = guarded.machine.generation();
        let admitted = admitted.map(|probe| Ticket::new(generation, probe, now));
        // Nobody holds the ticket yet: an observer that panics must not keep a probe's place.
        let give_back = OnUnwind(|| admitted.into_iter().for_each(|ticket| self.forget(ticket)));
        self.leave(guarded, event.filter(|_| listens), host);
        give_back.disarm();
        admitted
    }

    /// The refusal that whoever asks within `delay` from now will get, if that is certain.
    pub(super) fn refusal_within(&self, delay: Duration, host: &impl Host) -> Option<Open> {
        if self.phase.load(Ordering::Acquire) & 1 == 0 {
            return None;
        }
        let now = nanos(host.now());
        let refuses_for = self.lock().machine.refuses_for(now);
        (refuses_for > nanos(delay)).then(|| Open::new((refuses_for < u64::MAX).then_some(refuses_for)))
    }

    /// Takes the result of a call: no verdict is success. `at` is when it ended, where that is known; of a success, when
    /// its one turn began.
    #[inline]
    pub(super) fn settle(&self, ticket: Ticket, verdict: Option<&Verdict>, at: Option<u64>, host: &impl Host) {
        if verdict.is_some() || lower(ticket.stamp) != 0 {
            return self.settle_trouble(ticket, verdict, at, host);
        }
        // A success ends the streak. Written only where there is one to end, so that successes share the line.
        if failures(self.streak.load(Ordering::Relaxed)) != 0 {
            self.end_streak(ticket.generation());
        }
        let settings = host.settings();
        if settings.counts_in_window() {
            // What began a while ago may only join a slot, and does not say how long a call took.
            let joins = |at| self.window.join(settings.slot, at, ticket.generation(), || self.generation());
            if settings.times_calls() || !at.is_some_and(joins) {
                self.count(ticket, None, None, host);
            }
        }
    }

    /// The generation that is live.
    #[inline]
    fn generation(&self) -> u32 {
        lower(self.phase.load(Ordering::Acquire) >> 1)
    }

    /// Takes the result of a failure or of a probe.
    #[cold]
    fn settle_trouble(&self, ticket: Ticket, verdict: Option<&Verdict>, at: Option<u64>, host: &impl Host) {
        if let Some(probe) = ticket.probe() {
            return self.settle_probe(ticket, probe, verdict, host);
        }
        if self.generation() != ticket.generation() {
            return; // stale: it decides nothing
        }
        let streak = match verdict {
            None | Some(Verdict::Fail) => return, // neutral
            Some(Verdict::Retry { cause: Cause::Throttled, .. }) => 0,
            Some(Verdict::Retry { .. }) => self.lengthen_streak(ticket.generation()),
        };
        let now = if host.settings().counts_in_window() { Some(self.count(ticket, verdict, at, host)) } else { at };
        self.judge(ticket.generation(), streak, verdict, now, host);
    }

    /// Counts the call in the window; the time of its end. What is of an earlier generation is counted as that, which
    /// is to say nowhere.
    fn count(&self, ticket: Ticket, verdict: Option<&Verdict>, at: Option<u64>, host: &impl Host) -> u64 {
        let (settings, ended) = (host.settings(), at.unwrap_or_else(|| nanos(host.now())));
        let slow = settings.is_slow(ended.saturating_sub(ticket.began));
        let call = Ended { at: ended, generation: ticket.generation(), failed: verdict.is_some(), slow };
        self.window.count(settings.slot, call, || self.generation());
        if slow && verdict.is_none() {
            self.judge(ticket.generation(), 0, None, Some(ended), host);
        }
        ended
    }

    /// Something went wrong while closed: was it enough?
    #[cold]
    fn judge(&self, generation: u32, streak: u32, verdict: Option<&Verdict>, now: Option<u64>, host: &impl Host) {
        let settings = host.settings();
        let counts = || now.map(|now| self.window.counts(now, settings.slot, generation)).unwrap_or_default();
        let Some(why) = settings.trips_on(streak, counts) else { return };
        let now = now.unwrap_or_else(|| nanos(host.now()));
        let after = verdict.and_then(Verdict::after);
        let (drawn, listens) = (settings.draw_open(Machine::FIRST_OPEN), host.listens());
        let mut guarded = self.lock();
        let event = guarded.machine.trip(generation, why, after, now, settings, drawn);
        self.leave(guarded, event.filter(|_| listens), host);
    }

    #[cold]
    fn settle_probe(&self, ticket: Ticket, probe: Probe, verdict: Option<&Verdict>, host: &impl Host) {
        let settings = host.settings();
        // A timer, a curve and an observer are foreign: where one panics, the place is free all the same.
        let give_back = OnUnwind(|| self.forget(ticket));
        let now = if verdict.is_some() || settings.times_calls() { nanos(host.now()) } else { 0 };
        let passed = verdict.is_none() && !settings.is_slow(now.saturating_sub(ticket.began));
        let after = verdict.and_then(Verdict::after);
        let neutral = verdict == Some(&Verdict::Fail);
        // Not under the lock, as a curve may be a caller's function; should the breaker move meanwhile, what is drawn is
        // of no use to it.
        let next = || self.lock().machine.next_open();
        let drawn = if passed || neutral { Duration::ZERO } else { settings.draw_open(next()) };
        let listens = host.listens();
        give_back.disarm();
        let mut guarded = self.lock();
        let ours = guarded.machine.take_back(probe, ticket.generation());
        let event = if ours && !neutral { guarded.machine.count(passed, after, now, settings, drawn) } else { None };
        self.leave(guarded, event.filter(|_| listens), host);
    }

    /// The call was dropped unfinished: that says nothing, and gives a probe's place back.
    #[inline]
    pub(super) fn forget(&self, ticket: Ticket) {
        if let Some(probe) = ticket.probe() {
            self.lock().machine.take_back(probe, ticket.generation());
        }
    }

    pub(super) fn reset(&self, host: &impl Host) {
        let listens = host.listens();
        let mut guarded = self.lock();
        let event = guarded.machine.reset();
        self.leave(guarded, event.filter(|_| listens), host);
    }

    /// Isolates it, unless the observer panics: then whoever asked holds nothing that could release it.
    pub(super) fn isolate(&self, host: &impl Host) {
        let listens = host.listens();
        let mut guarded = self.lock();
        let event = guarded.machine.isolate();
        let undo = OnUnwind(|| {
            let mut guarded = self.lock();
            // The observer is not called by a thread that unwinds: it hears of this ahead of the next event.
            let event = guarded.machine.release();
            guarded.untold.extend(event.filter(|_| listens));
            self.publish(&guarded);
        });
        self.leave(guarded, event.filter(|_| listens), host);
        undo.disarm();
    }

    pub(super) fn release(&self, host: &impl Host) {
        // First of all, and without asking who listens: foreign code may panic, and whoever isolated it is gone.
        let mut guarded = self.lock();
        let event = guarded.machine.release();
        self.leave(guarded, event, host);
    }

    pub(super) fn snapshot(&self, host: &impl Host) -> Snapshot {
        let guarded = self.lock();
        let machine = &guarded.machine;
        let (state, why, trips, generation) = (machine.state(), machine.why(), machine.trips(), machine.generation());
        drop(guarded);
        let settings = host.settings();
        let counts = if settings.counts_in_window() {
            self.window.counts(nanos(host.now()), settings.slot, generation)
        } else {
            Counts::default()
        };
        let streak = failures(self.streak.load(Ordering::Relaxed));
        Snapshot { state, why, trips, streak, calls: counts.total(), failures: counts.failed, slow: counts.slow }
    }

    pub(super) fn state(&self) -> State {
        self.lock().machine.state()
    }

    #[cold]
    fn end_streak(&self, generation: u32) {
        let mut seen = self.streak.load(Ordering::Relaxed);
        while failures(seen) != 0 && is_of(seen, generation) {
            let none = seen & !u64::from(u32::MAX);
            match self.streak.compare_exchange_weak(seen, none, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    fn lengthen_streak(&self, generation: u32) -> u32 {
        let longer = |seen| (is_of(seen, generation) && failures(seen) < u32::MAX).then(|| seen + 1);
        match self.streak.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer) {
            Ok(seen) => failures(seen) + 1,
            Err(_) => 0,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Guarded> {
        // Nothing foreign runs under the lock, so a poisoned one still holds a whole value.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[inline]
const fn failures(streak: u64) -> u32 {
    lower(streak)
}

#[inline]
const fn is_of(streak: u64, generation: u32) -> bool {
    upper(streak) == generation
}
