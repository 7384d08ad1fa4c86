use super::links::{Link, Linked};
use super::waits::Waits;
use super::{Event, Retry, Run};
use crate::breaker::{self, Breaker};
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::cooldown::Cooldown;
use crate::observe::Observe;
#[cfg(doc)]
use crate::observe::Standard;
#[cfg(doc)]
use crate::policy::Stop;
use crate::time::{Timer, TimerSlot};

/// What is live and shared, attached before the first poll.
impl<'a, F, Fut, E, C, K: Cancel, O, M: TimerSlot, L> Retry<'a, F, Fut, E, C, K, O, M, L> {
    /// Retries are paid from `budget`, and success refills it.
    #[inline]
    pub fn with_budget(self, budget: &'a Budget) -> Self {
        // Taken apart and put together again, as below: changed in place, the whole would be moved, the room for an
        // attempt included.
        let Self { op, mut course, state, waits } = self;
        course.tally.set_budget(budget);
        Self { op, course, state, waits }
    }

    /// Every attempt asks `breaker` first and tells it its outcome, by the policy's verdict. Refused, the call ends at
    /// once as [`Stop::Open`], with the breaker's `retry_after`; a delay after which it would be refused is not waited out.
    ///
    /// Where the call and its breaker are both on tokio's clock, a success in the turn in which the call began may count
    /// as of that beginning: if a deadline, or an observer that wants times, made the call read it.
    #[inline]
    pub fn with_breaker<D, P, N>(self, breaker: &'a Breaker<D, P, N>) -> Retry<'a, F, Fut, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
        D: Sync,
        P: Observe<breaker::Event> + Sync,
        N: Timer + Sync,
    {
        let Self { op, course, state, waits } = self;
        let mut course = course.linked();
        course.links_mut().set_breaker(breaker);
        Retry { op, course, state, waits }
    }

    /// Every attempt, the first included, waits while `cooldown` holds, and a `Throttled` verdict makes it hold all who
    /// share it. A hold that does not fit the deadline ends the call. Give the cooldown the timer that the run has.
    #[inline]
    pub fn with_cooldown<D, N>(self, cooldown: &'a Cooldown<D, N>) -> Retry<'a, F, Fut, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
    {
        let Self { op, course, state, waits } = self;
        let mut course = course.linked();
        course.links_mut().set_cooldown(cooldown.gate());
        Retry { op, course, state, waits }
    }

    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    ///
    /// A closure needs its argument's type spelled out: `|event: &Event<_>| …`.
    #[inline]
    pub fn with_observer<P>(self, observer: P) -> Retry<'a, F, Fut, E, C, K, P, M, L>
    where
        P: for<'e> Observe<Event<'e, E>>,
    {
        let Self { op, course, state, waits } = self;
        Retry { op, course: course.observed(observer), state, waits }
    }

    /// Time is `timer`'s.
    #[inline]
    pub fn with_timer<N: Timer>(self, timer: N) -> Retry<'a, F, Fut, E, C, K, O, N, L> {
        let Self { op, course, state, .. } = self;
        Retry { op, course: course.timed(timer), state, waits: Waits::none() }
    }
}

impl<'a, E, C, K, O, M, L> Run<'a, E, C, K, O, M, L> {
    /// Retries are paid from `budget`, and success refills it.
    pub fn with_budget(mut self, budget: &'a Budget) -> Self {
        self.course.tally.set_budget(budget);
        self
    }

    /// Every attempt made by [`attempt`](Self::attempt) asks `breaker` first and tells it its outcome, by the policy's
    /// verdict. Refused, the run ends at once as [`Stop::Open`], with the breaker's `retry_after`; a delay after which
    /// it would be refused is not waited out. By hand, the breaker is asked before each retry only.
    pub fn with_breaker<D, P, N>(self, breaker: &'a Breaker<D, P, N>) -> Run<'a, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
        D: Sync,
        P: Observe<breaker::Event> + Sync,
        N: Timer + Sync,
    {
        let mut course = self.course.linked();
        course.links_mut().set_breaker(breaker);
        Run { course, announced: self.announced, succeeded: self.succeeded }
    }

    /// Every attempt made by [`attempt`](Self::attempt), and by hand every retry, waits while `cooldown` holds, and a
    /// `Throttled` verdict makes it hold all who share it. A hold that does not fit the deadline ends the run. Give the
    /// cooldown the timer that the run has.
    pub fn with_cooldown<D, N>(self, cooldown: &'a Cooldown<D, N>) -> Run<'a, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
    {
        let mut course = self.course.linked();
        course.links_mut().set_cooldown(cooldown.gate());
        Run { course, announced: self.announced, succeeded: self.succeeded }
    }

    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    pub fn with_observer<P>(self, observer: P) -> Run<'a, E, C, K, P, M, L> {
        Run { course: self.course.observed(observer), announced: self.announced, succeeded: self.succeeded }
    }

    /// Time is `timer`'s. The deadline counts from here.
    pub fn with_timer<N: Timer>(self, timer: N) -> Run<'a, E, C, K, O, N, L> {
        let mut course = self.course.timed(timer);
        course.note_start();
        Run { course, announced: self.announced, succeeded: self.succeeded }
    }
}
