use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::machine::Machine;
use super::settings::Settings;
use super::ticket::{Ticket, lower, upper};
use super::unwind::OnUnwind;
use super::window::{Counts, Window};
use super::{Open, Snapshot, State, Transition};
use crate::sync::{AtomicU64, Mutex, MutexGuard};
use crate::time::nanos;
use crate::verdict::Health;

/// The services that a breaker needs from its upstream.
pub(crate) trait Owner {
    /// Returns the time on the upstream's clock, in nanoseconds.
    fn now(&self) -> u64;
    /// Returns a uniform random number. Foreign code, never called under the lock.
    fn draw_within(&self, range: RangeInclusive<u64>) -> u64;
    /// Returns whether an observer listens. Foreign code, never called under the lock.
    fn listens(&self) -> bool;
    /// Reports a transition. Foreign code, never called under the lock. `is_own` tells that the report
    /// of this owner made it, and not another one meanwhile.
    fn emit(&self, transition: Transition, is_own: bool);
}

/// The shared state of a breaker: atomic words for closed calls, and a machine under a lock.
///
/// Invariants:
/// 1. `phase` is `generation << 1 | refusing`, and is written under the lock only. The bit
///    `refusing` is set while the machine is not closed, and only the machine admits calls then.
/// 2. `streak` is `generation << 32 | failures since the last success`. A call of another
///    generation leaves `streak` alone. While the breaker refuses, the generation in `streak` is
///    that of the transition that began the refusal. No ticket has that generation, so no call
///    changes `streak` then.
/// 3. `refuses_until` is the end of the refusals while the machine is open, else 0. They end with
///    the open time, or with an advised pause that ends later. The word is written under the lock,
///    and a transition writes it before `phase`.
/// 4. `suspicion` is 1 if the last advice suspects the upstream, else 0. It is written under the
///    lock, together with the pause of the same advice, but it is read only where a failed or slow
///    call is counted. A transition leaves it alone: the advice is not the breaker's own count.
/// 5. Events enter and leave `unreported` under the lock, first in, first out. They are reported
///    outside the lock.
pub(super) struct Core {
    pub(super) settings: Settings,
    pub(super) phase: AtomicU64,
    pub(super) refuses_until: AtomicU64,
    /// The end of the refusals as far as it is known: earlier while another process probes. Only refusals
    /// tell it, so it is always the standard library's.
    pub(super) known_until: atomic::AtomicU64,
    pub(super) streak: AtomicU64,
    pub(super) suspicion: AtomicU64,
    pub(super) window: Window,
    /// The number of refused attempts since the breaker was last closed. Only events tell it, so it is
    /// not a subject of a model and is always the standard library's.
    pub(super) refused: atomic::AtomicU64,
    guarded: Mutex<Guarded>,
}

#[derive(Default)]
pub(super) struct Guarded {
    pub(super) machine: Machine,
    pub(super) unreported: VecDeque<Transition>,
    /// Set while a thread reports events. That thread also reports events added by other threads.
    pub(super) is_reporting: bool,
}

/// The outcome of a call, as the breaker counts it.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) health: Health,
    pub(crate) hint: Option<Duration>,
}

impl Outcome {
    pub(crate) const HEALTHY: Self = Self { health: Health::Healthy, hint: None };
}

impl Core {
    pub(super) const fn new() -> Self {
        Self {
            settings: Settings::new(),
            phase: AtomicU64::new(0),
            refuses_until: AtomicU64::new(0),
            known_until: atomic::AtomicU64::new(0),
            streak: AtomicU64::new(0),
            suspicion: AtomicU64::new(0),
            window: Window::new(),
            refused: atomic::AtomicU64::new(0),
            guarded: Mutex::new(Guarded {
                machine: Machine::new(),
                unreported: VecDeque::new(),
                is_reporting: false,
            }),
        }
    }

    /// Creates a closed breaker with the given number of past transitions.
    #[cfg(test)]
    pub(super) fn after_transitions(generation: u32) -> Self {
        let core = Self::new();
        core.phase.store(u64::from(generation) << 1, Ordering::Relaxed);
        core.streak.store(u64::from(generation) << 32, Ordering::Relaxed);
        core.lock().machine = Machine::after_transitions(generation);
        core
    }

    /// Admits or refuses a call.
    #[inline]
    pub(super) fn admit(&self, owner: &impl Owner) -> Result<Ticket, Open> {
        match self.admit_closed() {
            Some(ticket) => Ok(ticket),
            None => self.ask(owner).inspect_err(|_| self.note_refusal()),
        }
    }

    /// Admits a call if the breaker is closed, without asking the machine.
    #[inline]
    pub(super) fn admit_closed(&self) -> Option<Ticket> {
        let phase = self.phase.load(Ordering::Acquire);
        (phase & 1 == 0).then(|| Ticket::of_closed(phase >> 1))
    }

