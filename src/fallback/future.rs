use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Alternative, Event, FallbackPolicy, NoAnswer};
use crate::cancel::{Cancel, poll_cancelled};
use crate::classify::{Classify, Verdict};
use crate::observe::{CALLS, Observe, Standard};
use crate::policy::Stop;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A call with alternatives. Made by [`fallback`](crate::fallback()).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Fallback<'a, A, F, Fut, E, C, K, O = Standard, M = DefaultTimer>
    where
        K: Cancel,
        M: TimerSlot,
    {
        op: F,
        course: Course<'a, A, E, C, K, O, M>,
        #[pin]
        state: State<Fut>,
        // The deadline, once it had to be waited for.
        #[pin]
        sleep: Option<M::Sleep>,
        // The token's future, from the first time that something had to be waited for.
        #[pin]
        cancelled: Option<K::Cancelled>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut> {
        // The next alternative may begin.
        Between,
        Trying { #[pin] attempt: Fut },
        Done,
    }
}

/// What the call knows between its alternatives.
struct Course<'a, A, E, C, K, O, M> {
    alternatives: &'a [A],
    policy: &'a FallbackPolicy<C>,
    token: K,
    observer: O,
    timer: M,
    /// How many were begun.
    tried: usize,
    /// When the call began, once somebody needs it.
    started: Option<Duration>,
    last: Option<E>,
}

impl<'a, A, F, Fut, E, C, K: Cancel> Fallback<'a, A, F, Fut, E, C, K> {
    #[inline]
    pub(super) const fn new(alternatives: &'a [A], op: F, policy: &'a FallbackPolicy<C>, token: K) -> Self {
        let course = Course {
            alternatives,
            policy,
            token,
            observer: Standard,
            timer: DEFAULT_TIMER,
            tried: 0,
            started: None,
            last: None,
        };
        Self { op, course, state: State::Between, sleep: None, cancelled: None }
    }
}

/// Attached before the first poll.
impl<'a, A, F, Fut, E, C, K: Cancel, O, M: TimerSlot> Fallback<'a, A, F, Fut, E, C, K, O, M> {
    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    ///
    /// A closure needs its argument's type spelled out: `|event: &fallback::Event<_>| …`.
    pub fn with_observer<P>(self, observer: P) -> Fallback<'a, A, F, Fut, E, C, K, P, M>
    where
        P: for<'e> Observe<Event<'e, E>>,
    {
        let Self { op, course, state, sleep, cancelled } = self;
        let Course { alternatives, policy, token, timer, tried, started, last, .. } = course;
        let course = Course { alternatives, policy, token, observer, timer, tried, started, last };
        Fallback { op, course, state, sleep, cancelled }
    }

    /// Time is `timer`'s.
    pub fn with_timer<N: Timer>(self, timer: N) -> Fallback<'a, A, F, Fut, E, C, K, O, N> {
        let Self { op, course, state, cancelled, .. } = self;
        let Course { alternatives, policy, token, observer, tried, last, .. } = course;
        let course = Course { alternatives, policy, token, observer, timer, tried, started: None, last };
        Fallback { op, course, state, sleep: None, cancelled }
    }
}

