use std::sync::atomic::Ordering;

use super::core::{Core, Guarded, Owner};
use super::ticket::lower;
use super::unwind::OnUnwind;
use super::{State, Transition};
use crate::sync::MutexGuard;

/// What follows a step of the machine.
impl Core {
    /// Publishes what the machine did, lets go of the lock and tells the event.
    pub(super) fn leave(
        &self,
        guarded: MutexGuard<'_, Guarded>,
        event: Option<Transition>,
        owner: &impl Owner,
    ) {
        self.publish(&guarded);
        if event.is_some() || !guarded.unreported.is_empty() {
            self.flush(guarded, event, owner);
        }
    }

    /// Publishes what the machine did.
    pub(super) fn publish(&self, guarded: &Guarded) {
        let machine = &guarded.machine;
        let (generation, refusing) = (machine.generation(), machine.state() != State::Closed);
        let phase = (u64::from(generation) << 1) | u64::from(refusing);
        let before = self.phase.load(Ordering::Relaxed);
        if phase == before {
            return;
        }
        self.window.transition(lower(before >> 1), generation);
        self.refuses_until.store(machine.refuses_until(), Ordering::Relaxed);
        // The streak goes first: who reads the new phase finds the new streak. Swapped, so that it has its place in
        // one order with the steps that lengthen and end it. From one state that refuses to the next it stays, as
        // nobody lengthens or ends it there.
        if before & phase & 1 == 0 {
            self.streak.swap(u64::from(generation) << 32, Ordering::Relaxed);
        }
        self.phase.store(phase, Ordering::Release);
    }

    /// Queues the event; tells what is queued, unless somebody does already.
    #[cold]
    #[inline(never)]
    fn flush(
        &self,
        mut guarded: MutexGuard<'_, Guarded>,
        event: Option<Transition>,
        owner: &impl Owner,
    ) {
        guarded.unreported.extend(event);
        if guarded.is_reporting {
            return;
        }
        // Not always this event: an observer's panic leaves some behind.
        let Some(first) = guarded.unreported.pop_front() else { return };
        guarded.is_reporting = true;
        drop(guarded);
        self.emit(first, owner);
    }

    /// Tells an event and all that come meanwhile, in order.
    fn emit(&self, first: Transition, owner: &impl Owner) {
        // Lets the next one tell, also when the observer panics.
        let stop = OnUnwind(|| self.lock().is_reporting = false);
        let mut event = first;
        loop {
            if owner.listens() {
                owner.emit(event);
            }
            let mut guarded = self.lock();
            let Some(next) = guarded.unreported.pop_front() else {
                guarded.is_reporting = false; // under the same lock that saw nothing left
                stop.disarm();
                return;
            };
            event = next;
        }
    }
}
