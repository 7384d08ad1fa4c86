use std::time::Duration;

use crate::call::CallPolicy;
use crate::policy::Rules;

/// The rules of a single attempt: no retry, and no timeout except the learned limit.
pub(super) struct OneAttempt<C>(pub(super) C);

impl<C> Rules for OneAttempt<C> {
    type Classifier = C;

    #[inline]
    fn classifier(&self) -> &C {
        &self.0
    }

    #[inline]
    fn timeouts(&self) -> (Option<Duration>, Option<Duration>) {
        (None, None)
    }

    #[inline]
    fn is_learned(&self) -> bool {
        true
    }

    #[inline]
    fn allowed(&self) -> u32 {
        1
    }
}

impl<C> CallPolicy for OneAttempt<C> {
    type Rules = Self;

    #[inline]
    fn rules(&self) -> &Self {
        self
    }
}
