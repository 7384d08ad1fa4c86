//! The question to an attempt that is dropped: has it sent its request?
//!
//! Only the attempt knows it, and it says so by [`BeforeSending`](crate::call::BeforeSending). While a
//! call that cuts its attempt drops it, a question is open on this thread. A `BeforeSending` that is
//! dropped in the middle of its work answers it, and so does one that the program has kept after its end.

use std::cell::Cell;

use crate::policy::Sending;
use crate::question;

thread_local! {
    static SENDING: Cell<Sending> = const { Cell::new(Sending::Unasked) };
}

/// Drops an attempt by `drop`. Returns what is known of its request.
#[cold]
pub(crate) fn drops(drop: impl FnOnce()) -> Sending {
    question::ask(&SENDING, Sending::Unknown, drop).1.unwrap_or_default()
}

/// Returns whether a call on this thread drops an attempt at its limit or by its token.
pub(crate) fn is_asked() -> bool {
    SENDING.try_with(|sending| sending.get() != Sending::Unasked).unwrap_or_default()
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
        assert!(!is_asked());
        assert_eq!(drops(|| assert!(is_asked())), Sending::Unknown, "nobody asked before");
        assert_eq!(drops(note_unsent), Sending::NotSent);
        let both = |first: fn(), second: fn()| {
            drops(|| {
                first();
                second();
            })
        };
        assert_eq!(both(note_unsent, note_sent), Sending::Sent);
        assert_eq!(both(note_sent, note_unsent), Sending::Sent);
    }

    #[test]
    fn a_drop_within_a_drop_has_a_question_of_its_own() {
        let unsent = || assert_eq!(drops(note_unsent), Sending::NotSent);
        assert_eq!(drops(unsent), Sending::Unknown);
        let both = || {
            note_unsent();
            assert_eq!(drops(note_sent), Sending::Sent);
        };
        assert_eq!(drops(both), Sending::NotSent);
    }

    /// A part that has ended says nothing against another one that works.
    #[test]
    fn a_part_that_has_ended_is_weaker_than_one_that_works() {
        assert_eq!(drops(note_begun), Sending::Begun);
        for [first, second] in [[note_begun as fn(), note_unsent], [note_unsent, note_begun]] {
            let both = || {
                first();
                second();
            };
            assert_eq!(drops(both), Sending::NotSent);
        }
    }

    #[test]
    fn a_panic_ends_the_question() {
        let panics = || drops(|| panic!("a destructor"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(SENDING.get() == Sending::Unasked);
    }
}
