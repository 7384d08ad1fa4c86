use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::sync::AtomicU64;
use crate::time::nanos;

/// The number of slots in a window: it slides by a sixteenth of its length.
const SLOTS: usize = 1 << SLOT_BITS;
#[cfg(not(loom))]
const SLOT_BITS: u32 = 4;

/// Threads count in shards of their own, so that successes on two cores do not fight for one cache line.
#[cfg(not(loom))]
const SHARDS: usize = 4;
/// One shard of one slot, or loom could not walk all that happens.
#[cfg(loom)]
const SHARDS: usize = 1;
#[cfg(loom)]
const SLOT_BITS: u32 = 0;

/// Counts of the calls that ended within the last window of time: constant time, constant memory, no lock.
///
/// Each slot has a word for each kind of count, which is read and replaced whole:
/// `begun: 1 | generation: 7 | lap: 24 | count: 32`.
///
/// Invariants:
/// 1. A word counts for the generation and the lap (the how-many-th time around the ring) that its tag names, and for
///    no other. Tags are equal or not; they have no order, as a number that wraps has none.
/// 2. Only a call of the live generation counts or gives a word a tag. It compares generations after it has read the word,
///    so it replaces nothing that a later generation has written.
/// 3. The window is [emptied](Self::empty) at every 64th transition of the breaker, so the seven bits of a tag name one
///    generation among all that can have counts.
/// 4. A success that begins a slot gives the failures of the slot the same tag. So where the tags differ a failure has begun
///    the slot for another time since.
/// 5. A shard whose bit in `used` is not set counted nothing: whoever gives a word a tag sets it first, and whoever counts
///    under that tag after sees it set.
///
/// # Limits
///
/// A count stands still at `u32::MAX`: no window has that many calls of one kind in one slot of one shard.
/// A lap has 24 bits: counts that nothing touched for exactly 16,777,216 windows (five years, for windows of 10 s) would
/// count as fresh, once. A thread that stands still for a whole window between its reading of the clock and its count
/// begins a slot of a later lap anew: the counts of one slot and shard are lost.
pub(super) struct Window {
    shards: [Shard; SHARDS],
    /// A bit for each shard that anybody counted in: there may be fewer threads than shards.
    used: AtomicU64,
}

/// The words of one kind side by side: a call that succeeds touches few cache lines.
#[repr(align(128))] // a cache line and the one that is fetched with it
struct Shard {
    ok: Describe,
    failed: Describe,
    slow: Describe,
}

type Describe = [AtomicU64; SLOTS];

/// Calls that ended within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ok: u64,
    pub(super) failed: u64,
    /// Of both, those that took longer than the limit for slow calls.
    pub(super) slow: u64,
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// In nanoseconds on the breaker's timer.
    pub(super) at: u64,
    /// The generation that admitted it.
    pub(super) generation: u32,
    pub(super) failed: bool,
    pub(super) slow: bool,
}

const COUNT_BITS: u32 = 32;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const LAP_BITS: u32 = 24;
const GENERATION_BITS: u32 = 7;
/// A word that nobody touched is zero, and has no tag.
const BEGUN: u64 = 1 << (GENERATION_BITS + LAP_BITS);

/// The most transitions between two times at which the window is emptied (invariant 3): half of the generations that a tag
/// can name. A late call of one half may still write after that half was emptied. The next emptying removes it, before a
/// generation of the same tag begins.
const TRANSITIONS: u32 = 1 << (GENERATION_BITS - 1);

impl Window {
    pub(super) const fn new() -> Self {
        Self { shards: [const { Shard::new() }; SHARDS], used: AtomicU64::new(0) }
    }

    /// Counts a call that ended just now. `live` reads the breaker's generation.
    #[inline]
    pub(super) fn count(&self, slot: Slot, call: Ended, live: impl Fn() -> u32) {
        let (index, tag) = place(slot.tick(call.at), call.generation);
        let is_live = || live() == call.generation;
        let number = own_shard() % SHARDS;
        let shard = &self.shards[number];
        let begin = || {
            self.use_shard(number); // invariant 5
            if !call.failed {
                retag(&shard.failed[index], tag, is_live); // invariant 4
            }
            true
        };
        let kind = if call.failed { &shard.failed } else { &shard.ok };
        if add_one(&kind[index], tag, is_live, begin) && call.slow {
            add_one(&shard.slow[index], tag, is_live, || true);
        }
    }

    /// Counts a call that succeeded a while ago, where others counted in that slot already; else false, as the slot may
    /// have been begun for a later time meanwhile.
    #[inline]
    pub(super) fn join(
        &self,
        slot: Slot,
        at: u64,
        generation: u32,
        live: impl Fn() -> u32,
    ) -> bool {
        let (index, tag) = place(slot.tick(at), generation);
        let shard = &self.shards[own_shard() % SHARDS];
        // Else a failure has begun the slot for a later time (invariant 4).
        let begun_anew = tag_of(shard.failed[index].load(Ordering::Relaxed)) != tag;
        !begun_anew && add_one(&shard.ok[index], tag, || live() == generation, || false)
    }

