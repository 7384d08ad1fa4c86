use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::{Rng, RngExt};

use crate::classify::{Cause, Verdict};
use crate::sync::AtomicU64;
use crate::time::nanos;

/// A cooldown without its classifier and timer: time and randomness are arguments, so a call under a timer of its
/// own can use it too. All times are readings of one timer, in nanoseconds (584 years' worth).
pub(crate) struct Gate {
    /// When the hold ends; 0 while nothing is held or released. Invariant 1: it only grows, except that it may become 0
    /// once all waiters have been released.
    until: AtomicU64,
    /// When the hold began; of use only while `until` is not 0. Invariant 2: written before the `until` that
    /// begins a hold, so whoever sees that sees this.
    since: AtomicU64,
    settings: Settings,
}

#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) jitter: f64,
    pub(super) least_spread: Duration,
    pub(super) cap: Duration,
    pub(super) default_hold: Duration,
}

impl Gate {
    pub(super) const fn new(settings: Settings) -> Self {
        Self { until: AtomicU64::new(0), since: AtomicU64::new(0), settings }
    }

    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Whether nothing is held, as far as can be said without a clock.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.until.load(Ordering::Relaxed) == 0
    }

    /// Learns from a verdict given at `now`: [`Cause::Throttled`] holds, nothing else does.
    #[inline]
    pub(crate) fn hold(&self, now: Duration, verdict: Verdict) {
        if let Verdict::Retry { after, cause: Cause::Throttled } = verdict {
            self.hold_for(now, after.unwrap_or(self.settings.default_hold));
        }
    }

    /// Holds for `after` from `now`, held to the cap.
    #[cold]
    pub(crate) fn hold_for(&self, now: Duration, after: Duration) {
        let after = nanos(after.min(self.settings.cap));
        if after == 0 {
            return;
        }
        let now = nanos(now);
        // A refusal amid a release says that it was too fast: the hold goes on, and the next release takes longer.
        if self.is_over(self.until.load(Ordering::Relaxed), now) {
            self.since.store(now, Ordering::Relaxed);
        }
        self.until.fetch_max(now.saturating_add(after), Ordering::Release);
    }

    /// What is left of the hold at `now`, without a waiter's share of the spread.
    pub(crate) fn remaining(&self, now: Duration) -> Option<Duration> {
        // Acquire pairs with the Release of the hold: the reader of this end sees its beginning (invariant 2).
        let until = self.until.load(Ordering::Acquire);
        let rest = until.saturating_sub(nanos(now));
        if rest > 0 {
            return Some(Duration::from_nanos(rest));
        }
        if until > 0 && self.is_over(until, nanos(now)) {
            // Spare the next caller the clock. Fails where somebody has just held again.
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        None
    }

    /// How long a call that comes at `now` waits; it must ask again afterwards. `None`: it may go.
    pub(crate) fn wait<R: Rng + ?Sized>(&self, now: Duration, rng: &mut R) -> Option<Duration> {
        let rest = self.remaining(now)?;
        let spread = self.spread(nanos(now.saturating_add(rest)));
        let own = if spread == 0 { 0 } else { rng.random_range(0..=spread) };
        Some(rest.saturating_add(Duration::from_nanos(own)))
    }

    /// Whether the hold that ends at `until` has ended by `now`, and its release as well.
    fn is_over(&self, until: u64, now: u64) -> bool {
        until == 0 || (until <= now && until.saturating_add(self.spread(until)) <= now)
    }

    /// How far apart the waiters of the hold that ends at `until` are released. Extended again and again, a hold is
    /// spread like one of the cap: that bounds the wait.
    fn spread(&self, until: u64) -> u64 {
        let Settings { jitter, least_spread, cap, .. } = self.settings;
        let held = Duration::from_nanos(until.saturating_sub(self.since.load(Ordering::Relaxed)));
        // An `Err` is overflow: the jitter is from 0 to 1.
        let share = Duration::try_from_secs_f64(held.min(cap).as_secs_f64() * jitter).unwrap_or(cap);
        nanos(share.max(least_spread))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &AtomicU64| Duration::from_nanos(time.load(Ordering::Relaxed));
        f.debug_struct("Gate").field("since", &at(&self.since)).field("until", &at(&self.until)).finish_non_exhaustive()
    }
}
