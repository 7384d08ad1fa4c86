//! The question to an attempt that is dropped: has it sent its request?
//!
//! Only the attempt knows it, and it says so by [`BeforeSending`](crate::call::BeforeSending). While a
//! call that cuts its attempt drops it, a question is open on this thread. A `BeforeSending` that is
//! dropped in the middle of its work answers it.

use std::cell::Cell;

use crate::question;

/// The knowledge about the request of the attempt that is being dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No call asks.
    Unasked,
    Unknown,
    NotSent,
    /// An attempt of an inner call may have sent it.
    Sent,
}

thread_local! {
    static SENDING: Cell<Sending> = const { Cell::new(Sending::Unasked) };
}

/// Drops an attempt by `drop`. Returns true if its request was surely not sent.
#[cold]
pub(crate) fn drops_unsent(drop: impl FnOnce()) -> bool {
    question::ask(&SENDING, Sending::Unknown, drop) == Some(Sending::NotSent)
}

/// Notes that the attempt that is being dropped has sent nothing.
pub(crate) fn note_unsent() {
    note(Sending::NotSent);
}

/// Notes that the attempt that is being dropped may have sent its request.
#[cold]
pub(super) fn note_sent() {
    note(Sending::Sent);
}

fn note(news: Sending) {
    let _ = SENDING.try_with(|sending| {
        if !matches!(sending.get(), Sending::Unasked | Sending::Sent) {
            sending.set(news);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_sent_is_not_unsent() {
        note_unsent();
        assert!(!drops_unsent(|| {}), "nobody asked before");
        assert!(drops_unsent(note_unsent));
        let both = |first: fn(), second: fn()| {
            drops_unsent(|| {
                first();
                second();
            })
        };
        assert!(!both(note_unsent, note_sent) && !both(note_sent, note_unsent));
    }

    #[test]
    fn a_drop_within_a_drop_has_a_question_of_its_own() {
        assert!(!drops_unsent(|| assert!(drops_unsent(note_unsent))));
        assert!(drops_unsent(|| {
            note_unsent();
            assert!(!drops_unsent(note_sent));
        }));
    }

    #[test]
    fn a_panic_ends_the_question() {
        let panics = || drops_unsent(|| panic!("a destructor"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(SENDING.get() == Sending::Unasked);
    }
}
