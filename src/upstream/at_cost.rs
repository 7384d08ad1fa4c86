use std::hash::{DefaultHasher, Hash, Hasher};

use super::wrapper::Wrapper;
use super::{Endpoint, Name, Observed, Parts, Target};
use crate::observe::{Event, Observe};
use crate::quota::{Cost, Demand, Standing};

/// An upstream with the cost and the priority of one call. Created by
/// [`Upstream::at_cost`](crate::Upstream::at_cost) and
/// [`Upstream::at_priority`](crate::Upstream::at_priority).
///
/// A retry takes it by `.on(target)`, and one attempt by
/// [`future.through(target, classifier)`](crate::ResilienceExt::through).
///
/// # Examples
///
/// ```
/// use resile::Upstream;
/// use resile::quota::{Cost, Rate};
/// use resile::Quota;
///
/// static MODEL: Upstream = Upstream::new("model")
///     .with_quota(Quota::new().with_tokens(Rate::per_minute(400_000)));
///
/// # let (step, tenant) = (7, "acme");
/// let target = MODEL
///     .at_cost(Cost::input(3_100).with_max_output(8_192))
///     .with_priority(step)
///     .with_group(tenant);
/// # drop(target);
/// ```
///
/// One attempt at a cost:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::classify::Always;
/// use resile::quota::{Cost, Dimension, Rate};
/// use resile::{Quota, ResilienceExt, Upstream};
///
/// static MODEL: Upstream =
///     Upstream::new("model").with_quota(Quota::new().with_tokens(Rate::per_minute(4_000)));
///
/// # async fn ask() -> std::io::Result<u32> { Ok(7) }
/// let target = MODEL.at_cost(Cost::input(3_100));
/// assert_eq!(ask().through(target, Always).await.unwrap(), 7);
/// assert_eq!(MODEL.quota_level(Dimension::Tokens), Some(900));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a target does nothing until a call is made on it"]
pub struct AtCost<'c, X> {
    target: X,
    demand: Demand<'c>,
}

impl<'c, X> AtCost<'c, X> {
    /// Creates a target from another one. Use this for an `Arc<Upstream>`.
    pub const fn new(target: X, cost: Cost<'c>) -> Self {
        let standing = Standing { priority: 0, group: 0, is_retry: false };
        Self { target, demand: Demand { cost, standing } }
    }

    /// Sets the priority of the call in the queues of the bulkhead and of the quota. The default 0 is
    /// the lowest.
    ///
    /// Use the progress of the work, such as the number of steps done. A call of priority 0 within an
    /// attempt of another call has the priority of that attempt, on any upstream. The attempt knows only
    /// the calls that its own polls drive.
    pub const fn with_priority(mut self, priority: u8) -> Self {
        self.demand.standing.priority = priority;
        self
    }

    /// Sets the group of the call. Groups share the quota equally while all of them wait.
    pub fn with_group(mut self, key: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.demand.standing.group = hasher.finish().max(1); // 0 is the group without a key
        self
    }

    /// Returns this target with an additional observer for one call.
    pub const fn observed_by<O: Observe + ?Sized>(self, observer: &O) -> Observed<Self, &O> {
        Observed::new(self, observer)
    }
}

impl<X: Endpoint> Wrapper for AtCost<'_, X> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

impl<X: Target> Target for AtCost<'_, X> {}

impl<X: Endpoint> Endpoint for AtCost<'_, X> {
    type Timer = X::Timer;
    type Sleep = X::Sleep;
    type Describe = X::Describe;
    type Slot = X::Slot;
    const ALONE: bool = X::ALONE;
    super::wrapper::forward!(timer, observer);

    #[inline]
    fn demand(&self) -> Demand<'_> {
        self.demand
    }
}
