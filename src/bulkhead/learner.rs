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

impl Learner {
    pub(super) const fn new(most: u32) -> Self {
        let law = Law::new(most);
        Self {
            limit: AtomicU64::new(law.limit() as u64),
            since: AtomicU64::new(0),
            samples: AtomicU64::new(0),
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
        let latency = (now.saturating_sub(began) >> UNIT_BITS).clamp(1, LONGEST);
        let before = self.samples.fetch_add(1 << SUM_BITS | latency, Ordering::Relaxed);
        (before >> SUM_BITS) + 1 >= self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the mean latency of the round so far in nanoseconds, or 0 without one.
    pub(super) fn mean(samples: u64) -> u64 {
        ((samples & SUM) << UNIT_BITS).checked_div(samples >> SUM_BITS).unwrap_or(0)
    }

    /// Begins a round at `now`.
    pub(super) fn begin(&self, state: &mut State, now: u64) {
        let since = if state.law.is_measuring() { now } else { 0 };
        state.began = now;
        self.since.store(since, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
        self.pressed.store(0, Ordering::Relaxed);
        self.wanted.store(u64::from(state.law.samples()), Ordering::Relaxed);
    }
}
