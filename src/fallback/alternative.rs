use std::time::Duration;

/// An alternative, as its operation sees it. Made by [`fallback`](crate::fallback()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative<'a, A> {
    pub(super) value: &'a A,
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) elapsed: Duration,
    pub(super) remaining: Option<Duration>,
}

impl<'a, A> Alternative<'a, A> {
    /// Returns the alternative itself.
    #[must_use]
    pub const fn value(&self) -> &'a A {
        self.value
    }

    /// Returns the index of the alternative in the list. The first is 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns whether this is the last alternative.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns the time from the start of the call to the start of this alternative.
    ///
    /// The time is zero for the first alternative.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the time left until the deadline of the whole call. `None` without a deadline.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns the remaining time divided by the number of alternatives left including this one.
    ///
    /// Returns `None` without a deadline. Use the share as the timeout of this alternative: even if
    /// it hangs, the other alternatives then get their time. The last one gets all the rest.
    #[must_use]
    pub fn share(&self) -> Option<Duration> {
        let left = u32::try_from(self.count.saturating_sub(self.index)).unwrap_or(u32::MAX);
        self.remaining.map(|remaining| remaining / left.max(1))
    }
}
