use std::time::Duration;

use super::engine::remaining;
use super::until::Until;
use super::{CallPolicy, CallState, NO_LIMIT};
use crate::cancel::Cancel;
use crate::classify::{CUT, Classify};
use crate::policy::Rules;
use crate::upstream::TargetFor;
use crate::verdict::{Cut, Verdict};

// What the call knows of an attempt and its error does not: whose time was over, and whether its answer had begun.

/// The longest time that an upstream keeps back of the time that it was told, so that its answer comes in time. It is
/// at least what `DeadlineLayer` of `resile-tower` keeps.
const KEPT_BACK: u64 = 100_000_000;

impl<E, P, K, X, const N: usize> CallState<E, P, K, X, N>
where
    P: CallPolicy<Rules: Rules<Classifier: Classify<E>>>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Returns the verdict that counts, if the classifier has this one on an error.
    #[inline]
    pub(super) fn judged(&self, verdict: Verdict) -> Verdict {
        let verdict = self.policy.judged(verdict);
        let is_belied = self.policy.has_begun() && verdict.is_without_effect();
        if verdict.is_late() || is_belied { self.judged_by_call(verdict) } else { verdict }
    }

    /// Returns whether the upstream ended a stream by this error because the limit `whole` on it is nearly over. It was
    /// told of that time, so its error is the end that the limit itself would make.
    #[cfg(feature = "stream")]
    #[cold]
    pub(crate) fn is_end_of_whole(&self, whole: u64, error: &E) -> bool {
        let is_late =
            || self.policy.rules().classifier().classify(error).is_some_and(Verdict::is_late);
        is_end_of_call(whole, remaining(whole, self.engine.elapsed())) && is_late()
    }

    #[cold]
    #[inline(never)]
    fn judged_by_call(&self, verdict: Verdict) -> Verdict {
        let own = self.policy.attempt_timeout();
        let cut = Cut::AttemptTimeout(Duration::from_nanos(own));
        let on_cut = || self.policy.rules().classifier().classify_cut(cut).unwrap_or(CUT);
        #[cfg(feature = "stream")]
        if self.policy.has_begun() {
            return verdict.in_time().after_content(on_cut());
        }
        let left = remaining(self.policy.total_timeout(), self.engine.elapsed());
        if is_end_of_attempt(own, self.engine.until.get(), left) {
            return verdict.in_time().again_as(on_cut());
        }
        // Such a verdict stays late, so the call ends as one that its deadline ends.
        let is_over = is_end_of_call(self.policy.total_timeout(), left);
        if is_over && !verdict.is_in_doubt(None) { verdict } else { verdict.in_time() }
    }
}

/// Returns what an upstream keeps back at most of a limit, which is in nanoseconds.
const fn kept_back(limit: u64) -> u64 {
    if limit / 5 < KEPT_BACK { limit / 5 } else { KEPT_BACK }
}

/// Returns whether an upstream, which ended an attempt because its time was over, did so at the end of the call.
/// `total` is the total timeout, and `left` is what is left of it. Both are in nanoseconds.
const fn is_end_of_call(total: u64, left: u64) -> bool {
    total != NO_LIMIT && left <= kept_back(total)
}

/// Returns whether an attempt, which the upstream ended because its time was over, had less time than its call. `own` is
/// the attempt timeout, and `left` is what the call has left. Both are in nanoseconds. The upstream answers shortly
/// before the end of the time that it was told, so a rest that is not longer than that is the end of the call.
const fn is_end_of_attempt(own: u64, until: Until, left: u64) -> bool {
    own != NO_LIMIT && !matches!(until, Until::Deadline) && left > kept_back(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_end_of_the_call_is_not_the_end_of_an_attempt() {
        for until in [Until::Timeout(SECOND), Until::Nothing, Until::Delay(1)] {
            assert!(is_end_of_attempt(SECOND, until, NO_LIMIT));
            assert!(is_end_of_attempt(SECOND, until, KEPT_BACK + 1));
            assert!(!is_end_of_attempt(SECOND, until, KEPT_BACK));
            assert!(!is_end_of_attempt(SECOND, until, 0));
            assert!(is_end_of_attempt(SECOND / 10, until, SECOND / 50 + 1));
            assert!(!is_end_of_attempt(SECOND / 10, until, SECOND / 50));
            assert!(!is_end_of_attempt(NO_LIMIT, until, NO_LIMIT));
        }
        assert!(!is_end_of_attempt(SECOND, Until::Deadline, SECOND));
        assert!(!is_end_of_attempt(0, Until::Nothing, 0));
    }

    #[test]
    fn an_answer_long_before_the_end_of_the_call_does_not_end_it() {
        assert!(
            is_end_of_call(SECOND, KEPT_BACK) && is_end_of_call(SECOND, 0) && is_end_of_call(0, 0)
        );
        assert!(!is_end_of_call(SECOND, KEPT_BACK + 1));
        assert!(
            is_end_of_call(SECOND / 10, SECOND / 50)
                && !is_end_of_call(SECOND / 10, SECOND / 50 + 1)
        );
        assert!(!is_end_of_call(NO_LIMIT, 0) && !is_end_of_call(NO_LIMIT, NO_LIMIT));
    }
}
