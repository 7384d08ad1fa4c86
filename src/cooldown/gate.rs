use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::AtomicU64;
use crate::time::nanos;

/// The state of a cooldown: pure, with time and chance as arguments. All times are readings of one timer, in nanoseconds.
pub(super) struct Gate {
    /// When the hold ends; 0 while nothing is held or released. Invariant 1: it only grows, except that it may become 0
    /// once all waiters have been released.
    until: AtomicU64,
    /// When the hold began; of use only while `until` is not 0. Invariant 2: written before the `until` that
    /// begins a hold, so whoever sees that sees this.
    since: AtomicU64,
    /// The longest hint since the hold was last not running.
    hint: AtomicU64,
    settings: Settings,
}

#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) jitter: f64,
    pub(super) least_spread: Duration,
    pub(super) cap: Duration,
    pub(super) default_hold: Duration,
}

/// How often a call asks during a release that nobody disturbs, before it goes.
const TURNS: u64 = 16;
/// A hold that goes on counts as no longer than so many of its hints: with the default jitter, a release of eight hints.
const HINTS: u64 = 32;

impl Gate {
    pub(super) const fn new(settings: Settings) -> Self {
        Self {
            until: AtomicU64::new(0),
            since: AtomicU64::new(0),
            hint: AtomicU64::new(0),
            settings,
        }
    }

    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Whether nothing is held, as far as can be said without a clock.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.until.load(Ordering::Relaxed) == 0
    }

    /// Holds for `after` from `now`, held to the cap; without a time, for the default.
    #[cold]
    pub(super) fn hold(&self, now: u64, after: Option<Duration>) {
        let after = nanos(after.unwrap_or(self.settings.default_hold).min(self.settings.cap));
        if after == 0 {
            return;
        }
        let until = self.until.load(Ordering::Relaxed);
        // A refusal amid a release says that it was too fast: the hold goes on, and the next release takes longer.
        if self.is_over(until, now) {
            self.since.store(now, Ordering::Relaxed);
        }
        if until <= now {
            self.hint.store(after, Ordering::Relaxed);
        }
        let before = self.until.fetch_max(now.saturating_add(after), Ordering::AcqRel);
        // Of two that begin a hold at once, the one that comes later to this line mends what it may have overwritten.
        self.hint.fetch_max(after.max(before.saturating_sub(now)), Ordering::Relaxed);
    }

    /// What is left of the hold at `now`, without the release.
    pub(super) fn remaining(&self, now: u64) -> Option<Duration> {
        // Acquire: whether it is over, is a matter of its beginning (invariant 2).
        let until = self.until.load(Ordering::Acquire);
        if until > now {
            return Some(Duration::from_nanos(until - now));
        }
        if until > 0 && self.is_over(until, now) {
            self.clear(until);
        }
        None
    }

    /// How long a call that comes at `now` waits; it must ask again afterwards. `None`: it may go.
    ///
    /// During a release each call asks at every turn, and goes with the chance that lets them all go evenly until its
    /// end. Nothing is kept of a call between two turns, so the one that comes anew is not ahead of those that wait, and
    /// all of them see soon that a hold has begun, or that the release has become shorter.
    pub(super) fn wait(
        &self,
        now: u64,
        mut draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Option<Duration> {
        // Acquire pairs with the Release of the hold: the reader of this end sees its beginning (invariant 2).
        let until = self.until.load(Ordering::Acquire);
        if until == 0 {
            return None;
        }
        let spread = self.spread(until);
        let turn = spread / TURNS;
        if until > now {
            return Some(Duration::from_nanos((until - now).saturating_add(draw(0..=turn))));
        }
        let left = until.saturating_add(spread).saturating_sub(now);
        if left == 0 {
            self.clear(until);
            return None;
        }
        if draw(0..=left - 1) <= turn {
            return None;
        }
        Some(Duration::from_nanos((turn / 2 + draw(0..=turn)).clamp(1, left)))
    }

    /// Spares the next caller the clock. Fails where somebody has just held again.
    fn clear(&self, until: u64) {
        let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the hold that ends at `until` has ended by `now`, and its release as well.
    fn is_over(&self, until: u64, now: u64) -> bool {
        until == 0 || (until <= now && until.saturating_add(self.spread(until)) <= now)
    }

    /// How long the release of the hold that ends at `until` takes. Extended again and again, a hold is spread like one
    /// of some hints, and of the cap at most: that bounds the wait.
    fn spread(&self, until: u64) -> u64 {
        let Settings { jitter, least_spread, cap, .. } = self.settings;
        let hints = self.hint.load(Ordering::Relaxed).saturating_mul(HINTS);
        let held = Duration::from_nanos(
            until.saturating_sub(self.since.load(Ordering::Relaxed)).min(hints),
        );
        // An `Err` is overflow: the jitter is from 0 to 1.
        let share =
            Duration::try_from_secs_f64(held.min(cap).as_secs_f64() * jitter).unwrap_or(cap);
        nanos(share.max(least_spread))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &AtomicU64| Duration::from_nanos(time.load(Ordering::Relaxed));
        let hint = at(&self.hint);
        f.debug_struct("Gate")
            .field("since", &at(&self.since))
            .field("until", &at(&self.until))
            .field("hint", &hint)
            .finish_non_exhaustive()
    }
}
