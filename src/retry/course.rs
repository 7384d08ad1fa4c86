use std::time::Duration;

use rand::{Rng, TryRng};

use super::tally::Tally;
use super::{Event, GaveUp};
#[cfg(feature = "stream")]
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::classify::{Classify, Verdict};
use crate::observe::{Observe, Standard};
use crate::policy::{Attempt, Decision, RetryPolicy, Stop};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};

/// What a call knows between its attempts, and the steps it takes there: what [`Retry`](super::Retry) and
/// [`Run`](super::Run) have in common. It judges, decides, pays and tells; it never waits.
pub(crate) struct Course<'a, E, C, K, O = Standard, M = DefaultTimer> {
    policy: &'a RetryPolicy<C>,
    pub(crate) token: K,
    pub(super) tally: Tally<'a>,
    observer: O,
    pub(crate) timer: M,
    /// When the call began, in nanoseconds on the timer (584 years' worth); `UNKNOWN` until somebody needs it.
    started: u64,
    /// The delay before the attempt that was begun last, in nanoseconds.
    delay: u64,
    /// How much of the elapsed time the deadline does not count, in nanoseconds.
    forgiven: u64,
    last: Option<E>,
}

const UNKNOWN: u64 = u64::MAX;

/// What follows from a failure that does not end the call.
pub(crate) struct Next {
    pub(crate) delay: Duration,
    /// When it was judged, since the start.
    elapsed: Duration,
}

impl<'a, E, C, K> Course<'a, E, C, K> {
    #[inline]
    pub(crate) fn new(policy: &'a RetryPolicy<C>, token: K) -> Self {
        Self {
            policy,
            token,
            tally: Tally::new(),
            observer: Standard,
            timer: DEFAULT_TIMER,
            started: UNKNOWN,
            delay: 0,
            forgiven: 0,
            last: None,
        }
    }
}

impl<'a, E, C, K, O, M> Course<'a, E, C, K, O, M> {
    #[inline]
    pub(crate) fn observed<P>(self, observer: P) -> Course<'a, E, C, K, P, M> {
        let Self { policy, token, tally, observer: _, timer, started, delay, forgiven, last } = self;
        Course { policy, token, tally, observer, timer, started, delay, forgiven, last }
    }

    #[inline]
    pub(crate) fn timed<N>(self, timer: N) -> Course<'a, E, C, K, O, N> {
        let Self { policy, token, tally, observer, timer: _, delay, last, .. } = self;
        Course { policy, token, tally, observer, timer, started: UNKNOWN, delay, forgiven: 0, last }
    }

    #[cfg(feature = "stream")]
    pub(crate) fn set_budget(&mut self, budget: &'a Budget) {
        self.tally.set_budget(budget);
    }

    #[cfg(feature = "stream")]
    pub(crate) const fn attempts(&self) -> u32 {
        self.tally.attempts()
    }

    /// Starts the clock, if there is one and it does not run yet: something is about to take time.
    #[inline]
    pub(crate) fn note_start(&mut self)
    where
        M: TimerSlot,
    {
        if self.started == UNKNOWN {
            self.started = self.timer.reading().map_or(UNKNOWN, |now| nanos(now).min(UNKNOWN - 1));
        }
    }
}

