use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::law::Counts;
use super::window::{LENGTH, Window};
use crate::sync::AtomicU64;

/// A throttle that refuses attempts by chance while the upstream refuses more than half of them. It
/// refuses as [`StopReason::Throttled`](crate::StopReason::Throttled).
///
/// The guide has a chapter on [load](crate::guide::load).
///
/// An upstream under overload spends work on each request that it refuses. If its clients send on, the
/// refusals alone may keep it from its work. A [`Throttle`] counts the attempts of the last two minutes
/// and refuses the next one with the chance
///
/// ```text
/// max(0, (requests − 2 · accepts) / (requests + 1)), at most 0.9
/// ```
///
/// This is the client-side throttling of "Site Reliability Engineering" (Beyer et al. 2016), chapter 21
/// "Handling Overload". So the upstream gets about twice as many attempts as it accepts, whatever the
/// demand is, and an upstream that accepts half of them or more gets all.
///
/// * A *request* is an attempt, also one that the throttle refuses. It counts at its end, so an attempt
///   in flight says nothing yet.
/// * An *accept* is an attempt whose verdict is not [`Throttling`](crate::Health::Throttling). An
///   upstream that fails is a matter for the [`Breaker`](crate::Breaker).
/// * An attempt that is dropped does not count. A call within an attempt on the same upstream counts
///   once.
/// * At least one attempt in ten is sent, so the throttle sees the end of the overload.
///
/// A throttle is for many clients of an upstream that tells of its overload. It knows no limit and
/// makes no call wait. A cooldown waits as long as the upstream asked. A learned
/// [bulkhead](crate::Bulkhead::learned) finds the number of calls in flight that the upstream bears.
///
/// # Defaults
///
/// There is nothing to set. The window, the factor 2 and the bound of 0.9 have one value for all.
///
/// # Cost
///
/// Until the upstream refuses for the first time, and from two minutes after the last refusal, an
/// attempt costs a load and an atomic addition: no clock, no lock, no allocation, no random number.
/// Each 256th attempt reads the clock. While a refusal is in the window, an attempt reads the clock twice
/// and sums up sixteen words. Only a chance above zero draws a random number.
///
/// # Examples
///
/// ```
/// use resile::{StopReason, Throttle, Upstream, Verdict};
///
/// static SEARCH: Upstream = Upstream::new("search").with_throttle(Throttle::new());
///
/// // The upstream refuses each attempt. Soon most attempts are not sent any more.
/// let is_sent = || match SEARCH.try_admit() {
///     Ok(admission) => {
///         admission.settle(&Verdict::throttled());
///         true
///     }
///     Err(refused) => {
///         assert_eq!(refused.reason(), StopReason::Throttled);
///         false
///     }
/// };
/// let sent = (0..1_000).filter(|_| is_sent()).count();
/// assert!(sent < 300);
/// ```
#[must_use = "a throttle does nothing unless calls share it"]
pub struct Throttle {
    /// The accepted attempts that are not in the window yet.
    fresh: AtomicU64,
    /// The time from which `fresh` counts, or 0 if it is unknown.
    since: AtomicU64,
    /// The time from which the window has no refusal, or 0 if it has none.
    until: AtomicU64,
    window: Window,
}

/// The accepted attempts that go into the window together.
const TOGETHER: u64 = 256;

impl Throttle {
    /// Creates a throttle without counts.
    pub const fn new() -> Self {
        Self {
            fresh: AtomicU64::new(0),
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
            window: Window::new(),
        }
    }

    /// Returns true if the window has no refusal. Reads no clock.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.until.load(Ordering::Relaxed) == 0
    }

    /// Returns whether an attempt that ends needs the time.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        !self.is_idle() || self.fresh.load(Ordering::Relaxed) >= TOGETHER - 1
    }

    /// Returns the chance of an attempt at `now` to be refused, in percent.
    pub(crate) fn percent(&self, now: u64) -> u32 {
        if self.is_idle() { 0 } else { self.window.counts(now).odds().percent() }
    }

    /// Returns true, and counts a refusal, if the throttle refuses an attempt at `now`.
    #[cold]
    #[inline(never)] // keeps this out of the code of attempts without a refusal
    pub(crate) fn refuses(&self, now: u64, draw: impl FnOnce(RangeInclusive<u64>) -> u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if now >= until {
            self.since.store(now, Ordering::Relaxed);
            // A refusal meanwhile has set a later time.
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        let odds = self.window.counts(now).odds();
        let refuses = odds.refuse > 0 && draw(0..=odds.of - 1) < odds.refuse;
        if refuses {
            self.note_refused(now);
        }
        refuses
    }

    /// Counts an attempt that the upstream did not refuse. `now` is the time if known.
    #[inline]
    pub(crate) fn note_accepted(&self, now: Option<u64>) {
        match now {
            Some(now) if !self.is_idle() => {
                self.window.add(now, Counts { accepted: 1, refused: 0 });
            }
            _ => {
                let fresh = self.fresh.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(now) = now.filter(|_| fresh >= TOGETHER) {
                    self.count_fresh(now);
                }
            }
        }
    }

    /// Counts an attempt that the upstream or the throttle refused.
    #[cold]
    pub(crate) fn note_refused(&self, now: u64) {
        self.count_fresh(now);
        self.window.add(now, Counts { accepted: 0, refused: 1 });
        self.until.fetch_max(now.saturating_add(LENGTH), Ordering::Relaxed);
    }

    /// Moves the fresh attempts into the window, evenly over the time in which they were accepted.
    #[cold]
    fn count_fresh(&self, now: u64) {
        let fresh = self.fresh.swap(0, Ordering::Relaxed);
        if fresh > 0 {
            let since = self.since.swap(now, Ordering::Relaxed);
            self.window.spread(since, now, fresh);
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("is_idle", &self.is_idle()).finish_non_exhaustive()
    }
}
