use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::sync::AtomicU64;
use crate::time::nanos;

/// How many slots a window is cut into: it slides by a sixteenth of its length. A shard's are a cache line and the one
/// that is fetched with it.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 4;

/// Threads count in shards of their own, so that successes on two cores do not fight for one cache line.
#[cfg(not(loom))]
const SHARDS: usize = 4;
/// One, or loom could not walk all that happens.
#[cfg(loom)]
const SHARDS: usize = 1;

/// Counts of the calls that ended within the last window of time: constant time, constant memory, no lock.
///
/// Each slot is one word, so it is read and replaced whole:
/// `generation: 8 | lap: 14 | ok: 14 | failed: 14 | slow: 14`.
///
/// Invariants:
/// 1. A slot counts for the lap (the how-many-th time around the ring) and the generation that it names, and for
///    no other. Who counts for a later one starts it anew, and must have read the clock just now; who counts for an
///    earlier generation is dropped.
/// 2. A slot that counted anything is not zero: zero is one that nobody touched.
/// 3. When a count would overflow, all counts of the slot are halved: their proportions stay.
/// 4. A shard whose bit in `used` is not set counted nothing: whoever starts a slot sets it first, and whoever counts in
///    that slot after sees it set.
///
/// A lap has 14 bits: counts that nothing touched for exactly 16,384 windows (two days, for windows of 10 s) would
/// count as fresh, once.
pub(super) struct Window {
    shards: [Shard; SHARDS],
    /// A bit for each shard that anybody counted in: there may be fewer threads than shards.
    used: AtomicU64,
}

#[repr(align(128))] // a cache line and the one that is fetched with it
struct Shard {
    slots: [AtomicU64; SLOTS],
}

/// What ended within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ok: u64,
    pub(super) failed: u64,
    /// Of both, those that took longer than the limit for slow calls.
    pub(super) slow: u64,
}

const COUNT_BITS: u32 = 14;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const LAP_BITS: u32 = 14;

impl Window {
    pub(super) const fn new() -> Self {
        let shards = [const { Shard { slots: [const { AtomicU64::new(0) }; SLOTS] } }; SHARDS];
        Self { shards, used: AtomicU64::new(0) }
    }

    /// Counts a call that ended at `now` (nanoseconds).
    #[inline]
    pub(super) fn count(&self, now: u64, slot: Slot, generation: u32, one: Counts) {
        self.add(now, slot, generation, one, true);
    }

    /// Counts a call that ended at `then`, a while ago, where others counted in that slot already; else false, as it may
    /// have been begun for a later time meanwhile.
    #[inline]
    pub(super) fn join(&self, then: u64, slot: Slot, generation: u32, one: Counts) -> bool {
        self.add(then, slot, generation, one, false)
    }

    #[inline]
    fn add(&self, at: u64, slot: Slot, generation: u32, one: Counts, begins: bool) -> bool {
        let (index, tag) = place(slot.tick(at), generation);
        let shard = own_shard() % SHARDS;
        let word = &self.shards[shard].slots[index % SLOTS];
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let next = match seen >> (3 * COUNT_BITS) {
                same if same == tag && seen != 0 => pack(tag, Counts::unpack(seen).plus(one)),
                other if seen != 0 && is_older_generation(tag, other) => return true, // invariants 1, 2
                _ if !begins => return false,
                _ => {
                    self.use_shard(shard); // invariant 4
                    pack(tag, one)
                }
            };
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn use_shard(&self, shard: usize) {
        if self.used.load(Ordering::Relaxed) & (1 << shard) == 0 {
            self.used.fetch_or(1 << shard, Ordering::Relaxed);
        }
    }

    /// What this generation counted within the window that ends at `now`.
    pub(super) fn counts(&self, now: u64, slot: Slot, generation: u32) -> Counts {
        #[cfg(loom)] // whose atomics must all have been used before they are shared
        self.shards.iter().flat_map(|shard| &shard.slots).for_each(|slot| _ = slot.load(Ordering::Relaxed));
        let last = slot.tick(now);
        let (newest, lap) = place(last, generation);
        // The slots after the newest are of the lap before.
        let (_, lap_before) = place(last.wrapping_sub(SLOTS as u64), generation);
        let used = self.used.load(Ordering::Relaxed);
        let mut sum = Counts::default();
        for (index, shard) in self.shards.iter().enumerate() {
            if used & (1 << index) == 0 {
                continue;
            }
            for (index, slot) in shard.slots.iter().enumerate() {
                let word = slot.load(Ordering::Relaxed);
                if word >> (3 * COUNT_BITS) == if index <= newest { lap } else { lap_before } {
                    let counts = Counts::unpack(word);
                    sum.ok += counts.ok;
                    sum.failed += counts.failed;
                    sum.slow += counts.slow;
                }
            }
        }
        sum
    }
}

impl Counts {
    /// One call.
    #[inline]
    pub(super) const fn of(failed: bool, slow: bool) -> Self {
        Self { ok: !failed as u64, failed: failed as u64, slow: slow as u64 }
    }

