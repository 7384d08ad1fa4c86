use std::ops::RangeInclusive;
use std::time::Duration;

use crate::engine::CallPolicy;
use crate::error::inherited::Inherited;
use crate::error::waits::{EarlierWaits, Waits};
use crate::policy::{
    AFTER_DOUBT, AFTER_PART, AsPolicy, Attempt, Decision, Doubt, Rules, StopReason,
};
use crate::upstream::Name;
use crate::verdict::Verdict;

/// A policy for `count` alternatives.
pub(super) struct Counted<P> {
    policy: P,
    count: u32,
    /// True if the stream of the alternative that was dropped has shown a part of its answer.
    pub(super) is_partial: bool,
    /// The facts that the calls within the alternative leave.
    inherited: Inherited,
    /// The facts that those within the alternatives before it have left.
    earlier: Inherited,
    pub(super) waits: Waits,
    /// The name of the call in the alternative that the deadline has cut.
    pub(super) cut_call: Option<Name>,
}

impl<P> Counted<P> {
    pub(super) fn new(policy: P, count: u32) -> Self {
        Self {
            policy,
            count,
            is_partial: false,
            inherited: Inherited::default(),
            earlier: Inherited::default(),
            waits: Waits::default(),
            cut_call: None,
        }
    }

    /// Begins another alternative.
    pub(super) fn go_on(&mut self) {
        self.earlier = self.earlier.and(std::mem::take(&mut self.inherited));
    }

    /// Adds what calls within the alternative leave.
    pub(super) fn hear(&mut self, inherited: Inherited) {
        self.inherited = self.inherited.and(inherited);
    }

    /// Returns whether a call within the last alternative is in doubt by its own classifier.
    fn leaves_doubt(&self) -> bool {
        self.inherited.doubt == Doubt::Stated
    }
}

impl<P: AsPolicy<Policy: Rules>> CallPolicy for Counted<P> {
    type Rules = P::Policy;

    fn rules(&self) -> &P::Policy {
        self.policy.as_policy()
    }

    fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn ended_by(&self, is_by_default: bool) -> Option<&'static str> {
        if self.inherited.has_part {
            Some(AFTER_PART)
        } else if self.leaves_doubt() && is_by_default {
            Some(AFTER_DOUBT)
        } else {
            None
        }
    }

    fn inherited(&self) -> Inherited {
        self.earlier.and(self.inherited)
    }

    /// Another answer must not follow a part, and an order in doubt must not be sent elsewhere, unless a classifier of
    /// the program wants it. By default a repetition does no harm.
    fn judged(&self, verdict: Verdict) -> Verdict {
        if !verdict.is_by_default() {
            verdict
        } else if self.inherited.has_part {
            Verdict::fatal().idempotent().by_default()
        } else if self.leaves_doubt() {
            verdict.not_again()
        } else {
            verdict
        }
    }

    fn drop_last(&mut self, drop: impl FnOnce()) {
        self.waits.drop_last(drop);
    }

    fn earlier_waits(&self, elapsed: Duration, is_earlier: bool) -> EarlierWaits {
        self.waits.end(elapsed, is_earlier)
    }

    fn cut_call(&self) -> Option<&Name> {
        self.cut_call.as_ref()
    }

    fn allowed(&self) -> u32 {
        self.count
    }

    fn decide(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        match self.rules().decide_renewed(failed, verdict, 0, draw) {
            Decision::Retry(_) if failed.number() >= self.count => {
                Decision::Stop(StopReason::Alternatives)
            }
            decision => decision,
        }
    }
}