impl<E, C, K, O, M> Course<'_, E, C, K, O, M>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// The time since the start, if the clock runs.
    #[inline]
    fn elapsed(&self) -> Duration {
        if self.started == UNKNOWN {
            return Duration::ZERO;
        }
        Duration::from_nanos(nanos(self.timer.now()).saturating_sub(self.started))
    }

    #[inline]
    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        let counted = elapsed.saturating_sub(Duration::from_nanos(self.forgiven));
        self.policy.deadline().map(|limit| limit.saturating_sub(counted))
    }

    /// The deadline counts anew from here.
    #[cfg(feature = "stream")]
    pub(crate) fn forgive(&mut self) {
        self.forgiven = nanos(self.elapsed());
    }

    /// The time left until the deadline, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.policy.deadline()?;
        self.remaining(self.elapsed())
    }

    /// Begins the first attempt, unless the token forbids it.
    #[inline]
    pub(crate) fn begin_first(&mut self) -> Result<Attempt, Stop> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if !O::TROUBLE_ONLY || self.policy.deadline().is_some() {
            self.note_start();
        }
        self.tally.begin_first();
        Ok(self.attempt_at(Duration::ZERO))
    }

    /// Counts the first attempt where the caller made it without a word.
    pub(crate) fn begin_unseen(&mut self) {
        if self.tally.attempts() == 0 {
            self.tally.begin_first();
        }
    }

    /// Begins the next attempt after a wait, unless the token or the deadline forbids it.
    pub(crate) fn begin_later(&mut self) -> Result<Attempt, Stop> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        let elapsed = self.elapsed();
        if self.remaining(elapsed) == Some(Duration::ZERO) {
            return Err(Stop::Deadline);
        }
        Ok(self.begun(elapsed))
    }

    /// Begins the next attempt right after the failure that [`failed`](Self::failed) judged: nothing can have
    /// changed since.
    #[inline]
    pub(crate) fn begin_at_once(&mut self, next: &Next) -> Attempt {
        self.begun(next.elapsed)
    }

    #[inline]
    fn begun(&mut self, elapsed: Duration) -> Attempt {
        self.tally.begin();
        self.attempt_at(elapsed)
    }

    #[inline]
    fn attempt_at(&self, elapsed: Duration) -> Attempt {
        Attempt::new(self.tally.attempts())
            .with_elapsed(elapsed)
            .with_delay(Duration::from_nanos(self.delay))
            .with_remaining(self.remaining(elapsed))
    }

    /// Judges a failed attempt and takes note of it.
    #[inline]
    fn judged(&mut self, error: E) -> (Verdict, Attempt) {
        let verdict = self.policy.classify().classify(&error).unwrap_or(Verdict::Fail);
        let attempt = self.attempt_at(self.elapsed());
        if self.observer.is_enabled() {
            let allowed = self.policy.attempts();
            self.observer.observe(&Event::Failed { attempt, allowed, error: &error, verdict });
        }
        self.last = Some(error);
        (verdict, attempt)
    }

    /// Judges a failed attempt after which there is no other, whatever the policy would allow: `stop` says why, unless the error is
    /// hopeless anyway.
    #[cfg(feature = "stream")]
    #[cold]
    pub(crate) fn failed_for_good(&mut self, error: E, stop: Stop) -> GaveUp<E> {
        let (verdict, _) = self.judged(error);
        self.give_up(if verdict == Verdict::Fail { Stop::Fatal } else { stop }, Some(verdict))
    }

    /// Judges a failed attempt: the delay before the next, which is then paid for, or the end.
    #[inline]
    pub(crate) fn failed(&mut self, error: E) -> Result<Next, GaveUp<E>> {
        let (verdict, attempt) = self.judged(error);
        let delay = match self.policy.decide(attempt, verdict, &mut Draw) {
            Decision::Stop(stop) => return Err(self.give_up(stop, Some(verdict))),
            Decision::Retry(delay) => delay,
        };
        if self.token.is_cancelled() {
            return Err(self.give_up(Stop::Cancelled, Some(verdict)));
        }
        if !self.tally.pay() {
            return Err(self.give_up(Stop::Budget, Some(verdict)));
        }
        self.delay = 0;
        if !delay.is_zero() {
            self.delay = nanos(delay);
            self.note_start();
        }
        if self.observer.is_enabled() {
            self.tell_waiting(attempt, verdict, delay);
        }
        Ok(Next { delay, elapsed: attempt.elapsed() })
    }

    #[cold]
    fn tell_waiting(&self, attempt: Attempt, verdict: Verdict, delay: Duration) {
        let Verdict::Retry { after: hint, cause } = verdict else { return };
        let allowed = self.policy.attempts();
        let resumes_at = (self.started != UNKNOWN)
            .then(|| Duration::from_nanos(self.started).saturating_add(attempt.elapsed()).saturating_add(delay));
        self.observer.observe(&Event::Waiting { attempt, allowed, delay, hint, cause, resumes_at });
    }

    /// The call succeeded.
    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.tally.deposit();
        if (!O::TROUBLE_ONLY || self.tally.attempts() > 1) && self.observer.is_enabled() {
            self.tell_success();
        }
    }

    #[cold]
    fn tell_success(&self) {
        let (attempts, elapsed) = (self.tally.attempts(), self.elapsed());
        self.observer.observe(&Event::Succeeded { attempts, elapsed });
    }

    /// The call ends from outside, before, in or after an attempt.
    #[cold]
    pub(crate) fn cut(&mut self, stop: Stop) -> GaveUp<E> {
        self.give_up(stop, None)
    }

    #[cold]
    fn give_up(&mut self, stop: Stop, verdict: Option<Verdict>) -> GaveUp<E> {
        self.tally.take_back();
        let (attempts, elapsed) = (self.tally.attempts(), self.elapsed());
        let retry_after = verdict.and_then(|verdict| verdict.after());
        if self.observer.is_enabled() {
            let (allowed, last) = (self.policy.attempts(), self.last.as_ref());
            self.observer.observe(&Event::GaveUp { stop, attempts, allowed, elapsed, last, verdict, retry_after });
        }
        GaveUp { stop, attempts, elapsed, retry_after, last: self.last.take() }
    }

    /// Whether a retry without a delay must first let the runtime's other tasks have their turn: an endless row of
    /// instant failures would otherwise starve them, the timeout around this call included.
    #[inline]
    pub(crate) const fn must_yield(&self) -> bool {
        self.tally.attempts() % 32 == 0
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