    pub(super) const fn total(&self) -> u64 {
        self.ok + self.failed
    }

    const fn unpack(word: u64) -> Self {
        Self {
            ok: (word >> (2 * COUNT_BITS)) & COUNT_MAX,
            failed: (word >> COUNT_BITS) & COUNT_MAX,
            slow: word & COUNT_MAX,
        }
    }

    /// The sum, halved as often as it takes to fit (invariant 3).
    const fn plus(self, other: Self) -> Self {
        let (ok, failed, slow) = (self.ok + other.ok, self.failed + other.failed, self.slow + other.slow);
        let half = (ok > COUNT_MAX || failed > COUNT_MAX || slow > COUNT_MAX) as u64;
        Self { ok: ok >> half, failed: failed >> half, slow: slow >> half }
    }
}

const fn pack(tag: u64, counts: Counts) -> u64 {
    (tag << (3 * COUNT_BITS)) | (counts.ok << (2 * COUNT_BITS)) | (counts.failed << COUNT_BITS) | counts.slow
}

/// The slot of a tick, and the tag that it has there.
#[expect(clippy::cast_possible_truncation, reason = "less than SLOTS")]
const fn place(tick: u64, generation: u32) -> (usize, u64) {
    let lap = (tick >> SLOT_BITS) & ((1 << LAP_BITS) - 1);
    (tick as usize % SLOTS, ((generation as u64 & 0xff) << LAP_BITS) | lap)
}

/// Whether `tag` is of an earlier generation than `other`, as far as eight bits tell.
#[expect(clippy::cast_possible_truncation, reason = "eight bits are what a tag has of it")]
const fn is_older_generation(tag: u64, other: u64) -> bool {
    let behind = ((other >> LAP_BITS) as u8).wrapping_sub((tag >> LAP_BITS) as u8);
    behind != 0 && behind < 128
}

/// The length of a slot, kept as what divides by it in one multiplication.
///
/// That quotient is rounded up by less than a quarter of a slot for any reading of a clock, and not at all for small
/// ones. It does not matter where slots begin, only that all agree on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// 2^64 ÷ the length in nanoseconds, rounded up.
    reciprocal: u64,
}

impl Slot {
    /// A sixteenth of that window, at least 2 ns.
    pub(super) const fn of(window: Duration) -> Self {
        let length = nanos(window) / SLOTS as u64;
        let length = if length < 2 { 2 } else { length };
        Self { reciprocal: u64::MAX / length + 1 }
    }

    #[inline]
    const fn tick(self, now: u64) -> u64 {
        ((now as u128 * self.reciprocal as u128) >> 64) as u64
    }
}

/// This thread's shard.
#[inline]
fn own_shard() -> usize {
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    #[cold]
    fn assign() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    }
    // A thread whose locals are gone is on its way out: it counts where all such do.
    SHARD
        .try_with(|mine| {
            if mine.get() >= SHARDS {
                mine.set(assign());
            }
            mine.get()
        })
        .unwrap_or(0)
}
