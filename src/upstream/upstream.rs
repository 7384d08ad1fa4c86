use super::at_cost::AtCost;
use super::guard::Owned;
use super::parts::Observer;
use super::parts::{Name, Parts};
use super::strain::Limited;
use super::wrapper::{Displayed, Observed};
use crate::adaptive::AdaptiveTimeout;
#[cfg(feature = "fleet")]
use crate::breaker::Advice;
use crate::breaker::{Breaker, Snapshot, State};
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;
use crate::observe::{HeldBy, Observe};
use crate::quota::{Cost, Dimension, Quota, Rate};
use crate::throttle::Throttle;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Seeded, Timer, nanos};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// The state shared by all calls to one backend.
///
/// An upstream lives in a `static`, in an `Arc` or in a [`Keyed`](crate::Keyed). Use one for each
/// host, model or key.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | name | none: `new` takes it | every log line, event and metric contains it |
/// | parts | none | each part changes the outcome of calls: choose |
/// | observer | [`Log`](crate::observe::Log) | the operator should see trouble |
/// | timer | tokio's, with the feature `tokio` | |
///
/// # Examples
///
/// ```
/// use resile::{Breaker, Budget, Cooldown, Keyed, Upstream};
///
/// static WEATHER: Upstream = Upstream::new("weather")
///     .with_budget(Budget::new())
///     .with_breaker(Breaker::new())
///     .with_cooldown(Cooldown::new());
///
/// static HOSTS: Keyed<String, Upstream> =
///     Keyed::new(|host| Upstream::named(&**host).with_breaker(Breaker::new()));
///
/// assert_eq!(WEATHER.name(), "weather");
/// assert_eq!(HOSTS.get("example.org").name(), "example.org");
/// ```
// `call`, `admit` and `try_admit` are in `call/call.rs`.
#[must_use = "an upstream does nothing unless calls are made on it"]
pub struct Upstream<M = DefaultTimer> {
    pub(super) parts: Parts,
    /// Always `Some`.
    timer: Option<M>,
}

impl Upstream {
    /// Creates an upstream without parts.
    pub const fn new(name: &'static str) -> Self {
        Self { parts: Parts::new(Name::Static(name)), timer: Some(DEFAULT_TIMER) }
    }

    /// Creates an upstream without parts. Its name may be computed at run time.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { parts: Parts::new(Name::Shared(name.into())), timer: Some(DEFAULT_TIMER) }
    }
}

/// Settings, in any order. Each replaces an earlier value of the same setting.
impl<M> Upstream<M> {
    /// Sets the budget that pays for retries and hedges.
    pub const fn with_budget(mut self, budget: Budget) -> Self {
        mem::forget(self.parts.budget.replace(budget));
        self
    }

    /// Sets the breaker that admits attempts and counts their outcomes.
    pub const fn with_breaker(mut self, breaker: Breaker) -> Self {
        mem::forget(self.parts.breaker.replace(breaker));
        self
    }

    /// Sets the cooldown. A [`Throttling`](crate::Health::Throttling) verdict on one attempt then
    /// makes all attempts wait.
    pub const fn with_cooldown(mut self, cooldown: Cooldown) -> Self {
        mem::forget(self.parts.cooldown.replace(cooldown));
        self
    }

    /// Sets the bulkhead. It limits the number of attempts in flight.
    pub const fn with_bulkhead(mut self, bulkhead: Bulkhead) -> Self {
        mem::forget(self.parts.bulkhead.replace(bulkhead));
        self
    }

    /// Sets the quota. Attempts reserve their cost and wait until it fits.
    pub const fn with_quota(mut self, quota: Quota) -> Self {
        mem::forget(self.parts.quota.replace(quota));
        self
    }

    /// Sets the throttle. It refuses a share of the attempts while the upstream refuses too many.
    pub const fn with_throttle(mut self, throttle: Throttle) -> Self {
        self.parts.throttle = Some(throttle);
        self
    }

    /// Sets the adaptive timeout. It learns the latency of attempts.
    ///
    /// A policy can use this latency as [attempt
    /// timeout](crate::RetryPolicy::with_learned_attempt_timeout) or as [delay of a
    /// hedge](crate::HedgePolicy::with_learned_delay).
    pub const fn with_adaptive_timeout(mut self, adaptive: AdaptiveTimeout) -> Self {
        self.parts.adaptive = Some(adaptive);
        self
    }

    /// Sets an observer in a `static` or a constant, such as `&(Log, Metrics)`. One that is made at run time, such as
    /// an `Arc`, needs [`with_shared_observer`](Self::with_shared_observer), which takes it without the `&`.
    ///
    /// It replaces [`Log`](crate::observe::Log). For both, pass `&(Log, observer)`.
    pub const fn with_observer(mut self, observer: &'static (dyn Observe + Send + Sync)) -> Self {
        mem::forget(mem::replace(&mut self.parts.observer, Observer::Static(observer)));
        self
    }

