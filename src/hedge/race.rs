use std::time::Duration;

use super::{Event, HedgePolicy};
use crate::budget::{Budget, Withdrawal};
use crate::cancel::Cancel;
use crate::classify::{Cause, Classify, Verdict};
use crate::observe::{ATTEMPTS, CALLS, Observe, Standard};
use crate::policy::{Attempt, Stop};
use crate::retry::GaveUp;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, nanos};
use crate::timeout::Adaptive;

/// What a hedged call knows of its attempts, and the steps that it takes: it judges, pays and tells; it holds no
/// attempt and never waits.
pub(super) struct Race<'a, E, C, K, O = Standard, M = DefaultTimer> {
    policy: &'a HedgePolicy<C>,
    pub(super) token: K,
    pub(super) budget: Option<&'a Budget>,
    pub(super) adaptive: Option<&'a Adaptive>,
    observer: O,
    pub(super) timer: M,
    /// When the call first had to be waited for.
    started: Option<Duration>,
    /// When the attempt was begun that was begun last (the first: when it had to be waited for).
    latest: Duration,
    /// The time from `latest` to the denial of a hedge since, in nanoseconds. The delay before the next hedge counts from
    /// there.
    denied: u64,
    attempts: u32,
    /// How many hedges may still start.
    left: u32,
    last: Option<(E, Verdict)>,
}

impl<'a, E, C, K> Race<'a, E, C, K> {
    #[inline]
    pub(super) fn new(policy: &'a HedgePolicy<C>, token: K) -> Self {
        Self {
            policy,
            token,
            budget: None,
            adaptive: None,
            observer: Standard,
            timer: DEFAULT_TIMER,
            started: None,
            latest: Duration::ZERO,
            denied: 0,
            attempts: 0,
            left: policy.hedges(),
            last: None,
        }
    }
}

impl<'a, E, C, K, O, M> Race<'a, E, C, K, O, M> {
    #[inline]
    pub(super) fn observed<P>(self, observer: P) -> Race<'a, E, C, K, P, M> {
        let Self { policy, token, budget, adaptive, observer: _, timer, started, latest, denied, attempts, left, last } =
            self;
        Race { policy, token, budget, adaptive, observer, timer, started, latest, denied, attempts, left, last }
    }

    #[inline]
    pub(super) fn timed<N>(self, timer: N) -> Race<'a, E, C, K, O, N> {
        let Self { policy, token, budget, adaptive, observer, timer: _, started, latest, denied, attempts, left, last } =
            self;
        Race { policy, token, budget, adaptive, observer, timer, started, latest, denied, attempts, left, last }
    }

    #[inline]
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }
}

