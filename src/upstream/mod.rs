//! What calls to one upstream share: a name, a budget, a breaker, a cooldown, a bulkhead, an observer and a timer.
//!
//! Each attempt on an [`Upstream`] begins with one admission and ends with one report. The admission asks the token, the
//! cooldown, the bulkhead and the breaker, in this order: the attempt begins, waits, or is refused with a reason and a
//! time. The report brings the verdict and the latency to the breaker and the cooldown. An attempt that is dropped
//! without a report is neutral, and everything that it held is given back.
//!
//! | on an upstream | how |
//! |---|---|
//! | a call that is retried | `retry(op, POLICY, &token).on(&UPSTREAM)` |
//! | a stream that is opened again | `retry_stream(open, POLICY, &token).on(&UPSTREAM)` |
//! | a call that is hedged | `hedge(op, POLICY, &token).on(&UPSTREAM)` |
//! | alternatives | `fallback(…)` names itself; each call in it goes on its own upstream |
//! | your own loop | `Run::new(POLICY, &token).on(&UPSTREAM)` |
//! | one attempt, no retry | [`UPSTREAM.call(future, classifier)`](Upstream::call) |
//! | by hand | [`UPSTREAM.admit(&token)`](Upstream::admit), then [`settle`](crate::Admission::settle) |
//!
//! # Two upstreams
//!
//! A call goes on one upstream: a second `.on(…)` does not compile. Where a host has its own limits and all hosts share
//! others, one call stands within the other: `ALL_HOSTS.call(retry(op, POLICY, &token).on(&HOST), classifier)`.

mod guard;
mod parts;
mod target;

pub use target::{Debugged, NoUpstream, Observed, Target, TargetFor};

pub(crate) use guard::{Admit, Guard, Owned};
pub(crate) use parts::{Name, Parts};
pub(crate) use target::{Describe, Endpoint, Held, Slot};

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::adaptive::AdaptiveTimeout;
use crate::breaker::{Breaker, Snapshot};
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;
use crate::observe::Observe;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, nanos};
use parts::Observer;

/// What calls to one upstream share. It lives in a `static`, in an `Arc`, or in a [`Keyed`](crate::Keyed), one for each
/// host, model or key.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | name | none: `new` takes it | it stands in every log line, event and metric |
/// | parts | none | each changes what callers see: choose |
/// | observer | [`Log`](crate::observe::Log) | trouble should be seen |
/// | timer | tokio's, with the feature `tokio` | |
///
/// # Examples
///
/// ```
/// use resile::{Breaker, Budget, Cooldown, Keyed, Upstream};
///
/// static OPENAI: Upstream = Upstream::new("openai")
///     .with_budget(Budget::new())
///     .with_breaker(Breaker::new())
///     .with_cooldown(Cooldown::new());
///
/// static HOSTS: Keyed<String, Upstream> =
///     Keyed::new(|host| Upstream::named(host.as_str()).with_breaker(Breaker::new()));
///
/// assert_eq!(OPENAI.name(), "openai");
/// assert_eq!(HOSTS.get("example.org").name(), "example.org");
/// ```
#[must_use = "an upstream does nothing unless calls are made on it"]
pub struct Upstream<M = DefaultTimer> {
    parts: Parts,
    /// `Some`, always: so that `with_timer` can leave `None` behind in `const`.
    timer: Option<M>,
}

impl Upstream {
    /// Creates an upstream of that name, without parts.
    pub const fn new(name: &'static str) -> Self {
        Self { parts: Parts::new(Name::Static(name)), timer: Some(DEFAULT_TIMER) }
    }

    /// Creates an upstream of a name that is not known before the program runs.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { parts: Parts::new(Name::Shared(name.into())), timer: Some(DEFAULT_TIMER) }
    }
}

/// Settings, in any order, before the upstream is shared. Each replaces what was set before.
impl<M> Upstream<M> {
    /// Sets the budget that pays for retries and hedges.
    pub const fn with_budget(mut self, budget: Budget) -> Self {
        self.parts.budget = Some(budget);
        self
    }

    /// Sets the breaker that admits attempts and counts their outcomes.
    pub const fn with_breaker(mut self, breaker: Breaker) -> Self {
        mem::forget(self.parts.breaker.replace(breaker));
        self
    }

    /// Sets the cooldown: an attempt whose verdict says [`Throttling`](crate::Health::Throttling) makes all attempts wait.
    pub const fn with_cooldown(mut self, cooldown: Cooldown) -> Self {
        self.parts.cooldown = Some(cooldown);
        self
    }

    /// Sets the bulkhead that limits how many attempts are in flight.
    pub const fn with_bulkhead(mut self, bulkhead: Bulkhead) -> Self {
        mem::forget(self.parts.bulkhead.replace(bulkhead));
        self
    }