impl<'a, A, E, C, K, O, M> Course<'a, A, E, C, K, O, M>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    fn note_start(&mut self) {
        if self.started.is_none() {
            self.started = Some(self.timer.now());
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.timer.now().saturating_sub(started))
    }

    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        self.policy.deadline().map(|limit| limit.saturating_sub(elapsed))
    }

    /// The next alternative, unless there is none or the token or the deadline forbids it.
    fn begin(&mut self) -> Result<Alternative<'a, A>, Stop> {
        let (index, count) = (self.tried, self.alternatives.len());
        let Some(value) = self.alternatives.get(index) else {
            return Err(Stop::Alternatives);
        };
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if !O::TROUBLE_ONLY || self.policy.deadline().is_some() {
            self.note_start();
        }
        let elapsed = if index == 0 { Duration::ZERO } else { self.elapsed() };
        let remaining = self.remaining(elapsed);
        if index > 0 && remaining == Some(Duration::ZERO) {
            return Err(Stop::Deadline);
        }
        self.tried += 1;
        if (index > 0 || !O::TROUBLE_ONLY) && self.observer.is_enabled() {
            self.observer.observe(&Event::Trying { index, count });
        }
        Ok(Alternative { value, index, count, elapsed, remaining })
    }

    fn answered(&self) {
        if (!O::TROUBLE_ONLY || self.tried > 1) && self.observer.is_enabled() {
            let (index, count, elapsed) = (self.tried - 1, self.alternatives.len(), self.elapsed());
            self.observer.observe(&Event::Answered { index, count, elapsed });
        }
    }

    /// Judges the error of an alternative: `Err` ends the call.
    #[cold]
    fn failed(&mut self, error: E) -> Result<(), Stop> {
        let verdict = self.policy.classify().classify(&error).unwrap_or(Verdict::Fail);
        if self.observer.is_enabled() {
            let (index, count, elapsed) = (self.tried - 1, self.alternatives.len(), self.elapsed());
            self.observer.observe(&Event::Failed { index, count, error: &error, verdict, elapsed });
        }
        self.last = Some(error);
        if verdict.is_retry() { Ok(()) } else { Err(Stop::Fatal) }
    }

    #[cold]
    fn give_up(&mut self, stop: Stop) -> NoAnswer<E> {
        let (tried, count, elapsed) = (self.tried, self.alternatives.len(), self.elapsed());
        if self.observer.is_enabled() {
            self.observer.observe(&Event::NoAnswer { stop, tried, count, elapsed, last: self.last.as_ref() });
        }
        NoAnswer { stop, tried, count, elapsed, last: self.last.take() }
    }
}

impl<'a, A, F, Fut, T, E, C, K, O, M> Future for Fallback<'a, A, F, Fut, E, C, K, O, M>
where
    F: FnMut(Alternative<'a, A>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    type Output = Result<T, NoAnswer<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stop = loop {
            let mut this = self.as_mut().project();
            let attempt = match this.state.as_mut().project() {
                StateProj::Trying { attempt } => attempt,
                StateProj::Between => match this.course.begin() {
                    Ok(alternative) => {
                        this.state.set(State::Trying { attempt: (this.op)(alternative) });
                        continue;
                    }
                    Err(stop) => break stop,
                },
                StateProj::Done => panic!("`Fallback` polled after completion"),
            };
            match this.course.observer.within(&[CALLS], || attempt.poll(cx)) {
                Poll::Ready(Ok(answer)) => {
                    this.state.set(State::Done);
                    this.course.answered();
                    return Poll::Ready(Ok(answer));
                }
                Poll::Ready(Err(error)) => {
                    // It is dropped before anybody hears of it and before the next one is made.
                    this.state.set(State::Between);
                    if let Err(stop) = this.course.failed(error) {
                        break stop;
                    }
                }
                Poll::Pending => match self.as_mut().poll_limits(cx) {
                    Poll::Ready(stop) => break stop,
                    Poll::Pending => return Poll::Pending,
                },
            }
        };
        let mut this = self.project();
        this.state.set(State::Done);
        Poll::Ready(Err(this.course.give_up(stop)))
    }
}

impl<'a, A, F, Fut, T, E, C, K, O, M> Fallback<'a, A, F, Fut, E, C, K, O, M>
where
    F: FnMut(Alternative<'a, A>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// What may cut the alternative in flight, which is pending.
    fn poll_limits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stop> {
        let mut this = self.project();
        this.course.note_start();
        if poll_cancelled(&this.course.token, this.cancelled, cx).is_ready() {
            return Poll::Ready(Stop::Cancelled);
        }
        if this.sleep.is_none() {
            if let Some(left) = this.course.remaining(this.course.elapsed()) {
                // A timer may round a sleep of zero up.
                if left.is_zero() {
                    return Poll::Ready(Stop::Deadline);
                }
                this.sleep.set(Some(this.course.timer.sleep(left)));
            }
        }
        this.sleep.as_pin_mut().map_or(Poll::Pending, |deadline| deadline.poll(cx)).map(|()| Stop::Deadline)
    }
}

impl<A, F, Fut, E, C, K: Cancel, O, M: TimerSlot> fmt::Debug for Fallback<'_, A, F, Fut, E, C, K, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Between => "between alternatives",
            State::Trying { .. } => "trying",
            State::Done => "done",
        };
        f.debug_struct("Fallback")
            .field("state", &state)
            .field("tried", &self.course.tried)
            .field("count", &self.course.alternatives.len())
            .finish_non_exhaustive()
    }
}
