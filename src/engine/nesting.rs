use std::cell::{Cell, RefCell};
use std::panic::Location;

/// A call site in the source.
pub(crate) type Site = &'static Location<'static>;

thread_local! {
    /// The call whose attempt this thread is polling.
    static POLLED: Cell<Option<Site>> = const { Cell::new(None) };
    /// The counted calls whose attempts this thread is polling. The outermost is first.
    static COUNTED: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
    /// True while this thread polls an alternative of a fallback that writes lines.
    static TOLD: Cell<bool> = const { Cell::new(false) };
    /// The call whose attempt the thread polled before such an alternative.
    static AROUND: Cell<Option<Site>> = const { Cell::new(None) };
    /// True if the latest call that gave up in such an alternative did so in a surge.
    static SURGES: Cell<bool> = const { Cell::new(false) };
}

/// A call counted by an observer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counted {
    /// The address of the upstream's name.
    upstream: usize,
    /// True if its attempts are counted too. Those of a fallback are not.
    attempts: bool,
}

/// A guard that marks a call as polled on this thread.
pub(crate) struct Polled {
    outer: Option<Site>,
    is_counted: bool,
    /// True if this guard has set `TOLD`.
    tells: bool,
}

impl Polled {
    /// Marks the start of polling an attempt.
    ///
    /// `site` is the call site. `None` is for a hedge, a fallback or a single attempt, in which a
    /// retry is intended, and for a policy with one attempt. `is_counted` is true after [`count`], and `tells`
    /// after [`tell`].
    #[inline]
    pub(super) fn enter(site: Option<Site>, is_counted: bool, tells: bool) -> Self {
        let outer = POLLED.get();
        if site.is_some() {
            POLLED.set(site);
        }
        Self { outer, is_counted, tells }
    }
}

/// Adds a call to those whose attempts this thread polls. `attempts` is true if its attempts are
/// counted too. Returns false if the thread ends.
#[cold]
pub(super) fn count(name: &str, attempts: bool) -> bool {
    let counted = Counted { upstream: address(name), attempts };
    COUNTED.try_with(|all| all.borrow_mut().push(counted)).is_ok()
}

/// Notes that the lines of a fallback will have the words of the ends of the calls within the alternative
/// that this thread polls. Returns false if those of another fallback around it have them already.
#[cold]
pub(super) fn tell() -> bool {
    let is_first = !TOLD.replace(true);
    if is_first {
        AROUND.set(POLLED.get());
        SURGES.set(false);
    }
    is_first
}

/// Returns whether this runs within an alternative of a fallback that writes lines.
pub(super) fn is_told() -> bool {
    TOLD.get()
}

/// Returns whether this runs within such an alternative, and not within an attempt of a call there.
pub(super) fn is_alternative() -> bool {
    TOLD.get() && AROUND.get() == POLLED.get()
}

/// Notes whether a call gives up in a surge of such calls.
pub(super) fn note_surge(surges: bool) {
    SURGES.set(surges);
}

/// Returns whether the latest call that gave up in an alternative did so in a surge.
pub(super) fn surges() -> bool {
    SURGES.get()
}

impl Drop for Polled {
    #[inline]
    fn drop(&mut self) {
        POLLED.set(self.outer);
        if self.is_counted {
            let _ = COUNTED.try_with(|all| all.borrow_mut().pop());
        }
        if self.tells {
            TOLD.set(false);
        }
    }
}

fn address(name: &str) -> usize {
    name.as_ptr().addr()
}

/// Returns the call site of the call whose attempt this thread is polling.
#[inline]
pub(crate) fn outer() -> Option<Site> {
    POLLED.get()
}

/// Returns whether this runs within an attempt of a counted call on the upstream `name`, and
/// whether the attempts of such a call are counted.
pub(crate) fn is_part(name: &str) -> (bool, bool) {
    let upstream = address(name);
    let find = |all: &RefCell<Vec<Counted>>| {
        let all = all.borrow();
        let mut outer = all.iter().filter(|outer| outer.upstream == upstream).peekable();
        (outer.peek().is_some(), outer.any(|outer| outer.attempts))
    };
    COUNTED.try_with(find).unwrap_or_default()
}
