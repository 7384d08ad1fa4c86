use std::time::Duration;

use crate::classify::Always;
use crate::policy::{common_settings, rules};

/// The rules of a fallback: its timeouts, and the errors that lead to the next alternative.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | total timeout | none | only the caller knows how long an answer is worth waiting for. Set one: without it, an alternative that hangs blocks the call for ever |
/// | classifier | every error leads to the next alternative | the alternatives are few and each is tried once, so a read costs a short detour at worst. Set one if some errors are the same everywhere. An [order](mod@crate::fallback#an-order) in doubt is not sent on, because it may be executed twice. After a part of the answer of a stream no alternative follows, because its answer would stand behind that part. A classifier of your own decides by itself: ask [`GaveUp::is_partial`](crate::GaveUp::is_partial) and [`GaveUp::is_in_doubt`](crate::GaveUp::is_in_doubt), or pass on [`GaveUp::verdict`](crate::GaveUp::verdict) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct FallbackPolicy<C = Always> {
    total_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    classifier: C,
}

impl FallbackPolicy {
    /// Creates a policy without timeouts. Every error leads to the next alternative, apart from those in the table above.
    pub const fn new() -> Self {
        Self { total_timeout: None, attempt_timeout: None, classifier: Always }
    }
}

impl Default for FallbackPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> FallbackPolicy<C> {
    /// Sets the classifier of errors.
    ///
    /// Its [`Verdict::is_again`](crate::Verdict::is_again) means: another alternative may succeed. A
    /// classifier for a retry says whether the same request may succeed later, so it stops the fallback at
    /// errors that another alternative would not have, such as an empty account. An
    /// alternative that was cut leads to the next one only if the classifier
    /// [says so](crate::Classify#cut-attempts), because the cut request may have been executed.
    pub const fn with_classifier<D>(self, classifier: D) -> FallbackPolicy<D>
    where
        C: Copy,
    {
        let Self { total_timeout, attempt_timeout, classifier: _ } = self;
        FallbackPolicy { total_timeout, attempt_timeout, classifier }
    }
}

common_settings!(FallbackPolicy, "alternative");
rules!(FallbackPolicy, |_policy| false, u32::MAX);
