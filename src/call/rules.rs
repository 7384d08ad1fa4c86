use std::time::Duration;

use crate::engine::{CallPolicy, NO_LIMIT, limit_of};
use crate::policy::Rules;

/// The rules of a single attempt: no retry, and the limits `L`.
pub(super) struct OneAttempt<C, L> {
    pub(super) classifier: C,
    pub(super) limits: L,
}

impl<C, L: Limits> Rules for OneAttempt<C, L> {
    type Classifier = C;

    #[inline]
    fn classifier(&self) -> &C {
        &self.classifier
    }

    #[inline]
    fn timeouts(&self) -> (Option<Duration>, Option<Duration>) {
        let limit = |limit| (limit != NO_LIMIT).then(|| Duration::from_nanos(limit));
        let Timeouts { total, attempt, .. } = self.limits.get();
        (limit(total), limit(attempt))
    }

    #[inline]
    fn is_shortened(&self) -> bool {
        self.limits.get().is_shortened
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

impl<C, L: Limits> CallPolicy for OneAttempt<C, L> {
    type Rules = Self;

    #[inline]
    fn rules(&self) -> &Self {
        self
    }

    #[inline]
    fn total_timeout(&self) -> u64 {
        self.limits.get().total
    }

    #[inline]
    fn attempt_timeout(&self) -> u64 {
        self.limits.get().attempt
    }

    #[inline]
    fn has_timeouts(&self) -> bool {
        let Timeouts { total, attempt, .. } = self.limits.get();
        total != NO_LIMIT || attempt != NO_LIMIT
    }
}

/// The limits of a single attempt.
pub(super) trait Limits {
    fn get(&self) -> Timeouts;
}

/// No limits, in no space.
pub(super) struct Untimed;

/// A total timeout and an attempt timeout, in nanoseconds or `NO_LIMIT`.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    total: u64,
    attempt: u64,
    /// True if the total timeout is what the caller had left.
    is_shortened: bool,
}

impl Timeouts {
    pub(super) const NONE: Self = Self { total: NO_LIMIT, attempt: NO_LIMIT, is_shortened: false };

    pub(super) const fn with_total(self, limit: Duration) -> Self {
        Self { total: limit_of(Some(limit)), is_shortened: false, ..self }
    }

    pub(super) fn shortened_to(self, left: Duration) -> Self {
        let left = limit_of(Some(left));
        if self.total <= left {
            return self;
        }
        Self { total: left, attempt: self.attempt.min(self.total), is_shortened: true }
    }

    pub(super) const fn with_attempt(self, limit: Duration) -> Self {
        Self { attempt: limit_of(Some(limit)), ..self }
    }
}

impl Limits for Untimed {
    #[inline]
    fn get(&self) -> Timeouts {
        Timeouts::NONE
    }
}

impl Limits for Timeouts {
    #[inline]
    fn get(&self) -> Timeouts {
        *self
    }
}
