use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The recent latencies in two histograms that are filled in turn. At the end of a turn the older
/// histogram is emptied and becomes the current one. No count is older than two turns.
///
/// The buckets are log-linear as in Tene's `HdrHistogram`: eight buckets for each doubling. The
/// upper edge of a bucket is at most an eighth above its latencies. All accesses are `Relaxed`: a
/// race with the emptying may lose a count or keep it for another turn. One count does not change a
/// quantile of thousands.
pub(crate) struct Histogram {
    halves: [Half; 2],
    /// The number of the turn since the clock's origin. Its parity selects the current half.
    turn: AtomicU64,
}

struct Half {
    buckets: [AtomicU32; BUCKETS],
    /// All counts are in the buckets from `start` to `end`. Latencies of one kind are close
    /// together.
    start: AtomicUsize,
    end: AtomicUsize,
}

/// The finest step is 2^13 ns (8 µs), finer than any timer. The last bucket begins at 37 hours.
const FINEST: u32 = 13;
const BUCKETS: usize = 256;
/// The highest count of a bucket. It is so far below `u32::MAX` that concurrent additions cannot
/// wrap.
const FULL: u32 = u32::MAX / 2;

impl Half {
    const fn new() -> Self {
        let buckets = [const { AtomicU32::new(0) }; BUCKETS];
        Self { buckets, start: AtomicUsize::new(BUCKETS), end: AtomicUsize::new(0) }
    }

    /// Counts a latency in `bucket` and returns the count before.
    #[inline]
    fn count(&self, bucket: usize) -> u32 {
        if bucket < self.start.load(Ordering::Relaxed) {
            self.start.fetch_min(bucket, Ordering::Relaxed);
        }
        if bucket >= self.end.load(Ordering::Relaxed) {
            self.end.fetch_max(bucket + 1, Ordering::Relaxed);
        }
        let Some(count) = self.buckets.get(bucket) else { return 0 };
        if count.load(Ordering::Relaxed) >= FULL {
            return FULL;
        }
        count.fetch_add(1, Ordering::Relaxed)
    }

