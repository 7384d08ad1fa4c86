use std::panic::Location;
use std::time::Duration;

use rand::{Rng, TryRng};

#[cfg(feature = "stream")]
use super::links::Forgiving;
use super::links::{Link, Linked, Steps, Unlinked};
use super::nest::{self, Site};
use super::tally::Tally;
use super::{Event, GaveUp};
use crate::breaker::Open;
#[cfg(feature = "stream")]
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::classify::{Classify, Verdict};
use crate::observe::{Observe, Standard};
use crate::policy::{Attempt, Decision, RetryPolicy, Stop};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};

/// What a call knows between its attempts, and the steps it takes there: what [`Retry`](super::Retry) and
/// [`Run`](super::Run) have in common. It judges, decides, pays and tells; it never waits.
pub(crate) struct Course<'a, E, C, K, O = Standard, M = DefaultTimer, L = Unlinked> {
    policy: &'a RetryPolicy<C>,
    /// Where the call was made: its name.
    pub(crate) site: Site,
    pub(crate) token: K,
    pub(crate) tally: Tally<'a>,
    observer: O,
    pub(crate) timer: M,
    /// When the call began, in nanoseconds on the timer (584 years' worth); `UNKNOWN` until somebody needs it.
    started: u64,
    /// The delay before the attempt that was begun last, in nanoseconds.
    delay: u64,
    last: Option<E>,
    pub(super) links: L,
}

const UNKNOWN: u64 = u64::MAX;

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

/// What follows from a failure that does not end the call.
pub(crate) struct Next {
    pub(crate) delay: Duration,
    /// When it was judged, since the start.
    elapsed: Duration,
}

impl<'a, E, C, K> Course<'a, E, C, K> {
    #[inline]
    #[track_caller]
    pub(crate) fn new(policy: &'a RetryPolicy<C>, token: K) -> Self {
        Self {
            policy,
            site: Location::caller(),
            token,
            tally: Tally::new(),
            observer: Standard,
            timer: DEFAULT_TIMER,
            started: UNKNOWN,
            delay: 0,
            last: None,
            links: Unlinked,
        }
    }
}

impl<'a, E, C, K, O, M, L> Course<'a, E, C, K, O, M, L> {
    #[inline]
    pub(crate) fn observed<P>(self, observer: P) -> Course<'a, E, C, K, P, M, L> {
        let Self { policy, site, token, tally, observer: _, timer, started, delay, last, links } = self;
        Course { policy, site, token, tally, observer, timer, started, delay, last, links }
    }

    #[inline]
    pub(crate) fn timed<N>(self, timer: N) -> Course<'a, E, C, K, O, N, L> {
        let Self { policy, site, token, tally, observer, timer: _, delay, last, links, .. } = self;
        Course { policy, site, token, tally, observer, timer, started: UNKNOWN, delay, last, links }
    }

    #[inline]
    pub(crate) fn linked(self) -> Course<'a, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
    {
        let Self { policy, site, token, tally, observer, timer, started, delay, last, links } = self;
        Course { policy, site, token, tally, observer, timer, started, delay, last, links: links.linked() }
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

#[cfg(feature = "stream")]
impl<'a, E, C, K> Course<'a, E, C, K> {
    /// For a call whose deadline may count anew.
    #[track_caller]
    pub(crate) fn forgiving(
        policy: &'a RetryPolicy<C>,
        token: K,
    ) -> Course<'a, E, C, K, Standard, DefaultTimer, Forgiving> {
        let Course { policy, site, token, tally, observer, timer, started, delay, last, .. } =
            Course::new(policy, token);
        Course { policy, site, token, tally, observer, timer, started, delay, last, links: Forgiving::default() }
    }
}

#[cfg(feature = "stream")]
impl<E, C, K, O, M: Timer> Course<'_, E, C, K, O, M, Forgiving> {
    /// The deadline counts anew from here.
    pub(crate) fn forgive(&mut self) {
        if self.started != UNKNOWN {
            self.links.forgiven = Duration::from_nanos(nanos(self.timer.now()).saturating_sub(self.started));
        }
    }
}

impl<'a, E, C, K, O, M> Course<'a, E, C, K, O, M, Linked<'a>> {
    #[inline]
    pub(crate) fn links_mut(&mut self) -> &mut Linked<'a> {
        &mut self.links
    }
}