    #[cold]
    #[inline(never)]
    fn use_shard(&self, shard: usize) {
        if self.used.load(Ordering::Relaxed) & (1 << shard) == 0 {
            self.used.fetch_or(1 << shard, Ordering::Relaxed);
        }
    }

    /// The calls that this generation counted within the window that ends at `now`.
    pub(super) fn counts(&self, now: u64, slot: Slot, generation: u32) -> Counts {
        #[cfg(loom)] // whose atomics must all have been used before they are shared
        self.words().for_each(|word| _ = word.load(Ordering::Relaxed));
        let last = slot.tick(now);
        let (newest, lap) = place(last, generation);
        // The slots after the newest are of the lap before.
        let (_, lap_before) = place(last.wrapping_sub(SLOTS as u64), generation);
        let sum = |words: &Describe| -> u64 {
            let of_lap = |(index, word): (usize, &AtomicU64)| {
                let word = word.load(Ordering::Acquire);
                if tag_of(word) == if index <= newest { lap } else { lap_before } {
                    word & COUNT_MAX
                } else {
                    0
                }
            };
            words.iter().enumerate().map(of_lap).sum()
        };
        let used = self.used.load(Ordering::Relaxed);
        let mut counts = Counts::default();
        for (index, shard) in self.shards.iter().enumerate() {
            if used & (1 << index) != 0 {
                // Slow ones first: a call is counted as slow after it is counted.
                counts.slow += sum(&shard.slow);
                counts.failed += sum(&shard.failed);
                counts.ok += sum(&shard.ok);
            }
        }
        counts
    }

    /// The breaker goes from one generation to a later one, which it publishes after this.
    #[inline]
    pub(super) fn transition(&self, from: u32, to: u32) {
        if from / TRANSITIONS != to / TRANSITIONS {
            self.empty();
        }
    }

    #[cold]
    fn empty(&self) {
        for word in self.words().filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.swap(0, Ordering::AcqRel); // so that it has its place in one order with the steps that count
        }
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.shards.iter().flat_map(Shard::kinds).flatten()
    }
}

impl Shard {
    const fn new() -> Self {
        Self {
            ok: [const { AtomicU64::new(0) }; SLOTS],
            failed: [const { AtomicU64::new(0) }; SLOTS],
            slow: [const { AtomicU64::new(0) }; SLOTS],
        }
    }

    const fn kinds(&self) -> [&Describe; 3] {
        [&self.ok, &self.failed, &self.slow]
    }
}

impl Counts {
    pub(super) const fn total(&self) -> u64 {
        self.ok + self.failed
    }
}

/// Counts one more under that tag, unless the call is not of the live generation. `begin` says whether a word with another
/// tag may be given this one. False where nothing was counted.
#[inline]
fn add_one(
    word: &AtomicU64,
    tag: u64,
    is_live: impl Fn() -> bool,
    begin: impl Fn() -> bool,
) -> bool {
    // Acquire: who reads what a later generation wrote, then finds that generation live (invariant 2).
    let mut seen = word.load(Ordering::Acquire);
    loop {
        if !is_live() {
            return false;
        }
        let next = match tag_of(seen) == tag {
            true if seen & COUNT_MAX == COUNT_MAX => return true,
            true => seen + 1,
            false if begin() => (tag << COUNT_BITS) | 1,
            false => return false,
        };
        match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}

/// Gives a word that tag, with nothing counted, unless the call is not of the live generation.
#[cold]
fn retag(word: &AtomicU64, tag: u64, is_live: impl Fn() -> bool) {
    let seen = word.load(Ordering::Acquire);
    if tag_of(seen) != tag && is_live() {
        // It fails where a failure has just counted: under this tag, or a later one.
        let _ = word.compare_exchange(seen, tag << COUNT_BITS, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[inline]
const fn tag_of(word: u64) -> u64 {
    word >> COUNT_BITS
}

/// The slot of a tick, and the tag that it has there.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than SLOTS")]
const fn place(tick: u64, generation: u32) -> (usize, u64) {
    let lap = (tick >> SLOT_BITS) & ((1 << LAP_BITS) - 1);
    let generation = generation as u64 & ((1 << GENERATION_BITS) - 1);
    (tick as usize % SLOTS, BEGUN | (generation << LAP_BITS) | lap)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_count_stays_full() {
        let full = (BEGUN << COUNT_BITS) | COUNT_MAX;
        let word = AtomicU64::new(full - 1);
        for _ in 0..3 {
            assert!(add_one(&word, BEGUN, || true, || false));
            assert_eq!(word.load(Ordering::Relaxed), full);
        }
        assert!(!add_one(&word, BEGUN + 1, || true, || false), "of another time");
    }
}
