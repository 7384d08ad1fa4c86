//! A quota and a bulkhead under the hands of a test: each is the only part of an upstream, so that
//! a test can reserve, settle and release at any step.

// A test program needs only one of them.
#![allow(dead_code)]

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use resile::call::Admission;
use resile::quota::{Cost, Dimension, Limits, TooLarge, Usage};
use resile::time::Timer;
use resile::upstream::AtCost;
use resile::{Bulkhead, GaveUp, Never, Quota, StopReason, Upstream, Verdict};

/// A clock that shows the time that a test sets, also an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Timer for Clock {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
}

/// A quota whose clock each step sets.
pub(crate) struct ByHand {
    upstream: Upstream<Clock>,
    clock: Clock,
}

impl ByHand {
    pub(crate) fn new(quota: Quota) -> Self {
        let clock = Clock::default();
        let upstream = Upstream::new("by hand").with_quota(quota).with_observer(&());
        Self { upstream: upstream.with_timer(clock.clone()), clock }
    }

    /// Reserves the cost of an attempt that is not sent yet.
    pub(crate) fn try_reserve<'a>(
        &'a self,
        cost: Cost<'a>,
        now: Duration,
    ) -> Result<Reservation<'a>, Refusal> {
        self.clock.set(now);
        let admission = self.upstream.at_cost(cost).try_admit().map_err(|gave_up| {
            match (gave_up.reason(), gave_up.too_large()) {
                (_, Some(too_large)) => Refusal::TooLarge(too_large),
                (StopReason::Deadline, _) => {
                    Refusal::NotYet { wait: gave_up.retry_after().unwrap_or_default() }
                }
                (reason, _) => panic!("a quota does not refuse as {reason:?}"),
            }
        })?;
        Ok(Reservation { admission: Some(admission), clock: &self.clock, is_sent: false })
    }

    pub(crate) fn level_at(&self, dimension: Dimension, now: Duration) -> Option<i64> {
        self.clock.set(now);
        self.upstream.quota_level(dimension)
    }
}

impl Deref for ByHand {
    type Target = Quota;

    fn deref(&self) -> &Quota {
        self.upstream.quota().expect("it has one")
    }
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    NotYet { wait: Duration },
    TooLarge(TooLarge),
}

/// The reserved cost of an attempt. Dropped before it is sent, it gives everything back.
pub(crate) struct Reservation<'a> {
    /// `None` after its end.
    admission: Option<Admission<AtCost<'a, &'a Upstream<Clock>>>>,
    clock: &'a Clock,
    is_sent: bool,
}

impl Reservation<'_> {
    pub(crate) fn sent(&mut self) {
        self.is_sent = true;
    }

    /// Charges the usage so far.
    pub(crate) fn record(&mut self, usage: Usage, now: Duration) {
        self.sent();
        self.clock.set(now);
        self.admission.as_mut().expect("it has not ended").record(usage);
    }

    pub(crate) fn learn(&mut self, limits: &Limits, now: Duration) {
        self.sent();
        self.clock.set(now);
        self.admission.as_mut().expect("it has not ended").learn(*limits);
    }

    /// Charges the usage and ends the reservation.
    pub(crate) fn settle(mut self, usage: Usage, now: Duration) {
        self.record(usage, now);
    }

    pub(crate) fn failed(mut self, verdict: &Verdict, now: Duration) {
        self.clock.set(now);
        self.admission.take().expect("it has not ended").settle(verdict);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        match self.admission.take() {
            Some(admission) if !self.is_sent => admission.withdraw(),
            sent => drop(sent),
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("is_sent", &self.is_sent).finish_non_exhaustive()
    }
}

/// A bulkhead whose permits are held by hand.
pub(crate) struct Gate {
    upstream: Upstream<Clock>,
}

impl Gate {
    pub(crate) const fn new(bulkhead: Bulkhead, clock: Clock) -> Self {
        let upstream = Upstream::new("by hand").with_bulkhead(bulkhead).with_observer(&());
        Self { upstream: upstream.with_timer(clock) }
    }

    pub(crate) fn of(bulkhead: Bulkhead) -> Self {
        Self::new(bulkhead, Clock::default())
    }

    pub(crate) const fn upstream(&self) -> &Upstream<Clock> {
        &self.upstream
    }

    pub(crate) fn try_acquire(&self) -> Result<Permit<'_>, Full> {
        self.upstream.try_admit().map(Permit).map_err(|gave_up| self.full(&gave_up))
    }

    pub(crate) fn acquire(&self) -> Acquire<'_> {
        Acquire { gate: self, admit: Box::pin(self.upstream.admit(Never)) }
    }

    fn full<E>(&self, gave_up: &GaveUp<E>) -> Full {
        assert_eq!(gave_up.reason(), StopReason::Full);
        Full { limit: self.in_flight(), waiting: self.waiting() }
    }
}

impl Deref for Gate {
    type Target = Bulkhead;

    fn deref(&self) -> &Bulkhead {
        self.upstream.bulkhead().expect("it has one")
    }
}

/// Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Permit<'a>(Admission<&'a Upstream<Clock>>);

/// The numbers of a bulkhead at a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) limit: u32,
    pub(crate) waiting: u32,
}

/// The wait for a permit.
pub(crate) struct Acquire<'a> {
    gate: &'a Gate,
    admit: Pin<Box<resile::call::Admitting<&'a Upstream<Clock>>>>,
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, Full>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let admitted = self.admit.as_mut().poll(cx);
        admitted.map(|admitted| admitted.map(Permit).map_err(|gave_up| self.gate.full(&gave_up)))
    }
}
