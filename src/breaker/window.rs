use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::sync::AtomicU64;
use crate::time::nanos;

/// The number of slots in a window. The window slides by one slot, a sixteenth of its length.
const SLOTS: usize = 1 << SLOT_BITS;
#[cfg(not(loom))]
const SLOT_BITS: u32 = 4;

/// The number of shards. Threads count in different shards, so that successes on two cores do not
/// contend for one cache line.
#[cfg(not(loom))]
const SHARDS: usize = 4;
/// One shard with one slot: loom could not explore more interleavings.
#[cfg(loom)]
const SHARDS: usize = 1;
#[cfg(loom)]
const SLOT_BITS: u32 = 0;

/// The counts of calls that ended within the last window: constant time and memory, lock-free.
///
/// A slot has one word for each kind of count, and a word is read and replaced as a whole. Its bits
/// are `begun: 1 | generation: 7 | lap: 24 | count: 32`.
///
/// Invariants:
/// 1. A word counts only for the generation and the lap in its tag. The lap is the number of past
///    rounds of the ring. Tags are compared for equality only: numbers that wrap have no order.
/// 2. Only a call of the live generation counts or gives a word a tag. A call compares generations
///    after it has read the word, so it never replaces a word of a later generation.
/// 3. Every 64th transition [empties](Self::empty) the window. Among the generations that can have
///    counts, the seven bits of a tag therefore name exactly one.
/// 4. A success that begins a slot gives the same tag to the slot's failures. If the two tags
///    differ later, a failure has begun the slot for another time since.
/// 5. A shard without its bit in `used` has counted nothing. A thread sets the bit before it gives
///    a word a tag, so a later thread that counts under this tag sees the bit.
///
/// # Limits
///
/// A count stops at `u32::MAX`: no window has as many calls of one kind in one slot of one shard. A
/// lap has 24 bits, so counts untouched for exactly 16,777,216 windows would count as fresh, once.
/// That is five years with windows of 10 s. A thread that stalls for a whole window between reading
/// the clock and counting overwrites the counts of a later lap in one slot and shard.
pub(super) struct Window {
    shards: [Shard; SHARDS],
    /// One bit for each shard in use: there may be fewer threads than shards.
    used: AtomicU64,
}

/// The words of one kind are adjacent, so that a success touches few cache lines.
#[repr(align(128))] // a cache line and its prefetched neighbour
struct Shard {
    ok: Words,
    failed: Words,
    slow: Words,
}

type Words = [AtomicU64; SLOTS];

/// The counts of the calls that ended within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ok: u64,
    pub(super) failed: u64,
    /// The calls among both kinds that took longer than the slow-call limit.
    pub(super) slow: u64,
}

/// A call that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// In nanoseconds on the upstream's timer.
    pub(super) at: u64,
    /// The generation that admitted the call.
    pub(super) generation: u32,
    pub(super) failed: bool,
    pub(super) slow: bool,
}

const COUNT_BITS: u32 = 32;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const LAP_BITS: u32 = 24;
const GENERATION_BITS: u32 = 7;
/// Set in the tag of a used word. An unused word is 0 and has no tag.
const BEGUN: u64 = 1 << (GENERATION_BITS + LAP_BITS);

/// The most transitions between two emptyings (invariant 3): half of the generations of a tag.
/// After the emptying, a late call may still write a word of the old half. The next emptying
/// removes it before a generation with the same tag begins.
const TRANSITIONS: u32 = 1 << (GENERATION_BITS - 1);

impl Window {
    pub(super) const fn new() -> Self {
        Self { shards: [const { Shard::new() }; SHARDS], used: AtomicU64::new(0) }
    }

    /// Counts a call that has just ended. `live` returns the live generation.
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

