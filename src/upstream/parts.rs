use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use super::strains::Strains;
use super::surge::SurgeOf;
use crate::adaptive::AdaptiveTimeout;
use crate::breaker::{Breaker, State};
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;
#[cfg(feature = "fleet")]
use crate::fleet;
use crate::observe::{Gauges, HeldBy, Log, Observe};
use crate::quota::Quota;
use crate::throttle::Throttle;
#[cfg(feature = "fleet")]
use crate::time::nanos;

/// The parts of an upstream, without its timer.
// `CONTRIBUTING.md` says what else a new part needs: "… a part of `Upstream`".
#[derive(Debug)]
pub struct Parts {
    pub(crate) name: Name,
    pub(crate) observer: Observer,
    pub(crate) budget: Option<Budget>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) cooldown: Option<Cooldown>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) quota: Option<Quota>,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) adaptive: Option<AdaptiveTimeout>,
    #[cfg(feature = "fleet")]
    pub(crate) fleet: fleet::Cell,
    pub(super) strains: Strains,
    /// The number of the latest call with an event.
    pub(crate) calls: AtomicU16,
}

impl Parts {
    pub(super) const fn new(name: Name) -> Self {
        Self {
            name,
            observer: Observer::Log,
            budget: None,
            breaker: None,
            cooldown: None,
            bulkhead: None,
            quota: None,
            throttle: None,
            adaptive: None,
            #[cfg(feature = "fleet")]
            fleet: fleet::Cell::new(),
            strains: Strains::new(),
            calls: AtomicU16::new(0),
        }
    }

    /// Moves the parts out of `this` and leaves empty parts. A `const fn` must drop nothing.
    pub(super) const fn take(this: &mut Self) -> Self {
        mem::replace(this, Self::new(Name::Static("")))
    }

    /// Returns whether a part answers a refusal by the caller's own limit. Without one only the breaker does.
    pub(super) fn answers_own_limits(&self) -> bool {
        self.cooldown.is_some()
            || self.throttle.is_some()
            || self.quota.as_ref().is_some_and(Quota::is_emptied_by_refusals)
    }

    /// Returns the state of all parts. Reads the clock by `now` only for a quota, a fleet, a cooldown that
    /// may hold and a throttle that may refuse.
    pub(crate) fn gauges(&self, now: impl FnOnce() -> u64) -> Gauges {
        let throttle = self.throttle.as_ref();
        let cooldown = self.cooldown.as_ref().filter(|cooldown| !cooldown.is_free());
        let reads = self.quota.is_some()
            || cooldown.is_some()
            || throttle.is_some_and(|throttle| !throttle.is_idle());
        #[cfg(feature = "fleet")]
        let reads = reads || self.fleet.is_shared();
        let now = if reads { now() } else { 0 };
        #[cfg(feature = "fleet")]
        let hold_end = cooldown
            .and_then(|cooldown| cooldown.remaining(now))
            .map(|rest| now.saturating_add(nanos(rest)));
        #[cfg(feature = "fleet")]
        let is_hold_joined = hold_end.is_some_and(|end| {
            self.fleet.has_joined(end, now, cooldown.is_some_and(Cooldown::is_by_hand))
        });
        let breaker = self.breaker.as_ref().map(|breaker| (breaker.state(), breaker));
        Gauges {
            tokens: self.budget.as_ref().map(Budget::available),
            breaker: breaker.map(|(state, _)| state),
            limit: self.bulkhead.as_ref().map(Bulkhead::limit),
            in_flight: self.bulkhead.as_ref().map(Bulkhead::in_flight),
            waiting: self.bulkhead.as_ref().map(Bulkhead::waiting),
            cooldown: cooldown.and_then(|cooldown| cooldown.held(now)),
            quota: self.quota.as_ref().map(|quota| quota.levels(now)),
            throttled: throttle.map(|throttle| throttle.percent(now)),
            #[cfg(feature = "fleet")]
            fleet: self.fleet.status(|| now),
            #[cfg(feature = "fleet")]
            is_hold_joined,
            #[cfg(feature = "fleet")]
            is_throttled_too: is_hold_joined
                && hold_end.is_some_and(|end| self.fleet.outlasts_joined(end)),
            #[cfg(feature = "fleet")]
            lacks_lease: self.lacks_lease(),
            scarce: None,
            is_hold_by_hand: cooldown.is_some_and(Cooldown::is_by_hand),
            is_probed: breaker.is_some_and(|(state, it)| state == State::Open && it.is_probed()),
            is_quota_full: self.full_queue(HeldBy::Quota).is_some(),
            is_quota_emptied: self.is_quota_emptied(now),
            is_surge: self.strains.is_surge(SurgeOf::Failures),
            is_surge_of_ends: self.strains.is_surge(SurgeOf::Ends),
        }
    }

    /// Returns whether the quota lacks units at `now` because a refusal of the upstream has emptied it. The
    /// units of a lease say nothing of it.
    fn is_quota_emptied(&self, now: u64) -> bool {
        #[cfg(feature = "fleet")]
        if self.fleet.is_shared() {
            return self.fleet.is_emptied();
        }
        self.quota.as_ref().is_some_and(|quota| quota.is_emptied(now))
    }

    /// Returns whether the budget is spent in this process only, while the fleet may have tokens.
    #[cfg(feature = "fleet")]
    pub(super) fn lacks_lease(&self) -> bool {
        self.fleet.may_have_tokens() && self.budget.as_ref().is_some_and(Budget::is_spent)
    }
}

/// The name of an upstream.
#[derive(Clone)]
pub enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The observer of an upstream.
pub(crate) enum Observer {
    Log,
    Static(&'static (dyn Observe + Send + Sync)),
    Shared(Arc<dyn Observe + Send + Sync>),
}

/// A panic of an observer leaves every part of the upstream intact. The observer is responsible for
/// its own state.
impl UnwindSafe for Observer {}
impl RefUnwindSafe for Observer {}

impl Observer {
    /// Returns the observer. Most upstreams use `Log`: inlined, it needs no dynamic dispatch.
    #[inline]
    pub(super) fn get(&self) -> &dyn Observe {
        match self {
            Self::Log => &Log,
            Self::Static(observer) => *observer,
            Self::Shared(observer) => &**observer,
        }
    }

    #[inline]
    pub(super) fn wants_all(&self) -> bool {
        match self {
            Self::Log => false,
            other => other.get().is_enabled() && other.get().wants_all(),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Log) { "Log" } else { "custom" })
    }
}
