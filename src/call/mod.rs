//! The engine under every call: the only place that waits, classifies, pays and reports.
//!
//! A shell (`retry`, `Run`, `retry_stream`, `hedge`, `fallback`) holds its attempts and has its own rules; a [`CallState`] is
//! what it knows beside them.

mod begin;
mod emit;
mod end;
mod gave_up;
mod nesting;
mod pending;
mod policy;
mod wait;

pub use gave_up::{Boxed, GaveUp, Source};

pub(crate) use begin::Begin;
pub(crate) use end::{Classified, Ended};
pub(crate) use pending::{Pending, PendingOf};
pub(crate) use policy::{CallPolicy, Counted, NO_LIMIT, Plain, Renewed};

use std::panic::Location;

use nesting::{Polled, Site};

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::Rules;
use crate::time::{Timer, nanos};
use crate::upstream::{Guard, NoUpstream, Target, TargetFor};

/// What a call knows between its attempts. Times are in nanoseconds (584 years' worth).
pub(crate) struct CallState<E, P, K, X: Target, const N: usize = 1> {
    pub(crate) policy: P,
    pub(crate) token: K,
    pub(crate) guard: Guard<X, N>,
    site: Site,
    /// When the call began, on the timer; `UNKNOWN` until it is needed.
    started: u64,
    /// The delay before the next attempt, or before the one in flight.
    delay: u64,
    /// Between attempts, when the wait is over. In flight, when the attempt is cut, or `NO_LIMIT`; 0 until it has to be
    /// waited for. It is here and not in a sleep, so that a caller's loop may drop the wait and go on.
    resumes_at: u64,
    last: Option<E>,
}

const UNKNOWN: u64 = u64::MAX;
/// All readings from 584 years on: the time since cannot be told.
const LATEST: u64 = UNKNOWN - 1;

/// Returns when a wait is over that begins at `now`: neither 0 nor `NO_LIMIT`, which mean that there is none.
#[inline]
fn wait_end(now: u64, delay: u64) -> u64 {
    now.saturating_add(delay).clamp(1, NO_LIMIT - 1)
}

impl<E, P, K> CallState<E, P, K, NoUpstream> {
    #[inline]
    #[track_caller]
    pub(crate) fn new(kind: CallKind, policy: P, token: K) -> Self {
        Self {
            policy,
            token,
            guard: Guard::new(NoUpstream, kind),
            site: Location::caller(),
            started: UNKNOWN,
            delay: 0,
            resumes_at: 0,
            last: None,
        }
    }
}

impl<E, P, K, X: Target, const N: usize> CallState<E, P, K, X, N> {
    /// Sends a call that has not begun elsewhere.
    #[inline]
    pub(crate) fn on<Y: Target, const M: usize>(self, target: Y) -> CallState<E, P, K, Y, M> {
        let Self { policy, token, guard, site, .. } = self;
        CallState {
            policy,
            token,
            guard: Guard::new(target, guard.progress.kind),
            site,
            started: UNKNOWN,
            delay: 0,
            resumes_at: 0,
            last: None,
        }
    }

    /// Returns how many attempts were begun.
    #[inline]
    pub(crate) const fn attempts(&self) -> u32 {
        self.guard.progress.attempts
    }

    #[inline]
    const fn clock_runs(&self) -> bool {
        self.started != UNKNOWN
    }

    /// Starts the clock, if there is one and it does not run yet.
    #[inline]
    pub(crate) fn note_start(&mut self) {
        if !self.clock_runs() {
            self.read_start();
        }
    }

    #[inline(never)] // of no use to a call that succeeds at once
    fn read_start(&mut self) {
        self.started = self.guard.target.reading().map_or(UNKNOWN, |now| now.min(LATEST));
    }

    /// Sets the delay before the next attempt.
    pub(crate) const fn set_delay(&mut self, delay: u64) {
        self.delay = delay;
    }

    /// Returns when the call began, if the clock runs.
    pub(crate) fn started(&self) -> Option<u64> {
        self.clock_runs().then_some(self.started)
    }

    /// The wait for an attempt was dropped by its caller: it leaves the line. A delay goes on.
    pub(crate) fn leave_queue(&mut self, slot: usize) {
        self.guard.leave_queue(slot);
    }

    /// The attempt in flight was dropped by its caller: that says nothing of the upstream.
    pub(crate) fn drop_attempt(&mut self, slot: usize) {
        self.guard.forget(slot);
        self.resumes_at = 0;
    }
}

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanos(self.guard.target.timer().now())
    }

    /// Returns the time since the start, if the clock runs.
    #[inline]
    pub(crate) fn elapsed(&self) -> u64 {
        if self.clock_runs() { self.now().saturating_sub(self.started) } else { 0 }
    }

    /// Returns the time left after that time, or `NO_LIMIT`.
    #[inline]
    pub(crate) fn remaining(&self, elapsed: u64) -> u64 {
        match self.policy.total_timeout() {
            NO_LIMIT => NO_LIMIT,
            total => total.saturating_sub(elapsed),
        }
    }

    /// Returns when the call must end, on the timer, or `NO_LIMIT`.
    #[inline]
    pub(crate) fn ends_at(&self) -> u64 {
        match self.policy.total_timeout() {
            NO_LIMIT => NO_LIMIT,
            total => self.started.saturating_add(total),
        }
    }

    /// Names the call while an attempt of it is polled.
    #[inline]
    pub(crate) fn polled(&self) -> Polled {
        let is_counted = !X::ALONE && self.guard.target.wants_all();
        let upstream = if is_counted { self.guard.target.name() } else { None };
        // A retry belongs into these: it multiplies nothing by surprise.
        let is_frame = matches!(
            self.guard.progress.kind,
            CallKind::Hedge | CallKind::Fallback | CallKind::Single
        );
        Polled::enter(
            (!is_frame).then_some(self.site),
            upstream,
            self.guard.progress.kind != CallKind::Fallback,
        )
    }

    /// The same for an attempt that [`begin_first`](Self::begin_first) let begin, where [`is_nested`](Self::is_nested) is
    /// false.
    #[inline]
    pub(crate) fn polled_outermost(&self) -> Polled {
        Polled::outermost(self.site)
    }

    /// Returns whether this is called within an attempt of another call.
    #[inline]
    pub(crate) fn is_nested() -> bool {
        nesting::outer().is_some()
    }
}
