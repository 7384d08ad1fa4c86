use std::time::Duration;

use rand::{Rng, TryRng};

use super::{Event, GaveUp};
use crate::budget::{Budget, Withdrawal};
use crate::cancel::Cancel;
use crate::classify::{Classify, Verdict};
use crate::observe::{Observe, Standard};
use crate::policy::{Attempt, Decision, RetryPolicy, Stop};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer};

/// What a call knows between its attempts, and the steps it takes there: what [`Retry`](super::Retry) and
/// [`Run`](super::Run) have in common. It judges, decides, pays and tells; it never waits.
pub(super) struct Course<'a, E, C, K, O = Standard, M = DefaultTimer> {
    policy: &'a RetryPolicy<C>,
    pub(super) token: K,
    pub(super) budget: Option<&'a Budget>,
    observer: O,
    pub(super) timer: M,
    /// When the call began; `None` until somebody needs to know.
    pub(super) started: Option<Duration>,
    /// How many attempts were begun.
    pub(super) attempts: u32,
    /// The delay before the attempt that was begun last.
    delay: Duration,
    last: Option<E>,
    /// Paid for a retry that has not begun.
    pub(super) paid: Option<Withdrawal<'a>>,
}

impl<'a, E, C, K> Course<'a, E, C, K> {
    #[inline]
    pub(super) fn new(policy: &'a RetryPolicy<C>, token: K) -> Self {
        Self {
            policy,
            token,
            budget: None,
            observer: Standard,
            timer: DEFAULT_TIMER,
            started: None,
            attempts: 0,
            delay: Duration::ZERO,
            last: None,
            paid: None,
        }
    }
}

impl<'a, E, C, K, O, M> Course<'a, E, C, K, O, M> {
    #[inline]
    pub(super) fn observed<P>(self, observer: P) -> Course<'a, E, C, K, P, M> {
        let Self { policy, token, budget, observer: _, timer, started, attempts, delay, last, paid } = self;
        Course { policy, token, budget, observer, timer, started, attempts, delay, last, paid }
    }

    #[inline]
    pub(super) fn timed<N>(self, timer: N) -> Course<'a, E, C, K, O, N> {
        let Self { policy, token, budget, observer, timer: _, started, attempts, delay, last, paid } = self;
        Course { policy, token, budget, observer, timer, started, attempts, delay, last, paid }
    }
}

impl<E, C, K, O, M> Course<'_, E, C, K, O, M>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// Starts the clock, if it does not run yet: something is about to take time.
    pub(super) fn note_start(&mut self) {
        if self.started.is_none() {
            self.started = Some(self.timer.now());
        }
    }

    /// The time since the start, if the clock runs.
    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.timer.now().saturating_sub(started))
    }

    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        self.policy.deadline().map(|limit| limit.saturating_sub(elapsed))
    }

    /// The time left until the deadline, if there is one.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.policy.deadline()?;
        self.remaining(self.elapsed())
    }

    /// Begins the next attempt, unless the token or the deadline forbids it.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<Attempt, Stop> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if self.attempts == 0 && (O::TIMED || self.policy.deadline().is_some()) {
            self.note_start();
        }
        let elapsed = if self.attempts == 0 { Duration::ZERO } else { self.elapsed() };
        let remaining = self.remaining(elapsed);
        if self.attempts > 0 && remaining == Some(Duration::ZERO) {
            return Err(Stop::Deadline);
        }
        Ok(self.begun(elapsed, remaining))
    }

    /// Begins the next attempt right after the failure that [`failed`](Self::failed) judged: nothing can have
    /// changed since.
    #[inline]
    pub(super) fn begin_at_once(&mut self) -> Attempt {
        let elapsed = self.elapsed();
        self.begun(elapsed, self.remaining(elapsed))
    }

    #[inline]
    fn begun(&mut self, elapsed: Duration, remaining: Option<Duration>) -> Attempt {
        if let Some(paid) = self.paid.take() {
            paid.spend();
        }
        self.attempts = self.attempts.saturating_add(1);
        self.attempt_at(elapsed, remaining)
    }

    #[inline]
    fn attempt_at(&self, elapsed: Duration, remaining: Option<Duration>) -> Attempt {
        Attempt::new(self.attempts).with_elapsed(elapsed).with_delay(self.delay).with_remaining(remaining)
    }

    /// Judges a failed attempt: the delay before the next, which is paid for, or the end.
    #[inline]
    pub(super) fn failed(&mut self, error: E) -> Result<Duration, GaveUp<E>> {
        let verdict = self.policy.classify().classify(&error).unwrap_or(Verdict::Fail);
        let elapsed = self.elapsed();
        let attempt = self.attempt_at(elapsed, self.remaining(elapsed));
        let allowed = self.policy.attempts();
        self.observer.observe(&Event::Failed { attempt, allowed, error: &error, verdict });
        self.last = Some(error);

        let delay = match self.policy.decide(attempt, verdict, &mut Draw) {
            Decision::Stop(stop) => return Err(self.give_up(stop, Some(verdict))),
            Decision::Retry(delay) => delay,
        };
        if self.token.is_cancelled() {
            return Err(self.give_up(Stop::Cancelled, Some(verdict)));
        }
        if let Some(budget) = self.budget {
            self.paid = budget.withdraw();
            if self.paid.is_none() {
                return Err(self.give_up(Stop::Budget, Some(verdict)));
            }
        }
        if !delay.is_zero() {
            self.note_start();
        }
        if let Verdict::Retry { after, cause } = verdict {
            let resumes_at = self.started.map(|started| started.saturating_add(elapsed).saturating_add(delay));
            self.observer.observe(&Event::Waiting { attempt, allowed, delay, hint: after, cause, resumes_at });
        }
        self.delay = delay;
        Ok(delay)
    }

    /// The call succeeded.
    #[inline]
    pub(super) fn succeeded(&mut self) {
        if let Some(budget) = self.budget {
            budget.deposit();
        }
        let elapsed = if O::TIMED { self.elapsed() } else { Duration::ZERO };
        self.observer.observe(&Event::Succeeded { attempts: self.attempts, elapsed });
    }

    /// The call ends from outside, before, in or after an attempt.
    #[cold]
    pub(super) fn cut(&mut self, stop: Stop) -> GaveUp<E> {
        self.give_up(stop, None)
    }

    #[cold]
    fn give_up(&mut self, stop: Stop, verdict: Option<Verdict>) -> GaveUp<E> {
        self.paid = None;
        let (attempts, elapsed) = (self.attempts, self.elapsed());
        let retry_after = verdict.and_then(|verdict| verdict.after());
        self.observer.observe(&Event::GaveUp {
            stop,
            attempts,
            allowed: self.policy.attempts(),
            elapsed,
            last: self.last.as_ref(),
            verdict,
            retry_after,
        });
        GaveUp { stop, attempts, elapsed, retry_after, last: self.last.take() }
    }

    /// Whether a retry without a delay must first let the runtime's other tasks have their turn: an endless row of
    /// instant failures would otherwise starve them, the timeout around this call included.
    #[inline]
    pub(super) const fn must_yield(&self) -> bool {
        self.attempts % 32 == 0
    }
}

/// The thread's generator, looked up only when something is drawn.
struct Draw;

impl TryRng for Draw {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(rand::rng().next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(rand::rng().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        rand::rng().fill_bytes(bytes);
        Ok(())
    }
}
