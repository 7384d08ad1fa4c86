use std::sync::atomic::Ordering;

use super::core::{Core, Guarded, Owner};
use super::machine::Machine;
use super::ticket::lower;
use super::unwind::OnUnwind;
use super::{State, Transition};
use crate::sync::MutexGuard;

/// The publication of each step of the machine.
impl Core {
    /// Publishes the state of the machine, unlocks it and reports the event.
    pub(super) fn publish_and_emit(
        &self,
        guarded: MutexGuard<'_, Guarded>,
        event: Option<Transition>,
        owner: &impl Owner,
    ) {
        let event = event.map(|event| self.tell_refusals(event));
        self.publish(&guarded);
        if event.is_some() || !guarded.unreported.is_empty() {
            self.flush(guarded, event, owner);
        }
    }

    /// Publishes the state of the machine to the atomic words.
    pub(super) fn publish(&self, guarded: &Guarded) {
        let machine = &guarded.machine;
        let (generation, refusing) = (machine.generation(), machine.state() != State::Closed);
        let phase = (u64::from(generation) << 1) | u64::from(refusing);
        let before = self.phase.load(Ordering::Relaxed);
        if phase == before {
            return;
        }
        self.window.transition(lower(before >> 1), generation);
        self.publish_refusals(machine);
        // The streak is written before `phase`: a thread that reads the new phase must find the new
        // streak. The `swap` has its place in one order with the read-modify-writes of other
        // threads. Between two refusing states the streak stays (invariant 2 of `Core`).
        if before & phase & 1 == 0 {
            self.streak.swap(u64::from(generation) << 32, Ordering::Relaxed);
            self.refused.store(0, Ordering::Relaxed);
        }
        self.phase.store(phase, Ordering::Release);
    }

    /// Publishes the end of the refusals, and the part of it that is known.
    pub(super) fn publish_refusals(&self, machine: &Machine) {
        self.refuses_until.store(machine.refuses_until(), Ordering::Relaxed);
        self.known_until.store(machine.known_until(), Ordering::Relaxed);
    }

    /// Queues the event, then reports the queue unless another thread is reporting.
    #[cold]
    #[inline(never)]
    fn flush(
        &self,
        mut guarded: MutexGuard<'_, Guarded>,
        event: Option<Transition>,
        owner: &impl Owner,
    ) {
        let is_new = event.is_some();
        guarded.unreported.extend(event);
        if guarded.is_reporting {
            return;
        }
        // The owner's own event is the last one, and others come behind it.
        let own = guarded.unreported.len().checked_sub(1).filter(|_| is_new);
        // The first event may be an older one, left behind by an observer's panic.
        let Some(first) = guarded.unreported.pop_front() else { return };
        guarded.is_reporting = true;
        drop(guarded);
        self.emit(first, own, owner);
    }

    /// Reports `first` and all events queued meanwhile, in order. `own` is the place of the owner's own
    /// event among them.
    fn emit(&self, first: Transition, own: Option<usize>, owner: &impl Owner) {
        // After a panic of the observer, another thread may report.
        let stop = OnUnwind(|| self.lock().is_reporting = false);
        let (mut event, mut place) = (first, 0_usize);
        loop {
            if owner.listens() {
                owner.emit(event, own == Some(place));
            }
            place = place.wrapping_add(1);
            let mut guarded = self.lock();
            let Some(next) = guarded.unreported.pop_front() else {
                guarded.is_reporting = false; // under the lock that found the queue empty
                stop.disarm();
                return;
            };
            event = next;
        }
    }
}
