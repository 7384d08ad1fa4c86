use std::cell::Cell;

use crate::quota::Demand;

thread_local! {
    /// The priority of the attempts that this thread polls.
    static AROUND: Cell<u8> = const { Cell::new(0) };
}

/// A guard that gives the priority of an attempt to the calls within it. It lives while the attempt is
/// polled.
pub(crate) struct Around(Option<u8>);

impl Around {
    /// A `priority` of 0 leaves that of the attempt around.
    #[inline]
    pub(crate) fn enter(priority: u8) -> Self {
        Self((priority > 0).then(|| AROUND.replace(priority)))
    }
}

impl Drop for Around {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            AROUND.set(before);
        }
    }
}

/// Returns the demand with the priority of the attempt around it, if it has none of its own.
pub(super) fn inherited<'a>(demand: &Demand<'a>) -> Demand<'a> {
    let mut demand = *demand;
    if demand.standing.priority == 0 {
        demand.standing.priority = AROUND.get();
    }
    demand
}