    /// Sets what learns the latency of attempts. A policy then uses it as
    /// [attempt timeout](crate::RetryPolicy::with_learned_attempt_timeout) or as
    /// [delay before a hedge](crate::HedgePolicy::with_learned_delay).
    pub const fn with_adaptive_timeout(mut self, adaptive: AdaptiveTimeout) -> Self {
        self.parts.adaptive = Some(adaptive);
        self
    }

    /// Sets the observer, in place of [`Log`](crate::observe::Log); for both give `&(Log, observer)`.
    pub const fn with_observer(mut self, observer: &'static (dyn Observe + Send + Sync)) -> Self {
        mem::forget(mem::replace(&mut self.parts.observer, Observer::Static(observer)));
        self
    }

    /// Sets an observer that is not `'static`ally known, in place of [`Log`](crate::observe::Log).
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
}

impl<M> Upstream<M> {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts.name.as_str()
    }

    /// Returns its budget, if it has one.
    #[must_use]
    pub const fn budget(&self) -> Option<&Budget> {
        self.parts.budget.as_ref()
    }

    /// Returns its breaker, if it has one.
    #[must_use]
    pub const fn breaker(&self) -> Option<&Breaker> {
        self.parts.breaker.as_ref()
    }

    /// Returns its cooldown, if it has one.
    #[must_use]
    pub const fn cooldown(&self) -> Option<&Cooldown> {
        self.parts.cooldown.as_ref()
    }

    /// Returns its bulkhead, if it has one.
    #[must_use]
    pub const fn bulkhead(&self) -> Option<&Bulkhead> {
        self.parts.bulkhead.as_ref()
    }

    /// Returns what learns the latency of attempts, if it has that.
    #[must_use]
    pub const fn adaptive_timeout(&self) -> Option<&AdaptiveTimeout> {
        self.parts.adaptive.as_ref()
    }

    /// Returns the upstream with a further observer, for one call: `.on(UPSTREAM.observed_by(&progress))`.
    pub fn observed_by<'a, O: Observe + ?Sized>(
        &'a self,
        observer: &'a O,
    ) -> Observed<'a, &'a Self, O> {
        Observed::new(self, observer)
    }

    /// Returns the upstream for a call whose error has `Debug` and no `Display`: the log prints that.
    pub const fn debug(&self) -> Debugged<&Self> {
        Debugged::new(self)
    }
}

/// By hand.
impl<M: Timer> Upstream<M> {
    #[inline]
    pub(crate) fn timer(&self) -> &M {
        match &self.timer {
            Some(timer) => timer,
            None => unreachable!("an upstream has a timer"),
        }
    }

    fn now(&self) -> u64 {
        nanos(self.timer().now())
    }

    /// Makes all attempts wait for `after` from now, held to the cooldown's cap, unless they wait longer already. Without
    /// a cooldown it does nothing.
    pub fn hold(&self, after: Duration) {
        if let Some(cooldown) = self.cooldown() {
            cooldown.hold(self.now(), Some(after));
        }
    }

    /// Returns how long the cooldown still holds attempts; `None` if it does not. The release comes on top, for attempts
    /// that come during it as well.
    #[must_use]
    pub fn held(&self) -> Option<Duration> {
        let cooldown = self.cooldown().filter(|cooldown| !cooldown.is_free())?;
        cooldown.remaining(self.now())
    }

    /// Returns what the breaker knows at this moment. `None` without a breaker.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        Some(self.breaker()?.snapshot(&Owned(self)))
    }

    /// Keeps the breaker open for as long as the guard, or another one, is held; the last one to go closes it. Without a
    /// breaker it does nothing.
    pub fn isolate(&self) -> Isolation<'_, M> {
        if let Some(breaker) = self.breaker() {
            breaker.isolate(&Owned(self));
        }
        Isolation { upstream: self }
    }

    /// Closes the breaker and forgets what it counted. While it is isolated, it stays so.
    pub fn reset(&self) {
        if let Some(breaker) = self.breaker() {
            breaker.reset(&Owned(self));
        }
    }
}

impl<M> fmt::Debug for Upstream<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { name, observer, budget, breaker, cooldown, bulkhead, adaptive } = &self.parts;
        f.debug_struct("Upstream")
            .field("name", name)
            .field("observer", observer)
            .field("budget", budget)
            .field("breaker", breaker)
            .field("cooldown", cooldown)
            .field("bulkhead", bulkhead)
            .field("adaptive_timeout", adaptive)
            .finish_non_exhaustive()
    }
}

/// Keeps a breaker open for as long as it is held. Made by [`Upstream::isolate`].
#[must_use = "the breaker is isolated only while this is held"]
pub struct Isolation<'a, M: Timer> {
    upstream: &'a Upstream<M>,
}

impl<M: Timer> Drop for Isolation<'_, M> {
    fn drop(&mut self) {
        if let Some(breaker) = self.upstream.breaker() {
            breaker.release(&Owned(self.upstream));
        }
    }
}

impl<M: Timer> fmt::Debug for Isolation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolation").field("upstream", &self.upstream.name()).finish_non_exhaustive()
    }
}
