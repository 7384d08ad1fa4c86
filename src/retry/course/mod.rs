//! The steps of a call that is tried again.

mod begin;
mod end;

pub(crate) use begin::Refusal;
pub(crate) use end::Next;

use std::num::NonZeroU64;
use std::panic::Location;
use std::time::Duration;

use super::Event;
#[cfg(feature = "stream")]
use super::links::Forgiving;
use super::links::{Link, Linked, Steps, Unlinked};
use super::nest::Site;
use super::tally::Tally;
#[cfg(feature = "stream")]
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::{ATTEMPTS, CALLS, Observe, Standard};
use crate::policy::{Attempt, RetryPolicy};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot, nanos};

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
    last: Option<Failure<E>>,
    pub(in crate::retry) links: L,
}

/// How the last attempt that failed did.
struct Failure<E> {
    error: E,
    /// The delay that follows it, in nanoseconds and one more: so an `Option` of this takes no room of its own.
    delay: NonZeroU64,
}

impl<E> Failure<E> {
    #[inline]
    const fn new(error: E) -> Self {
        Self { error, delay: NonZeroU64::MIN }
    }

    #[inline]
    fn set_delay(&mut self, delay: Duration) {
        self.delay = NonZeroU64::MIN.saturating_add(nanos(delay));
    }

    #[inline]
    const fn delay(&self) -> u64 {
        self.delay.get() - 1
    }
}

const UNKNOWN: u64 = u64::MAX;
/// All readings from 584 years on: the time since cannot be told.
const LATEST: u64 = UNKNOWN - 1;

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
            last: None,
            links: Unlinked,
        }
    }
}

impl<'a, E, C, K, O, M, L> Course<'a, E, C, K, O, M, L> {
    #[inline]
    pub(crate) fn observed<P>(self, observer: P) -> Course<'a, E, C, K, P, M, L> {
        let Self { policy, site, token, tally, observer: _, timer, started, last, links } = self;
        Course { policy, site, token, tally, observer, timer, started, last, links }
    }

    #[inline]
    pub(crate) fn timed<N>(self, timer: N) -> Course<'a, E, C, K, O, N, L> {
        let Self { policy, site, token, tally, observer, timer: _, last, links, .. } = self;
        Course { policy, site, token, tally, observer, timer, started: UNKNOWN, last, links }
    }

    #[inline]
    pub(crate) fn linked(self) -> Course<'a, E, C, K, O, M, Linked<'a>>
    where
        L: Link<'a>,
    {
        let Self { policy, site, token, tally, observer, timer, started, last, links } = self;
        Course { policy, site, token, tally, observer, timer, started, last, links: links.linked() }
    }

    #[cfg(feature = "stream")]
    pub(crate) fn set_budget(&mut self, budget: &'a Budget) {
        self.tally.set_budget(budget);
    }

    #[cfg(feature = "stream")]
    pub(crate) const fn attempts(&self) -> u32 {
        self.tally.attempts()
    }

    #[inline]
    const fn clock_runs(&self) -> bool {
        self.started != UNKNOWN
    }

    /// Starts the clock, if there is one and it does not run yet: something is about to take time.
    #[inline]
    pub(crate) fn note_start(&mut self)
    where
        M: TimerSlot,
    {
        if !self.clock_runs() {
            self.read_start();
        }
    }

    #[inline(never)] // of no use to a call that succeeds at once
    fn read_start(&mut self)
    where
        M: TimerSlot,
    {
        self.started = self.timer.reading().map_or(UNKNOWN, |now| nanos(now).min(LATEST));
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
        let Course { policy, site, token, tally, observer, timer, started, last, .. } = Course::new(policy, token);
        Course { policy, site, token, tally, observer, timer, started, last, links: Forgiving::default() }
    }
}

impl<E, C, K, O, M: Timer, L> Course<'_, E, C, K, O, M, L> {
    /// The time since the start in nanoseconds, if the clock runs.
    #[inline]
    fn elapsed(&self) -> u64 {
        if !self.clock_runs() {
            return 0;
        }
        nanos(self.timer.now()).saturating_sub(self.started)
    }
}

#[cfg(feature = "stream")]
impl<E, C, K, O, M: Timer> Course<'_, E, C, K, O, M, Forgiving> {
    /// The deadline counts anew from here.
    pub(crate) fn forgive(&mut self) {
        self.links.forgiven = self.elapsed();
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
    /// Runs `poll`, which polls an attempt.
    #[inline]
    pub(crate) fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.observer.within(&[CALLS, ATTEMPTS], poll)
    }

    /// The time left until the deadline in nanoseconds, if there is one.
    #[inline]
    fn remaining(&self, elapsed: u64) -> Option<u64> {
        let limit = self.policy.deadline()?;
        Some(nanos(limit).saturating_sub(elapsed.saturating_sub(self.links.forgiven())))
    }

    /// The same at this moment. Reads no clock without a deadline.
    fn time_left(&self) -> Option<u64> {
        self.policy.deadline()?;
        self.remaining(self.elapsed())
    }

    /// Whether the deadline has passed.
    #[inline]
    fn is_over(&self, elapsed: u64) -> bool {
        self.remaining(elapsed) == Some(0)
    }

    /// When the deadline passes, on the timer, if there is one. It counts from the reading that began the call; one that
    /// has passed while an attempt blocked its thread ends that at the timer's next turn.
    #[inline]
    pub(crate) fn ends_at(&self) -> Option<Duration> {
        let limit = self.policy.deadline()?;
        Some(self.reading_at(self.links.forgiven()).saturating_add(limit))
    }

    /// Whether the deadline is zero: then it is the beginning.
    pub(crate) fn ends_at_once(&self) -> bool {
        self.policy.deadline() == Some(Duration::ZERO)
    }

    /// The reading of the timer that long after the start. Where the start is not known that exactly, the reading is taken
    /// now.
    #[inline]
    fn reading_at(&self, elapsed: u64) -> Duration {
        self.at(elapsed).unwrap_or_else(|| self.timer.now())
    }

    /// The same; `None` where a start is not known that exactly.
    #[inline]
    fn at(&self, elapsed: u64) -> Option<Duration> {
        (self.started < LATEST).then(|| Duration::from_nanos(self.started.saturating_add(elapsed)))
    }

    #[inline]
    fn attempt_at(&self, elapsed: u64) -> Attempt {
        let delay = self.last.as_ref().map_or(0, Failure::delay);
        Attempt::of_call(self.tally.attempts(), elapsed, delay, self.remaining(elapsed))
    }

    /// Whether a retry must first let the runtime's other tasks have their turn, when its delay took no time: an
    /// endless row of instant failures would otherwise starve them, the timeout around this call included.
    #[inline]
    pub(crate) const fn must_yield(&self) -> bool {
        self.tally.attempts() % 32 == 0
    }
}
