use std::convert::Infallible;
use std::fmt;

use super::rules::{OneAttempt, Untimed};
use crate::cancel::{Cancel, Never};
use crate::classify::Always;
use crate::engine::CallState;
use crate::error::GaveUp;
use crate::observe::CallKind;
use crate::quota::{Limits, Report, Usage};
use crate::upstream::TargetFor;
use crate::verdict::Verdict;

/// An admitted attempt on an [`Upstream`](crate::Upstream), made by the caller.
///
/// Dropping it without a report gives everything back except the reservation of a quota, and the
/// attempt does not count. The reservation stands because the request may have been sent. If it was
/// not sent, call [`withdraw`](Self::withdraw).
#[must_use = "a dropped admission reports nothing: call `succeeded` or `settle`"]
pub struct Admission<X: TargetFor<Infallible>, K = Never> {
    call: CallState<Infallible, Rules, K, X>,
}

/// The rules after the admission: no limit cuts an attempt that the caller makes.
type Rules = OneAttempt<Always, Untimed>;

const RULES: Rules = OneAttempt { classifier: Always, limits: Untimed };

impl<X: TargetFor<Infallible>> Admission<X> {
    #[track_caller]
    pub(super) fn at_once(target: X) -> Result<Self, GaveUp<Infallible>> {
        let mut call = CallState::new(CallKind::Single, RULES, Never).on(target);
        call.begin_now(0)?;
        Ok(Self { call })
    }
}

impl<X: TargetFor<Infallible>, K: Cancel> Admission<X, K> {
    /// Creates the admission of a call whose attempt has begun.
    pub(super) fn of<P>(call: CallState<Infallible, P, K, X>) -> Self {
        Self { call: call.with_policy(RULES) }
    }

    /// Reports that the attempt succeeded.
    #[inline]
    pub fn succeeded(mut self) {
        self.call.succeeded_at(0, 1, None);
    }

    /// Reports the usage so far to the quota. The usage of a stream may come in parts: each number
    /// replaces the one before.
    pub fn record(&mut self, usage: Usage) {
        self.call.charge(0, &Report { usage: Some(usage), limits: None });
    }

    /// Reports the limits of the answer to the quota.
    pub fn learn(&mut self, limits: Limits) {
        self.call.charge(0, &Report { usage: None, limits: Some(limits) });
    }

    /// Reports that the request was not sent, and gives everything back.
    pub fn withdraw(mut self) {
        self.call.engine.guard.release_unsent(0);
    }

    /// Reports that the attempt failed with this verdict.
    #[inline]
    pub fn settle(mut self, verdict: &Verdict) {
        self.call.finish_by_hand(0, *verdict);
    }
}

impl<X: TargetFor<Infallible>, K> fmt::Debug for Admission<X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}