impl<'a, E, C, K, O, M> Race<'a, E, C, K, O, M>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// Runs `poll`, which polls an attempt.
    #[inline]
    pub(super) fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.observer.within(&[CALLS, ATTEMPTS], poll)
    }

    #[inline]
    pub(super) fn begin_first(&mut self) -> Attempt {
        self.attempts = 1;
        Attempt::new(1).with_remaining(self.policy.deadline())
    }

    /// The call has to be waited for: the clock runs from here.
    pub(super) fn note_start(&mut self) {
        if self.started.is_none() {
            let now = self.timer.now();
            if let Some(adaptive) = self.adaptive {
                adaptive.forget(now);
            }
            (self.started, self.latest) = (Some(now), now);
        }
    }

    /// When the first attempt had to be waited for.
    pub(super) const fn started(&self) -> Option<Duration> {
        self.started
    }

    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.timer.now().saturating_sub(started))
    }

    /// How long an attempt may take before the next joins it. Where many hang, the quantile is among those, and has no
    /// bound but the policy's.
    fn delay(&self) -> Duration {
        let longest = self.policy.delay();
        self.adaptive.and_then(Adaptive::latency).map_or(longest, |usual| usual.min(longest))
    }

    /// From when the delay before the next hedge counts.
    fn waits_from(&self) -> Duration {
        self.latest.saturating_add(Duration::from_nanos(self.denied))
    }

    fn ends_at(&self) -> Option<Duration> {
        Some(self.started?.saturating_add(self.policy.deadline()?))
    }

    /// How long until something is due, if anything is: the next hedge, or the end.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let hedge = (self.left > 0).then(|| self.waits_from().saturating_add(self.delay()));
        let due = match (hedge, self.ends_at()) {
            (Some(hedge), Some(end)) => hedge.min(end),
            (one, other) => one.or(other)?,
        };
        Some(due.saturating_sub(self.timer.now()))
    }

    /// Something is due. `Ok(None)` is a hedge that the budget does not pay for; the token for the one that it does is
    /// to be spent once that has started.
    pub(super) fn due(&mut self) -> Result<Option<(Attempt, Option<Withdrawal<'a>>)>, Stop> {
        let now = self.timer.now();
        if self.ends_at().is_some_and(|end| now >= end) {
            return Err(Stop::Deadline);
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let delay = now.saturating_sub(self.latest);
        let paid = match self.budget.map(Budget::withdraw) {
            Some(None) => {
                // Forgone rather than put off: whether the call is hedged at all is then decided at one moment.
                self.denied = nanos(delay);
                if self.observer.is_enabled() {
                    self.observer.observe(&Event::Denied { attempts: self.attempts });
                }
                return Ok(None);
            }
            Some(paid) => paid,
            None => None,
        };
        (self.latest, self.denied) = (now, 0);
        let attempt = Attempt::new(self.attempts.saturating_add(1))
            .with_elapsed(self.started.map_or(Duration::ZERO, |started| now.saturating_sub(started)))
            .with_delay(delay)
            .with_remaining(self.ends_at().map(|end| end.saturating_sub(now)));
        Ok(Some((attempt, paid)))
    }

    /// The hedge was made. Returns when.
    pub(super) fn hedged(&mut self, attempt: Attempt) -> Duration {
        self.attempts = attempt.number();
        if self.observer.is_enabled() {
            self.observer.observe(&Event::Started { attempt });
        }
        self.latest
    }

    /// Judges a failed attempt; true if its error is accepted.
    pub(super) fn failed(&mut self, attempt: u32, error: E) -> bool {
        let verdict = self.policy.classify().classify(&error).unwrap_or(Verdict::Fail);
        if self.observer.is_enabled() {
            self.observer.observe(&Event::Failed { attempt, error: &error, verdict });
        }
        if verdict.after().is_some() || verdict.cause() == Some(Cause::Throttled) {
            self.left = 0; // the peer wants less
        }
        self.last = Some((error, verdict));
        verdict == Verdict::Fail
    }

    /// Learns from the attempts: from the winner and from those that were dropped in flight, each by when it was begun.
    pub(super) fn learn(&self, won: Option<Duration>, lost: impl Iterator<Item = Duration>) {
        let Some(adaptive) = self.adaptive.filter(|_| self.started.is_some()) else { return };
        let (now, slow) = (self.timer.now(), self.delay());
        for waited in lost.map(|begun| now.saturating_sub(begun)).filter(|&waited| waited >= slow) {
            adaptive.record_overtaken(now, waited);
        }
        if let Some(begun) = won {
            adaptive.record(now, now.saturating_sub(begun));
        }
    }

    /// The call succeeded; the losers were dropped.
    pub(super) fn succeeded(&self, attempt: u32, lost: impl Iterator<Item = u32>) {
        if let Some(budget) = self.budget {
            budget.deposit();
        }
        if (!O::TROUBLE_ONLY || self.attempts > 1) && self.observer.is_enabled() {
            self.tell_lost(lost);
            self.observer.observe(&Event::Won { attempt, attempts: self.attempts, elapsed: self.elapsed() });
        }
    }

    pub(super) fn tell_lost(&self, lost: impl Iterator<Item = u32>) {
        if self.observer.is_enabled() {
            lost.for_each(|attempt| self.observer.observe(&Event::Lost { attempt }));
        }
    }

    /// The call ends without success.
    #[cold]
    pub(super) fn give_up(&mut self, stop: Stop) -> GaveUp<E> {
        let (attempts, elapsed) = (self.attempts, self.elapsed());
        let judged = matches!(stop, Stop::Fatal | Stop::Attempts);
        let retry_after = self
            .last
            .as_ref()
            .filter(|_| judged)
            .and_then(|(_, verdict)| verdict.after())
            .filter(|hint| !hint.is_zero());
        if self.observer.is_enabled() {
            let last = self.last.as_ref().map(|(error, _)| error);
            self.observer.observe(&Event::GaveUp { stop, attempts, elapsed, last, retry_after });
        }
        GaveUp::new(stop, attempts, elapsed, retry_after, self.last.take().map(|(error, _)| error))
    }
}
