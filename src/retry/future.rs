use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::course::{Course, Refusal};
use super::links::{Links, Unlinked};
use super::nest::{self, Named};
use super::waits::Waits;
use super::{Event, GaveUp};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::{Observe, Standard};
use crate::policy::{Attempt, RetryPolicy, Stop};
use crate::time::{DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A call that is tried again as its policy says. Made by [`retry`](crate::retry()).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Retry<'a, F, Fut, E, C, K, O = Standard, M = DefaultTimer, L = Unlinked>
    where
        K: Cancel,
        M: TimerSlot,
    {
        pub(super) op: F,
        pub(super) course: Course<'a, E, C, K, O, M, L>,
        #[pin]
        pub(super) state: State<Fut>,
        #[pin]
        pub(super) waits: Waits<M::Sleep, K::Cancelled>,
    }
}

pin_project! {
    #[project = StateProj]
    pub(super) enum State<Fut> {
        // Nothing has happened yet.
        Unstarted,
        // The next attempt may begin.
        Between,
        Attempting { #[pin] attempt: Fut },
        Waiting,
        Done,
    }
}

impl<'a, F, Fut, E, C, K: Cancel> Retry<'a, F, Fut, E, C, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(op: F, policy: &'a RetryPolicy<C>, token: K) -> Self {
        Self { op, course: Course::new(policy, token), state: State::Unstarted, waits: Waits::none() }
    }
}

impl<F, Fut, T, E, C, K, O, M, L> Future for Retry<'_, F, Fut, E, C, K, O, M, L>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Links,
{
    type Output = Result<T, GaveUp<E>>;

    // Ahead of the loop, the one turn that most calls have: they pay for no more than it needs.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        if let StateProj::Unstarted = this.state.as_mut().project() {
            if nest::outer().is_some() {
                return self.poll_nested(cx);
            }
            match this.course.begin_first() {
                Ok(attempt) => this.state.set(State::Attempting { attempt: (this.op)(attempt) }),
                Err(refusal) => return self.held_back(refusal, cx),
            }
            if let StateProj::Attempting { attempt } = this.state.as_mut().project() {
                let polled = {
                    let _named = Named::outermost(this.course.site);
                    this.course.within(|| attempt.poll(cx))
                };
                match polled {
                    Poll::Ready(Ok(value)) => {
                        this.state.set(State::Done);
                        this.course.succeeded_at_once();
                        return Poll::Ready(Ok(value));
                    }
                    Poll::Ready(Err(error)) => {
                        this.course.count_first();
                        return self.poll_on(Some(error), cx);
                    }
                    Poll::Pending => {
                        this.course.count_first();
                        return self.poll_in_flight(cx);
                    }
                }
            }
        }
        self.poll_on(None, cx)
    }
}

impl<F, Fut, T, E, C, K, O, M, L> Retry<'_, F, Fut, E, C, K, O, M, L>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Links,
{
    /// Polls a call that has begun, where `failed` is the error of its attempt if that has just failed.
    #[inline(never)]
    fn poll_on(mut self: Pin<&mut Self>, mut failed: Option<E>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        loop {
            let mut this = self.as_mut().project();
            if let Some(error) = failed.take() {
                // The failed attempt is dropped before anybody hears of it and before the next one is made.
                this.state.set(State::Done);
                let next = match this.course.failed(error) {
                    Ok(next) => next,
                    Err(gave_up) => return Poll::Ready(Err(gave_up)),
                };
                if next.waits() {
                    let at = this.course.resumes_at(&next);
                    this.waits.sleep(|| this.course.timer.sleep_until(at));
                    this.state.set(State::Waiting);
                } else if this.course.must_yield() {
                    this.state.set(State::Between);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                } else {
                    match this.course.begin_at_once(&next) {
                        Ok(attempt) => this.state.set(State::Attempting { attempt: (this.op)(attempt) }),
                        Err(Refusal::Hold(delay)) => self.as_mut().wait(delay),
                        Err(refusal) => return self.end(refusal),
                    }
                }
                continue;
            }
            let StateProj::Attempting { attempt } = this.state.as_mut().project() else {
                match ready!(self.as_mut().poll_between(cx)) {
                    Ok(()) => continue,
                    Err(refusal) => return self.end(refusal),
                }
            };
            // Not counted yet is a first attempt that has panicked, and is polled all the same.
            if this.course.tally.attempts() == 0 {
                this.course.count_first();
            }
            let polled = {
                let _named = Named::enter(this.course.site);
                this.course.within(|| attempt.poll(cx))
            };
            match polled {
                Poll::Ready(Ok(value)) => {
                    this.state.set(State::Done);
                    this.course.succeeded();
                    return Poll::Ready(Ok(value));
                }
                Poll::Ready(Err(error)) => failed = Some(error),
                Poll::Pending => return self.poll_in_flight(cx),
            }
        }
    }

