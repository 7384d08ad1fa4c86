//! The knowledge of a call about its request at its end: its effect, its key and the doubt that it leaves.

use super::ending::Ending;
use super::{CallPolicy, CallState};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::error::{Facts, inherited};
use crate::policy::{Doubt, Effect, Request, Rules, StopReason};
use crate::upstream::TargetFor;
use crate::verdict::{Health, Verdict};

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Notes in `facts` what is known of the request, with the verdict for an outer call, and tells it to a fallback
    /// around this call. `unknown` is the classifier's verdict on attempts whose end nobody has seen, if there are some
    /// and no verdict on a failure.
    pub(super) fn note_request(
        &self,
        facts: &mut Facts,
        ending: &Ending,
        unknown: Option<Verdict>,
    ) -> Doubt {
        let inherited = self.policy.inherited();
        let own = ending.doubt(unknown);
        let doubt = own.max(inherited.doubt);
        facts.in_doubt = doubt != Doubt::No;
        facts.inherits_doubt = inherited.doubt != Doubt::No;
        facts.has_no_opinion = doubt == Doubt::Unstated && ending.has_no_opinion;
        facts.effect.states_key |= inherited.states_key;
        facts.effect.may_have |= inherited.may_have || facts.in_doubt;
        let last = unknown.map_or(ending.verdict, |dropped| {
            let unknown = Verdict::transient().with_health(Health::Unknown);
            let unknown = if dropped.is_again() { unknown } else { unknown.not_again() };
            Some(if dropped.is_keyed() { unknown.keyed() } else { unknown })
        });
        // Of a call without an attempt the words say nothing, but an earlier call may have had its key.
        let on_cut = self.on_cut();
        let told = effect_of(facts, on_cut, last.or(ending.dropped));
        if facts.attempts > 0 {
            facts.effect = told;
        }
        // A fallback may go on after a failure that says nothing of the request, unless its classifier calls it an order.
        let is_order = Doubt::of_drop(on_cut) == Doubt::Stated;
        let is_stated = ending.reason != StopReason::Unclassified && is_order;
        let left = if is_stated { own } else { own.min(Doubt::Unstated) };
        let has_key = told.is_keyed() || told.states_key;
        inherited::note_end(left, has_key, facts.effect.may_have);
        // The attempt ran too briefly to say anything of the upstream, so the one before it says it.
        let last = match last {
            Some(last) if ending.is_unreported => Some(last.with_health(self.earlier_health())),
            last => last,
        };
        let is_several = facts.attempts > 1 && facts.effect.may_have;
        let last = if is_several { last.map(Verdict::of_several) } else { last };
        let verdict = outer(ending, last, facts, told);
        facts.verdict = if facts.in_doubt { verdict.map(Verdict::in_doubt) } else { verdict };
        doubt
    }

    /// Returns the health that the last error shows, which is that of an earlier attempt.
    fn earlier_health(&self) -> Health {
        let classify = |last: &E| self.policy.rules().classifier().classify(last);
        self.last.as_ref().and_then(classify).map_or(Health::Unknown, |it| it.health())
    }
}

/// Returns the effect of the call with the kind of its request, as the classifier states it of a cut attempt or in its
/// last verdict, or its key in any verdict. A request in doubt needs no kind.
fn effect_of(facts: &Facts, on_cut: Verdict, last: Option<Verdict>) -> Effect {
    if facts.in_doubt {
        return facts.effect;
    }
    Effect { request: Request::of(on_cut, last, facts.effect.states_key), ..facts.effect }
}

/// Returns the verdict on a call for an outer one. `last` is that on the last failure, and `told` is what is known of
/// the request.
fn outer(ending: &Ending, last: Option<Verdict>, facts: &Facts, told: Effect) -> Option<Verdict> {
    let has_judged = ending.verdict.is_some() && ending.cut.is_none();
    let verdict = ending.reason.verdict(last, facts.retry_after)?;
    let verdict = told.told_in(verdict, has_judged);
    Some(match (facts.effect.may_have, facts.attempts) {
        (true, _) => verdict,
        (false, 0) => verdict.not_sent(),
        (false, _) => verdict.without_effect(),
    })
}
