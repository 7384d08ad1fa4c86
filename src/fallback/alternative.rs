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

    /// Returns the time left until the deadline of the whole call, at the start of this alternative.
    ///
    /// Without a total timeout it is [`Duration::MAX`], which sets no limit in practice: a timeout of
    /// this length ends after 584 years.
    #[must_use]
    pub const fn remaining(&self) -> Duration {
        match self.remaining {
            Some(remaining) => remaining,
            None => Duration::MAX,
        }
    }

    /// Returns the remaining time divided by the number of alternatives left including this one.
    ///
    /// Use the share as the timeout of this alternative: even if it hangs, the other alternatives
    /// then get their time. The last one gets all the rest. Without a total timeout the share is
    /// [`Duration::MAX`], like [`remaining`](Self::remaining).
    #[must_use]
    pub fn share(&self) -> Duration {
        let left = u32::try_from(self.count.saturating_sub(self.index)).unwrap_or(u32::MAX);
        self.remaining.map_or(Duration::MAX, |remaining| remaining / left.max(1))
    }
}
