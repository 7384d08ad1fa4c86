//! A quota that keeps calls below the rate limits of a provider.
//!
//! The guide has a chapter on [quotas](crate::guide::quotas).
//!
//! A provider limits requests, tokens and concurrent requests. A program that finds its limit by
//! 429s wastes requests, and many providers count a refused request too. A [`Quota`] counts like
//! the provider. Each attempt on the [`Upstream`](crate::Upstream) *reserves* its cost before the
//! request is sent, in every dimension or in none. Its answer then *settles* the actual usage. A
//! cost that does not fit now waits its turn in one fair, bounded queue. The wait costs no attempt.
//!
//! # Cost
//!
//! Every attempt costs one request. [`Upstream::at_cost`](crate::Upstream::at_cost) adds tokens:
//! the input, and the maximum of the output. The output that a call reserves is an [`Estimate`],
//! learned from the usage of recent calls. If the [`Charge`] says that the provider reserves the
//! maximum, the call does too. An estimate is never larger than the room that the input leaves in
//! the burst. So an estimate alone refuses no call.
//!
//! # Settlement
//!
//! * [`record`] within the operation reports the usage. The crate `resile-llm` does so for the
//!   answers that it reads. The quota then takes what was used beyond the reservation, or gives back
//!   the rest. A quota may be overdrawn: the debt refills first.
//! * At most 16,777,215 tokens of input and 268,435,455 of output count for one attempt.
//! * An attempt without a usage keeps its reservation: the provider may have charged it.
//! * A refused attempt (a throttling verdict) gives back the tokens that no usage has charged. Its
//!   request counts.
//! * An attempt that was never sent gives everything back.
//!
//! # Learning
//!
//! Two counts of one limit drift apart. So the quota lowers its level to the provider's count:
//!
//! * A verdict of [`Verdict::throttled`](crate::Verdict::throttled) sets the level to 0, less the
//!   output that attempts in flight have reserved and the provider has not charged yet. A verdict
//!   of [`Verdict::overloaded`](crate::Verdict::overloaded) changes nothing, because the caller's
//!   own limit did not cause it. If the headers of the refusal were learned, they count instead.
//! * [`learn`] passes the limits in the headers of an answer. The level becomes the remaining
//!   amount, less the same output.
//!
//! Learning never raises a level.
//!
//! # Waiting
//!
//! A wait ends with the call's deadline, its token, or its admission. A call whose cost cannot fit
//! before its deadline ends at once with [`StopReason::Deadline`](crate::StopReason::Deadline), and
//! [`retry_after`](crate::GaveUp::retry_after) is the time until it could. This is a forecast: it
//! counts the known costs of all waiters ahead, and assumes that every attempt in flight gives back
//! its output. A wait for concurrency has no forecast and ends at the deadline. A cost larger than
//! a burst ends at once with [`StopReason::TooLarge`](crate::StopReason::TooLarge). With a full
//! queue the reason is [`StopReason::Full`](crate::StopReason::Full).
//!
//! On an upstream with a bulkhead too, a waiter of the quota holds a permit of the bulkhead. The
//! bulkhead's queue knows no priority: use [`with_concurrency`](Quota::with_concurrency) instead.
//!
//! The order of the queue:
//!
//! 1. Each eighth turn goes to the oldest waiter if it has waited for ten minutes. So no waiter
//!    starves.
//! 2. The highest [priority](crate::upstream::AtCost::with_priority). Use the progress of the work:
//!    an agent at its twentieth step has more to lose than one at its first. If all share equally,
//!    none may finish.
//! 3. The [group](crate::upstream::AtCost::with_group) with the least service. One busy group does
//!    not delay the others.
//! 4. The oldest.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
//! use resile::quota::{self, Cost, Quota, Rate, Usage};
//! use resile::{Never, RetryPolicy, Upstream, retry};
//! use std::time::Duration;
//!
//! static MODEL: Upstream = Upstream::new("model").with_quota(
//!     Quota::new()
//!         .with_requests(Rate::per_minute(500))
//!         .with_tokens(Rate::per_minute(30_000)),
//! );
//!
//! async fn ask() -> std::io::Result<&'static str> {
//!     quota::record(Usage::new().with_input(20_000).with_output(4_000));
//!     Ok("answer")
//! }
//!
//! let began = tokio::time::Instant::now();
//! let cost = Cost::input(20_000).with_max_output(8_000);
//! for _ in 0..2 {
//!     retry(|_| ask(), RetryPolicy::new(), Never).on(MODEL.at_cost(cost)).await?;
//! }
//! // 24,000 tokens were used, and 28,000 more fit after 44 s.
//! assert_eq!(began.elapsed().as_secs(), 44);
//! # Ok(())
//! # }
//! ```

mod ask;
mod bucket;
mod charge;
mod cost;
mod demand;
mod estimate;
mod lease;
mod ledger;
mod levels;
mod limits;
mod line;
mod meter;
mod rate;
mod reserved;
mod shared;
mod too_large;
mod usage;

pub use charge::Charge;
pub use cost::Cost;
pub use estimate::Estimate;
pub use lease::Waiting;
pub use levels::Levels;
pub use limits::{Dimension, Limit, Limits};
pub use meter::{learn, record};
pub use rate::Rate;
pub use too_large::TooLarge;
pub use usage::Usage;

pub(crate) use ask::{Ask, Entry};
pub(crate) use cost::CostKey;
pub(crate) use demand::{Demand, Standing};
pub(crate) use line::Place;
pub(crate) use meter::{Collecting, Report};
pub(crate) use reserved::Reserved;

use std::fmt;
use std::mem;

use crate::signal::Signal;
use crate::sync::AtomicU64;
use bucket::Bucket;
use line::Line;

/// The limits of a provider, shared by all calls of an [`Upstream`](crate::Upstream).
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | rates, concurrency | none | only the provider's documentation or its headers say them |
/// | charge | [`Charge::ACTUAL`] | the commonest rule |
/// | queue | 1,024 waiters | room for a fleet of agents in one process; a longer queue only stores calls for later |
///
/// # Cost
///
/// A reservation is one atomic exchange for each dimension and one for the output in flight. So is
/// a settlement. While no call waits, neither takes a lock. Neither allocates, apart from the first
/// settlement, which makes the histogram of the estimate.
///
/// # Examples
///
/// ```
/// use resile::Upstream;
/// use resile::quota::{Charge, Quota, Rate};
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
    buckets: [Option<Bucket>; 4],
    /// The limit of concurrent attempts, or `u32::MAX` without a limit.
    concurrency: u32,
    in_flight: AtomicU64,
    /// The output tokens reserved by attempts in flight and not charged by their usage.
    unsettled: AtomicU64,
    estimate: Estimate,
    charge: Charge,
    line: Line,
    queue: u32,
    /// Set when a call does not get its units at once, and when few units of a lease are left.
    signal: Signal,
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
            estimate: Estimate::new(),
            charge: Charge::ACTUAL,
            line: Line::new(),
            queue: 1_024,
            signal: Signal::new(),
        }
    }

    const fn with_rate(mut self, dimension: Dimension, rate: Rate) -> Self {
        self.buckets[dimension.index()] = Some(Bucket::new(rate));
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

    /// Sets the estimate of the usage of a call.
    pub const fn with_estimate(mut self, estimate: Estimate) -> Self {
        mem::forget(mem::replace(&mut self.estimate, estimate));
        self
    }

    /// Sets the number of calls that may wait. With 0 a call that would wait ends with
    /// [`StopReason::Full`](crate::StopReason::Full).
    pub const fn with_queue(mut self, waiting: u32) -> Self {
        self.queue = waiting;
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
