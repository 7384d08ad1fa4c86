use std::cell::Cell;
use std::panic::Location;

/// Where in the source a run was made.
pub(crate) type Site = &'static Location<'static>;

thread_local! {
    /// The run whose attempt is being polled on this thread.
    static ATTEMPTING: Cell<Option<Site>> = const { Cell::new(None) };
}

/// Names the run that is at work on this thread, for as long as it is held.
pub(crate) struct Named {
    outer: Option<Site>,
}

impl Named {
    /// An attempt of the run made at `site` is about to be polled.
    #[inline]
    pub(crate) fn enter(site: Site) -> Self {
        Self { outer: ATTEMPTING.replace(Some(site)) }
    }

    /// The same where it is known that no run is at work.
    #[inline]
    pub(crate) fn outermost(site: Site) -> Self {
        ATTEMPTING.set(Some(site));
        Self { outer: None }
    }
}

impl Drop for Named {
    #[inline]
    fn drop(&mut self) {
        ATTEMPTING.set(self.outer);
    }
}

/// The run within whose attempt this is called, if any.
#[inline]
pub(crate) fn outer() -> Option<Site> {
    ATTEMPTING.get()
}
