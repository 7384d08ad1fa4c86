//! The calls whose attempts are polled at this moment, and what they count.

use std::cell::RefCell;

/// A call whose attempt is polled.
struct Outer {
    name: &'static str,
    counted: &'static [&'static str],
}

thread_local! {
    /// Those on this thread, the outermost first.
    static OUTER: RefCell<Vec<Outer>> = const { RefCell::new(Vec::new()) };
}

/// Names a call as the innermost, for as long as it is held.
pub(super) struct Entered;

impl Entered {
    /// An attempt of the call is about to be polled. `None` on a thread that ends.
    pub(super) fn new(name: &'static str, counted: &'static [&'static str]) -> Option<Self> {
        OUTER.try_with(|outer| outer.borrow_mut().push(Outer { name, counted })).ok().map(|()| Self)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = OUTER.try_with(|outer| outer.borrow_mut().pop());
    }
}

/// Returns whether this runs within an attempt of a call of that name which counts in that series.
pub(super) fn counts(name: &str, series: &str) -> bool {
    let counts = |outer: &Outer| outer.name == name && outer.counted.contains(&series);
    OUTER.try_with(|outer| outer.borrow().iter().any(counts)).unwrap_or(false)
}
