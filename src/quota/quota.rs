use super::bucket::Bucket;
use super::charge::Charge;
use super::estimate::Estimate;
use super::learning::Learning;
use super::limits::Dimension;
use super::line::Line;
use super::margin::Margin;
use super::rate::Rate;
use super::shadow::{Counts, Shadow};
use crate::signal::Signal;
use crate::sync::AtomicU64;
use std::fmt;
use std::mem;
use std::sync::atomic;

/// The limits of a provider, shared by all calls of an [`Upstream`](crate::Upstream).
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | rates, concurrency | none | only the provider's documentation or its headers say them |
/// | charge | [`Charge::ACTUAL`] | the commonest rule |
/// | learning | [`Learning::Lower`] | a limit that is too high costs refusals for ever, and one that is too low heals by itself |
/// | shadow | no | |
/// | queue | 1,024 waiters | room for a fleet of agents in one process; a longer queue only stores calls for later |
///
/// # Cost
///
/// A reservation is one atomic exchange for each dimension and one for the output in flight, and so
/// is a settlement. While no call waits, neither takes a lock. Neither allocates, apart from the
/// first settlement, which makes the histogram of the estimate.
///
/// # Examples
///
/// ```
/// use resile::Upstream;
/// use resile::quota::{Charge, Rate};
/// use resile::Quota;
///
/// static MODEL: Upstream = Upstream::new("model").with_quota(
///     Quota::new()
///         .with_requests(Rate::per_minute(4_000))
///         .with_input(Rate::per_minute(2_000_000))
///         .with_output(Rate::per_minute(400_000))
///         .with_concurrency(64)
///         .with_charge(Charge::ACTUAL.with_cache_read_weight(0.0)),
/// );
/// assert_eq!(MODEL.quota().unwrap().queue(), 1_024);
/// ```
#[must_use = "a quota does nothing unless an upstream has it"]
pub struct Quota {
    pub(super) buckets: [Option<Bucket>; 4],
    /// The limit of concurrent attempts, or `u32::MAX` without a limit.
    pub(super) concurrency: u32,
    pub(super) in_flight: AtomicU64,
    /// The output tokens reserved by attempts in flight and not charged by their usage.
    pub(super) unsettled: AtomicU64,
    /// The end of the latest hold of the cooldown. A hint for forecasts, so it is not a subject of a model and always
    /// the standard library's.
    pub(super) held_until: atomic::AtomicU64,
    pub(super) estimate: Estimate,
    pub(super) charge: Charge,
    pub(super) line: Line,
    pub(super) queue: u32,
    pub(super) margin: Margin,
    pub(super) learning: Learning,
    pub(super) is_shadow: bool,
    pub(super) counts: Counts,
    /// The dimensions whose configured limit is in use again and was not told yet, as bits.
    pub(super) accepted: atomic::AtomicU8,
    /// Set when a call does not get its units at once, and when few units of a lease are left.
    pub(super) signal: Signal,
}

/// Settings, in any order. Each replaces an earlier value of the same setting.
impl Quota {
    /// Creates a quota without limits.
    pub const fn new() -> Self {
        Self {
            buckets: [const { None }; 4],
            concurrency: u32::MAX,
            in_flight: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            held_until: atomic::AtomicU64::new(0),
            estimate: Estimate::new(),
            charge: Charge::ACTUAL,
            line: Line::new(),
            queue: 1_024,
            margin: Margin::new(),
            learning: Learning::Lower,
            is_shadow: false,
            counts: Counts::new(),
            accepted: atomic::AtomicU8::new(0),
            signal: Signal::new(),
        }
    }

    #[allow(clippy::forget_non_drop)] // a bucket has a destructor in the models of `tests/loom` only
    const fn with_rate(mut self, dimension: Dimension, rate: Rate) -> Self {
        // A `const fn` must drop nothing.
        mem::forget(self.buckets[dimension.index()].replace(Bucket::new(rate)));
        self
    }

    /// Limits the rate of requests.
    pub const fn with_requests(self, rate: Rate) -> Self {
        self.with_rate(Dimension::Requests, rate)
    }

    /// Limits the rate of input tokens.
    pub const fn with_input(self, rate: Rate) -> Self {
        self.with_rate(Dimension::Input, rate)
    }

    /// Limits the rate of output tokens.
    pub const fn with_output(self, rate: Rate) -> Self {
        self.with_rate(Dimension::Output, rate)
    }

    /// Limits the rate of input and output tokens together.
    pub const fn with_tokens(self, rate: Rate) -> Self {
        self.with_rate(Dimension::Tokens, rate)
    }

    /// Limits the number of attempts in flight. With 0 every attempt waits.
    pub const fn with_concurrency(mut self, limit: u32) -> Self {
        self.concurrency = limit;
        self
    }

    /// Sets the rule by which the provider charges.
    pub const fn with_charge(mut self, charge: Charge) -> Self {
        self.charge = charge;
        self
    }

    /// Sets the number of calls that may wait. With 0 a call that would wait ends with
    /// [`StopReason::Full`](crate::StopReason::Full).
    pub const fn with_queue(mut self, waiting: u32) -> Self {
        self.queue = waiting;
        self
    }

    /// Sets what happens if the limit of the provider is not the configured one.
    pub const fn with_learning(mut self, learning: Learning) -> Self {
        self.learning = learning;
        self
    }

    /// Sets whether the quota only watches. It then admits each attempt at once but counts those
    /// that it would have delayed or refused.
    ///
    /// An attempt that would have waited is charged, so the level becomes a debt, while one that
    /// would have been refused is not charged. With a store that shares the quota, an attempt that
    /// would have waited for one exchange counts as delayed.
    pub const fn with_shadow(mut self, is_shadow: bool) -> Self {
        self.is_shadow = is_shadow;
        self
    }
}

impl Quota {
    /// Returns the rate of a dimension if it is limited.
    #[must_use]
    pub const fn rate(&self, dimension: Dimension) -> Option<Rate> {
        match &self.buckets[dimension.index()] {
            Some(bucket) => Some(*bucket.rate()),
            None => None,
        }
    }

    /// Returns the limit of attempts in flight. `None` without a limit.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u32> {
        if self.concurrency == u32::MAX { None } else { Some(self.concurrency) }
    }

    /// Returns the rule by which the provider charges.
    pub const fn charge(&self) -> Charge {
        self.charge
    }

    /// Returns the estimate of the usage of a call.
    #[must_use]
    pub const fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Returns the number of calls that may wait.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns whether a refusal by the provider's limit on this caller empties the quota, so that calls wait.
    pub(crate) fn is_emptied_by_refusals(&self) -> bool {
        !self.is_shadow && self.buckets.iter().any(Option::is_some)
    }

    /// Returns what the quota would have done. `None` if it is not in shadow mode.
    #[must_use]
    pub fn shadow(&self) -> Option<Shadow> {
        self.is_shadow.then(|| self.counts.get())
    }

    /// Returns what happens if the limit of the provider is not the configured one.
    #[must_use]
    pub const fn learning(&self) -> Learning {
        self.learning
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Quota");
        for dimension in Dimension::ALL {
            if let Some(rate) = self.rate(dimension) {
                debug.field(dimension.as_str(), &rate);
            }
        }
        debug
            .field("concurrency", &self.concurrency())
            .field("in_flight", &self.in_flight())
            .field("reserved", &self.reserved())
            .field("waiting", &self.waiting())
            .field("estimate", &self.estimate)
            .finish_non_exhaustive()
    }
}
