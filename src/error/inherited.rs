//! The facts that the calls within an alternative leave to its fallback.
//!
//! A fallback does not know the type of its errors, and a call that it drops has no error at all. So a question is open
//! on this thread while a fallback polls or drops an alternative, and each call in it that ends without success answers.

use std::cell::Cell;

use crate::policy::Doubt;
use crate::question;

thread_local! {
    /// The facts until now. `None` without a fallback that asks.
    static SEEN: Cell<Option<Inherited>> = const { Cell::new(None) };
}

/// The facts about the requests of the calls that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// True if a stream has shown a part of its answer that nothing completes.
    pub(crate) has_part: bool,
    /// The doubt that the calls leave.
    pub(crate) doubt: Doubt,
    /// True if a request has a key and may have been executed.
    pub(crate) states_key: bool,
    /// True if a request may have been executed.
    pub(crate) may_have: bool,
}

impl Inherited {
    /// Returns both facts as one.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            has_part: self.has_part || other.has_part,
            doubt: self.doubt.max(other.doubt),
            states_key: self.states_key || other.states_key,
            may_have: self.may_have || other.may_have,
        }
    }
}

/// The doubt that the drop of an attempt in flight leaves, and whether its request has a key. A fallback hears both if this
/// value is dropped with the attempt.
pub(crate) struct Left(Doubt, bool);

impl Left {
    #[inline]
    pub(crate) const fn nothing() -> Self {
        Self(Doubt::No, false)
    }

    #[inline]
    pub(crate) const fn set(&mut self, (doubt, has_key): (Doubt, bool)) {
        (self.0, self.1) = (doubt, has_key);
    }

    /// Forgets it, because the attempt has ended.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.set((Doubt::No, false));
    }
}

impl Drop for Left {
    #[inline]
    fn drop(&mut self) {
        if self.0 != Doubt::No || self.1 {
            note_end(self.0, self.1, true);
        }
    }
}

/// Polls or drops an alternative by `run`. Returns also what its calls leave. A fallback around this one sees it too.
pub(crate) fn inherit<R>(run: impl FnOnce() -> R) -> (R, Inherited) {
    let (ran, seen) = question::ask(&SEEN, Some(Inherited::default()), run);
    let seen = seen.flatten().unwrap_or_default();
    note(seen);
    (ran, seen)
}

/// Returns whether a fallback asks.
pub(crate) fn is_asked() -> bool {
    SEEN.try_with(|cell| cell.get().is_some()).unwrap_or(false)
}

/// Notes that a stream is dropped which has shown a part of an answer.
#[cfg(feature = "stream")]
pub(crate) fn note_part() {
    note(Inherited { has_part: true, ..Inherited::default() });
}

/// Notes what a call leaves that ends without success or is dropped. `has_key` is true if its request has a key, and
/// `may_have` if it may have been executed.
pub(crate) fn note_end(doubt: Doubt, has_key: bool, may_have: bool) {
    note(Inherited { has_part: false, doubt, states_key: has_key && may_have, may_have });
}

fn note(news: Inherited) {
    let _ = SEEN.try_with(|cell| cell.set(cell.get().map(|seen| seen.and(news))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_inherits_from_each_call_and_so_does_the_one_around_it() {
        note_end(Doubt::Stated, true, true);
        assert!(!is_asked());
        let ((), outer) = inherit(|| {
            assert!(is_asked());
            let ((), inner) = inherit(|| {
                note_end(Doubt::No, true, false);
                note_end(Doubt::Unstated, false, false);
            });
            assert_eq!(
                (inner.doubt, inner.states_key, inner.may_have),
                (Doubt::Unstated, false, false)
            );
            note_end(Doubt::Stated, true, true);
        });
        assert!(outer.may_have);
        assert_eq!((outer.doubt, outer.states_key, outer.has_part), (Doubt::Stated, true, false));
        assert_eq!(inherit(|| ()).1, Inherited::default());
        let left = || Left(Doubt::Stated, false);
        assert_eq!(inherit(|| drop(left())).1.doubt, Doubt::Stated);
        assert_eq!(inherit(|| left().clear()).1, Inherited::default());
    }
}
