use std::time::Duration;

use super::until::Until;
use super::{CallPolicy, CallState, Engine};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::{CallKind, EventKind};
use crate::policy::Rules;
use crate::quota::Report;
use crate::time::Timer;
use crate::upstream::{Endpoint, TargetFor};

/// The start and the end of an attempt that succeeded, if they were read.
struct Ended {
    began: Option<u64>,
    now: Option<u64>,
}

/// Success of an attempt, and the latency that the upstream learns from it.
impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Reports the success of attempt number `attempt`. The call ends with this success.
    #[inline]
    pub(crate) fn succeeded(&mut self, slot: usize, attempt: u32) {
        let engine = &mut self.engine;
        let is_first = engine.guard.progress.attempts == 1;
        if is_first && X::ALONE {
            engine.until.set(Until::Nothing);
            return;
        }
        // A first attempt that was never pending teaches no limit and is no event for most observers.
        let at_once = engine.until.is_nothing();
        if is_first && at_once && !engine.guard.target.wants_all() {
            return engine.guard.report_at_once(slot);
        }
        let at = if at_once { engine.guard.began(slot) } else { None };
        self.succeeded_at(slot, attempt, at);
    }

    /// Reports as [`succeeded`](Self::succeeded) does. `at` is the end of the attempt if known.
    #[inline]
    pub(crate) fn succeeded_at(&mut self, slot: usize, attempt: u32, at: Option<u64>) {
        let is_learned = self.policy.rules().is_learned();
        if let Some(ended) = self.engine.succeeded_at(slot, at, is_learned, None) {
            self.emit_success(attempt, ended);
        }
    }

    /// Reports the success of an attempt whose stream has flowed.
    #[cfg(feature = "stream")]
    pub(crate) fn succeeded_as_stream(&mut self, slot: usize, attempt: u32) {
        let flows_since = self.policy.flows_since();
        let is_learned = self.policy.rules().is_learned();
        if let Some(ended) = self.engine.succeeded_at(slot, None, is_learned, flows_since) {
            self.emit_success(attempt, ended);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_success(&self, attempt: u32, Ended { began, now }: Ended) {
        let engine = &self.engine;
        if engine.guard.target.listens() {
            let elapsed =
                now.map_or_else(|| engine.elapsed(), |now| now.saturating_sub(engine.started));
            let elapsed = Duration::from_nanos(elapsed);
            let latency =
                began.zip(now).map(|(began, now)| Duration::from_nanos(now.saturating_sub(began)));
            let attempts = engine.guard.progress.attempts;
            self.emit(EventKind::Succeeded { attempt, attempts, elapsed, latency });
        }
    }

    /// Charges the usage of the attempt in `slot` and learns the limits that it reported.
    #[cold]
    pub(crate) fn charge(&mut self, slot: usize, report: &Report) {
        self.engine.charge(slot, report, self.policy.allowed());
    }

    /// Records the time since the start of the attempt as a latency of the upstream.
    pub(crate) fn learn_from(&mut self, slot: usize) {
        self.engine.learn_from(slot, self.policy.rules().is_learned());
    }

    /// Records an overtaken attempt that ran for at least `at_least` nanoseconds.
    #[cold]
    pub(crate) fn learn_overtaken(&mut self, slot: usize, at_least: u64) {
        let began = self.engine.guard.began(slot);
        if let (Some(adaptive), Some(began)) = (self.learns(), began) {
            let now = self.engine.now();
            let waited = now.saturating_sub(began);
            if waited >= at_least {
                adaptive.record_overtaken(Duration::from_nanos(now), Duration::from_nanos(waited));
            }
        }
    }
}

impl<X: Endpoint<Timer: Timer>, const N: usize> Engine<X, N> {
    /// Returns the times of a success that an observer may want.
    #[inline(never)] // compiled once for all call sites
    fn succeeded_at(
        &mut self,
        slot: usize,
        at: Option<u64>,
        is_learned: bool,
        flows_since: Option<u64>,
    ) -> Option<Ended> {
        let is_retried = self.guard.progress.attempts > 1;
        let was_pending = self.until.take() != Until::Nothing;
        if X::ALONE {
            return is_retried.then_some(Ended { began: None, now: None });
        }
        let wants_all = self.guard.target.wants_all();
        // An attempt that was ready at once teaches no limit.
        if was_pending && self.learns(is_learned).is_some() {
            self.learn_from(slot, is_learned);
        }
        // One reading ends both the attempt and the call.
        let now = wants_all.then(|| self.now());
        let began = if wants_all { self.guard.began(slot) } else { None };
        if let Some(since) = flows_since {
            self.guard.leave_out(slot, since);
        }
        self.guard.report_success(slot, at);
        (wants_all || is_retried).then_some(Ended { began, now })
    }

    #[cold]
    #[inline(never)]
    fn charge(&mut self, slot: usize, report: &Report, allowed: u32) {
        let Some((before, charged)) = self.guard.note_report(slot, report) else { return };
        if self.guard.target.wants_all() {
            let attempt = match self.guard.progress.kind() {
                CallKind::Hedge => u32::try_from(slot).unwrap_or(u32::MAX).saturating_add(1),
                _ => self.guard.progress.attempts,
            };
            self.emit(EventKind::Settled { attempt, before, charged }, allowed);
        }
    }
}
