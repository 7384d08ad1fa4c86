//! The deadline of a fallback, for the calls within its alternative.
//!
//! Such a call often has its share of the fallback's time. Then both have one deadline, and their timers end in any
//! order. So the fallback polls its alternative once more at the deadline. Meanwhile a call whose own
//! deadline is as near as the timers are exact ends in its own words, and any other call tells its name.

use std::cell::Cell;
use std::time::Duration;

use super::{Engine, NO_LIMIT};
use crate::question;
use crate::time::{Timer, nanos};
use crate::upstream::{Endpoint, Name};

thread_local! {
    /// True while a fallback polls its alternative at its deadline.
    static OVERDUE: Cell<bool> = const { Cell::new(false) };
    /// The name of the outermost call within the alternative.
    static NAME: Cell<Option<Name>> = const { Cell::new(None) };
}

/// The time by which two timers of one deadline may differ.
const SLACK: u64 = nanos(Duration::from_millis(2));

/// Polls an alternative by `poll` at the deadline of its fallback. Returns also the name of the call in it.
pub(super) fn poll_overdue<R>(poll: impl FnOnce() -> R) -> (R, Option<Name>) {
    let take = || NAME.try_with(Cell::take).ok().flatten();
    // A panic may have left one.
    drop(take());
    let (polled, _) = question::ask(&OVERDUE, true, poll);
    (polled, take())
}

impl<X: Endpoint, const N: usize> Engine<X, N> {
    /// Tells the name of this call with an attempt in flight or in a wait, if the fallback around it has
    /// reached its deadline. A call around this one tells its name later.
    #[inline]
    pub(crate) fn tell_name(&self) {
        if OVERDUE.get() {
            self.set_name();
        }
    }

    #[cold]
    fn set_name(&self) {
        if let Some(name) = self.guard.target.owned_name() {
            let _ = NAME.try_with(|cell| cell.set(Some(name)));
        }
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Returns whether the deadline `ends_at` of this call coincides with that of a fallback around it, which
    /// is now. This call has begun later than its alternative, so a hundredth of its time counts too.
    #[inline]
    pub(super) fn ends_with_outer(&self, ends_at: u64) -> bool {
        OVERDUE.get() && ends_at != NO_LIMIT && self.is_close(ends_at)
    }

    #[cold]
    fn is_close(&self, ends_at: u64) -> bool {
        let total = ends_at.saturating_sub(self.started);
        ends_at.saturating_sub(self.now()) <= SLACK + total / 100
    }
}
