use std::borrow::Cow;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use pin_project_lite::pin_project;

use super::Engine;
use crate::error::inherited;
use crate::observe::{EventKind, Placed};
use crate::policy::{Doubt, Effect, Request, Sending};
use crate::upstream::{Endpoint, cut, dropped_last, drops_with_call};

/// The state of a call's attempt, as its future has it.
pub(crate) trait Attempting: Sized {
    /// The state after the end, without an attempt.
    const DONE: Self;

    /// Returns whether an attempt is there.
    fn has_attempt(&self) -> bool;
}

impl<F> Attempting for Option<F> {
    const DONE: Self = None;

    #[inline]
    fn has_attempt(&self) -> bool {
        self.is_some()
    }
}

pin_project! {
    /// An attempt that is asked whether it has sent its request if its call is dropped with it. A future declares it
    /// before its [`Engine`], whose drop reads the answer.
    pub(crate) struct Watched<S>
    where
        S: Attempting,
    {
        #[pin]
        attempting: S,
    }

    impl<S> PinnedDrop for Watched<S>
    where
        S: Attempting,
    {
        fn drop(this: Pin<&mut Self>) {
            if this.attempting.has_attempt() {
                let mut attempting = this.project().attempting;
                drops_with_call(|| attempting.set(S::DONE));
            }
        }
    }
}

impl<S: Attempting> Watched<S> {
    #[inline]
    pub(crate) const fn new(attempting: S) -> Self {
        Self { attempting }
    }

    #[inline]
    pub(crate) const fn get(&self) -> &S {
        &self.attempting
    }

    #[inline]
    pub(crate) fn pinned(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().attempting
    }
}

/// The drop of a call whose attempt is in flight: no error reaches anybody, so the observer is the only witness.
impl<X: Endpoint, const N: usize> Drop for Engine<X, N> {
    #[inline]
    fn drop(&mut self) {
        if !self.until.is_nothing() {
            self.tell_dropped();
        }
    }
}

/// The place that the call has kept, and what its attempt has said of its request.
struct Kept<'a>(Option<&'a str>, &'static str);

impl Placed for Kept<'_> {
    fn place(&self) -> Option<Cow<'_, str>> {
        self.0.map(Cow::Borrowed)
    }

    fn dropped(&self) -> &'static str {
        self.1
    }
}

impl<X: Endpoint, const N: usize> Engine<X, N> {
    /// Reports the drop to the observer. A call that a limit of another call drops is told by that one, unless that
    /// one does not tell of the doubt. A second panic within a panic would end the process.
    #[cold]
    #[inline(never)]
    fn tell_dropped(&self) {
        let is_keyed = self.last_cut.is_keyed();
        if !self.until.is_in_flight() {
            return inherited::note_end(Doubt::No, is_keyed, self.last_cut.has_effect());
        }
        let target = &self.guard.target;
        let sending = self.last_cut.asked().unwrap_or_else(dropped_last);
        let is_order = self.last_cut.leaves_doubt();
        let is_unsent = sending == Sending::NotSent;
        let left = if is_unsent { Doubt::No } else { self.last_cut.doubt() };
        let in_doubt = left == Doubt::Stated;
        inherited::note_end(left, is_keyed, !is_unsent || self.last_cut.has_effect());
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
        // Nobody asks for the effect of a request that may be sent again.
        let request = if is_order { Request::Unknown } else { Request::Idempotent };
        let may_have = self.last_cut.has_effect();
        let effect = Effect { may_have, request, ..Effect::default() };
        let place = Kept(self.place.as_deref(), effect.of_attempt(sending));
        self.observe(kind, self.call(u32::MAX), Some(&place), || now);
    }
}