    /// Counts a success by an old reading, if its slot already has counts of that time. Returns
    /// false otherwise: a later time may have begun the slot meanwhile.
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
        // True if a failure has begun the slot for another time (invariant 4).
        let is_restarted = tag_of(shard.failed[index].load(Ordering::Relaxed)) != tag;
        !is_restarted && add_one(&shard.ok[index], tag, || live() == generation, || false)
    }

    #[cold]
    #[inline(never)]
    fn use_shard(&self, shard: usize) {
        if self.used.load(Ordering::Relaxed) & (1 << shard) == 0 {
            self.used.fetch_or(1 << shard, Ordering::Relaxed);
        }
    }

    /// Returns the counts of `generation` within the window that ends at `now`.
    pub(super) fn counts(&self, now: u64, slot: Slot, generation: u32) -> Counts {
        #[cfg(loom)] // loom's atomics must be used once before they are shared
        self.words().for_each(|word| _ = word.load(Ordering::Relaxed));
        let last = slot.tick(now);
        let (newest, lap) = place(last, generation);
        // Slots after the newest belong to the lap before.
        let (_, lap_before) = place(last.wrapping_sub(SLOTS as u64), generation);
        let sum = |words: &Words| -> u64 {
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
                // Slow calls first: a call is counted as slow only after its main count.
                counts.slow += sum(&shard.slow);
                counts.failed += sum(&shard.failed);
                counts.ok += sum(&shard.ok);
            }
        }
        counts
    }

    /// Prepares the window for a later generation, before the breaker publishes it.
    #[inline]
    pub(super) fn transition(&self, from: u32, to: u32) {
        if from / TRANSITIONS != to / TRANSITIONS {
            self.empty();
        }
    }

    #[cold]
    fn empty(&self) {
        for word in self.words().filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.swap(0, Ordering::AcqRel); // a read-modify-write, in order with `add_one`
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

    const fn kinds(&self) -> [&Words; 3] {
        [&self.ok, &self.failed, &self.slow]
    }
}

impl Counts {
    pub(super) const fn total(&self) -> u64 {
        self.ok + self.failed
    }
}

/// Adds one to `word` under `tag`, if the call's generation is live. A word with another tag gets
/// `tag` if `begin` returns true. Returns false if nothing was counted.
#[inline]
fn add_one(
    word: &AtomicU64,
    tag: u64,
    is_live: impl Fn() -> bool,
    begin: impl Fn() -> bool,
) -> bool {
    // Acquire: a thread that reads a word of a later generation then also finds that generation
    // live (invariant 2).
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

/// Gives a word `tag` and a count of 0, if the call's generation is live.
#[cold]
fn retag(word: &AtomicU64, tag: u64, is_live: impl Fn() -> bool) {
    let seen = word.load(Ordering::Acquire);
    if tag_of(seen) != tag && is_live() {
        // Fails if a failure was counted meanwhile, under this tag or a later one.
        let _ = word.compare_exchange(seen, tag << COUNT_BITS, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[inline]
const fn tag_of(word: u64) -> u64 {
    word >> COUNT_BITS
}

/// Returns the slot of a tick and its tag.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than SLOTS")]
const fn place(tick: u64, generation: u32) -> (usize, u64) {
    let lap = (tick >> SLOT_BITS) & ((1 << LAP_BITS) - 1);
    let generation = generation as u64 & ((1 << GENERATION_BITS) - 1);
    (tick as usize % SLOTS, BEGUN | (generation << LAP_BITS) | lap)
}

/// The length of a slot, stored as a reciprocal: a division becomes one multiplication.
///
/// For clock readings below 2^62 ns (146 years), the quotient is too large by less than a quarter
/// of a slot. For small readings it is exact. The start of a slot does not matter, because all
/// threads use the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// 2^64 ÷ the length in nanoseconds, rounded up.
    reciprocal: u64,
}

impl Slot {
    /// Returns the slot of a window: a sixteenth of its length, at least 2 ns.
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

/// Returns the shard of this thread.
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
    // An exiting thread may have no locals any more. It uses shard 0.
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The multiplication is a division while the product fits, and then at most one slot off.
        #[test]
        fn a_tick_is_the_number_of_past_slots(length in 2..=1_u64 << 40, now in 0..1_u64 << 62) {
            let slot = Slot::of(Duration::from_nanos(length * SLOTS as u64));
            let small = now % (u64::MAX / length);
            for small in [small, small / length * length] {
                prop_assert_eq!(slot.tick(small), small / length);
            }
            prop_assert!((0..=1).contains(&(slot.tick(now) - now / length)));
        }

        /// The tag fits beside a count of 32 bits, and names the generation and the lap.
        #[test]
        fn a_place_is_a_slot_and_a_tag_of_32_bits(tick: u64, generation: u32) {
            let (index, tag) = place(tick, generation);
            prop_assert_eq!(index as u64, tick % SLOTS as u64);
            prop_assert_eq!(tag >> 31, 1);
            prop_assert_eq!(tag & 0xff_ffff, tick / SLOTS as u64 % (1 << 24));
            prop_assert_eq!(tag >> 24 & 0x7f, u64::from(generation % 128));
        }
    }

    #[test]
    fn a_full_count_stays_full() {
        let full = (BEGUN << COUNT_BITS) | COUNT_MAX;
        let word = AtomicU64::new(full - 1);
        for _ in 0..3 {
            assert!(add_one(&word, BEGUN, || true, || false));
            assert_eq!(word.load(Ordering::Relaxed), full);
        }
        assert!(!add_one(&word, BEGUN + 1, || true, || false), "a word with another tag");
    }
}
