use std::num::NonZeroU32;
use std::time::Duration;

use super::settings::{MAX_PROBES, Settings};
use super::trip::Trip;
use super::{Open, State, Transition, TripReason};
use crate::time::nanos;

/// The state machine of a breaker: pure, with time and drawn delays as arguments.
///
/// Invariants:
/// 1. Each transition begins a new generation. A call admitted in another generation has no effect.
/// 2. While half-open, a lease begins only if fewer leases run than results are missing. The last
///    missing result always decides: enough probes passed, or too many failed.
/// 3. A lease limits only the occupation of a place. After the lease the place is free for another
///    probe, but the result of the first probe still counts.
/// 4. While `phase` is `Closed`, `trips` and `last_open` are 0.
/// 5. A transition leaves `paused_until` and `is_probed` alone. Only an open machine regards it.
pub(super) struct Machine {
    phase: Phase,
    generation: u32,
    /// The number of openings since the breaker was last closed.
    trips: u32,
    /// The time of the first of them.
    opened_at: u64,
    last_open: Duration,
    reason: Option<TripReason>,
    isolations: u32,
    /// The id of the next probe.
    next: Probe,
    /// Used while half-open: the first `probes.all` places of the settings.
    places: [Place; MAX_PROBES],
    /// The end of the pause that other processes advise. It is less than `u64::MAX`.
    paused_until: u64,
    /// True if another process probes until then, unless its probes decide before.
    is_probed: bool,
}

enum Phase {
    Closed,
    Open { until: u64 },
    HalfOpen { passed: u32, failed: u32 },
}

/// A place for a running probe: its holder, and the end of its lease in nanoseconds.
#[derive(Clone, Copy)]
struct Place {
    holder: Option<Probe>,
    lease: u64,
}

const FREE: Place = Place { holder: None, lease: 0 };

