use super::gate::{Gate, Settings};
#[cfg(feature = "fleet")]
use super::hold::Hold;
use crate::signal::Signal;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A cooldown that makes all its calls wait after the upstream throttles one of them.
///
/// A hold only becomes longer: of several hints, the one with the latest end counts. After the
/// hold, the waiting calls are released at random moments, because all of them would arrive at one
/// instant otherwise and be refused again. If a hold is extended, its waiting calls keep waiting.
///
/// A refusal during the release shows that the calls came too fast. The refusal continues the hold
/// and does not begin another one, so the next release is a share of that whole time and takes
/// longer. This repeats until the upstream accepts the pace, or until the hold counts as thirty-two
/// times its longest hint. During the release a waiting call asks about sixteen times whether it
/// may go. Each answer is random, so the calls leave evenly over the rest of the release. A call
/// that arrives during the release does the same. A call whose deadline comes before the end of the
/// release draws its place when it first asks, or when its attempt before has failed: behind its deadline it
/// ends at once, and otherwise it leaves before its deadline.
///
/// The program `lab/storm` models a fleet at a rate limit: 100 processes with 100 agents each, and
/// hints of one second. With a cooldown, 100 calls cost 17 refusals. With the hint alone, 100 calls
/// cost 203 refusals with jitter and 977 without. The cooldown still uses the upstream up to its
/// limit, so the last agent finishes no later than with the hint alone.
///
/// A hold begins with an attempt on the [`Upstream`](crate::Upstream) whose verdict says
/// [`Throttling`](crate::Health::Throttling), or with [`Upstream::hold`](crate::Upstream::hold).
/// Other errors do not hold other calls, even with a hint.
///
/// A call that begins to wait ends at once if the [`Breaker`](crate::Breaker) of the upstream is open for longer
/// than the hold. A call that already waits when the breaker opens learns of it at the end of its hold.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | jitter | a quarter of the hold | calls from the time of the hold leave at most four times as fast as they came, and wait an eighth longer on average |
/// | least spread | 250 ms, and none with a jitter of 0 | a quarter of one second, the shortest wait that a `Retry-After` header can state: a crowd needs room even after a short wait |
/// | cap | 2 min | as in [`RetryPolicy`](crate::RetryPolicy): a call waits no longer for another call's hint than for its own. A quota that is gone for the day must not hold the process for the day: after the cap each call gets its own refusal |
/// | hold without a hint | 1 s, at most the cap | used after a refusal without a time: long enough for a limit per second, and short because it is a guess; further refusals extend it |
///
/// The cap of the cooldown and the hint cap of a policy are two settings: a lower hint cap ends a call
/// after a long hint of its own, and the hold of another call's hint stays as long as before. Lower
/// both where no call may wait long.
///
/// # Cost
///
/// While no hold and no release runs, a call costs one load: no clock, no lock, no allocation, no
/// random number.
///
/// # Fairness
///
/// None. Waiters are released at random, and a call that arrives during the release has the same
/// chance as a call that has waited long.
#[must_use = "a cooldown does nothing unless calls share it"]
pub struct Cooldown {
    gate: Gate,
    /// Set when a hold begins or becomes longer.
    signal: Signal,
    /// True if the program asked for the hold by hand. Words of a log line depend on it and nothing else.
    is_by_hand: AtomicBool,
}

/// The shortest release, unless all waiters are released at one instant.
const LEAST_SPREAD: Duration = Duration::from_millis(250);

impl Cooldown {
    /// Creates a cooldown without a hold.
    pub const fn new() -> Self {
        let settings = Settings {
            jitter: 0.25,
            least_spread: LEAST_SPREAD,
            cap: Duration::from_secs(2 * 60),
            default_hold: Duration::from_secs(1),
        };
        Self {
            gate: Gate::new(settings),
            signal: Signal::new(),
            is_by_hand: AtomicBool::new(false),
        }
    }
}

