use std::time::Duration;

use super::super::Event;
use super::super::links::Steps;
use super::super::nest;
use super::{Course, Next};
use crate::breaker::Open;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Observe;
use crate::policy::{Attempt, Stop};
use crate::time::{Timer, nanos};

/// Why an attempt does not begin.
pub(crate) enum Refusal {
    /// The call ends.
    End { stop: Stop, retry_after: Option<Duration> },
    /// Not yet: a cooldown holds it that long, then it must ask again.
    Hold(Duration),
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        Self::End { stop, retry_after: None }
    }
}

impl From<Open> for Refusal {
    fn from(open: Open) -> Self {
        Self::End { stop: Stop::Open, retry_after: open.retry_after() }
    }
}

/// How attempts begin.
impl<E, C, K, O, M, L> Course<'_, E, C, K, O, M, L>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Steps,
{
    /// Begins the first attempt, unless the token forbids it. It is not counted yet: that is for who goes on after it, as
    /// most calls end with it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what it returns is large, and most operations look at none of it")]
    pub(crate) fn begin_first(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        if !O::TROUBLE_ONLY || self.policy.deadline().is_some() {
            self.note_start();
        }
        self.pass_links()?;
        Ok(Attempt::new(1).with_remaining(self.policy.deadline()))
    }

    /// Counts the first attempt.
    #[inline]
    pub(crate) const fn count_first(&mut self) {
        self.tally.begin_first();
    }

    /// Counts an attempt that the caller made without a word. It was made, so nothing refuses it any more.
    pub(crate) fn begin_unseen(&mut self) {
        if self.tally.attempts() == 0 {
            self.tally.begin_first();
        } else {
            self.tally.pay();
            self.tally.begin();
        }
    }

    /// Begins an attempt of which it is not known whether it is the first.
    pub(crate) fn begin_next(&mut self) -> Result<Attempt, Refusal> {
        match self.tally.attempts() {
            0 if self.tally.is_held() => self.begin_held(),
            0 => self.begin_first().inspect(|_| self.count_first()),
            _ => self.begin_later(),
        }
    }

    /// Begins the first attempt after a cooldown held it.
    fn begin_held(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        let elapsed = self.elapsed();
        if self.is_over(elapsed) {
            return Err(Stop::Deadline.into());
        }
        self.pass_links()?;
        self.tally.begin_first();
        Ok(self.attempt_at(elapsed))
    }

    /// Asks what is linked whether an attempt may begin.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "nothing where nothing is linked, and two questions where something is")]
    fn pass_links(&mut self) -> Result<(), Refusal> {
        match self.links.hold(|| self.timer.now()) {
            Some(delay) => Err(self.hold(delay)),
            None => Ok(self.links.admit()?),
        }
    }

    #[cold]
    #[inline(never)]
    fn hold(&mut self, delay: Duration) -> Refusal {
        self.tally.hold();
        self.note_start();
        if self.time_left().is_some_and(|left| nanos(delay) >= left) {
            return Refusal::End { stop: Stop::Deadline, retry_after: Some(delay) };
        }
        if self.observer.is_enabled() {
            let attempt = self.tally.attempts().saturating_add(1);
            self.observer.observe(&Event::Held { attempt, allowed: self.policy.attempts(), delay });
        }
        Refusal::Hold(delay)
    }

    /// Once for a call, before anything else of it: says so if that runs within an attempt of another call.
    pub(crate) fn note_nesting(&self) {
        if let Some(outer) = nest::outer() {
            if self.observer.is_enabled() {
                self.observer.observe(&Event::Nested { outer, inner: self.site });
            }
        }
    }

    /// Begins the next attempt after a wait, unless the token or the deadline forbids it.
    ///
    /// It was allowed and paid for before the wait, except where a [`Run`](crate::Run) goes on after an attempt or a
    /// wait that was dropped: no attempt is free by that, and there are not more of them.
    pub(crate) fn begin_later(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        if self.tally.attempts() >= self.policy.attempts() {
            return Err(Stop::Attempts.into());
        }
        let elapsed = self.elapsed();
        if self.is_over(elapsed) {
            return Err(Stop::Deadline.into());
        }
        if !self.tally.pay() {
            return Err(Stop::Budget.into());
        }
        self.pass_links()?;
        Ok(self.begun(elapsed))
    }

    /// Begins the next attempt right after the failure that [`failed`](Self::failed) judged: nothing can have
    /// changed since, but for what is linked.
    #[inline]
    pub(crate) fn begin_at_once(&mut self, next: &Next) -> Result<Attempt, Refusal> {
        self.pass_links()?;
        Ok(self.begun(next.elapsed))
    }

    #[inline]
    fn begun(&mut self, elapsed: u64) -> Attempt {
        self.tally.begin();
        self.attempt_at(elapsed)
    }
}
