use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::race::Race;
use super::{Event, HedgePolicy};
use crate::budget::Budget;
use crate::cancel::{Cancel, poll_cancelled};
use crate::classify::Classify;
use crate::observe::{Observe, Standard};
use crate::policy::{Attempt, Stop};
use crate::retry::GaveUp;
use crate::time::{DefaultTimer, Timer, TimerSlot};
use crate::timeout::Adaptive;

pin_project! {
    /// A call that others join where it is slow. Made by [`hedge`](crate::hedge()).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Hedge<'a, F, Fut, E, C, K, O = Standard, M = DefaultTimer>
    where
        K: Cancel,
        M: TimerSlot,
    {
        op: F,
        race: Race<'a, E, C, K, O, M>,
        #[pin]
        first: Option<Fut>,
        // In the order of their start.
        hedges: Vec<Joined<Fut>>,
        // Until the next hedge or the deadline, once the call had to be waited for.
        #[pin]
        sleep: Option<M::Sleep>,
        #[pin]
        cancelled: Option<K::Cancelled>,
        done: bool,
    }
}

/// A hedge in flight.
struct Joined<Fut> {
    number: u32,
    begun: Duration,
    attempt: Pin<Box<Fut>>,
}

impl<'a, F, Fut, E, C, K: Cancel> Hedge<'a, F, Fut, E, C, K> {
    #[inline]
    pub(super) fn new(op: F, policy: &'a HedgePolicy<C>, token: K) -> Self {
        let race = Race::new(policy, token);
        Self { op, race, first: None, hedges: Vec::new(), sleep: None, cancelled: None, done: false }
    }
}

/// What is live and shared, attached before the first poll.
impl<'a, F, Fut, E, C, K: Cancel, O, M: TimerSlot> Hedge<'a, F, Fut, E, C, K, O, M> {
    /// Hedges are paid from `budget`, and success refills it. A hedge that it cannot pay for is not made, and changes
    /// nothing else.
    #[inline]
    pub fn with_budget(self, budget: &'a Budget) -> Self {
        let Self { op, mut race, first, hedges, sleep, cancelled, done } = self;
        race.budget = Some(budget);
        Self { op, race, first, hedges, sleep, cancelled, done }
    }

    /// The delay is what lately was the [quantile](Adaptive::latency) of latencies, at most the policy's delay, and the
    /// policy's while it is not known. Factor, floor and ceiling do not matter here.
    ///
    /// It learns from each attempt that succeeds, and of a loser that had already taken longer than the delay, that it
    /// would have taken longer than it had. Do not put the same one on the attempts too: they would count twice.
    #[inline]
    pub fn with_adaptive(self, adaptive: &'a Adaptive) -> Self {
        let Self { op, mut race, first, hedges, sleep, cancelled, done } = self;
        race.adaptive = Some(adaptive);
        Self { op, race, first, hedges, sleep, cancelled, done }
    }

    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    ///
    /// A closure needs its argument's type spelled out: `|event: &hedge::Event<_>| …`.
    #[inline]
    pub fn with_observer<P>(self, observer: P) -> Hedge<'a, F, Fut, E, C, K, P, M>
    where
        P: for<'e> Observe<Event<'e, E>>,
    {
        let Self { op, race, first, hedges, sleep, cancelled, done } = self;
        Hedge { op, race: race.observed(observer), first, hedges, sleep, cancelled, done }
    }

    /// Time is `timer`'s.
    #[inline]
    pub fn with_timer<N: Timer>(self, timer: N) -> Hedge<'a, F, Fut, E, C, K, O, N> {
        let Self { op, race, first, hedges, cancelled, done, .. } = self;
        Hedge { op, race: race.timed(timer), first, hedges, sleep: None, cancelled, done }
    }
}

impl<F, Fut, T, E, C, K, O, M> Future for Hedge<'_, F, Fut, E, C, K, O, M>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    type Output = Result<T, GaveUp<E>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        assert!(!*this.done, "`Hedge` polled after completion");
        if this.race.attempts() == 0 {
            if this.race.token.is_cancelled() {
                return self.end(Stop::Cancelled);
            }
            let attempt = this.race.begin_first();
            this.first.set(Some((this.op)(attempt)));
        }
        if let Some(first) = this.first.as_mut().as_pin_mut() {
            if let Poll::Ready(outcome) = this.race.within(|| first.poll(cx)) {
                this.first.set(None);
                let begun = this.race.started();
                if let Poll::Ready(outcome) = self.as_mut().settle(1, begun, outcome) {
                    return Poll::Ready(outcome);
                }
            }
        }
        // Rare, so out of line.
        self.poll_slowly(cx)
    }
}

