use std::pin::Pin;
use std::task::{Context, Poll};

use super::Event;
use super::course::Course;
use super::links::Links;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Observe;
use crate::policy::Stop;
use crate::time::Timer;

/// Polls what may cut an attempt in flight, which was polled and is pending: the token, then the deadline. Both are
/// made the first time that they have to be waited for.
pub(crate) fn poll_limits<E, C, K, O, M, L>(
    course: &mut Course<'_, E, C, K, O, M, L>,
    mut deadline: Pin<&mut Option<M::Sleep>>,
    cancelled: Pin<&mut Option<K::Cancelled>>,
    cx: &mut Context<'_>,
) -> Poll<Stop>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Links,
{
    course.note_start();
    if poll_slot(cancelled, cx, || course.token.cancelled()).is_ready() {
        return Poll::Ready(Stop::Cancelled);
    }
    if deadline.is_none() {
        let Some(left) = course.time_left() else { return Poll::Pending };
        // A timer may round a sleep of zero up.
        if left.is_zero() {
            return Poll::Ready(Stop::Deadline);
        }
        deadline.set(Some(course.timer.sleep(left)));
    }
    deadline.as_pin_mut().map_or(Poll::Pending, |deadline| deadline.poll(cx)).map(|()| Stop::Deadline)
}

/// Polls what is in the slot, making it first where there is nothing yet.
pub(crate) fn poll_slot<F: Future>(
    mut slot: Pin<&mut Option<F>>,
    cx: &mut Context<'_>,
    make: impl FnOnce() -> F,
) -> Poll<F::Output> {
    if slot.is_none() {
        slot.set(Some(make()));
    }
    slot.as_pin_mut().map_or(Poll::Pending, |future| future.poll(cx))
}
