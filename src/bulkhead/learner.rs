use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::law::Law;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// The knowledge of a bulkhead: its learned limit, and the attempts of the current round.
///
/// An attempt adds to one word. Only the last attempt of a round and a refusal take the lock.
pub(super) struct Learner {
    pub(super) limit: AtomicU64,
    /// Attempts that began earlier belong to no round.
    since: AtomicU64,
    /// The attempts of the round in the highest bits, and below them the sum of their latencies.
    pub(super) samples: AtomicU64,
    /// The number of attempts that end the round.
    pub(super) wanted: AtomicU64,
    /// The attempts that a limit of their call cut, with the sum of their latencies.
    pub(super) cut: AtomicU64,
    /// The mean latency of the answers of the latest round with one, in nanoseconds. 0 before.
    usual: AtomicU64,
    /// The attempts that found the limit reached.
    pub(super) pressed: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) law: Law,
    /// The start of the round.
    pub(super) began: u64,
}

/// The bits of a sum of latencies.
pub(super) const SUM_BITS: u32 = 50;
const SUM: u64 = (1 << SUM_BITS) - 1;
/// Latencies are summed in units of 256 ns.
const UNIT_BITS: u32 = 8;
/// The longest latency in units, nearly five hours: the sum of a round then fits.
const LONGEST: u64 = (1 << (SUM_BITS - 14)) - 1;

/// Returns one attempt with its latency.
fn sample(latency: u64) -> u64 {
    1 << SUM_BITS | (latency >> UNIT_BITS).clamp(1, LONGEST)
}

impl Learner {
    pub(super) const fn new(most: u32) -> Self {
        let law = Law::new(most);
        Self {
            limit: AtomicU64::new(law.limit() as u64),
            since: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            usual: AtomicU64::new(0),
            wanted: AtomicU64::new(law.limit() as u64),
            pressed: AtomicU64::new(0),
            state: Mutex::new(State { law, began: 0 }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so a poisoned law is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a limit has 32 bits")]
    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed) as u32
    }

    /// Counts an attempt that found the limit reached.
    pub(super) fn note_pressed(&self) {
        self.pressed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an attempt. Returns true if it ends the round.
    #[inline]
    pub(super) fn count(&self, began: u64, now: u64) -> bool {
        if began < self.since.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.samples.fetch_add(sample(now.saturating_sub(began)), Ordering::Relaxed);
        (before >> SUM_BITS) + 1 >= self.wanted.load(Ordering::Relaxed)
    }

    /// Counts an attempt that its call cut, with twice its age. Returns true if it ends the round.
    pub(super) fn count_cut(&self, began: u64, now: u64) -> bool {
        if began < self.since.load(Ordering::Relaxed) {
            return false;
        }
        let latency = now.saturating_sub(began).saturating_mul(2);
        let cut = self.cut.fetch_add(sample(latency), Ordering::Relaxed);
        let answered = self.samples.load(Ordering::Relaxed);
        (cut >> SUM_BITS) + (answered >> SUM_BITS) + 1 >= self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the mean latency of the answers of this round, or of the latest one with answers. 0 if
    /// there was none.
    pub(super) fn usual(&self) -> u64 {
        match Self::mean(self.samples.load(Ordering::Relaxed)) {
            0 => self.usual.load(Ordering::Relaxed),
            mean => mean,
        }
    }

    /// Returns the mean latency of the round so far in nanoseconds, or 0 without one.
    pub(super) fn mean(samples: u64) -> u64 {
        ((samples & SUM) << UNIT_BITS).checked_div(samples >> SUM_BITS).unwrap_or(0)
    }

    /// Begins a round at `now`.
    pub(super) fn begin(&self, state: &mut State, now: u64) {
        let since = if state.law.is_measuring() { now } else { 0 };
        state.began = now;
        self.usual.store(self.usual(), Ordering::Relaxed);
        self.since.store(since, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
        self.cut.store(0, Ordering::Relaxed);
        self.pressed.store(0, Ordering::Relaxed);
        self.wanted.store(u64::from(state.law.samples()), Ordering::Relaxed);
    }
}
