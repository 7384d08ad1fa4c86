use std::sync::atomic::Ordering;

use super::law::Counts;
use crate::sync::AtomicU64;

/// The counts of the last two minutes. The window slides by a slot, a sixteenth of its length.
///
/// A slot is one word: `lap: 24 | accepted: 20 | refused: 20`. It counts only in the lap of its tag.
///
/// # Limits
///
/// A count stops at 1,048,575, which is 140,000 attempts a second. After 63 years of its timer a window
/// forgets nothing any more.
pub(super) struct Window([AtomicU64; SLOTS]);

/// The length of a window in nanoseconds: two minutes.
pub(super) const LENGTH: u64 = 120_000_000_000;
#[cfg(not(loom))]
const SLOTS: usize = 16;
/// loom could not explore more interleavings.
#[cfg(loom)]
const SLOTS: usize = 1;
const SLOT: u64 = LENGTH / SLOTS as u64;
const COUNT_BITS: u32 = 20;
const MOST: u64 = (1 << COUNT_BITS) - 1;
const LAST_LAP: u64 = (1 << (u64::BITS - 2 * COUNT_BITS)) - 1;

impl Window {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    /// Counts attempts that ended at `now`.
    pub(super) fn add(&self, now: u64, counts: Counts) {
        self.add_at(now / SLOT, counts);
    }

    /// Counts `accepted` attempts that ended evenly since `since`, or within the window if `since` is 0.
    /// Those before the window are gone.
    #[cold]
    pub(super) fn spread(&self, since: u64, now: u64, accepted: u64) {
        let begin = now.saturating_sub(LENGTH - SLOT);
        let since = if since == 0 { begin } else { since.min(now) };
        let from = since.max(begin);
        let (whole, part) = (now.saturating_sub(since).max(1), now.saturating_sub(from).max(1));
        let share = u128::from(accepted) * u128::from(part) / u128::from(whole);
        let mut left = u64::try_from(share).unwrap_or(u64::MAX);
        let (first, last) = (from / SLOT, now / SLOT);
        for tick in first..=last {
            let accepted = left / (last - tick + 1);
            left -= accepted;
            self.add_at(tick, Counts { accepted, refused: 0 });
        }
    }

    /// Returns the counts of the window that ends at `now`.
    pub(super) fn counts(&self, now: u64) -> Counts {
        let last = now / SLOT;
        let first = last.saturating_sub(SLOTS as u64 - 1);
        let mut sum = Counts::default();
        for tick in first..=last {
            let (slot, lap) = self.place(tick);
            let word = slot.load(Ordering::Relaxed);
            if lap_of(word) == lap {
                sum.accepted += word >> COUNT_BITS & MOST;
                sum.refused += word & MOST;
            }
        }
        sum
    }

    /// Returns the slot of a tick and its lap. Lap 0 is that of an unused word.
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of the number of slots")]
    fn place(&self, tick: u64) -> (&AtomicU64, u64) {
        let lap = (tick / SLOTS as u64 + 1).min(LAST_LAP);
        (&self.0[(tick % SLOTS as u64) as usize], lap)
    }

    fn add_at(&self, tick: u64, counts: Counts) {
        let (slot, lap) = self.place(tick);
        let mut word = slot.load(Ordering::Relaxed);
        // A thread that has stalled since its reading of the clock counts nothing.
        while lap_of(word) <= lap {
            let before = if lap_of(word) == lap { word } else { 0 };
            let accepted = (before >> COUNT_BITS & MOST).saturating_add(counts.accepted).min(MOST);
            let refused = (before & MOST).saturating_add(counts.refused).min(MOST);
            let next = lap << (2 * COUNT_BITS) | accepted << COUNT_BITS | refused;
            match slot.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }
}

const fn lap_of(word: u64) -> u64 {
    word >> (2 * COUNT_BITS)
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ACCEPTED: Counts = Counts { accepted: 1, refused: 0 };
    const REFUSED: Counts = Counts { accepted: 0, refused: 1 };

    proptest! {
        /// Compared with a list of all attempts: those of 112.5 s count, and those before 120 s do not.
        #[test]
        fn the_window_slides(steps in prop::collection::vec((0..40_000_u64, any::<bool>()), 1..200)) {
            let window = Window::new();
            let mut all = Vec::new();
            let mut now = 0;
            for (ms, is_accepted) in steps {
                now += ms * 1_000_000;
                window.add(now, if is_accepted { ACCEPTED } else { REFUSED });
                all.push((now, is_accepted));
                let count = |length: u64, kind: bool| {
                    all.iter().filter(|(at, it)| now - at < length && *it == kind).count() as u64
                };
                let counts = window.counts(now);
                for (kind, counted) in [(true, counts.accepted), (false, counts.refused)] {
                    prop_assert!(counted >= count(LENGTH - SLOT, kind));
                    prop_assert!(counted <= count(LENGTH, kind));
                }
            }
        }

        /// No attempt of a spread within the window is lost, and of a longer one its share counts.
        #[test]
        fn a_spread_keeps_its_sum(since in 0..1_u64 << 50, lasted in 0..1_u64 << 40, count in 0..10_000_u64) {
            let (window, now) = (Window::new(), since + lasted);
            window.spread(since, now, count);
            let counted = window.counts(now).accepted;
            if lasted < LENGTH - SLOT {
                prop_assert_eq!(counted, count);
            } else {
                let share = count as f64 * LENGTH as f64 / lasted.max(1) as f64;
                prop_assert!(counted as f64 <= share.min(count as f64) + 1.0);
                prop_assert!(counted as f64 >= share.min(count as f64) * 0.85 - 2.0);
            }
            prop_assert_eq!(window.counts(now.saturating_add(LENGTH)), Counts::default());
        }

        #[test]
        fn no_time_and_no_count_panics(since: u64, now: u64, accepted: u64, refused: u64) {
            let window = Window::new();
            window.spread(since, now, accepted);
            window.add(now, Counts { accepted, refused });
            window.add(since, Counts { accepted, refused });
            let counts = window.counts(now);
            prop_assert!(counts.accepted <= MOST * SLOTS as u64 && counts.refused <= MOST * SLOTS as u64);
        }
    }
}