    /// Sets an observer that is made at run time, such as `(Log, Arc::clone(&observer))`. It replaces
    /// [`Log`](crate::observe::Log).
    pub fn with_shared_observer(mut self, observer: impl Observe + Send + Sync + 'static) -> Self {
        self.parts.observer = Observer::Shared(Arc::new(observer));
        self
    }

    /// Sets the timer of all calls on the upstream.
    pub const fn with_timer<N>(mut self, timer: N) -> Upstream<N>
    where
        M: Copy,
    {
        let parts = Parts::take(&mut self.parts);
        mem::forget(self);
        Upstream { parts, timer: Some(timer) }
    }

    /// Seeds every random number of the calls on the upstream. Set the timer before the seed.
    ///
    /// The jitter of delays, the release of the cooldown and the pauses of the breaker then come
    /// from the seed and no longer from the operating system. A program on one thread with a paused
    /// clock is then the same in each run. The section "The same every time" of the guide says what
    /// else it takes.
    ///
    /// Give each upstream a seed of its own. With one seed all of them draw the same numbers. In
    /// production use a seed only to repeat a run: processes with one seed come back together.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::time::{Seeded, TokioTimer};
    /// use resile::{Breaker, Upstream};
    ///
    /// static STORE: Upstream<Seeded<TokioTimer>> =
    ///     Upstream::new("store").with_breaker(Breaker::new()).with_seed(7);
    /// assert_eq!(STORE.name(), "store");
    /// ```
    #[expect(clippy::missing_panics_doc, reason = "an upstream has a timer")]
    pub const fn with_seed(mut self, seed: u64) -> Upstream<Seeded<M>> {
        let parts = Parts::take(&mut self.parts);
        let timer = self.timer.take().expect("an upstream has a timer");
        mem::forget(self);
        Upstream { parts, timer: Some(Seeded::new(timer, seed)) }
    }
}

impl<M> Upstream<M> {
    /// Returns the name of the upstream.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts.name.as_str()
    }

    /// Returns the budget if the upstream has one.
    #[must_use]
    pub const fn budget(&self) -> Option<&Budget> {
        self.parts.budget.as_ref()
    }

    /// Returns the breaker if the upstream has one.
    #[must_use]
    pub const fn breaker(&self) -> Option<&Breaker> {
        self.parts.breaker.as_ref()
    }

    /// Returns the cooldown if the upstream has one.
    #[must_use]
    pub const fn cooldown(&self) -> Option<&Cooldown> {
        self.parts.cooldown.as_ref()
    }

    /// Returns the bulkhead if the upstream has one.
    #[must_use]
    pub const fn bulkhead(&self) -> Option<&Bulkhead> {
        self.parts.bulkhead.as_ref()
    }

    /// Returns the quota if the upstream has one.
    #[must_use]
    pub const fn quota(&self) -> Option<&Quota> {
        self.parts.quota.as_ref()
    }

    /// Returns the throttle if the upstream has one.
    #[must_use]
    pub const fn throttle(&self) -> Option<&Throttle> {
        self.parts.throttle.as_ref()
    }

    /// Returns the adaptive timeout if the upstream has one.
    #[must_use]
    pub const fn adaptive_timeout(&self) -> Option<&AdaptiveTimeout> {
        self.parts.adaptive.as_ref()
    }

    /// Sets the cost of one call: `.on(UPSTREAM.at_cost(Cost::input(3_100)))`. Without a quota the
    /// cost has no effect.
    ///
    /// For one attempt without a retry, in place of [`call`](Self::call), run its future
    /// [`through`](crate::ResilienceExt::through) the target.
    pub const fn at_cost<'c>(&self, cost: Cost<'c>) -> AtCost<'c, &Self> {
        AtCost::new(self, cost)
    }

    /// Sets the priority of one call in the queues of the bulkhead and of the quota:
    /// `.on(UPSTREAM.at_priority(7))`. See [`AtCost::with_priority`].
    pub const fn at_priority(&self, priority: u8) -> AtCost<'static, &Self> {
        AtCost::new(self, Cost::new()).with_priority(priority)
    }

    /// Adds an observer for one call: `.on(UPSTREAM.observed_by(&progress))`.
    pub fn observed_by<'a, O: Observe + ?Sized>(
        &'a self,
        observer: &'a O,
    ) -> Observed<&'a Self, &'a O> {
        Observed::new(self, observer)
    }

    /// Returns the upstream for a call whose log prints the `Display` of errors, without their
    /// sources. For an error type that is not an `Error`. An error with only `Debug` gets words in the
    /// operation, as by `.map_err(|error| format!("{error:?}"))`.
    pub const fn display(&self) -> Displayed<&Self> {
        Displayed::new(self)
    }
}

/// Control by hand.
impl<M: Timer> Upstream<M> {
    #[inline]
    pub(crate) fn timer(&self) -> &M {
        match &self.timer {
            Some(timer) => timer,
            None => unreachable!("an upstream has a timer"),
        }
    }

    pub(super) fn now(&self) -> u64 {
        nanos(self.timer().now())
    }

