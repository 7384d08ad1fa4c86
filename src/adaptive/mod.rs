//! A timeout that follows the latencies of recent calls.

mod latencies;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::nanos;
use latencies::Latencies;

/// A limit that follows the latencies of recent calls: a quantile of them times a factor, between a floor and a
/// ceiling.
///
/// A fixed limit is either too long, and each call to a hung upstream waits all of it, or too short on the day on which
/// the upstream is a little slower. This one is what was lately usual, and some more. It is a part of an
/// [`Upstream`](crate::Upstream), one for all calls of one kind: latencies of different kinds have no quantile in common.
/// A policy uses it [as attempt timeout](crate::RetryPolicy::with_learned_attempt_timeout) or [as the delay before a
/// hedge](crate::HedgePolicy::with_learned_delay).
///
/// # What it learns
///
/// | a call that | counts | why |
/// |---|---|---|
/// | succeeds after it had to be waited for | its latency, from its first pending poll | that is what the limit limits |
/// | succeeds at its first poll | not | it needed no limit. If it counted, a cache that answers 96 of 100 calls would have the other four cut |
/// | fails by itself | not | a refused connection fails in no time: an outage would teach a limit that nobody can keep after it |
/// | is cut by this limit | twice the limit, at most the ceiling | see below |
/// | is dropped | not | whoever dropped it need not have done so for its latency |
///
/// Of a call that was cut one only knows that it would have taken longer. To leave it out would be to learn from those
/// that were quick enough: the limit would stay too short for ever once the peer gets slower. To count it *as* the
/// limit is no better where the factor is 1: each sample in which by chance few calls were slow then lowers the limit,
/// and none can raise it again. Counted as twice the limit, it is what it is, something above the quantile: as long as
/// less than `1 − quantile` of the calls are cut, it moves nothing, and the quantile is exact; once more are, the
/// quantile is among the cut ones, and the limit doubles, and again, until calls are quick enough or it is at the
/// ceiling. (TCP doubles its timeout for the same reason: Karn and Partridge 1987; RFC 6298 §5.5.)
///
/// Latencies are forgotten after the window, and count for at least half of it.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | quantile | 0.95 | settles within few calls, which the far tail does not; and it is the delay to hedge after (Dean and Barroso, "The Tail at Scale", 2013) |
/// | factor | 2 | of latencies with a long tail (log-normal, σ = 1) cuts one healthy call in a hundred; 1.25 would cut three |
/// | floor | 250 ms | a lost packet is sent again after 200 ms (Linux): it must not cost the call |
/// | ceiling | 30 s | what is used until enough is known; set what you would set without this |
/// | window | 2 min | after two minutes nothing is left of how the peer was before |
/// | samples | 30 | of fewer than 20, the 95th percentile is the slowest; some more make it less of an accident |
///
/// # When not
///
/// Where few calls are made (fewer than 30 a minute: the ceiling is all that you get), where latencies differ by what
/// is asked (a model that writes one line or a book: limit the time between items instead), or where a repeated call
/// does harm: each limit that is near the usual cuts some calls that were well.
///
/// # Cost
///
/// No lock, no allocation, 2 KiB. A call that is ready at once pays nothing; one that has to be waited for pays two
/// readings of the clock, one more than under a fixed limit, and an atomic addition. The quantile is worked out anew at
/// each of the first 64 latencies of about one length, and then at every 16th of them.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use resile::{AdaptiveTimeout, Always, Upstream};
/// use std::{io, time::Duration};
///
/// static STORE: Upstream = Upstream::new("store")
///     .with_adaptive_timeout(AdaptiveTimeout::new().with_ceiling(Duration::from_secs(10)));
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
/// assert!(limit() < Some(Duration::from_secs(1))); // twice 400 ms, at most an eighth more
/// assert!(STORE.call(fetch(Duration::from_secs(1)), Always).await.is_err());
/// # Ok(())
/// # }
/// ```
pub struct AdaptiveTimeout {
    quantile: f64,
    factor: f64,
    floor: Duration,
    ceiling: Duration,
    /// Half the window, in nanoseconds; not zero.
    half: u64,
    samples: u32,
    latencies: Latencies,
    /// The quantile when it was last worked out, in nanoseconds; `UNKNOWN` where too few are known.
    known: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl AdaptiveTimeout {
    /// Twice the 95th percentile of the last two minutes, between 250 ms and 30 s.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            quantile: 0.95,
            factor: 2.0,
            floor: Duration::from_millis(250),
            ceiling: Duration::from_secs(30),
            half: 60_000_000_000,
            samples: 30,
            latencies: Latencies::new(),
            known: AtomicU64::new(UNKNOWN),
        }
    }

    /// Which share of the recent calls took no longer than what is multiplied: 0.5 is the median, 1 the slowest.
    /// Clamped to 0 to 1; NaN is 1.
    #[must_use]
    pub const fn with_quantile(mut self, quantile: f64) -> Self {
        self.quantile = if quantile < 0.0 {
            0.0
        } else if quantile < 1.0 {
            quantile
        } else {
            1.0
        };
        self
    }

    /// How many times the quantile a call may take. Below 1 (the limit would cut what it was learned from) and NaN
    /// are 1.
    #[must_use]
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = if factor > 1.0 { factor } else { 1.0 };
        self
    }

    /// The shortest limit, however quick the calls are.
    #[must_use]
    pub const fn with_floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// The longest limit, and the one that is used while too little is known. It beats the floor.
    #[must_use]
    pub const fn with_ceiling(mut self, ceiling: Duration) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// After how long a latency is forgotten; it counts for at least half of that. Saturates at 584 years.
    #[must_use]
    pub const fn with_window(mut self, window: Duration) -> Self {
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

    /// How many latencies within the window it takes to know anything. 0 means 1.
    #[must_use]
    pub const fn with_samples(mut self, samples: u32) -> Self {
        self.samples = if samples == 0 { 1 } else { samples };
        self
    }

    /// The limit that a call would get which begins now, by what was known at the last call.
    #[must_use]
    pub fn limit(&self) -> Duration {
        let known = self.known.load(Ordering::Relaxed);
        if known == UNKNOWN {
            return self.ceiling;
        }
        times(known, self.factor).max(self.floor).min(self.ceiling)
    }

    /// The quantile of the recent latencies itself, without factor, floor and ceiling, by what was known at the
    /// last call: at most an eighth above the true one. `None` while too little is known.
    ///
    /// This is what to hedge after: [`HedgePolicy::with_learned_delay`](crate::HedgePolicy::with_learned_delay).
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        let known = self.known.load(Ordering::Relaxed);
        (known != UNKNOWN).then(|| Duration::from_nanos(known))
    }

    /// Counts a latency that was measured elsewhere, until `now` on the clock that all users of this limit share
    /// ([`Timer::now`](crate::Timer::now)).
    #[inline]
    pub fn record(&self, now: Duration, latency: Duration) {
        let forgot = self.latencies.turn_to(nanos(now), self.half);
        let alike = self.latencies.count(nanos(latency));
        if alike < 64 || alike % 16 == 0 || forgot {
            self.work_out();
        }
    }

    /// Counts a call that was cut at `limit`.
    pub(crate) fn record_cut(&self, now: Duration, limit: Duration) {
        self.record(now, limit.saturating_mul(2).min(self.ceiling).max(limit));
    }

    /// Counts a call that a hedge overtook, of which is only known that it would have taken longer than `waited`. That
    /// is said honestly only of one that was already among the slow.
    #[cold]
    pub(crate) fn record_overtaken(&self, now: Duration, waited: Duration) {
        if self.latency().is_none_or(|usual| waited >= usual) {
            self.record(now, waited);
        }
    }

    /// The limit of a call that begins at `now`.
    #[inline]
    pub(crate) fn limit_at(&self, now: Duration) -> Duration {
        self.forget(now);
        self.limit()
    }

    /// Forgets what is too old at `now`.
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

/// Saturates.
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