    fn empty(&self) {
        self.start.store(BUCKETS, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    /// Returns the buckets that may have a count.
    fn filled(&self) -> Range<usize> {
        self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self { halves: [Half::new(), Half::new()], turn: AtomicU64::new(0) }
    }

    /// Begins the turn of `now` if it is a later one. Returns true if this call began it and may
    /// have removed counts. A turn lasts `half` nanoseconds (not zero). A clock behind that of
    /// other callers changes nothing.
    #[inline]
    pub(crate) fn turn_to(&self, now: u64, half: u64) -> bool {
        let turn = self.turn.load(Ordering::Relaxed);
        now.saturating_sub(turn.saturating_mul(half)) >= half && self.turn_over(now / half, turn)
    }

    #[cold]
    fn turn_over(&self, turn: u64, seen: u64) -> bool {
        if self.turn.compare_exchange(seen, turn, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false; // another call begins the turn
        }
        self.half(turn).empty();
        if turn - seen > 1 {
            self.half(turn ^ 1).empty();
        }
        true
    }

    fn half(&self, turn: u64) -> &Half {
        let [even, odd] = &self.halves;
        if turn % 2 == 0 { even } else { odd }
    }

    /// Counts a latency. Returns the count of similar latencies in this turn before.
    #[inline]
    pub(crate) fn count(&self, nanos: u64) -> u32 {
        self.half(self.turn.load(Ordering::Relaxed)).count(bucket_of(nanos))
    }

    /// Returns the upper edge in nanoseconds of the bucket with the quantile `q` (0 to 1). Of `n`
    /// latencies this is the one of rank ⌈q·n⌉ from below. Returns `None` for fewer than `least`
    /// latencies or for none.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // ranks are small
    pub(crate) fn quantile(&self, q: f64, least: u32) -> Option<u64> {
        let [even, odd] = &self.halves;
        let filled =
            even.filled().start.min(odd.filled().start)..even.filled().end.max(odd.filled().end);
        let mut counts = [0_u64; BUCKETS];
        let mut all = 0;
        for bucket in filled.clone() {
            let [even, odd] =
                [even, odd].map(|half| u64::from(half.buckets[bucket].load(Ordering::Relaxed)));
            counts[bucket] = even + odd;
            all += even + odd;
        }
        if all < u64::from(least.max(1)) {
            return None;
        }
        let rank = ((q * all as f64).ceil() as u64).clamp(1, all);
        let mut below = 0;
        for bucket in filled {
            below += counts[bucket];
            if below >= rank {
                return Some(upper_edge(bucket));
            }
        }
        None
    }
}

/// Returns the quantile between 0 and 1. NaN is 1.
pub(crate) const fn clamped_quantile(quantile: f64) -> f64 {
    if quantile < 0.0 {
        0.0
    } else if quantile < 1.0 {
        quantile
    } else {
        1.0
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation)] // clamped below `BUCKETS`
fn bucket_of(nanos: u64) -> usize {
    let steps = nanos >> FINEST;
    if steps < 8 {
        return steps as usize;
    }
    let doublings = steps.ilog2() - 3;
    let bucket = (u64::from(doublings) + 1) * 8 + ((steps >> doublings) & 7);
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the start of the next bucket, in nanoseconds.
fn upper_edge(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    let steps = if next < 8 { next } else { (8 + next % 8) << (next / 8 - 1) };
    steps << FINEST
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // short lists
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A turn longer than all times drawn below.
    const TURN: u64 = u64::MAX;

    proptest! {
        #[test]
        fn a_bucket_is_at_most_an_eighth_wide(nanos in 0..1_u64 << 47) {
            let edge = upper_edge(bucket_of(nanos));
            prop_assert!(edge > nanos);
            prop_assert!(edge - nanos <= (nanos / 8).max(1 << FINEST));
        }

        #[test]
        fn buckets_are_in_order(a: u64, b: u64) {
            prop_assert_eq!(bucket_of(a.min(b)).cmp(&bucket_of(a.max(b))).is_gt(), false);
        }

        #[test]
        fn the_quantile_is_that_of_a_sorted_list(mut all in prop::collection::vec(0..1_u64 << 47, 1..300), q in 0.0..=1.0_f64) {
            let latencies = Histogram::new();
            for &nanos in &all {
                latencies.count(nanos);
            }
            all.sort_unstable();
            let rank = ((q * all.len() as f64).ceil() as usize).max(1);
            prop_assert_eq!(latencies.quantile(q, 1), Some(upper_edge(bucket_of(all[rank - 1]))));
            prop_assert_eq!(latencies.quantile(q, all.len() as u32 + 1), None);
        }

        /// Counts of this turn and of the one before remain. Older counts are gone.
        #[test]
        fn latencies_older_than_two_turns_are_forgotten(steps in prop::collection::vec(0_u64..4, 1..60)) {
            let (latencies, half) = (Histogram::new(), 10);
            let (mut now, mut counted) = (0, vec![]);
            for step in steps {
                now += step * 5;
                latencies.turn_to(now, half);
                latencies.count(0);
                counted.push(now / half);
                let kept = counted.iter().filter(|&&turn| turn + 1 >= now / half).count() as u32;
                prop_assert!(latencies.quantile(1.0, kept).is_some());
                prop_assert!(latencies.quantile(1.0, kept + 1).is_none());
            }
        }
    }

    #[test]
    fn a_clock_that_lags_behind_forgets_nothing() {
        let latencies = Histogram::new();
        assert!(latencies.turn_to(1_000, 10));
        latencies.count(5);
        assert!(!latencies.turn_to(3, 10));
        assert!(latencies.quantile(0.5, 1).is_some());
    }

    /// A window of days can hold more calls than a bucket can count.
    #[test]
    fn a_full_bucket_stays_full() {
        let latencies = Histogram::new();
        let (short, long) = (bucket_of(1_000_000), bucket_of(1_000_000_000));
        latencies.count(1_000_000);
        latencies.halves[0].buckets[short].store(FULL, Ordering::Relaxed);
        (0..100).for_each(|_| assert_eq!(latencies.count(1_000_000), FULL));
        latencies.count(1_000_000_000);
        assert_eq!(latencies.quantile(0.99, 1), Some(upper_edge(short)));
        assert_eq!(latencies.quantile(1.0, 1), Some(upper_edge(long)));
        assert_eq!(latencies.quantile(0.5, FULL), Some(upper_edge(short)));
    }

    #[test]
    fn the_last_turn_forgets_the_longest_latency() {
        let latencies = Histogram::new();
        assert!(!latencies.turn_to(u64::MAX - 1, TURN));
        assert_eq!(latencies.quantile(0.5, 0), None);
        latencies.count(u64::MAX);
        assert!(latencies.quantile(0.5, 0).is_some_and(|edge| edge > 1 << 46));
        assert!(latencies.turn_to(u64::MAX, 1));
        assert_eq!(latencies.quantile(0.5, 0), None);
    }
}
