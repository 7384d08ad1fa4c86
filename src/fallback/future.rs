use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::counted::Counted;
use super::{Alternative, FallbackPolicy};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::{Attempting, CallState, Finish, Pending, PendingOf, Watched};
use crate::error::GaveUp;
use crate::error::inherited::inherit;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, StopReason};
use crate::upstream::{NoUpstream, Target, TargetFor, Via};

pin_project! {
    /// A future that tries alternatives in order. Made by [`fallback`](crate::fallback()).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Fallback<'a, A, F, Fut, E, P, K, X = NoUpstream>
    where
        K: Cancel,
        X: Target,
    {
        op: F,
        alternatives: &'a [A],
        // Dropped before `call`, which gives back what the attempt holds at the upstream.
        #[pin]
        state: Watched<State<Fut>>,
        call: CallState<E, Counted<P>, K, X>,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut> {
        Between,
        Trying { #[pin] attempt: Fut },
        Done,
    }
}

impl<Fut> Attempting for State<Fut> {
    const DONE: Self = Self::Done;

    #[inline]
    fn has_attempt(&self) -> bool {
        matches!(self, Self::Trying { .. })
    }
}

impl<'a, A, F, Fut, E, P, K: Cancel> Fallback<'a, A, F, Fut, E, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(alternatives: &'a [A], op: F, policy: P, token: K) -> Self {
        let count = u32::try_from(alternatives.len()).unwrap_or(u32::MAX);
        let call = CallState::new(CallKind::Fallback, Counted::new(policy, count), token);
        Self {
            op,
            alternatives,
            call,
            state: Watched::new(State::Between),
            pending: Pending::none(),
        }
    }

    /// Makes the call on an [`Upstream`](crate::Upstream) shared by its alternatives, or names it.
    ///
    /// Call this once, before the first poll.
    #[inline]
    pub fn on<Y: Target, M>(self, target: Y) -> Fallback<'a, A, F, Fut, E, P, K, Via<Y, M>>
    where
        Via<Y, M>: TargetFor<E>,
    {
        let Self { op, alternatives, call, .. } = self;
        Fallback {
            op,
            alternatives,
            call: call.on(Via::new(target)),
            state: Watched::new(State::Between),
            pending: Pending::none(),
        }
    }
}

impl<'a, A, F, Fut, T, E, P, C, K, X> Future for Fallback<'a, A, F, Fut, E, P, K, X>
where
    F: FnMut(Alternative<'a, A>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = FallbackPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut state = this.state.pinned();
        // The time since the start, after an attempt of this poll has finished.
        let mut elapsed = None;
        loop {
            let finish = match state.as_mut().project() {
                StateProj::Between => {
                    let index = this.call.attempts() as usize;
                    let Some(value) = this.alternatives.get(index) else {
                        state.set(State::Done);
                        return Poll::Ready(Err(this.call.close(StopReason::Alternatives, None)));
                    };
                    let begun =
                        ready!(this.call.poll_between(0, elapsed, this.pending.as_mut(), cx));
                    if begun.is_err() {
                        state.set(State::Done);
                    }
                    let attempt = begun?;
                    let (count, elapsed, remaining) =
                        (this.alternatives.len(), attempt.elapsed(), attempt.remaining());
                    let alternative = Alternative { value, index, count, elapsed, remaining };
                    this.call.policy.go_on();
                    let (attempt, inherited) = inherit(|| (this.op)(alternative));
                    this.call.policy.hear(inherited);
                    state.set(State::Trying { attempt });
                    continue;
                }
                StateProj::Trying { mut attempt } => {
                    let (call, pending) = (&mut *this.call, this.pending.as_mut());
                    let poll = || match call.poll_attempt(0, attempt.as_mut(), pending, cx) {
                        Poll::Ready(Err(Finish::Deadline)) => {
                            let (polled, name) = call.poll_overdue(0, attempt, cx);
                            call.policy.cut_call = name;
                            Poll::Ready(polled)
                        }
                        polled => polled,
                    };
                    let (polled, inherited) = inherit(poll);
                    this.call.policy.hear(inherited);
                    match ready!(polled) {
                        Ok(answer) => {
                            state.set(State::Done);
                            let attempts = this.call.attempts();
                            this.call.succeeded(0, attempts);
                            return Poll::Ready(Ok(answer));
                        }
                        Err(finish) => finish,
                    }
                }
                StateProj::Done => panic!("`Fallback` polled after completion"),
            };
            // Drop the attempt before its outcome is reported and before the next attempt is made.
            let is_cut = finish.is_cut();
            let drop = || this.call.dropping(0, is_cut, || state.set(State::Done));
            let ((), inherited) = inherit(drop);
            this.call.policy.hear(inherited);
            this.call.policy.is_partial = is_cut && inherited.has_part;
            this.pending.as_mut().drop_sleep();
            let failed_at = this.call.finish(0, finish)?;
            this.call.policy.waits.failed(failed_at);
            elapsed = Some(failed_at);
            state.set(State::Between);
        }
    }
}

impl<A, F, Fut, E, P, K: Cancel, X: Target> fmt::Debug for Fallback<'_, A, F, Fut, E, P, K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.get() {
            State::Between => "between alternatives",
            State::Trying { .. } => "trying",
            State::Done => "done",
        };
        f.debug_struct("Fallback")
            .field("state", &state)
            .field("tried", &self.call.attempts())
            .field("count", &self.alternatives.len())
            .finish_non_exhaustive()
    }
}
