use std::time::Duration;

use crate::classify::Always;

/// How long alternatives may be tried, and which errors are worth another one.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | deadline | none | only the caller knows how long an answer is worth waiting for: set one, as without it an alternative that hangs hangs for ever |
/// | classifier | every error is worth the next alternative | they are few and each is tried once, so the worst is a short detour; give one where some errors are the same everywhere |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct FallbackPolicy<C = Always> {
    deadline: Option<Duration>,
    classify: C,
}

impl FallbackPolicy {
    /// No deadline, and every error is worth the next alternative.
    pub const fn new() -> Self {
        Self { deadline: None, classify: Always }
    }
}

impl Default for FallbackPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> FallbackPolicy<C> {
    /// How long the whole call may take, counted from the first poll. It cuts an alternative in flight.
    ///
    /// Zero gives the first alternative one poll.
    pub const fn with_deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The call may take as long as its alternatives do.
    pub const fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// The same policy with that judge of whether an error is worth the next alternative:
    /// [`Verdict::Retry`](crate::Verdict) is yes, with whatever cause and hint; no opinion is no.
    pub const fn with_classify<D>(&self, classify: D) -> FallbackPolicy<D> {
        FallbackPolicy { deadline: self.deadline, classify }
    }

    /// How long the whole call may take.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// What judges the errors.
    #[must_use]
    pub const fn classify(&self) -> &C {
        &self.classify
    }
}
