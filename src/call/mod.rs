//! The engine under every call. Only the engine waits, classifies, charges the budget and reports.
//!
//! A shell (`retry`, `Run`, `retry_stream`, `hedge`, `fallback`, `Upstream::call`) owns its
//! attempts and has its own rules. A [`CallState`] holds everything else. The steps of one attempt:
//!
//! 1. `poll_between` waits for the delay and then asks `begin`.
//! 2. `begin` checks the token, the attempts, the deadline and the budget. Then `admit` asks the
//!    target: cooldown, bulkhead, quota, breaker. The answer is a [`Begin`]: go, wait or end the call.
//! 3. `poll_attempt` polls the attempt. While the attempt is pending, `poll_limits` may cut it.
//! 4. `succeeded` reports a success to the target and the observer.
//! 5. `ended` takes every other end, an [`Ended`]. `failed` classifies and reports the failure. It
//!    then takes a budget token and sets the next delay. `close` ends the call with a [`GaveUp`].
//!
//! Most calls succeed at their first poll. For them `begin_first` and `succeeded_at_once` do less.
//! After `failed` a retry without a delay begins by `begin_after_failure`, which checks less.

mod begin;
mod close;
mod emit;
mod end;
mod gave_up;
mod nesting;
mod pending;
mod policy;
mod success;
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

/// The state of a call, apart from its attempts. Times are in nanoseconds, for up to 584 years.
pub(crate) struct CallState<E, P, K, X: Target, const N: usize = 1> {
    pub(crate) policy: P,
    pub(crate) token: K,
    pub(crate) guard: Guard<X, N>,
    site: Site,
    /// The start of the call on the timer, or `UNKNOWN` before a step needs it.
    started: u64,
    /// The delay before the next attempt or, in flight, before the current attempt.
    delay: u64,
    /// The end of the wait between attempts or 0 without a wait. During an attempt it is the time
    /// of the cut or `NO_LIMIT`, and 0 until a poll leaves the attempt pending. The time is kept
    /// apart from the sleep: a caller's loop may drop the wait and resume it.
    resumes_at: u64,
    last: Option<E>,
}

const UNKNOWN: u64 = u64::MAX;
/// The largest start time. Later readings are cut to this value: elapsed times are then unknown.
const LATEST: u64 = UNKNOWN - 1;

/// Returns the end of a wait that begins at `now`. Never 0 or `NO_LIMIT`: both mean "no wait".
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
    /// Sends the call to `target`, before its first attempt.
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

    /// Returns the number of attempts begun.
    #[inline]
    pub(crate) const fn attempts(&self) -> u32 {
        self.guard.progress.attempts
    }

    #[inline]
    const fn clock_runs(&self) -> bool {
        self.started != UNKNOWN
    }

    /// Starts the clock, if the target has a clock and it does not run yet.
    #[inline]
    pub(crate) fn note_start(&mut self) {
        if !self.clock_runs() {
            self.read_start();
        }
    }

    #[inline(never)] // most calls succeed at once and need no clock
    fn read_start(&mut self) {
        self.started = self.guard.target.reading().map_or(UNKNOWN, |now| now.min(LATEST));
    }

    /// Sets the delay before the next attempt.
    pub(crate) const fn set_delay(&mut self, delay: u64) {
        self.delay = delay;
    }

    /// Returns the start of the call if the clock runs.
    pub(crate) fn started(&self) -> Option<u64> {
        self.clock_runs().then_some(self.started)
    }

    /// Leaves the queue after the caller dropped the wait for an attempt. A delay continues.
    pub(crate) fn leave_queue(&mut self, slot: usize) {
        self.guard.leave_queue(slot);
    }

    /// Forgets the attempt in flight after the caller dropped it. The upstream does not count it.
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

    /// Returns the time since the start, or 0 if the clock does not run.
    #[inline]
    pub(crate) fn elapsed(&self) -> u64 {
        if self.clock_runs() { self.now().saturating_sub(self.started) } else { 0 }
    }

    /// Returns the time left to the call after `elapsed`, or `NO_LIMIT`.
    #[inline]
    pub(crate) fn remaining(&self, elapsed: u64) -> u64 {
        match self.policy.total_timeout() {
            NO_LIMIT => NO_LIMIT,
            total => total.saturating_sub(elapsed),
        }
    }

    /// Returns the deadline of the call on the timer, or `NO_LIMIT`.
    #[inline]
    pub(crate) fn ends_at(&self) -> u64 {
        match self.policy.total_timeout() {
            NO_LIMIT => NO_LIMIT,
            total => self.started.saturating_add(total),
        }
    }

    /// Marks this call as the outer call while the guard lives. Held while an attempt is polled.
    #[inline]
    pub(crate) fn polled(&self) -> Polled {
        let is_counted = !X::ALONE && self.guard.target.wants_all();
        let upstream = if is_counted { self.guard.target.name() } else { None };
        // A retry within these calls is intended: it is not reported as nested.
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

    /// Does the work of [`polled`](Self::polled) for an attempt from
    /// [`begin_first`](Self::begin_first), in a call that is not [nested](Self::is_nested).
    #[inline]
    pub(crate) fn polled_outermost(&self) -> Polled {
        Polled::outermost(self.site)
    }

    /// Returns true within an attempt of another call.
    #[inline]
    pub(crate) fn is_nested() -> bool {
        nesting::outer().is_some()
    }
}
