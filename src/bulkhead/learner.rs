use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Bulkhead;
use super::law::{Law, Round};
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// What a bulkhead with a learned limit knows: the limit, and the attempts of the current round.
///
/// An attempt adds to one word. Only the last attempt of a round and a refusal take the lock.
pub(super) struct Learner {
    limit: AtomicU64,
    /// Attempts that began earlier belong to no round.
    since: AtomicU64,
    /// The attempts of the round in the highest bits, and below them the sum of their latencies.
    samples: AtomicU64,
    /// The number of attempts that end the round.
    wanted: AtomicU64,
    /// The attempts that found the limit reached.
    pressed: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    law: Law,
    /// The start of the round.
    began: u64,
}

/// The bits of a sum of latencies.
const SUM_BITS: u32 = 50;
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

    fn lock(&self) -> MutexGuard<'_, State> {
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
    fn count(&self, began: u64, now: u64) -> bool {
        if began < self.since.load(Ordering::Relaxed) {
            return false;
        }
        let latency = (now.saturating_sub(began) >> UNIT_BITS).clamp(1, LONGEST);
        let before = self.samples.fetch_add(1 << SUM_BITS | latency, Ordering::Relaxed);
        (before >> SUM_BITS) + 1 >= self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the mean latency of the round so far in nanoseconds, or 0 without one.
    fn mean(samples: u64) -> u64 {
        ((samples & SUM) << UNIT_BITS).checked_div(samples >> SUM_BITS).unwrap_or(0)
    }

    /// Begins a round at `now`.
    fn begin(&self, state: &mut State, now: u64) {
        let since = if state.law.is_measuring() { now } else { 0 };
        state.began = now;
        self.since.store(since, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
        self.pressed.store(0, Ordering::Relaxed);
        self.wanted.store(u64::from(state.law.samples()), Ordering::Relaxed);
    }
}

impl Bulkhead {
    /// Returns whether the limit is learned.
    #[inline]
    pub(crate) const fn learns(&self) -> bool {
        self.learner.is_some()
    }

    /// Learns from an attempt that the upstream has answered. `draw` is a random bit.
    #[inline]
    pub(crate) fn learn(&self, began: u64, now: u64, draw: impl FnOnce() -> bool) {
        // An attempt that took no time did not reach the upstream.
        if let Some(learner) = self.learner.as_ref().filter(|_| now > began) {
            if learner.count(began, now) {
                self.end_round(learner, now, draw());
            }
        }
    }

    /// Learns from an attempt without an answer. Its age is less than its latency would have been, so
    /// only an age above the mean of the round shows something.
    pub(crate) fn learn_unanswered(&self, began: u64, now: u64, draw: impl FnOnce() -> bool) {
        let Some(learner) = &self.learner else { return };
        let mean = Learner::mean(learner.samples.load(Ordering::Relaxed));
        if mean > 0 && now.saturating_sub(began) > mean {
            self.learn(began, now, draw);
        }
    }

    /// Learns from a refusal of an attempt that began at `began`.
    #[cold]
    pub(crate) fn learn_refused(&self, began: u64, now: u64) {
        let Some(learner) = &self.learner else { return };
        let mut state = learner.lock();
        let freed = if state.law.cut(began, now) {
            let freed = self.apply(learner, &state.law);
            learner.begin(&mut state, now);
            freed
        } else {
            Vec::new()
        };
        drop(state);
        freed.into_iter().for_each(std::task::Waker::wake);
    }

    #[cold]
    fn end_round(&self, learner: &Learner, now: u64, starts_high: bool) {
        let mut state = learner.lock();
        let samples = learner.samples.load(Ordering::Relaxed);
        let count = samples >> SUM_BITS;
        if count < learner.wanted.load(Ordering::Relaxed) {
            return; // another attempt has ended the round
        }
        let round = Round {
            samples: u32::try_from(count).unwrap_or(u32::MAX),
            mean: Learner::mean(samples).max(1),
            pressed: learner.pressed.load(Ordering::Relaxed),
            lasted: now.saturating_sub(state.began),
        };
        state.law.end(round, starts_high);
        let freed = self.apply(learner, &state.law);
        learner.begin(&mut state, now);
        drop(state);
        freed.into_iter().for_each(std::task::Waker::wake);
    }

    /// Applies the limit of the law. Returns the wakers of waiters that got a permit.
    fn apply(&self, learner: &Learner, law: &Law) -> Vec<std::task::Waker> {
        let (from, to) = (learner.limit(), law.limit());
        learner.limit.store(u64::from(to), Ordering::Relaxed);
        if to < from {
            self.keep_back(from - to);
            Vec::new()
        } else {
            self.give_more(to - from)
        }
    }
}
