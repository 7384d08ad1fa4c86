use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::HedgePolicy;
use super::pace::Pace;
use super::policy::MOST;
use crate::adaptive::AdaptiveTimeout;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::{Begin, CallPolicy, CallState, Finish, NO_LIMIT, Pending, PendingOf, Plain};
use crate::error::GaveUp;
use crate::error::inherited::Left;
use crate::observe::{CallKind, EventKind};
use crate::policy::{AsPolicy, Attempt, StopReason};
use crate::time::nanos;
use crate::upstream::{NoUpstream, Refuser, Target, TargetFor, Via};

/// The number of slots: one for the first attempt and one for each hedge.
const SLOTS: usize = MOST as usize + 1;

pin_project! {
    /// A call that starts a second attempt if the first is slow. Made by
    /// [`hedge`](crate::hedge()).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Hedge<F, Fut, E, P, K, X = NoUpstream>
    where
        K: Cancel,
        X: Target,
    {
        pub(super) op: F,
        // Attempts are dropped before `call`, which gives back what they hold at the upstream.
        #[pin]
        pub(super) first: Option<Fut>,
        // Ordered by start.
        pub(super) hedges: Vec<Joined<Fut>>,
        pub(super) call: CallState<E, Plain<P>, K, X, SLOTS>,
        pub(super) pace: Pace,
        pub(super) state: State,
        // The sleep until something is due. It is empty until the first pending poll.
        #[pin]
        pub(super) pending: PendingOf<X, K>,
        // The time at which the sleep in `pending` ends.
        pub(super) asleep_until: u64,
        // The doubt and the key that a drop of the attempts in flight leaves.
        left: Left,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Unstarted,
    Between,
    Racing,
    Done,
}

/// A hedge in flight.
pub(super) struct Joined<Fut> {
    pub(super) number: u32,
    began: u64,
    attempt: Pin<Box<Fut>>,
}

impl<F, Fut, E, P, K: Cancel> Hedge<F, Fut, E, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new<C>(op: F, policy: P, token: K) -> Self
    where
        P: AsPolicy<Policy = HedgePolicy<C>>,
    {
        let pace = Pace::new(policy.as_policy().hedges());
        let call = CallState::new(CallKind::Hedge, Plain(policy), token).on(NoUpstream);
        Self::of(op, call, pace)
    }

    /// Makes the call on an [`Upstream`](crate::Upstream) shared with other calls, or names it.
    ///
    /// Call this once, before the first poll.
    #[inline]
    pub fn on<Y: Target, M>(self, target: Y) -> Hedge<F, Fut, E, P, K, Via<Y, M>>
    where
        Via<Y, M>: TargetFor<E>,
    {
        Hedge::of(self.op, self.call.on(Via::new(target)), self.pace)
    }
}

impl<F, Fut, E, P, K: Cancel, X: Target> Hedge<F, Fut, E, P, K, X> {
    #[inline]
    fn of(op: F, call: CallState<E, Plain<P>, K, X, SLOTS>, pace: Pace) -> Self {
        let (state, pending) = (State::Unstarted, Pending::none());
        Self {
            op,
            call,
            pace,
            state,
            first: None,
            hedges: Vec::new(),
            pending,
            asleep_until: NO_LIMIT,
            left: Left::nothing(),
        }
    }
}

impl<F, Fut, T, E, P, C, K, X> Future for Hedge<F, Fut, E, P, K, X>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = HedgePolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        this.left.clear();
        match *this.state {
            State::Unstarted => {
                if let Begin::Go(elapsed) = this.call.begin(0, Some(cx.waker())) {
                    *this.state = State::Racing;
                    let attempt = this.call.attempt_at(elapsed);
                    this.first.set(Some((this.op)(attempt)));
                } else {
                    *this.state = State::Between;
                    ready!(self.as_mut().poll_between(cx))?;
                }
            }
            State::Between => ready!(self.as_mut().poll_between(cx))?,
            State::Racing => {}
            State::Done => panic!("`Hedge` polled after completion"),
        }
        let mut this = self.as_mut().project();
        if let Some(first) = this.first.as_mut().as_pin_mut() {
            let polled = this.call.poll_within(0, || first.poll(cx));
            if let Poll::Ready(outcome) = polled {
                this.call.dropping(0, false, || this.first.set(None));
                if let Poll::Ready(outcome) = self.as_mut().finish(1, outcome) {
                    return Poll::Ready(outcome);
                }
            }
        }
        // Out of line, because few calls are still pending here.
        self.poll_slowly(cx)
    }
}

