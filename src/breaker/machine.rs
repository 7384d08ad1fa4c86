use std::num::NonZeroU32;
use std::time::Duration;

use super::settings::{MAX_PROBES, Settings};
use super::{Open, State, Transition, TripReason};
use crate::time::nanos;

/// What the breaker does when it does not simply let calls through: pure, with time and chance as arguments.
///
/// Invariants:
/// 1. Every move has a generation of its own; what was admitted in another one decides nothing.
/// 2. Half-open, no more leases run at once than there are probes left to count. The counts decide before none is left.
/// 3. A lease is about the place only: one that ran out is free to be let out again.
/// 4. Closed, it has forgotten how often and for how long it was open.
pub(super) struct Machine {
    phase: Phase,
    generation: u32,
    /// How often it opened since it was last closed.
    trips: u32,
    last_open: Duration,
    why: Option<TripReason>,
    isolations: u32,
    /// The next probe's name.
    next: Probe,
    /// Of use while half-open, as many as there are probes.
    places: [Place; MAX_PROBES],
}

enum Phase {
    Closed,
    Open { until: u64 },
    HalfOpen { passed: u32, failed: u32 },
}

/// A place among the probes: who holds it, and until when.
#[derive(Clone, Copy)]
struct Place {
    holder: Option<Probe>,
    lease: u64,
}

const FREE: Place = Place { holder: None, lease: 0 };