/// Settings for a cooldown before it is shared.
impl Cooldown {
    /// Sets the share of the hold over which the waiters are released: 0 to 1, NaN is 0. With 0 all
    /// waiters are released at one instant. Otherwise the release takes at least 250 ms.
    ///
    /// The hold runs from its first hint to the end of its latest one. It counts as at most the
    /// cap, and as at most thirty-two times its longest hint since it last ended. A hint before the
    /// end of the release belongs to the same hold.
    pub const fn with_jitter(mut self, share: f64) -> Self {
        let share = if share > 0.0 { share } else { 0.0 };
        let settings = self.gate.settings_mut();
        settings.jitter = if share > 1.0 { 1.0 } else { share };
        settings.least_spread = if share > 0.0 { LEAST_SPREAD } else { Duration::ZERO };
        self
    }

    /// Sets the longest hold that one hint may cause. Longer hints are reduced to it. With zero no
    /// call is ever held.
    pub const fn with_cap(mut self, cap: Duration) -> Self {
        self.gate.settings_mut().cap = cap;
        self
    }

    /// Returns the share of a hold over which its waiters are released.
    #[must_use]
    pub const fn jitter(&self) -> f64 {
        self.gate.settings().jitter
    }

    /// Returns the longest hold that one hint may cause.
    #[must_use]
    pub const fn cap(&self) -> Duration {
        self.gate.settings().cap
    }
}

/// The operations for the upstream that owns the cooldown. Times are readings of its timer.
impl Cooldown {
    /// Returns true if no hold and no release can run. Reads no clock.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.gate.is_free()
    }

    /// Holds calls for `after` from `now`, because the upstream throttled an attempt. Without `after` the
    /// default applies.
    pub(crate) fn hold(&self, now: u64, after: Option<Duration>) {
        self.hold_for(now, after, false);
    }

    /// Holds calls for `after` from `now`, because the program asks for it.
    pub(crate) fn hold_by_hand(&self, now: u64, after: Duration) {
        self.hold_for(now, Some(after), true);
    }

    fn hold_for(&self, now: u64, after: Option<Duration>, is_by_hand: bool) {
        if self.gate.hold(now, after) {
            self.is_by_hand.store(is_by_hand, Ordering::Relaxed);
            self.signal.set();
        }
    }

    /// Returns whether the program asked for the latest hold of this process.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.is_by_hand.load(Ordering::Relaxed)
    }

    /// Returns the signal that is set when a hold begins or becomes longer.
    #[cfg(feature = "fleet")]
    pub(crate) const fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Returns the current hold.
    #[cfg(feature = "fleet")]
    pub(crate) fn current(&self, now: u64) -> Option<Hold> {
        self.gate.current(now)
    }

    /// Continues the hold of another process.
    #[cfg(feature = "fleet")]
    pub(crate) fn join(&self, now: u64, hold: Hold) {
        self.gate.join(now, hold);
    }

    /// Returns the rest of the hold, without the release.
    pub(crate) fn remaining(&self, now: u64) -> Option<Duration> {
        self.gate.remaining(now)
    }

    /// Returns the rest of the hold, and zero during the release. `None` if no call is held.
    #[cold]
    pub(crate) fn held(&self, now: u64) -> Option<Duration> {
        self.remaining(now).or_else(|| (!self.is_free()).then_some(Duration::ZERO))
    }

    /// Returns the wait of a call that asks at `now` and ends at `ends_at`. The call must ask again after
    /// the wait, and ends with a wait up to its end. With `None` it may go. A call is new if it asks for
    /// the first time.
    #[cold]
    #[inline(never)] // keeps this out of the code of calls without a hold
    pub(crate) fn wait(
        &self,
        now: u64,
        ends_at: u64,
        is_new: bool,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Option<Duration> {
        self.gate.wait(now, ends_at, is_new, draw)
    }

    /// Returns the time at which a call may go, if it will ask at `at` for the first time and ends at
    /// `ends_at`, during the hold or its release. The call is then not new any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn place(
        &self,
        at: u64,
        ends_at: u64,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Option<u64> {
        self.gate.place(at, ends_at, draw)
    }
}

impl Default for Cooldown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Cooldown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cooldown").field("gate", &self.gate).finish_non_exhaustive()
    }
}
