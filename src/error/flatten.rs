use super::facts::Facts;
use super::gave_up::{GaveUp, Inner};
use crate::observe::CallKind;
use crate::policy::StopReason;
use crate::verdict::Verdict;

/// Errors of calls within calls.
impl<E> GaveUp<GaveUp<E>> {
    /// Merges the errors of an outer and an inner call into one.
    ///
    /// The attempts, the time and the name are those of the outer call, and the error is that of the
    /// last inner call. So [`attempts`](Self::attempts) of a `fallback` counts the alternatives that began and
    /// not the requests. An outer call without a name takes the name of the inner one, unless it is a
    /// [`fallback`](crate::fallback()), whose attempts are alternatives with a name each: `{}` then prints
    /// the name of the last one. The reason and the rest depend on the outer call:
    /// * If it ended because its inner calls failed, they are those of the last inner call. Its
    ///   reason is then [`Fatal`](StopReason::Fatal), [`Unclassified`](StopReason::Unclassified),
    ///   [`Attempts`](StopReason::Attempts) or [`Alternatives`](StopReason::Alternatives).
    /// * If it ended for another reason, such as its total timeout, they are its own. If no later inner
    ///   call was cut, [`is_partial`](Self::is_partial) and [`cut`](Self::cut) of the last one stay as well.
    ///
    /// The next call of a `fallback` asks its first alternative again. So if all alternatives failed, or if
    /// its total timeout ended the last one, [`retry_after`](Self::retry_after) is the smallest wait that
    /// one of them knew, counted from the end of the fallback. There is none if one of these waits is over.
    #[must_use]
    pub fn flatten(self) -> GaveUp<E> {
        let Inner { facts, last, .. } = *self.0;
        let by_inner = matches!(
            facts.reason,
            StopReason::Fatal
                | StopReason::Unclassified
                | StopReason::Attempts
                | StopReason::Alternatives
        );
        let Some(inner) = last else {
            return GaveUp::new(Inner { facts, last: None, error_type: None, writer: None });
        };
        let inner = *inner.0;
        let again_after = facts.earlier_waits.least_with(inner.facts.retry_after);
        let facts = if facts.is_late() { facts.again_after(again_after) } else { facts };
        if !facts.last.has_error {
            let name = inner.facts.upstream.or(inner.facts.alternative);
            let earlier = name.filter(|_| facts.kind == CallKind::Fallback);
            return GaveUp::new(Inner { facts: Facts { earlier, ..facts }, ..inner });
        }
        let is_asked_again = facts.reason == StopReason::Alternatives;
        let Facts { kind, attempts, elapsed, upstream, .. } = facts;
        let mut told = inner.facts;
        let (name, below) = (told.upstream.take(), told.alternative.take());
        let (upstream, alternative) = match kind {
            CallKind::Fallback => (upstream, name.or(below)),
            _ => (upstream.or(name), below),
        };
        let facts = if by_inner {
            let in_doubt = told.in_doubt || facts.inherits_doubt;
            let effect = facts.effect.over(told.effect, in_doubt);
            // The inner call knows of its own attempts only.
            let of_all = |verdict: Verdict| {
                let verdict = if effect.may_have { verdict.of_several() } else { verdict };
                let verdict = if effect.is_keyed() { verdict.keyed() } else { verdict };
                if in_doubt { verdict.in_doubt() } else { verdict }
            };
            let (verdict, is_flat) = (told.verdict.map(of_all), true);
            let told =
                Facts { kind, is_flat, attempts, elapsed, verdict, in_doubt, effect, ..told };
            let inherits_doubt = facts.inherits_doubt || told.inherits_doubt;
            let has_no_opinion = told.has_no_opinion && !facts.inherits_doubt;
            let told = Facts { inherits_doubt, has_no_opinion, upstream, alternative, ..told };
            if is_asked_again { told.again_after(again_after) } else { told }
        } else {
            let is_partial = told.is_partial;
            let not_again =
                |verdict: Verdict| if is_partial { verdict.not_again() } else { verdict };
            Facts {
                hint: told.hint,
                verdict: facts.verdict.map(not_again),
                last: told.last.then_dropped(facts.last.dropped),
                is_partial: is_partial || facts.is_partial,
                upstream,
                alternative,
                ..facts
            }
        };
        GaveUp::new(Inner { facts, ..inner })
    }
}
