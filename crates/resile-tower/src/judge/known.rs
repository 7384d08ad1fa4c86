use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use resile::classify::Cut;
use resile::{Classify, Verdict};

use super::sealed::Rule;
use crate::Failed;
use crate::replay::Check;

/// The classifier of a call: the rule has judged each failure in its attempt.
pub(crate) struct Known<L, H, E> {
    pub(crate) rule: L,
    /// Knows whether the request can be made again.
    pub(crate) check: H,
    pub(crate) error: PhantomData<fn(E)>,
}

impl<T, E, L: Rule<T, E>, H: Check> Classify<Failed<T>> for Known<L, H, E> {
    fn classify(&self, failed: &Failed<T>) -> Option<Verdict> {
        let verdict = failed.verdict()?;
        // That a request has a key is no matter of its failure.
        let is_keyed = self.rule.cut(Cut::Deadline).is_some_and(|on_cut| on_cut.is_keyed());
        Some(if is_keyed { verdict.keyed() } else { verdict })
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        let verdict = self.rule.cut(cut);
        match self.check.once() {
            Some(_) => verdict.map(Verdict::not_repeatable),
            None => verdict,
        }
    }

    fn error_type<'e>(&self, failed: &'e Failed<T>) -> Option<Cow<'e, str>> {
        failed.error_type()
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.rule.place().map(Cow::Owned)
    }
}

impl<L: Clone, H: Clone, E> Clone for Known<L, H, E> {
    fn clone(&self) -> Self {
        Self { rule: self.rule.clone(), check: self.check.clone(), error: PhantomData }
    }
}

impl<L, H, E> fmt::Debug for Known<L, H, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}