    /// Makes all attempts wait for `after` from now.
    ///
    /// The cooldown's cap limits the wait. A current wait that ends later stays. Without a cooldown
    /// this does nothing.
    pub fn hold(&self, after: Duration) {
        if let Some(cooldown) = self.cooldown() {
            cooldown.hold_by_hand(self.now(), after);
            let hold = cooldown.remaining(self.now());
            if hold.is_some() {
                super::limits::note(self, HeldBy::Cooldown, hold, Limited::Again);
            }
        }
    }

    /// Returns the remaining hold of the cooldown. `None` if the cooldown holds nothing.
    ///
    /// The release after the hold takes additional time. It also delays attempts made during the
    /// release.
    #[must_use]
    pub fn held(&self) -> Option<Duration> {
        let cooldown = self.cooldown().filter(|cooldown| !cooldown.is_free())?;
        cooldown.remaining(self.now())
    }

    /// Returns the units that the quota has left in a dimension. Negative units are a debt: more
    /// was used than the limit allows. `None` without a limit.
    ///
    /// If no call waits, a cost up to this number fits at once. While the quota uses less than its
    /// burst after a refusal, the first cost takes the units that the smaller burst does not contain
    /// too, so the level then falls by more than that cost.
    #[must_use]
    pub fn quota_level(&self, dimension: Dimension) -> Option<i64> {
        self.quota()?.level(dimension, self.now())
    }

    /// Returns the limit of a dimension that the quota uses: the configured one, or what the quota
    /// has learned of the provider's limit. In a fleet it is the limit of all processes together, also one that was set
    /// while they run. `None` without a limit.
    #[must_use]
    pub fn quota_rate(&self, dimension: Dimension) -> Option<Rate> {
        self.quota()?.used_rate(dimension)
    }

    /// Returns the chance of an attempt to be refused by the throttle now, from 0 to 0.9. `None` without
    /// a throttle.
    #[must_use]
    pub fn throttled(&self) -> Option<f64> {
        Some(f64::from(self.throttle()?.percent(self.now())) / 100.0)
    }

    /// Returns the state of the breaker. `None` without a breaker.
    ///
    /// An open breaker becomes half-open only when a call arrives after its open time.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::breaker::State;
    /// use resile::{Breaker, Upstream};
    ///
    /// let store = Upstream::new("store").with_breaker(Breaker::new());
    /// assert_eq!(store.state(), Some(State::Closed));
    /// assert_eq!(Upstream::new("plain").state(), None);
    /// ```
    #[must_use]
    pub fn state(&self) -> Option<State> {
        Some(self.breaker()?.state())
    }

    /// Returns a snapshot of the breaker. `None` without a breaker.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        Some(self.breaker()?.snapshot(&Owned::new(self)))
    }

    /// Opens the breaker until the guard is dropped.
    ///
    /// If several guards exist, dropping the last one closes the breaker. Without a breaker this
    /// does nothing.
    pub fn isolate(&self) -> Isolation<'_, M> {
        if let Some(breaker) = self.breaker() {
            breaker.isolate(&Owned::new(self));
        }
        Isolation { upstream: self }
    }

    /// Gives the breaker the advice of other processes, until the next advice.
    ///
    /// This is for crates that share an upstream between processes. [`Advice`] describes the
    /// effect. The advice replaces the advice before. The suspicion has no end of its own, so a
    /// crate that loses contact with the other processes must advise [`Advice::new`].
    /// [`reset`](Self::reset) does not change the advice. Without a breaker this does nothing.
    #[cfg(feature = "fleet")]
    pub fn advise(&self, advice: Advice) {
        if let Some(breaker) = self.breaker() {
            breaker.advise(advice, &Owned::new(self));
        }
    }

    /// Closes the breaker and clears its counts. An isolated breaker stays isolated.
    pub fn reset(&self) {
        if let Some(breaker) = self.breaker() {
            breaker.reset(&Owned::new(self));
        }
    }
}

impl<M> fmt::Debug for Upstream<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { name, observer, budget, breaker, cooldown, bulkhead, quota, .. } = &self.parts;
        let Parts { throttle, adaptive, .. } = &self.parts;
        let mut debug = f.debug_struct("Upstream");
        debug
            .field("name", name)
            .field("observer", observer)
            .field("budget", budget)
            .field("breaker", breaker)
            .field("cooldown", cooldown)
            .field("bulkhead", bulkhead)
            .field("quota", quota)
            .field("throttle", throttle)
            .field("adaptive_timeout", adaptive);
        #[cfg(feature = "fleet")]
        debug.field("fleet", &self.parts.fleet);
        debug.finish_non_exhaustive()
    }
}

/// A guard that keeps a breaker open. Made by [`Upstream::isolate`].
#[must_use = "the breaker is isolated only while this is held"]
pub struct Isolation<'a, M: Timer> {
    upstream: &'a Upstream<M>,
}

impl<M: Timer> Drop for Isolation<'_, M> {
    fn drop(&mut self) {
        if let Some(breaker) = self.upstream.breaker() {
            breaker.release(&Owned::new(self.upstream));
        }
    }
}

impl<M: Timer> fmt::Debug for Isolation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolation").field("upstream", &self.upstream.name()).finish_non_exhaustive()
    }
}
