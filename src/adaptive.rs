//! A timeout that follows the latencies of recent calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::histogram::{Histogram, clamped_quantile};
use crate::time::nanos;

/// A limit that follows the latencies of recent calls: their quantile times a factor, between a
/// floor and a ceiling.
///
/// A fixed limit may be too long, because each call to a hung upstream waits for all of it, and it
/// may be too short as soon as the upstream is a little slower. An adaptive limit is the recent
/// usual latency plus a margin. It is a part of an [`Upstream`](crate::Upstream) for calls of one
/// kind, since latencies of different kinds have no quantile in common. A policy uses the limit [as
/// attempt timeout](crate::RetryPolicy::with_learned_attempt_timeout) or [as the delay before a
/// hedge](crate::HedgePolicy::with_learned_delay).
///
/// # Learned latencies
///
/// | a call that | counts | why |
/// |---|---|---|
/// | succeeds after it was pending | its latency, from its first pending poll | the limit applies to this time |
/// | succeeds at its first poll | not | it needed no limit. If a cache answered 96 of 100 calls and these counted, the other four would time out |
/// | fails by itself | not | a refused connection fails in no time: an outage would teach a limit that no call can keep afterwards |
/// | times out by this limit | twice the limit, at most the ceiling | see below |
/// | is dropped | not | the drop may have had another reason than the latency |
///
/// A call that timed out would have taken longer. If such calls did not count, only fast calls
/// would, and the limit would stay too short forever once the upstream becomes slower. Counting
/// them *as* the limit does not help with a factor of 1: a sample with few slow calls would lower
/// the limit, and no sample could raise it again. A call that counts as twice the limit is
/// certainly above the quantile. While less than `1 − quantile` of the calls time out, the quantile
/// does not change and is exact. Beyond that, the quantile is one of these calls, so the limit at
/// least doubles until calls are fast enough or the limit is at the ceiling. TCP doubles its
/// timeout for the same reason (Karn and Partridge 1987; RFC 6298 §5.5).
///
/// A latency is forgotten after the window but counts for at least half of it.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | quantile | 0.95 | settles within few calls, which the far tail does not; also the delay to hedge after (Dean and Barroso, "The Tail at Scale", 2013) |
/// | factor | 2 | of latencies with a long tail (log-normal, σ = 1), one healthy call in a hundred times out; with 1.25 it would be three |
/// | floor | 250 ms | Linux sends a lost packet again after 200 ms: a lost packet must not cost the call |
/// | ceiling | 30 s | used until enough latencies are known; set the limit that you would set without this type |
/// | window | 2 min | after two minutes the earlier state of the upstream is forgotten |
/// | samples | 30 | of fewer than 20, the 95th percentile is the slowest; some more make it less of an accident |
///
/// # When not
///
/// * Few calls. With fewer than 30 a minute you only ever get the ceiling.
/// * Latencies that depend on the request: a model may write one line or a book. Limit the time
///   between items instead.
/// * Calls that do harm if repeated, because a limit near the usual latency times out some healthy
///   calls.
///
/// # Cost
///
/// No lock, no allocation, 2 KiB. A call that is ready at once pays nothing, while a pending call
/// pays an atomic addition and two readings of the clock (one with a fixed limit). The quantile is
/// computed at each of the first 64 latencies of similar length and then at every 16th.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use resile::classify::Always;
/// use resile::{AdaptiveTimeout, Upstream};
/// use std::{io, time::Duration};
///
/// static STORE: Upstream = Upstream::new("store").with_adaptive_timeout(
///     AdaptiveTimeout::new().with_ceiling(Duration::from_secs(10)),
/// );
///
/// async fn fetch(latency: Duration) -> io::Result<()> {
///     tokio::time::sleep(latency).await;
///     Ok(())
/// }
/// let limit = || STORE.adaptive_timeout().map(AdaptiveTimeout::limit);
/// assert_eq!(limit(), Some(Duration::from_secs(10)));
/// for _ in 0..30 {
///     STORE.call(fetch(Duration::from_millis(400)), Always).await?;
/// }
/// // The limit is twice 400 ms, at most an eighth more.
/// assert!(limit() < Some(Duration::from_secs(1)));
/// assert!(STORE.call(fetch(Duration::from_secs(1)), Always).await.is_err());
/// # Ok(())
/// # }
/// ```
pub struct AdaptiveTimeout {
    quantile: f64,
    factor: f64,
    floor: Duration,
    ceiling: Duration,
    /// Half of the window in nanoseconds. Not zero.
    half: u64,
    samples: u32,
    latencies: Histogram,
    /// The last computed quantile in nanoseconds, or `UNKNOWN` with too few latencies.
    known: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl AdaptiveTimeout {
    /// Creates a limit with the [defaults](#defaults).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            quantile: 0.95,
            factor: 2.0,
            floor: Duration::from_millis(250),
            ceiling: Duration::from_secs(30),
            half: 60_000_000_000,
            samples: 30,
            latencies: Histogram::new(),
            known: AtomicU64::new(UNKNOWN),
        }
    }

    /// Sets the quantile: the share of recent calls that took no longer than the latency to be
    /// multiplied. 0.5 is the median and 1 the slowest call. Values are clamped to 0 to 1. NaN is
    /// 1.
    #[must_use]
    pub const fn with_quantile(mut self, quantile: f64) -> Self {
        self.quantile = clamped_quantile(quantile);
        self
    }

    /// Sets the factor between the quantile and the limit. Values below 1 and NaN become 1: a limit
    /// below the quantile would time out the calls that it was learned from.
    #[cfg(test)]
    const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = if factor > 1.0 { factor } else { 1.0 };
        self
    }

    /// Sets the shortest limit. A lower ceiling wins over it.
    #[cfg(test)]
    const fn with_floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// Sets the longest limit, which also applies while too few latencies are known. A ceiling below
    /// the floor of 250 ms wins over it.
    #[must_use]
    pub const fn with_ceiling(mut self, ceiling: Duration) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// Sets the window after which a latency is forgotten. A latency counts for at least half of
    /// it. Saturates at 584 years.
    #[cfg(test)]
    const fn with_window(mut self, window: Duration) -> Self {
        let half = window.as_nanos() / 2;
        self.half = if half == 0 {
            1
        } else if half > u64::MAX as u128 {
            u64::MAX
        } else {
            #[expect(clippy::cast_possible_truncation)]
            {
                half as u64
            }
        };
        self
    }

    /// Sets the number of latencies within the window that are needed for a limit. 0 means 1.
    #[cfg(test)]
    const fn with_samples(mut self, samples: u32) -> Self {
        self.samples = if samples == 0 { 1 } else { samples };
        self
    }

    /// Returns the limit of a call that begins now, by the knowledge of the last call.
    #[must_use]
    pub fn limit(&self) -> Duration {
        let known = self.known.load(Ordering::Relaxed);
        if known == UNKNOWN {
            return self.ceiling;
        }
        times(known, self.factor).max(self.floor).min(self.ceiling)
    }

    /// Returns the quantile of the recent latencies, by the knowledge of the last call, without
    /// factor, floor and ceiling. The value is at most an eighth above the true quantile. Returns
    /// `None` while too few latencies are known.
    ///
    /// Use it as the delay before a hedge:
    /// [`HedgePolicy::with_learned_delay`](crate::HedgePolicy::with_learned_delay).
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        let known = self.known.load(Ordering::Relaxed);
        (known != UNKNOWN).then(|| Duration::from_nanos(known))
    }

    /// Counts a latency measured elsewhere. `now` is its end on the clock of all users of this
    /// limit ([`Timer::now`](crate::time::Timer::now)).
    #[inline]
    pub fn record(&self, now: Duration, latency: Duration) {
        let forgot = self.latencies.turn_to(nanos(now), self.half);
        let alike = self.latencies.count(nanos(latency));
        if alike < 64 || alike % 16 == 0 || forgot {
            self.work_out();
        }
    }

    /// Counts a call that timed out at `limit`.
    pub(crate) fn record_cut(&self, now: Duration, limit: Duration) {
        self.record(now, limit.saturating_mul(2).min(self.ceiling).max(limit));
    }

    /// Counts a call that a hedge overtook after `waited`. The call would have taken longer than
    /// that. A wait below the quantile does not count, because it would make a slow call look fast.
    #[cold]
    pub(crate) fn record_overtaken(&self, now: Duration, waited: Duration) {
        if self.latency().is_none_or(|usual| waited >= usual) {
            self.record(now, waited);
        }
    }

    /// Returns the limit of a call that begins at `now`.
    #[inline]
    pub(crate) fn limit_at(&self, now: Duration) -> Duration {
        self.forget(now);
        self.limit()
    }

    /// Removes the latencies that are too old at `now`.
    #[inline]
    pub(crate) fn forget(&self, now: Duration) {
        if self.latencies.turn_to(nanos(now), self.half) {
            self.work_out();
        }
    }

    #[cold]
    fn work_out(&self) {
        let known = self.latencies.quantile(self.quantile, self.samples).unwrap_or(UNKNOWN);
        self.known.store(known, Ordering::Relaxed);
    }
}

/// Multiplies a time by `factor` and saturates.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn times(nanos: u64, factor: f64) -> Duration {
    Duration::from_nanos((nanos as f64 * factor) as u64)
}

impl Default for AdaptiveTimeout {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AdaptiveTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveTimeout")
            .field("limit", &self.limit())
            .field("latency", &self.latency())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