    #[cold]
    fn ask(&self, owner: &impl Owner) -> Result<Ticket, Open> {
        let now = owner.now();
        // Most calls to an open breaker are refused here, without the lock.
        let refuses_until = self.refuses_until.load(Ordering::Relaxed);
        if now < refuses_until {
            let known_until = match self.known_until.load(Ordering::Relaxed) {
                // A transition at this moment has written one of both numbers only.
                0 => refuses_until,
                known => known,
            };
            Err(Open::until(known_until, now))
        } else {
            self.ask_machine(now, owner)
        }
    }

    #[inline(never)]
    fn ask_machine(&self, now: u64, owner: &impl Owner) -> Result<Ticket, Open> {
        let listens = owner.listens();
        let mut guarded = self.lock();
        let (admitted, event) = guarded.machine.admit(now, &self.settings);
        let generation = guarded.machine.generation();
        let admitted = admitted.map(|probe| Ticket::new(generation, probe));
        // If an observer panics, the caller gets no ticket, and the probe's place is freed here.
        let give_back = OnUnwind(|| admitted.into_iter().for_each(|ticket| self.forget(ticket)));
        self.publish_and_emit(guarded, event.filter(|_| listens), owner);
        give_back.disarm();
        admitted
    }

    /// Counts a refused attempt, for the event of the closing.
    fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the refusal that every call within `delay` from now would get, if it is certain.
    pub(super) fn refusal_within(&self, delay: Duration, owner: &impl Owner) -> Option<Open> {
        if self.phase.load(Ordering::Acquire) & 1 == 0 {
            return None;
        }
        let now = owner.now();
        let guarded = self.lock();
        let (refuses_for, known_until) =
            (guarded.machine.refuses_for(now), guarded.machine.known_until());
        drop(guarded);
        (refuses_for > nanos(delay)).then(|| {
            self.note_refusal();
            Open::until(known_until, now)
        })
    }

    pub(super) fn reset(&self, owner: &impl Owner) {
        let listens = owner.listens();
        let mut guarded = self.lock();
        let event = guarded.machine.reset();
        self.publish_and_emit(guarded, event.filter(|_| listens), owner);
    }

    /// Isolates the breaker. If the observer panics, the isolation is undone: the caller then has
    /// no guard to release it.
    pub(super) fn isolate(&self, owner: &impl Owner) {
        let listens = owner.listens();
        let mut guarded = self.lock();
        let event = guarded.machine.isolate();
        let undo = OnUnwind(|| {
            let mut guarded = self.lock();
            // An unwinding thread does not call the observer. The next report begins with this.
            let event = guarded.machine.release();
            let event = event.map(|event| self.tell_refusals(event));
            guarded.unreported.extend(event.filter(|_| listens));
            self.publish(&guarded);
        });
        self.publish_and_emit(guarded, event.filter(|_| listens), owner);
        undo.disarm();
    }

    pub(super) fn release(&self, owner: &impl Owner) {
        // Release before any foreign code, and without asking `listens`: foreign code may panic,
        // and the guard of the isolation is already gone.
        let mut guarded = self.lock();
        let event = guarded.machine.release();
        self.publish_and_emit(guarded, event, owner);
    }

    pub(super) fn snapshot(&self, owner: &impl Owner) -> Snapshot {
        #[cfg(loom)] // loom's atomics must be used once before they are shared
        let _ = self.is_suspicious();
        let now = owner.now();
        let guarded = self.lock();
        let machine = &guarded.machine;
        let (state, reason, trips, generation) =
            (machine.state(), machine.reason(), machine.trips(), machine.generation());
        let (refusal, probes) = (Open::until(machine.known_until(), now), machine.probes(now));
        drop(guarded);
        let settings = &self.settings;
        let counts = if settings.counts_in_window() {
            self.window.counts(now, settings.slot, generation)
        } else {
            Counts::default()
        };
        let streak = failures(self.streak.load(Ordering::Relaxed));
        Snapshot {
            state,
            reason,
            trips,
            streak,
            calls: counts.total(),
            failures: counts.failed,
            slow: counts.slow,
            probes,
            retry_after: refusal.retry_after(),
        }
    }

    /// Adds the number of refusals to a closing.
    pub(super) fn tell_refusals(&self, event: Transition) -> Transition {
        match event {
            Transition::Closed { lasted, .. } => {
                Transition::Closed { refused: self.refused.load(Ordering::Relaxed), lasted }
            }
            other => other,
        }
    }

    pub(super) fn state(&self) -> State {
        self.lock().machine.state()
    }

    pub(super) fn is_probed(&self) -> bool {
        self.lock().machine.is_probed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Guarded> {
        // No foreign code runs under the lock, so a poisoned lock still guards a consistent value.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the last advice suspects the upstream.
    pub(super) fn is_suspicious(&self) -> bool {
        self.suspicion.load(Ordering::Relaxed) != 0
    }
}

#[inline]
pub(super) const fn failures(streak: u64) -> u32 {
    lower(streak)
}

#[inline]
pub(super) const fn is_of(streak: u64, generation: u32) -> bool {
    upper(streak) == generation
}
