use std::sync::atomic::{AtomicU64, Ordering};

/// The time that a call must have left when it leaves the queue, in nanoseconds. Zero until an attempt has ended
/// while calls wait, or a deadline has cut an attempt that waited.
///
/// In a long overload each waiter waits for nearly its whole time. The first of the line would then take
/// its units a moment before its deadline, and the upstream would work for a caller that is gone. So a cut
/// attempt teaches that its time was too short, and a whole attempt teaches how long one takes. The
/// margin is twice that time. Before the first cut it is the time of a short attempt, because calls with one
/// deadline are all cut at that moment, before any of them has taught the others.
/// Both are hints, so they are no subject of a model and always the standard library's.
pub(crate) struct Margin {
    /// Zero before the first cut.
    needed: AtomicU64,
    /// The time of a short whole attempt of late. Zero before the first one.
    whole: AtomicU64,
}

/// The share of the distance that a whole attempt moves the margin.
const STEP: u64 = 16;

impl Margin {
    pub(crate) const fn new() -> Self {
        Self { needed: AtomicU64::new(0), whole: AtomicU64::new(0) }
    }

    /// Returns true if no attempt was cut yet.
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        self.needed.load(Ordering::Relaxed) == 0
    }

    /// Returns the margin of a call with this total timeout: at most half of it.
    pub(crate) fn within(&self, total: u64) -> u64 {
        let needed = self.needed.load(Ordering::Relaxed).max(self.whole.load(Ordering::Relaxed));
        needed.min(total / 2)
    }

    /// Learns that `had` was too short for an attempt.
    #[cold]
    pub(crate) fn note_cut(&self, had: u64) {
        let time = had.max(self.whole.load(Ordering::Relaxed));
        self.needed.fetch_max(time.saturating_mul(2).max(1), Ordering::Relaxed);
    }

    /// Learns that an attempt took this time. Of two calls at once, one may be lost.
    #[cold]
    pub(crate) fn note_whole(&self, took: u64) {
        let whole = self.whole.load(Ordering::Relaxed);
        // A first attempt is often long, and one attempt may be.
        let next = match whole {
            0 => took,
            _ if took < whole => took.midpoint(whole),
            _ => nearer(whole, took),
        };
        self.whole.store(next.max(1), Ordering::Relaxed);
        let needed = self.needed.load(Ordering::Relaxed);
        if needed != 0 {
            let next = nearer(needed, took.saturating_mul(2).max(1));
            self.needed.store(next.max(1), Ordering::Relaxed);
        }
    }
}

/// Moves a time by a share of its distance to `target`.
const fn nearer(time: u64, target: u64) -> u64 {
    if target > time {
        time + (target - time).div_ceil(STEP)
    } else {
        time - (time - target) / STEP
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
        assert!(margin.is_zero(), "no attempt was cut");
        assert_eq!(margin.within(1_000), 50);
        margin.note_cut(10);
        assert_eq!(margin.within(1_000), 100, "a whole one takes 50");
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
