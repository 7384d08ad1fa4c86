use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::operation::Operation;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::{Attempting, CallState, Pending, PendingOf, Plain, Watched};
use crate::error::GaveUp;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, RetryPolicy};
use crate::upstream::{NoUpstream, Target, TargetFor, Via};

pin_project! {
    /// The future of [`retry`](crate::retry()): a call with retries under a policy. An
    /// [`Operation`] of your own gives it a name.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Retry<F, Fut, E, P, K, X = NoUpstream>
    where
        K: Cancel,
        X: Target,
    {
        op: F,
        // Declared before `call`: the attempt is dropped before the upstream gets its permit back.
        #[pin]
        state: Watched<State<Fut>>,
        call: CallState<E, Plain<P>, K, X>,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut> {
        // The call waits for the next attempt to begin.
        Between,
        Attempting { #[pin] attempt: Fut },
        Done,
    }
}

impl<Fut> Attempting for State<Fut> {
    const DONE: Self = Self::Done;

    #[inline]
    fn has_attempt(&self) -> bool {
        matches!(self, Self::Attempting { .. })
    }
}

impl<F, Fut, E, P, K: Cancel> Retry<F, Fut, E, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(op: F, policy: P, token: K) -> Self {
        let call = CallState::new(CallKind::Retry, Plain(policy), token);
        Self { op, call, state: Watched::new(State::Between), pending: Pending::none() }
    }

    /// Makes a call whose attempts are those of `operation`. It is [`retry`](crate::retry()) for an
    /// [`Operation`] that is not a closure.
    #[inline]
    #[track_caller]
    pub fn of<T, C>(operation: F, policy: P, token: K) -> Self
    where
        F: Operation<Attempt = Fut>,
        Fut: Future<Output = Result<T, E>>,
        P: AsPolicy<Policy = RetryPolicy<C>>,
        C: Classify<E>,
    {
        Self::new(operation, policy, token)
    }

    /// Sets the call site that the log prints, in place of the one that made this future.
    ///
    /// It is for a crate that makes the calls of its users, such as a layer of services: the site is
    /// where the user made the layer.
    #[inline]
    pub const fn called_at(mut self, site: &'static Location<'static>) -> Self {
        self.call.engine.set_site(site);
        self
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
            state: Watched::new(State::Between),
            pending: Pending::none(),
        }
    }
}

impl<F, Fut, T, E, P, C, K, X> Future for Retry<F, Fut, E, P, K, X>
where
    F: Operation<Attempt = Fut>,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut state = this.state.pinned();
        // The time since the start, after an attempt of this poll has finished.
        let mut elapsed = None;
        loop {
            let finish = match state.as_mut().project() {
                StateProj::Between => {
                    let begun =
                        ready!(this.call.poll_between(0, elapsed, this.pending.as_mut(), cx));
                    if begun.is_err() {
                        state.set(State::Done);
                    }
                    // The state is still `Between`: after a panic of `op`, another poll retries.
                    let attempt = this.op.attempt(begun?);
                    state.set(State::Attempting { attempt });
                    continue;
                }
                StateProj::Attempting { attempt } => {
                    match ready!(this.call.poll_attempt(0, attempt, this.pending.as_mut(), cx)) {
                        Ok(value) => {
                            state.set(State::Done);
                            let attempts = this.call.attempts();
                            this.call.succeeded(0, attempts);
                            return Poll::Ready(Ok(value));
                        }
                        Err(finish) => finish,
                    }
                }
                StateProj::Done => panic!("`Retry` polled after completion"),
            };
            // The attempt is dropped before its end is reported and before the next one is made.
            this.call.dropping(0, finish.is_cut(), || state.set(State::Done));
            this.pending.as_mut().drop_sleep();
            elapsed = Some(this.call.finish(0, finish)?);
            state.set(State::Between);
        }
    }
}

impl<F, Fut, E, P, K: Cancel, X: Target> fmt::Debug for Retry<F, Fut, E, P, K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.get() {
            State::Between if self.call.attempts() == 0 => "unstarted",
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