    /// The call begins within an attempt of another one.
    #[cold]
    #[inline(never)]
    fn poll_nested(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.as_mut().project();
        this.course.note_nesting();
        this.state.set(State::Between);
        self.poll_on(None, cx)
    }

    /// The first attempt may not begin, or not yet.
    #[cold]
    #[inline(never)]
    fn held_back(mut self: Pin<&mut Self>, refusal: Refusal, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let Refusal::Hold(delay) = refusal else { return self.end(refusal) };
        self.as_mut().wait(delay);
        self.poll_on(None, cx)
    }

    /// The attempt is in flight: polls what may cut it.
    #[inline(never)]
    fn poll_in_flight(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let this = self.as_mut().project();
        let stop = ready!(this.waits.poll_limits(this.course, cx));
        self.end(stop)
    }

    /// Between two attempts: waits for the delay, then begins the next one.
    #[inline(never)]
    fn poll_between(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let mut this = self.project();
        assert!(!matches!(*this.state, State::Done), "`Retry` polled after completion");
        if let State::Waiting = *this.state {
            if this.waits.as_mut().poll_sleep(cx).is_pending() {
                return this.waits.poll_cancelled(&this.course.token, cx).map(|()| Err(Stop::Cancelled.into()));
            }
            this.waits.as_mut().clear_sleep();
            this.state.set(State::Between);
            // A timer may have sleeps that are over at once: as good as no delay.
            if this.course.must_yield() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        match this.course.begin_next() {
            Ok(attempt) => this.state.set(State::Attempting { attempt: (this.op)(attempt) }),
            Err(Refusal::Hold(delay)) => {
                this.waits.sleep(|| this.course.timer.sleep(delay));
                this.state.set(State::Waiting);
                // Asked anew in a turn of its own: a timer may have sleeps that are over at once.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Err(refusal) => return Poll::Ready(Err(refusal)),
        }
        Poll::Ready(Ok(()))
    }

    /// Goes into a wait.
    #[cold]
    #[inline(never)]
    fn wait(self: Pin<&mut Self>, delay: Duration) {
        let mut this = self.project();
        this.waits.sleep(|| this.course.timer.sleep(delay));
        this.state.set(State::Waiting);
    }

    /// Ends the call from outside.
    #[cold]
    #[inline(never)]
    fn end(self: Pin<&mut Self>, why: impl Into<Refusal>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.project();
        this.state.set(State::Done);
        Poll::Ready(Err(this.course.cut(why)))
    }
}

impl<F, Fut, E, C, K: Cancel, O, M: TimerSlot, L> fmt::Debug for Retry<'_, F, Fut, E, C, K, O, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unstarted => "unstarted",
            State::Between => "between attempts",
            State::Attempting { .. } => "attempting",
            State::Waiting => "waiting",
            State::Done => "done",
        };
        let mut all = f.debug_struct("Retry");
        all.field("state", &state);
        // What succeeded at once was not counted.
        let attempts = self.course.tally.attempts();
        if attempts > 0 || !matches!(self.state, State::Done) {
            all.field("attempts", &attempts);
        }
        all.finish_non_exhaustive()
    }
}
