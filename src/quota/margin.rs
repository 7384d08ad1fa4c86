use std::sync::atomic::{AtomicU64, Ordering};

/// The time that a call must have left when it leaves the queue, in nanoseconds. Zero until a deadline has
/// cut an attempt that waited.
///
/// In a long overload each waiter waits for nearly its whole time. The first of the line would then take
/// its units a moment before its deadline, and the upstream would work for a caller that is gone. So a cut
/// attempt teaches that its time was too short, and a whole attempt teaches how long one takes. The
/// margin is twice that time. It is a hint, so it is no subject of a model and always the standard
/// library's.
pub(crate) struct Margin(AtomicU64);

/// The share of the distance that a whole attempt moves the margin.
const STEP: u64 = 16;

impl Margin {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns true if no attempt needs to be measured.
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Returns the margin of a call with this total timeout: at most half of it.
    pub(crate) fn within(&self, total: u64) -> u64 {
        self.0.load(Ordering::Relaxed).min(total / 2)
    }

    /// Learns that `had` was too short for an attempt.
    #[cold]
    pub(crate) fn note_cut(&self, had: u64) {
        self.0.fetch_max(had.saturating_mul(2).max(1), Ordering::Relaxed);
    }

    /// Learns that an attempt took this time. Of two calls at once, one may be lost.
    #[cold]
    pub(crate) fn note_whole(&self, took: u64) {
        let margin = self.0.load(Ordering::Relaxed);
        if margin == 0 {
            return;
        }
        let target = took.saturating_mul(2).max(1);
        let next = if target > margin {
            margin + (target - margin).div_ceil(STEP)
        } else {
            margin - (margin - target) / STEP
        };
        self.0.store(next.max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_margin_follows_the_time_of_an_attempt() {
        let margin = Margin::new();
        margin.note_whole(50);
        assert!(margin.is_zero(), "nothing is learned before a cut");
        margin.note_cut(10);
        assert_eq!(margin.within(1_000), 20);
        for _ in 0..200 {
            margin.note_whole(5_000);
        }
        assert!((9_900..=10_000).contains(&margin.within(u64::MAX)), "{}", margin.within(u64::MAX));
        for _ in 0..400 {
            margin.note_whole(100);
        }
        assert!((200..=216).contains(&margin.within(u64::MAX)), "{}", margin.within(u64::MAX));
    }

    proptest! {
        /// It never exceeds half of the call's time, nor twice the longest time that it has seen.
        #[test]
        fn the_margin_is_bounded(steps in prop::collection::vec((any::<bool>(), any::<u64>()), 0..50), total in any::<u64>()) {
            let margin = Margin::new();
            let mut longest = 0;
            for (is_cut, time) in steps {
                longest = longest.max(time);
                if is_cut { margin.note_cut(time) } else { margin.note_whole(time) }
                prop_assert!(margin.within(u64::MAX) <= longest.saturating_mul(2).max(1));
                prop_assert!(margin.within(total) <= total / 2);
            }
        }
    }
}
