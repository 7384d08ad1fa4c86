use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[cfg(feature = "fleet")]
use super::Hold;
use crate::sync::AtomicU64;
use crate::time::nanos;

/// The state of a cooldown: pure, with time and random numbers as arguments. All times are readings
/// of one timer, in nanoseconds.
pub(super) struct Gate {
    /// The end of the hold, or 0 while no hold and no release runs. Invariant 1: `until` only
    /// grows, but may become 0 after the release.
    until: AtomicU64,
    /// The start of the hold plus [`PAST`], valid while `until` is not 0. Invariant 2: `since` is
    /// written before the `until` of a new hold. An Acquire load of this `until` makes this `since`
    /// visible.
    since: AtomicU64,
    /// The longest hint since `until` was last reached. The first hint after `until` replaces it.
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

/// The number of turns in a release. A waiting call asks about once a turn.
const TURNS: u64 = 16;
/// The longest length that a continued hold counts for, in hints. The release then takes eight
/// hints with the default jitter.
const HINTS: u64 = 32;
/// The time by which a hold can begin before the origin of the timer: two years. Another process may
/// have begun the hold before this process began.
const PAST: u64 = 1 << 56;

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

    /// Returns true if no hold and no release can run. Reads no clock.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.until.load(Ordering::Relaxed) == 0
    }

    /// Holds calls for `after` from `now`, or for the default without `after`. At most for the cap.
    /// Returns whether the hold begins or becomes longer.
    #[cold]
    pub(super) fn hold(&self, now: u64, after: Option<Duration>) -> bool {
        let after = nanos(after.unwrap_or(self.settings.default_hold).min(self.settings.cap));
        if after == 0 {
            return false;
        }
        let until = self.until.load(Ordering::Relaxed);
        // A refusal during a release shows that the release was too fast: the hold continues, and
        // the next release takes longer.
        if self.is_over(until, now) {
            self.since.store(now.saturating_add(PAST), Ordering::Relaxed);
        }
        self.hold_until(until, now, after, after)
    }

    /// Holds calls for `after` from `now`. `until` is the end of the hold as the caller has seen it,
    /// and `hint` is the longest wait that the upstream asked for.
    fn hold_until(&self, until: u64, now: u64, after: u64, hint: u64) -> bool {
        if until <= now {
            self.hint.store(hint, Ordering::Relaxed);
        }
        let end = now.saturating_add(after);
        let before = self.until.fetch_max(end, Ordering::AcqRel);
        // Two calls that begin a hold at once may overwrite `hint`: the second one corrects it
        // here.
        self.hint.fetch_max(hint.max(before.saturating_sub(now)), Ordering::Relaxed);
        before < end
    }

    /// Continues a hold of another process. Its release has then the same length as there.
    #[cold]
    #[cfg(feature = "fleet")]
    pub(super) fn join(&self, now: u64, hold: Hold) {
        let remaining = nanos(hold.remaining.min(self.settings.cap));
        if remaining == 0 {
            return;
        }
        let since = now.saturating_add(PAST).saturating_sub(nanos(hold.elapsed));
        let until = self.until.load(Ordering::Acquire);
        if self.is_over(until, now) {
            self.since.store(since, Ordering::Relaxed);
        } else {
            self.since.fetch_min(since, Ordering::Relaxed);
        }
        let hint = nanos(hold.hint.min(self.settings.cap)).max(1);
        self.hold_until(until, now, remaining, hint);
    }

    /// Returns the current hold.
    #[cfg(feature = "fleet")]
    pub(super) fn current(&self, now: u64) -> Option<Hold> {
        let remaining = self.remaining(now)?;
        let since = self.since.load(Ordering::Relaxed);
        let elapsed = Duration::from_nanos(now.saturating_add(PAST).saturating_sub(since));
        let hint = Duration::from_nanos(self.hint.load(Ordering::Relaxed));
        Some(Hold { elapsed, remaining, hint })
    }

    /// Returns the rest of the hold at `now`, without the release.
    pub(super) fn remaining(&self, now: u64) -> Option<Duration> {
        // Acquire, because `is_over` reads `since` (invariant 2).
        let until = self.until.load(Ordering::Acquire);
        if until == 0 {
            return None;
        }
        if until > now {
            return Some(Duration::from_nanos(until - now));
        }
        if self.is_over(until, now) {
            self.clear(until);
        }
        None
    }

    /// Returns the wait of a call that asks at `now` and ends at `ends_at`. The call must ask again after
    /// the wait, and a wait up to its end ends it. With `None` the call may go.
    ///
    /// During a release each call asks about once a turn. Its chance to go spreads all calls evenly
    /// over the rest of the release. A call keeps no state between two turns, so a new call is not
    /// ahead of waiting calls. All calls soon notice a new hold or a shorter release.
    ///
    /// If a call ends during the release, its place in the release may be behind its end. The place is
    /// drawn when the call `is_new`, so such a call ends at once, and the others leave before their
    /// ends. Thus as many calls leave at each time as without ends, and none waits in vain.
    pub(super) fn wait(
        &self,
        now: u64,
        ends_at: u64,
        is_new: bool,
        mut draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Option<Duration> {
        // Acquire pairs with the Release in `hold`: `spread` reads `since` (invariant 2).
        let until = self.until.load(Ordering::Acquire);
        if until == 0 {
            return None;
        }
        let spread = self.spread(until);
        let (start, released_at) = (until.max(now), until.saturating_add(spread));
        if released_at <= now {
            self.clear(until);
            return None;
        }
        let before = start - now;
        let last = if start < ends_at && ends_at <= released_at {
            if is_new {
                let place = draw(0..=released_at - start - 1);
                if place >= ends_at - start {
                    return Some(Duration::from_nanos(before + place));
                }
            }
            ends_at - 1
        } else {
            released_at
        };
        let (turn, left) = (spread / TURNS, last - start);
        if before > 0 {
            return Some(Duration::from_nanos(before + draw(0..=turn.min(left))));
        }
        if left == 0 || draw(0..=left - 1) <= turn {
            return None;
        }
        Some(Duration::from_nanos((turn / 2 + draw(0..=turn)).clamp(1, left)))
    }

    /// Returns the time at which a call may go, if the call will ask at `at` for the first time and ends at
    /// `ends_at`, during the hold or its release. The place in the release is drawn, so the call is not
    /// new any more. With `None` nothing is drawn.
    pub(super) fn place(
        &self,
        at: u64,
        ends_at: u64,
        mut draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Option<u64> {
        // Acquire as in `wait`.
        let until = self.until.load(Ordering::Acquire);
        let (start, released_at) = (until.max(at), until.saturating_add(self.spread(until)));
        if until == 0 || released_at <= at || released_at < ends_at {
            return None;
        }
        let place = if ends_at <= start { 0 } else { draw(0..=released_at - start - 1) };
        Some(start.saturating_add(place))
    }

    /// Saves the next caller a reading of the clock, but fails if a hold was added meanwhile.
    fn clear(&self, until: u64) {
        let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether the hold with the end `until` is over at `now`, including its release.
    fn is_over(&self, until: u64, now: u64) -> bool {
        until == 0 || (until <= now && until.saturating_add(self.spread(until)) <= now)
    }

    /// Returns the length of the release after `until`. A hold that is extended again and again
    /// counts as `HINTS` hints or the cap at most. That bounds the wait.
    fn spread(&self, until: u64) -> u64 {
        let Settings { jitter, least_spread, cap, .. } = self.settings;
        let hints = self.hint.load(Ordering::Relaxed).saturating_mul(HINTS);
        let since = self.since.load(Ordering::Relaxed);
        let held =
            Duration::from_nanos(until.saturating_add(PAST).saturating_sub(since).min(hints));
        // An `Err` is an overflow, because the jitter is between 0 and 1.
        let share =
            Duration::try_from_secs_f64(held.min(cap).as_secs_f64() * jitter).unwrap_or(cap);
        nanos(share.max(least_spread))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &AtomicU64| Duration::from_nanos(time.load(Ordering::Relaxed));
        let (hint, since) = (at(&self.hint), at(&self.since));
        f.debug_struct("Gate")
            .field("since", &since.saturating_sub(Duration::from_nanos(PAST)))
            .field("until", &at(&self.until))
            .field("hint", &hint)
            .finish_non_exhaustive()
    }
}
