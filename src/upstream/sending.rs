//! The question to an attempt that is dropped: has it sent its request?
//!
//! Only the attempt knows it, and it says so by [`BeforeSending`](crate::call::BeforeSending). While a
//! call that cuts its attempt drops it, a question is open on this thread. A `BeforeSending` that is
//! dropped in the middle of its work answers it, and so does one that the program has kept after its end.

use std::cell::Cell;

use crate::policy::Sending;
use crate::question;

thread_local! {
    /// Whether the call that cuts its attempt on this thread tells of a doubt. `None` without such a call.
    static CUT: Cell<Option<bool>> = const { Cell::new(None) };
    static SENDING: Cell<Sending> = const { Cell::new(Sending::Unasked) };
    /// The answer of the attempt in flight that a drop of its call has dropped last.
    static DROPPED: Cell<Sending> = const { Cell::new(Sending::Unknown) };
}

/// Drops an attempt by `drop`. Returns what is known of its request. `tells_doubt` is true if the end of the call
/// will say that the request may have been executed.
#[cold]
pub(crate) fn drops(tells_doubt: bool, drop: impl FnOnce()) -> Sending {
    let cut = Some(tells_doubt || cut() == Some(true));
    let (sending, _) =
        question::ask(&CUT, cut, || question::ask(&SENDING, Sending::Unknown, drop).1);
    sending.unwrap_or_default()
}

/// Drops an attempt in flight by `drop`, because its call is dropped. The answer is for [`dropped_last`], and for a
/// call around this one that asks too.
#[cold]
pub(crate) fn drops_with_call(drop: impl FnOnce()) {
    let ((), sending) = question::ask(&SENDING, Sending::Unknown, drop);
    let sending = sending.unwrap_or_default();
    note(sending);
    let _ = DROPPED.try_with(|dropped| dropped.set(sending));
}

/// Returns what is known of the request of the attempt in flight that was dropped with its call before.
pub(crate) fn dropped_last() -> Sending {
    DROPPED.try_with(Cell::take).unwrap_or_default()
}

/// Returns whether the call that cuts its attempt on this thread tells of a doubt. `None` without such a call.
pub(crate) fn cut() -> Option<bool> {
    CUT.try_with(Cell::get).unwrap_or_default()
}

/// Notes that the attempt that is being dropped has sent nothing.
pub(crate) fn note_unsent() {
    note(Sending::NotSent);
}

/// Notes that the attempt that is being dropped has ended its part before sending.
pub(crate) fn note_begun() {
    note(Sending::Begun);
}

/// The same if its request is the `COMMIT` of a transaction.
pub(crate) fn note_commit_begun() {
    note(Sending::CommitBegun);
}

/// Notes that the attempt that is being dropped may have sent its request.
#[cold]
pub(super) fn note_sent() {
    note(Sending::Sent);
}

fn note(news: Sending) {
    let _ = SENDING.try_with(|sending| {
        if sending.get() != Sending::Unasked {
            sending.set(sending.get().max(news));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_sent_is_not_unsent() {
        note_unsent();
        assert_eq!(cut(), None);
        assert_eq!(
            drops(false, || assert_eq!(cut(), Some(false))),
            Sending::Unknown,
            "nobody asked before"
        );
        assert_eq!(drops(false, note_unsent), Sending::NotSent);
        let both = |first: fn(), second: fn()| {
            drops(false, || {
                first();
                second();
            })
        };
        assert_eq!(both(note_unsent, note_sent), Sending::Sent);
        assert_eq!(both(note_sent, note_unsent), Sending::Sent);
    }

    #[test]
    fn a_drop_within_a_drop_has_a_question_of_its_own() {
        let unsent = || assert_eq!(drops(false, note_unsent), Sending::NotSent);
        assert_eq!(drops(false, unsent), Sending::Unknown);
        let both = || {
            note_unsent();
            assert_eq!(drops(false, note_sent), Sending::Sent);
        };
        assert_eq!(drops(false, both), Sending::NotSent);
    }

    /// A part that has ended says nothing against another one that works.
    #[test]
    fn a_part_that_has_ended_is_weaker_than_one_that_works() {
        assert_eq!(drops(false, note_begun), Sending::Begun);
        for [first, second] in [[note_begun as fn(), note_unsent], [note_unsent, note_begun]] {
            let both = || {
                first();
                second();
            };
            assert_eq!(drops(false, both), Sending::NotSent);
        }
    }

    #[test]
    fn a_doubt_that_an_outer_call_tells_is_told() {
        let within = |outer: bool, inner: bool, told: bool| {
            drops(outer, || {
                drops(inner, || assert_eq!(cut(), Some(told)));
                assert_eq!(cut(), Some(outer));
            });
        };
        within(false, false, false);
        within(false, true, true);
        within(true, false, true);
        assert_eq!(cut(), None);
    }

    #[test]
    fn a_drop_with_the_call_answers_its_own_call_and_the_one_around_it() {
        drops_with_call(note_begun);
        assert_eq!(SENDING.get(), Sending::Unasked);
        assert_eq!((dropped_last(), dropped_last()), (Sending::Begun, Sending::Unknown));
        let inner = || {
            drops_with_call(note_unsent);
            assert_eq!(dropped_last(), Sending::NotSent);
        };
        assert_eq!(drops(false, inner), Sending::NotSent);
        let with_an_earlier_one = || {
            note_unsent();
            drops_with_call(|| {});
            assert_eq!(dropped_last(), Sending::Unknown);
        };
        drops_with_call(with_an_earlier_one);
        assert_eq!(dropped_last(), Sending::NotSent);
    }

    #[test]
    fn a_panic_ends_the_question() {
        let panics = || drops(false, || panic!("a destructor"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(SENDING.get() == Sending::Unasked);
    }
}
