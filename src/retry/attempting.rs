use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::course::Refusal;
use super::links::Links;
use super::nest::Named;
use super::waits::Waits;
use super::{Event, GaveUp, Run};
use crate::budget::Withdrawal;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Observe;
use crate::policy::Stop;
use crate::time::{Timer, TimerSlot};

pin_project! {
    /// One attempt of a [`Run`] and the delay after it. By hand, as an `async fn` would hold the operation twice: as
    /// its argument and where it is polled.
    pub(super) struct Attempting<'r, 'a, Fut, E, C, K, O, M, L>
    where
        K: Cancel,
        M: TimerSlot,
        L: Links,
    {
        run: &'r mut Run<'a, E, C, K, O, M, L>,
        #[pin]
        state: State<Fut>,
        // A sleep ahead of the attempt is a cooldown's hold.
        #[pin]
        waits: Waits<M::Sleep, K::Cancelled>,
        // The token of the retry that is waited for: it goes back if the wait is dropped.
        lent: Option<Withdrawal<'a>>,
    }

    // The run outlives it: what an attempt in flight holds at a breaker must not wait for the run to end.
    impl<Fut, E, C, K, O, M, L> PinnedDrop for Attempting<'_, '_, Fut, E, C, K, O, M, L>
    where
        K: Cancel,
        M: TimerSlot,
        L: Links,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let StateProj::Attempting { begun: true, .. } = this.state.as_mut().project() {
                this.state.set(State::Done);
                this.run.course.links.forget();
            }
        }
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut> {
        Attempting { begun: bool, #[pin] operation: Fut },
        // For the delay, if there is one.
        Waiting,
        // The next attempt may be made.
        Waited,
        Done,
    }
}

impl<'r, 'a, Fut, E, C, K: Cancel, O, M: TimerSlot, L: Links> Attempting<'r, 'a, Fut, E, C, K, O, M, L> {
    pub(super) fn new(run: &'r mut Run<'a, E, C, K, O, M, L>, operation: Fut) -> Self {
        let state = State::Attempting { begun: false, operation };
        Self { run, state, waits: Waits::none(), lent: None }
    }
}

impl<Fut, T, E, C, K, O, M, L> Future for Attempting<'_, '_, Fut, E, C, K, O, M, L>
where
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Links,
{
    type Output = Result<Option<T>, GaveUp<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Run { course, announced, succeeded } = &mut **this.run;
        if let StateProj::Attempting { begun, operation } = this.state.as_mut().project() {
            if course.tally.attempts() == 0 && !course.tally.is_held() && !*begun && !this.waits.is_asleep() {
                course.note_nesting();
            }
            while !*begun {
                if this.waits.as_mut().poll_sleep(cx).is_pending() {
                    ready!(this.waits.poll_cancelled(&course.token, cx));
                    this.state.set(State::Done);
                    drop(this.lent.take());
                    return Poll::Ready(Err(course.cut(Stop::Cancelled)));
                }
                let held_before = this.waits.is_asleep();
                if held_before {
                    this.waits.as_mut().clear_sleep();
                    course.tally.restore(this.lent.take());
                }
                match if std::mem::take(announced) { Ok(()) } else { course.begin_next().map(|_| ()) } {
                    Ok(()) => *begun = true,
                    Err(Refusal::Hold(delay)) => {
                        this.waits.as_mut().sleep(|| course.timer.sleep(delay));
                        *this.lent = course.tally.lend();
                        if held_before {
                            // Asked anew in a turn of its own: a timer may have sleeps that are over at once.
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                    Err(refusal) => {
                        this.state.set(State::Done);
                        return Poll::Ready(Err(course.cut(refusal)));
                    }
                }
            }
            let polled = {
                let _named = Named::enter(course.site);
                course.within(|| operation.poll(cx))
            };
            let Poll::Ready(outcome) = polled else {
                let stop = ready!(this.waits.poll_limits(course, cx));
                this.state.set(State::Done);
                return Poll::Ready(Err(course.cut(stop)));
            };
            // The operation is dropped before anybody hears of its outcome.
            this.state.set(State::Done);
            this.waits.as_mut().clear_sleep();
            let error = match outcome {
                Ok(value) => {
                    course.succeeded();
                    *succeeded = true;
                    return Poll::Ready(Ok(Some(value)));
                }
                Err(error) => error,
            };
            let next = course.failed(error)?;
            *this.lent = course.tally.lend();
            if next.waits() {
                let at = course.resumes_at(&next);
                this.waits.as_mut().sleep(|| course.timer.sleep_until(at));
            }
            this.state.set(State::Waiting);
        }
        assert!(!matches!(*this.state, State::Done), "`Run::attempt` polled after completion");
        if let State::Waiting = *this.state {
            if this.waits.as_mut().poll_sleep(cx).is_pending() {
                ready!(this.waits.poll_cancelled(&course.token, cx));
                this.state.set(State::Done);
                drop(this.lent.take());
                return Poll::Ready(Err(course.cut(Stop::Cancelled)));
            }
            this.state.set(State::Waited);
            if course.must_yield() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        this.state.set(State::Done);
        course.tally.restore(this.lent.take());
        Poll::Ready(Ok(None))
    }
}
