use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::engine::{CallState, Ended, GaveUp, Pending, PendingOf, Plain};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};
use crate::upstream::{NoUpstream, Target, TargetFor, Via};

pin_project! {
    /// The future of [`retry`](crate::retry()): a call with retries under a policy.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Retry<F, Fut, E, P, K, X = NoUpstream>
    where
        K: Cancel,
        X: Target,
    {
        op: F,
        // Declared before `call`: the attempt is dropped before the upstream gets its permit back.
        #[pin]
        state: State<Fut>,
        call: CallState<E, Plain<P>, K, X>,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut> {
        Unstarted,
        // The call waits for the next attempt to begin.
        Between,
        Attempting { #[pin] attempt: Fut },
        Done,
    }
}

impl<F, Fut, E, P, K: Cancel> Retry<F, Fut, E, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(op: F, policy: P, token: K) -> Self {
        let call = CallState::new(CallKind::Retry, Plain(policy), token);
        Self { op, call, state: State::Unstarted, pending: Pending::none() }
    }

    /// Makes the call on an [`Upstream`](crate::Upstream) shared with other calls, or names it.
    ///
    /// Use this method once, before the first poll.
    #[inline]
    pub fn on<Y: Target, M>(self, target: Y) -> Retry<F, Fut, E, P, K, Via<Y, M>>
    where
        Via<Y, M>: TargetFor<E>,
    {
        Retry {
            op: self.op,
            call: self.call.on(Via::new(target)),
            state: State::Unstarted,
            pending: Pending::none(),
        }
    }
}

impl<F, Fut, T, E, P, C, K, X> Future for Retry<F, Fut, E, P, K, X>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    // Most calls end in their first poll. It runs before the loop and does only the necessary work.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        let StateProj::Unstarted = this.state.as_mut().project() else {
            return self.poll_on(cx);
        };
        if CallState::<E, Plain<P>, K, X>::is_nested() {
            return self.poll_slowly(cx);
        }
        let Some(attempt) = this.call.begin_first(0) else {
            return self.poll_slowly(cx);
        };
        this.state.set(State::Attempting { attempt: (this.op)(attempt) });
        let StateProj::Attempting { attempt } = this.state.as_mut().project() else {
            unreachable!("set above")
        };
        let polled = {
            let _polled = this.call.polled_outermost();
            let _lending = this.call.engine.guard.lend(0);
            attempt.poll(cx)
        };
        match polled {
            Poll::Ready(Ok(value)) => {
                this.state.set(State::Done);
                this.call.succeeded_at_once(0);
                Poll::Ready(Ok(value))
            }
            Poll::Ready(Err(error)) => {
                this.call.note_error(error);
                self.poll_ended(Ended::Error, cx)
            }
            Poll::Pending => self.poll_in_flight(cx),
        }
    }
}

impl<F, Fut, T, E, P, C, K, X> Retry<F, Fut, E, P, K, X>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Polls a call after the short path of the first poll.
    #[inline(never)]
    fn poll_on(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                StateProj::Unstarted | StateProj::Between => {
                    let begun = ready!(this.call.poll_between(0, this.pending.as_mut(), cx));
                    if begun.is_err() {
                        this.state.set(State::Done);
                    }
                    // The state is still `Between`: after a panic of `op`, another poll retries.
                    let attempt = (this.op)(begun?);
                    this.state.set(State::Attempting { attempt });
                }
                StateProj::Attempting { attempt } => {
                    match ready!(this.call.poll_attempt(0, attempt, this.pending.as_mut(), cx)) {
                        Ok(value) => {
                            this.state.set(State::Done);
                            let attempts = this.call.attempts();
                            this.call.succeeded(0, attempts);
                            return Poll::Ready(Ok(value));
                        }
                        Err(ended) => self.as_mut().follow(ended, cx)?,
                    }
                }
                StateProj::Done => panic!("`Retry` polled after completion"),
            }
        }
    }

    /// Ends the call after an attempt without success, or lets it continue.
    ///
    /// If no wait is needed, the next attempt begins here.
    #[inline]
    fn follow(self: Pin<&mut Self>, ended: Ended, cx: &mut Context<'_>) -> Result<(), GaveUp<E>> {
        let mut this = self.project();
        // Drops the attempt before its end is reported and before the next attempt is created.
        this.call.dropping(0, ended.is_cut(), || this.state.set(State::Done));
        this.pending.as_mut().drop_sleep();
        let elapsed = this.call.ended(0, ended)?;
        let begun = this.call.begin_after_failure(0, cx.waker(), elapsed)?;
        this.state.set(State::Between);
        if let Some(attempt) = begun {
            let attempt = (this.op)(attempt);
            this.state.set(State::Attempting { attempt });
        }
        Ok(())
    }

    /// Polls the limits of the first attempt after its first poll left it pending.
    #[inline(never)]
    fn poll_in_flight(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, GaveUp<E>>> {
        let this = self.as_mut().project();
        let ended = ready!(this.call.poll_limits(0, this.pending, cx));
        self.poll_ended(ended, cx)
    }

    /// Continues after the first attempt ended without success in the call's first poll.
    #[inline(never)]
    fn poll_ended(
        mut self: Pin<&mut Self>,
        ended: Ended,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, GaveUp<E>>> {
        self.as_mut().follow(ended, cx)?;
        self.poll_on(cx)
    }

    /// Starts a call that is nested or whose first attempt needs a full admission.
    #[cold]
    #[inline(never)]
    fn poll_slowly(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.as_mut().project();
        this.call.note_nesting();
        this.state.set(State::Between);
        self.poll_on(cx)
    }
}

impl<F, Fut, E, P, K: Cancel, X: Target> fmt::Debug for Retry<F, Fut, E, P, K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unstarted => "unstarted",
            State::Between => "between attempts",
            State::Attempting { .. } => "attempting",
            State::Done => "done",
        };
        f.debug_struct("Retry")
            .field("state", &state)
            .field("attempts", &self.call.attempts())
            .finish_non_exhaustive()
    }
}