impl<E, C, K, O, M, L> Course<'_, E, C, K, O, M, L>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Steps,
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
        let counted = elapsed.saturating_sub(self.links.forgiven());
        self.policy.deadline().map(|limit| limit.saturating_sub(counted))
    }

    /// The time left until the deadline, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.policy.deadline()?;
        self.remaining(self.elapsed())
    }

    /// Begins the first attempt, unless the token forbids it.
    #[inline]
    pub(crate) fn begin_first(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        if !O::TROUBLE_ONLY || self.policy.deadline().is_some() {
            self.note_start();
        }
        self.pass_links()?;
        self.tally.begin_first();
        Ok(self.attempt_at(Duration::ZERO))
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
            0 if self.tally.was_held() => self.begin_held(),
            0 => self.begin_first(),
            _ => self.begin_later(),
        }
    }

    /// Begins the first attempt after a cooldown held it.
    fn begin_held(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        let elapsed = self.elapsed();
        if self.remaining(elapsed) == Some(Duration::ZERO) {
            return Err(Stop::Deadline.into());
        }
        self.pass_links()?;
        self.tally.begin_first();
        Ok(self.attempt_at(elapsed))
    }

    /// Asks what is linked whether an attempt may begin.
    #[inline]
    fn pass_links(&mut self) -> Result<(), Refusal> {
        match self.links.hold(|| self.timer.now()) {
            Some(delay) => Err(self.hold(delay)),
            None => Ok(self.links.admit()?),
        }
    }

    #[cold]
    fn hold(&mut self, delay: Duration) -> Refusal {
        self.tally.hold();
        self.note_start();
        if self.time_left().is_some_and(|left| delay >= left) {
            return Refusal::End { stop: Stop::Deadline, retry_after: Some(delay) };
        }
        if self.observer.is_enabled() {
            let attempt = self.tally.attempts().saturating_add(1);
            self.observer.observe(&Event::Held { attempt, allowed: self.policy.attempts(), delay });
        }
        Refusal::Hold(delay)
    }

    /// Before anything else of the call: says so if it is made within an attempt of another one.
    #[inline]
    pub(crate) fn note_nesting(&self) {
        if let Some(outer) = nest::outer() {
            self.tell_nested(outer);
        }
    }

    /// Begins the next attempt after a wait, unless the token or the deadline forbids it.
    ///
    /// It was allowed and paid for before the wait, except where a [`Run`](super::Run) goes on after an attempt or a
    /// wait that was dropped: no attempt is free by that, and there are not more of them.
    pub(crate) fn begin_later(&mut self) -> Result<Attempt, Refusal> {
        if self.token.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        if self.tally.attempts() >= self.policy.attempts() {
            return Err(Stop::Attempts.into());
        }
        let elapsed = self.elapsed();
        if self.remaining(elapsed) == Some(Duration::ZERO) {
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
        self.links.failed(verdict, || self.timer.now());
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
        let stop = if verdict == Verdict::Fail { Stop::Fatal } else { stop };
        self.give_up(stop, Some(verdict), verdict.after())
    }

    /// Judges a failed attempt: the delay before the next, which is then paid for, or the end.
    #[inline]
    pub(crate) fn failed(&mut self, error: E) -> Result<Next, GaveUp<E>> {
        let (verdict, attempt) = self.judged(error);
        let delay = match self.policy.decide(attempt, verdict, &mut Draw) {
            Decision::Stop(stop) => return Err(self.give_up(stop, Some(verdict), verdict.after())),
            Decision::Retry(delay) => delay,
        };
        if self.token.is_cancelled() {
            return Err(self.give_up(Stop::Cancelled, Some(verdict), verdict.after()));
        }
        if !self.tally.pay() {
            return Err(self.give_up(Stop::Budget, Some(verdict), verdict.after()));
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
    fn tell_nested(&self, outer: Site) {
        if self.observer.is_enabled() {
            self.observer.observe(&Event::Nested { outer, inner: self.site });
        }
    }

    #[cold]
    fn tell_waiting(&self, attempt: Attempt, verdict: Verdict, delay: Duration) {
        let Verdict::Retry { after: hint, cause } = verdict else { return };
        let (allowed, tokens) = (self.policy.attempts(), self.tally.tokens());
        let resumes_at = (self.started != UNKNOWN)
            .then(|| Duration::from_nanos(self.started).saturating_add(attempt.elapsed()).saturating_add(delay));
        self.observer.observe(&Event::Waiting { attempt, allowed, delay, hint, cause, resumes_at, tokens });
    }

    /// The call succeeded.
    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.links.succeeded();
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
    pub(crate) fn cut(&mut self, why: impl Into<Refusal>) -> GaveUp<E> {
        let (stop, retry_after) = match why.into() {
            Refusal::End { stop, retry_after } => (stop, retry_after),
            Refusal::Hold(delay) => (Stop::Deadline, Some(delay)),
        };
        self.links.forget();
        self.give_up(stop, None, retry_after)
    }

    #[cold]
    fn give_up(&mut self, stop: Stop, verdict: Option<Verdict>, retry_after: Option<Duration>) -> GaveUp<E> {
        self.tally.take_back();
        let (attempts, elapsed) = (self.tally.attempts(), self.elapsed());
        let retry_after = retry_after.filter(|hint| !hint.is_zero());
        if self.observer.is_enabled() {
            let (allowed, last, tokens) = (self.policy.attempts(), self.last.as_ref(), self.tally.tokens());
            self.observer.observe(&Event::GaveUp {
                stop,
                attempts,
                allowed,
                elapsed,
                last,
                verdict,
                retry_after,
                tokens,
            });
        }
        GaveUp { stop, attempts, elapsed, retry_after, last: self.last.take() }
    }

    /// Whether a retry must first let the runtime's other tasks have their turn, when its delay took no time: an endless
    /// row of instant failures would otherwise starve them, the timeout around this call included.
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
