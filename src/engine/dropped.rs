use std::borrow::Cow;
use std::thread;
use std::time::Duration;

use super::Engine;
use crate::observe::{EventKind, Placed};
use crate::upstream::{Endpoint, cut};

/// The drop of a call whose attempt is in flight: no error reaches anybody, so the observer is the only witness.
impl<X: Endpoint, const N: usize> Drop for Engine<X, N> {
    #[inline]
    fn drop(&mut self) {
        if self.until.is_in_flight() {
            self.tell_dropped();
        }
    }
}

/// The place that the call has kept.
struct Kept<'a>(Option<&'a str>);

impl Placed for Kept<'_> {
    fn place(&self) -> Option<Cow<'_, str>> {
        self.0.map(Cow::Borrowed)
    }
}

impl<X: Endpoint, const N: usize> Engine<X, N> {
    /// Reports the drop to the observer. A call that a limit of another call drops is told by that one, unless that
    /// one does not tell of the doubt. A second panic within a panic would end the process.
    #[cold]
    #[inline(never)]
    fn tell_dropped(&self) {
        let target = &self.guard.target;
        let in_doubt = self.last_cut.leaves_doubt();
        let is_told = cut().is_some_and(|tells_doubt| tells_doubt || !in_doubt);
        if !target.listens() || is_told || thread::panicking() {
            return;
        }
        let now = target.reading().unwrap_or(self.started);
        let elapsed = if self.clock_runs() { now.saturating_sub(self.started) } else { 0 };
        let kind = EventKind::Dropped {
            attempts: self.guard.progress.attempts,
            elapsed: Duration::from_nanos(elapsed),
            in_doubt,
        };
        let place = Kept(self.place.as_deref());
        self.observe(kind, self.call(u32::MAX), Some(&place), || now);
    }
}