impl<F, Fut, T, E, P, C, K, X> Hedge<F, Fut, E, P, K, X>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = HedgePolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Waits for the admission of the first attempt.
    #[cold]
    fn poll_between(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), GaveUp<E>>> {
        let mut this = self.project();
        let begun = ready!(this.call.poll_between(0, None, this.pending, cx));
        *this.state = if begun.is_ok() { State::Racing } else { State::Done };
        this.first.set(Some((this.op)(begun?)));
        Poll::Ready(Ok(()))
    }

    /// Polls the hedges, then the token, the timeouts and the delay of the next hedge.
    fn poll_slowly(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut from = 0;
        loop {
            loop {
                let this = self.as_mut().project();
                let Some(joined) = this.hedges.get_mut(from) else { break };
                let slot = joined.number as usize - 1;
                let polled = this.call.poll_within(slot, || joined.attempt.as_mut().poll(cx));
                let Poll::Ready(outcome) = polled else {
                    from += 1;
                    continue;
                };
                let this = self.as_mut().project();
                let finished = this.hedges.remove(from);
                let number = finished.number;
                this.call.dropping(slot, false, || drop(finished));
                if let Poll::Ready(outcome) = self.as_mut().finish(number, outcome) {
                    return Poll::Ready(outcome);
                }
            }
            let due = self.as_mut().poll_due(cx);
            if due.is_pending() {
                let this = self.as_mut().project();
                this.left.set(this.call.asked_leaves());
            }
            match ready!(due) {
                // A new hedge must be polled. The removal of a timed-out hedge shifts the others.
                None => from = 0,
                Some(outcome) => return Poll::Ready(outcome),
            }
        }
    }

    /// Waits for the next due time: that of a hedge, an attempt timeout or the deadline.
    ///
    /// `Some` ends the call.
    fn poll_due(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, GaveUp<E>>>> {
        let mut this = self.as_mut().project();
        this.call.engine.tell_name();
        if this.pace.first().is_none() {
            this.call.engine.note_start();
            // The start of the attempt, not of the call: it may have waited for its admission.
            let began =
                this.call.engine.guard.began(0).or(this.call.engine.started()).unwrap_or_default();
            this.call.engine.guard.note_began(0, began);
            this.pace.start(began);
            if let Some(adaptive) = this.call.learns() {
                adaptive.forget(Duration::from_nanos(began));
            }
        }
        if this.call.token.stops_attempts()
            && this.pending.as_mut().poll_cancelled(&this.call.token, cx).is_ready()
        {
            return Poll::Ready(Some(self.close(StopReason::Cancelled)));
        }
        let (own, ends_at) = (this.call.policy.attempt_timeout(), this.call.ends_at());
        let due = this.pace.due(delay(this.call));
        let began = this.pace.first().filter(|_| this.first.is_some());
        let oldest = began.into_iter().chain(this.hedges.iter().map(|joined| joined.began)).min();
        let cut_at =
            oldest.filter(|_| own != NO_LIMIT).map_or(NO_LIMIT, |began| began.saturating_add(own));
        let at = due.min(cut_at).min(ends_at);
        if at == NO_LIMIT {
            return Poll::Pending;
        }
        if *this.asleep_until != at {
            this.pending.as_mut().drop_sleep();
            *this.asleep_until = at;
        }
        // Do not sleep if the time is due already: a timer may round a sleep of zero up.
        if this.pace.first().is_none_or(|first| at > first) {
            ready!(this.call.poll_time(at, this.pending.as_mut(), cx));
        }
        this.pending.as_mut().drop_sleep();
        *this.asleep_until = NO_LIMIT;
        if at == ends_at {
            return Poll::Ready(Some(self.close(StopReason::Deadline)));
        }
        if at == cut_at {
            return Poll::Ready(self.cut_oldest(own));
        }
        self.join();
        Poll::Ready(None)
    }

    /// Starts a hedge, unless the budget or the upstream denies it.
    fn join(self: Pin<&mut Self>) {
        let this = self.project();
        let now = this.call.engine.now();
        let slot = this.call.attempts() as usize;
        let waited = this.pace.take(now);
        this.call.set_delay(waited);
        this.call.engine.guard.progress.set_refuser(None);
        let is_paid = slot < SLOTS && this.call.engine.guard.pay();
        if slot < SLOTS && !is_paid {
            this.call.engine.guard.note_unpaid(None);
        }
        if is_paid {
            if let Begin::Go(elapsed) = this.call.begin(slot, None) {
                this.pace.began(now);
                this.call.engine.guard.note_began(slot, now);
                let attempt = this.call.attempt_at(elapsed);
                let joined = Box::pin((this.op)(attempt));
                this.hedges.push(Joined { number: attempt.number(), began: now, attempt: joined });
                return;
            }
        }
        this.call.engine.guard.release_payment();
        this.pace.denied(now);
        let by = this.call.engine.guard.progress.refuser().map(Refuser::part);
        this.call.emit(EventKind::Denied { attempts: this.call.attempts(), by });
    }

    /// Times out the oldest attempt in flight.
    #[cold]
    fn cut_oldest(mut self: Pin<&mut Self>, own: u64) -> Option<Result<T, GaveUp<E>>> {
        let mut this = self.as_mut().project();
        let number = if this.first.is_some() {
            this.call.dropping(0, true, || this.first.set(None));
            1
        } else {
            let joined = this.hedges.remove(0);
            let number = joined.number;
            this.call.dropping(number as usize - 1, true, || drop(joined));
            number
        };
        match self.fail(number, Finish::TimedOut(own)) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

/// Returns the delay before the next hedge, in nanoseconds.
///
/// The policy's delay caps the learned latency. If many calls hang, the quantile has no other cap.
pub(super) fn delay<E, P, C, K, X>(call: &CallState<E, Plain<P>, K, X, SLOTS>) -> u64
where
    P: AsPolicy<Policy = HedgePolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    let longest = call.policy.0.as_policy().delay();
    nanos(
        call.learns()
            .and_then(AdaptiveTimeout::latency)
            .map_or(longest, |usual| usual.min(longest)),
    )
}

impl<F, Fut, E, P, K: Cancel, X: Target> fmt::Debug for Hedge<F, Fut, E, P, K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge")
            .field("attempts", &self.call.attempts())
            .field("in_flight", &(usize::from(self.first.is_some()) + self.hedges.len()))
            .finish_non_exhaustive()
    }
}