impl<F, Fut, T, E, C, K, O, M> Hedge<'_, F, Fut, E, C, K, O, M>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// Polls the hedges, then what may end the call or let another one join.
    fn poll_slowly(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut from = 0;
        loop {
            loop {
                let this = self.as_mut().project();
                let Some(joined) = this.hedges.get_mut(from) else { break };
                let Poll::Ready(outcome) = this.race.within(|| joined.attempt.as_mut().poll(cx)) else {
                    from += 1;
                    continue;
                };
                let Joined { number, begun, .. } = self.as_mut().project().hedges.remove(from);
                if let Poll::Ready(outcome) = self.as_mut().settle(number, Some(begun), outcome) {
                    return Poll::Ready(outcome);
                }
            }
            let stop = match ready!(self.as_mut().poll_limits(cx)) {
                Ok(()) => continue, // from the new one on
                Err(stop) => stop,
            };
            return self.end(stop);
        }
    }

    /// `Ok` where another attempt may have joined, which must be polled.
    fn poll_limits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        let mut this = self.project();
        this.race.note_start();
        if poll_cancelled(&this.race.token, this.cancelled, cx).is_ready() {
            return Poll::Ready(Err(Stop::Cancelled));
        }
        if this.sleep.is_none() {
            let Some(due) = this.race.until_due() else { return Poll::Pending };
            if !due.is_zero() {
                this.sleep.set(Some(this.race.timer.sleep(due)));
            }
        }
        if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            ready!(sleep.poll(cx));
            this.sleep.set(None);
        }
        if let Some((attempt, paid)) = this.race.due()? {
            let joined = Box::pin((this.op)(attempt));
            if let Some(paid) = paid {
                paid.spend();
            }
            let begun = this.race.hedged(attempt);
            this.hedges.push(Joined { number: attempt.number(), begun, attempt: joined });
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the outcome of an attempt, which was dropped; pending while others may do better.
    fn settle(
        mut self: Pin<&mut Self>,
        number: u32,
        begun: Option<Duration>,
        outcome: Result<T, E>,
    ) -> Poll<Result<T, GaveUp<E>>> {
        let this = self.as_mut().project();
        let error = match outcome {
            Ok(value) => {
                *this.done = true;
                if this.race.attempts() > 1 || this.race.adaptive.is_some() {
                    let lost = self.as_mut().drop_attempts(begun);
                    self.race.succeeded(number, lost.iter().copied());
                } else {
                    this.race.succeeded(number, std::iter::empty());
                }
                return Poll::Ready(Ok(value));
            }
            Err(error) => error,
        };
        if this.race.failed(number, error) {
            self.end(Stop::Fatal)
        } else if this.first.is_none() && this.hedges.is_empty() {
            self.end(Stop::Attempts)
        } else {
            Poll::Pending
        }
    }

    /// Drops what is in flight, having learned from it. Returns which those were.
    #[cold]
    fn drop_attempts(self: Pin<&mut Self>, won: Option<Duration>) -> Vec<u32> {
        let mut this = self.project();
        let first = this.first.is_some();
        let started = this.race.started().filter(|_| first);
        this.first.set(None);
        let hedges = std::mem::take(this.hedges);
        let begun = started.into_iter().chain(hedges.iter().map(|joined| joined.begun));
        this.race.learn(won, begun);
        first.then_some(1).into_iter().chain(hedges.into_iter().map(|joined| joined.number)).collect()
    }

    /// Ends the call without success.
    #[cold]
    fn end(mut self: Pin<&mut Self>, stop: Stop) -> Poll<Result<T, GaveUp<E>>> {
        *self.as_mut().project().done = true;
        let lost = self.as_mut().drop_attempts(None);
        let this = self.project();
        if stop == Stop::Fatal {
            this.race.tell_lost(lost.into_iter());
        }
        Poll::Ready(Err(this.race.give_up(stop)))
    }
}

impl<F, Fut, E, C, K: Cancel, O, M: TimerSlot> fmt::Debug for Hedge<'_, F, Fut, E, C, K, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge")
            .field("attempts", &self.race.attempts())
            .field("in_flight", &(usize::from(self.first.is_some()) + self.hedges.len()))
            .finish_non_exhaustive()
    }
}