/// Names a probe among all that a breaker ever lets out.
pub(super) type Probe = NonZeroU32;

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Closed,
            generation: 0,
            trips: 0,
            last_open: Duration::ZERO,
            why: None,
            isolations: 0,
            next: Probe::MIN,
            places: [FREE; MAX_PROBES],
        }
    }

    /// A closed one after that many transitions.
    #[cfg(test)]
    pub(super) fn after_transitions(generation: u32) -> Self {
        Self { generation, ..Self::new() }
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) const fn why(&self) -> Option<TripReason> {
        self.why
    }

    pub(super) const fn trips(&self) -> u32 {
        self.trips
    }

    pub(super) const fn state(&self) -> State {
        match self.phase {
            _ if self.isolations > 0 => State::Isolated,
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// For how long from `now` no call passes, whoever asks: in nanoseconds, without end while isolated.
    pub(super) const fn refuses_for(&self, now: u64) -> u64 {
        match self.phase {
            _ if self.isolations > 0 => u64::MAX,
            Phase::Open { until } => until.saturating_sub(now),
            Phase::Closed | Phase::HalfOpen { .. } => 0,
        }
    }

    /// Until when it is open and refuses whoever asks; 0 where that depends on who asks, and while isolated.
    pub(super) const fn refuses_until(&self) -> u64 {
        match self.phase {
            Phase::Open { until } if self.isolations == 0 => until,
            _ => 0,
        }
    }

    /// Lets a call through, as a probe where it is one, or not. The event is that of a move this made.
    pub(super) fn admit(
        &mut self,
        now: u64,
        settings: &Settings,
    ) -> (Result<Option<Probe>, Open>, Option<Transition>) {
        if self.isolations > 0 {
            return (Err(Open::new(None)), None);
        }
        let mut event = None;
        match self.phase {
            Phase::Closed => return (Ok(None), None),
            Phase::Open { until } if now < until => {
                return (Err(Open::new(Some(until - now))), None);
            }
            Phase::Open { .. } => {
                self.generation = self.generation.wrapping_add(1);
                self.phase = Phase::HalfOpen { passed: 0, failed: 0 };
                self.places.iter_mut().take(settings.probes.all).for_each(|place| *place = FREE);
                event = Some(Transition::HalfOpened);
            }
            Phase::HalfOpen { .. } => {}
        }
        let Phase::HalfOpen { passed, failed } = self.phase else { return (Ok(None), event) };
        let places = self.places.get_mut(..settings.probes.all).unwrap_or_default();
        let allowed = places.len().saturating_sub((passed + failed) as usize);
        let held = places.iter().filter(|place| place.lease > now).count();
        // Invariant 3; there is a free place where fewer are held than allowed.
        let free = places.iter_mut().find(|place| place.lease <= now);
        if let Some(place) = free.filter(|_| held < allowed) {
            let probe = self.next;
            self.next = probe.checked_add(1).unwrap_or(Probe::MIN);
            *place = Place {
                holder: Some(probe),
                lease: now.saturating_add(nanos(settings.lease).max(1)),
            };
            return (Ok(Some(probe)), event);
        }
        let next = places.iter().map(|place| place.lease).filter(|lease| *lease > now).min();
        (Err(Open::new(next.map(|lease| lease - now))), event)
    }

    /// A probe ended: its place is free, unless it was let out again since. False if it was of another generation.
    pub(super) fn take_back(&mut self, probe: Probe, generation: u32) -> bool {
        if !matches!(self.phase, Phase::HalfOpen { .. }) || generation != self.generation {
            return false; // invariant 1
        }
        if let Some(place) = self.places.iter_mut().find(|place| place.holder == Some(probe)) {
            *place = FREE;
        }
        true
    }

    /// Counts the result of a probe whose place was taken back; `now` matters if it did not pass. One that comes after
    /// its lease counts as well: where all calls outlast it, the breaker must close all the same.
    pub(super) fn count(
        &mut self,
        probe_passed: bool,
        after: Option<Duration>,
        now: u64,
        settings: &Settings,
        drawn: Duration,
    ) -> Option<Transition> {
        let Phase::HalfOpen { passed, failed } = &mut self.phase else { return None };
        if probe_passed {
            *passed += 1;
        } else {
            *failed += 1;
        }
        let (passed, failed, needed) = (*passed as usize, *failed as usize, settings.probes.needed);
        if passed >= needed {
            return Some(self.close());
        }
        let hopeless = failed > settings.probes.all - needed;
        hopeless.then(|| self.open(TripReason::Probes, after, now, settings, drawn))
    }

    /// What a closed breaker's [`next_open`](Self::next_open) is (invariant 4).
    pub(super) const FIRST_OPEN: (u32, Duration) = (1, Duration::ZERO);

    /// What the delay is drawn from for which it would open next: how often it has then opened, and the delay before.
    pub(super) const fn next_open(&self) -> (u32, Duration) {
        (self.trips.saturating_add(1), self.last_open)
    }

    /// Opens, if it is still the closed breaker of that generation. `drawn` is the delay that was drawn for it.
    pub(super) fn trip(
        &mut self,
        generation: u32,
        why: TripReason,
        after: Option<Duration>,
        now: u64,
        settings: &Settings,
        drawn: Duration,
    ) -> Option<Transition> {
        let current = generation == self.generation && matches!(self.phase, Phase::Closed);
        current.then(|| self.open(why, after, now, settings, drawn))
    }

    fn open(
        &mut self,
        why: TripReason,
        after: Option<Duration>,
        now: u64,
        settings: &Settings,
        drawn: Duration,
    ) -> Transition {
        self.trips = self.trips.saturating_add(1);
        self.generation = self.generation.wrapping_add(1);
        self.why = Some(why);
        let duration = drawn.max(after.unwrap_or_default().min(settings.hint_cap));
        self.last_open = drawn;
        self.phase = Phase::Open { until: now.saturating_add(nanos(duration)) };
        Transition::Opened { why, duration, trips: self.trips }
    }

    fn close(&mut self) -> Transition {
        self.generation = self.generation.wrapping_add(1);
        self.trips = 0;
        self.last_open = Duration::ZERO;
        self.why = None;
        self.phase = Phase::Closed;
        Transition::Closed
    }

    /// Closes by hand, whatever was. While it is isolated nobody can see that, so it is no event.
    pub(super) fn reset(&mut self) -> Option<Transition> {
        let was_closed = self.isolations > 0 || matches!(self.phase, Phase::Closed);
        let event = self.close();
        (!was_closed).then_some(event)
    }

    /// One more holder keeps it open.
    pub(super) fn isolate(&mut self) -> Option<Transition> {
        self.isolations = self.isolations.saturating_add(1);
        if self.isolations > 1 {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        Some(Transition::Isolated)
    }

    /// A holder let go; the last one closes the breaker.
    pub(super) fn release(&mut self) -> Option<Transition> {
        self.isolations = self.isolations.saturating_sub(1);
        if self.isolations > 0 {
            return None;
        }
        Some(self.close())
    }
}
