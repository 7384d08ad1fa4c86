use std::cell::{Cell, RefCell};
use std::panic::Location;

/// Where in the source a call was made.
pub(crate) type Site = &'static Location<'static>;

thread_local! {
    /// The call whose attempt is polled on this thread.
    static POLLED: Cell<Option<Site>> = const { Cell::new(None) };
    /// Of the calls whose attempts are polled on this thread, those that an observer counts; the outermost first.
    static COUNTED: RefCell<Vec<Counted>> = const { RefCell::new(Vec::new()) };
}

/// A call that an observer counts.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counted {
    /// The address of the upstream's name.
    upstream: usize,
    /// Whether its attempts count too, as all but those of a fallback do.
    attempts: bool,
}

/// Names the call whose attempt is polled, for as long as it is held.
pub(crate) struct Polled {
    outer: Option<Site>,
    is_counted: bool,
}

impl Polled {
    /// An attempt of the call made at `site` is about to be polled; without a site, of one within which others belong.
    /// `upstream` is the name of its upstream where an observer counts the call, and `attempts` says whether its attempts
    /// count.
    #[inline]
    pub(crate) fn enter(site: Option<Site>, upstream: Option<&str>, attempts: bool) -> Self {
        let is_counted = upstream.is_some_and(|name| count(name, attempts));
        let outer = POLLED.get();
        if site.is_some() {
            POLLED.set(site);
        }
        Self { outer, is_counted }
    }

    /// The same where it is known that no attempt is polled, and that no observer counts.
    #[inline]
    pub(crate) fn outermost(site: Site) -> Self {
        POLLED.set(Some(site));
        Self { outer: None, is_counted: false }
    }
}

#[cold]
fn count(name: &str, attempts: bool) -> bool {
    let counted = Counted { upstream: address(name), attempts };
    COUNTED.try_with(|all| all.borrow_mut().push(counted)).is_ok()
}

impl Drop for Polled {
    #[inline]
    fn drop(&mut self) {
        POLLED.set(self.outer);
        if self.is_counted {
            let _ = COUNTED.try_with(|all| all.borrow_mut().pop());
        }
    }
}

fn address(name: &str) -> usize {
    name.as_ptr().addr()
}

/// Returns the call within whose attempt this is called, if any.
#[inline]
pub(crate) fn outer() -> Option<Site> {
    POLLED.get()
}

/// Returns whether this is called within an attempt of another call on the upstream of that name, and whether such an
/// attempt counts itself.
pub(crate) fn is_part(name: &str) -> (bool, bool) {
    let upstream = address(name);
    let find = |all: &RefCell<Vec<Counted>>| {
        let all = all.borrow();
        let mut outer = all.iter().filter(|outer| outer.upstream == upstream).peekable();
        (outer.peek().is_some(), outer.any(|outer| outer.attempts))
    };
    COUNTED.try_with(find).unwrap_or_default()
}