/// The id of a probe. The ids of a breaker repeat after `u32::MAX` probes.
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
            opened_at: 0,
            last_open: Duration::ZERO,
            reason: None,
            isolations: 0,
            next: Probe::MIN,
            places: [FREE; MAX_PROBES],
            paused_until: 0,
            is_probed: false,
        }
    }

    /// Creates a closed machine with the given number of past transitions.
    #[cfg(test)]
    pub(super) fn after_transitions(generation: u32) -> Self {
        Self { generation, ..Self::new() }
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) const fn reason(&self) -> Option<TripReason> {
        self.reason
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

    /// Returns how long from `now` every call is refused, in nanoseconds (`u64::MAX`: isolated).
    pub(super) const fn refuses_for(&self, now: u64) -> u64 {
        match self.phase {
            _ if self.isolations > 0 => u64::MAX,
            Phase::Open { until } => self.open_until(until).saturating_sub(now),
            Phase::Closed | Phase::HalfOpen { .. } => 0,
        }
    }

    /// Returns the end of the refusals of an open breaker. `until` is the end of its open time.
    const fn open_until(&self, until: u64) -> u64 {
        if until < self.paused_until { self.paused_until } else { until }
    }

    /// Sets the end of the pause in which an open breaker does not become half-open. 0 ends it.
    #[cfg(feature = "fleet")]
    pub(super) fn pause(&mut self, until: u64, is_probed: bool) {
        self.is_probed = is_probed;
        // `refuses_for` returns the highest number for an isolation only.
        self.paused_until = until.min(u64::MAX - 1);
    }

    /// Ends the open time of an open breaker at `now`, if it is not over before.
    #[cfg(feature = "fleet")]
    pub(super) fn end_open(&mut self, now: u64) {
        if let Phase::Open { until } = &mut self.phase {
            *until = now.min(*until);
        }
    }

    /// Returns the number of probes that run within their lease, while half-open.
    pub(super) fn probes(&self, now: u64) -> u32 {
        if self.state() != State::HalfOpen {
            return 0;
        }
        self.places.iter().map(|place| u32::from(place.lease > now)).sum()
    }

    /// Returns the end of the refusals while open. Returns 0 while closed, half-open or isolated.
    pub(super) const fn refuses_until(&self) -> u64 {
        match self.phase {
            Phase::Open { until } if self.isolations == 0 => self.open_until(until),
            _ => 0,
        }
    }

    /// Returns the end of the refusals while open, as far as it is known: that of the own open time while
    /// another process probes. Returns 0 while closed, half-open or isolated.
    pub(super) const fn known_until(&self) -> u64 {
        match self.phase {
            Phase::Open { until } if self.isolations == 0 && self.is_probed => until,
            _ => self.refuses_until(),
        }
    }

    /// Returns whether the breaker is open, and for as long as another process probes when its open time is over.
    pub(super) const fn is_probed(&self) -> bool {
        self.is_probed && self.known_until() < self.refuses_until()
    }

    /// Admits or refuses a call. While half-open, an admitted call is a probe. The event is the
    /// transition caused by this call.
    pub(super) fn admit(
        &mut self,
        now: u64,
        settings: &Settings,
    ) -> (Result<Option<Probe>, Open>, Option<Transition>) {
        if self.isolations > 0 {
            return (Err(Open::UNKNOWN), None);
        }
        let mut event = None;
        match self.phase {
            Phase::Closed => return (Ok(None), None),
            Phase::Open { until } => {
                let until = self.open_until(until);
                if now < until {
                    return (Err(Open::until(self.known_until(), now)), None);
                }
                self.generation = self.generation.wrapping_add(1);
                self.phase = Phase::HalfOpen { passed: 0, failed: 0 };
                self.places.iter_mut().take(settings.probes.all).for_each(|place| *place = FREE);
                event = Some(Transition::HalfOpened);
            }
            Phase::HalfOpen { .. } => {}
        }
        let Phase::HalfOpen { passed, failed } = self.phase else { return (Ok(None), event) };
        let held = self.probes(now) as usize;
        let places = self.places.get_mut(..settings.probes.all).unwrap_or_default();
        let allowed = places.len().saturating_sub((passed + failed) as usize);
        // An expired lease is free (invariant 3). If `held < allowed`, there is a free place.
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
        // The probes decide, as soon as they end. Their leases are the longest time that this can take.
        (Err(Open::UNKNOWN), event)
    }

    /// Frees the place of an ended probe, unless another probe has the place now. Returns false for
    /// a probe of another generation.
    pub(super) fn take_back(&mut self, probe: Probe, generation: u32) -> bool {
        if !matches!(self.phase, Phase::HalfOpen { .. }) || generation != self.generation {
            return false; // invariant 1
        }
        if let Some(place) = self.places.iter_mut().find(|place| place.holder == Some(probe)) {
            *place = FREE;
        }
        true
    }

    /// Counts the result of a probe after [`take_back`](Self::take_back). A result after the lease
    /// counts too: a breaker whose calls all outlast the lease must still be able to close.
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
            let lasted = Duration::from_nanos(now.saturating_sub(self.opened_at));
            return Some(self.close(Some(lasted)));
        }
        let hopeless = failed > settings.probes.all - needed;
        let trip = Trip::new(TripReason::Probes, failed as u64, (passed + failed) as u64);
        hopeless.then(|| self.open(trip, after, now, settings, drawn))
    }

    /// The [`next_open`](Self::next_open) of a closed breaker (invariant 4).
    pub(super) const FIRST_OPEN: (u32, Duration) = (1, Duration::ZERO);

    /// Returns the input for drawing the next open time: the number of openings, counting the next
    /// one, and the last drawn delay.
    pub(super) const fn next_open(&self) -> (u32, Duration) {
        (self.trips.saturating_add(1), self.last_open)
    }

    /// Opens the breaker if it is still closed and in `generation`. `drawn` is the delay drawn for
    /// this opening.
    pub(super) fn trip(
        &mut self,
        generation: u32,
        trip: Trip,
        after: Option<Duration>,
        now: u64,
        settings: &Settings,
        drawn: Duration,
    ) -> Option<Transition> {
        let current = generation == self.generation && matches!(self.phase, Phase::Closed);
        current.then(|| self.open(trip, after, now, settings, drawn))
    }

    fn open(
        &mut self,
        trip: Trip,
        after: Option<Duration>,
        now: u64,
        settings: &Settings,
        drawn: Duration,
    ) -> Transition {
        if self.trips == 0 {
            self.opened_at = now;
        }
        self.trips = self.trips.saturating_add(1);
        self.generation = self.generation.wrapping_add(1);
        let Trip { reason, times, of } = trip;
        self.reason = Some(reason);
        let duration = drawn.max(after.unwrap_or_default().min(settings.hint_cap));
        self.last_open = drawn;
        self.phase = Phase::Open { until: now.saturating_add(nanos(duration)) };
        Transition::Opened { reason, times, of, duration, trips: self.trips }
    }

    /// Closes the breaker. Its owner knows the number of refusals.
    fn close(&mut self, lasted: Option<Duration>) -> Transition {
        self.generation = self.generation.wrapping_add(1);
        self.trips = 0;
        self.last_open = Duration::ZERO;
        self.reason = None;
        self.phase = Phase::Closed;
        Transition::Closed { refused: 0, lasted }
    }

    /// Closes the breaker by hand. Closing an isolated breaker is not an event, because its visible
    /// state does not change.
    pub(super) fn reset(&mut self) -> Option<Transition> {
        let was_closed = self.isolations > 0 || matches!(self.phase, Phase::Closed);
        let event = self.close(None);
        (!was_closed).then_some(event)
    }

    /// Adds a holder that keeps the breaker open.
    pub(super) fn isolate(&mut self) -> Option<Transition> {
        self.isolations = self.isolations.saturating_add(1);
        if self.isolations > 1 {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        Some(Transition::Isolated)
    }

    /// Removes a holder. The last removal closes the breaker.
    pub(super) fn release(&mut self) -> Option<Transition> {
        self.isolations = self.isolations.saturating_sub(1);
        if self.isolations > 0 {
            return None;
        }
        Some(self.close(None))
    }
}
