use std::sync::atomic::Ordering;
use std::task::Waker;

use super::Bulkhead;
use super::law::Law;
use super::learner::{Learner, SUM_BITS, State};
use super::round::Round;

/// The lessons of a bulkhead with a learned limit, one from each attempt.
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

    /// Learns from an attempt that a limit of its call cut. An age below the usual latency shows nothing:
    /// the limit was that of a call which was nearly over.
    pub(crate) fn learn_cut(&self, began: u64, now: u64, draw: impl FnOnce() -> bool) {
        let Some(learner) = &self.learner else { return };
        let usual = learner.usual();
        if usual > 0 && now.saturating_sub(began) > usual && learner.count_cut(began, now) {
            self.end_round(learner, now, draw());
        }
    }

    /// Learns from an attempt that failed by itself. A refused connection fails in no time, so only an
    /// age above the mean of the round shows something.
    pub(crate) fn learn_failed(&self, began: u64, now: u64, draw: impl FnOnce() -> bool) {
        let Some(learner) = &self.learner else { return };
        let mean = Learner::mean(learner.samples.load(Ordering::Relaxed));
        if mean > 0 && now.saturating_sub(began) > mean {
            self.learn(began, now, draw);
        }
    }

    /// Learns from a refusal of an attempt that began at `began`. Returns the limits before and after if
    /// it lowers the limit.
    #[cold]
    pub(crate) fn learn_refused(&self, began: u64, now: u64) -> Option<(u32, u32)> {
        let mut lowered = None;
        self.change(self.learner.as_ref()?, now, |state| {
            let before = state.law.limit();
            let is_cut = state.law.cut(began, now);
            lowered = Some((before, state.law.limit())).filter(|(before, after)| after < before);
            is_cut
        });
        lowered
    }

    #[cold]
    fn end_round(&self, learner: &Learner, now: u64, starts_high: bool) {
        self.change(learner, now, |state| {
            let cut = learner.cut.load(Ordering::Relaxed);
            let samples = learner.samples.load(Ordering::Relaxed).saturating_add(cut);
            let count = samples >> SUM_BITS;
            if count < learner.wanted.load(Ordering::Relaxed) {
                return false; // another attempt has ended the round
            }
            let round = Round {
                samples: u32::try_from(count).unwrap_or(u32::MAX),
                cut: u32::try_from(cut >> SUM_BITS).unwrap_or(u32::MAX),
                mean: Learner::mean(samples).max(1),
                pressed: learner.pressed.load(Ordering::Relaxed),
                lasted: now.saturating_sub(state.began),
            };
            state.law.end(round, starts_high);
            true
        });
    }

    /// Changes the law under its lock. Unless `change` returns false, the next round begins under the
    /// limit that the law has then.
    fn change(&self, learner: &Learner, now: u64, change: impl FnOnce(&mut State) -> bool) {
        let mut state = learner.lock();
        if !change(&mut state) {
            return;
        }
        let freed = self.apply(learner, &state.law);
        learner.begin(&mut state, now);
        drop(state);
        freed.into_iter().for_each(Waker::wake);
    }

    /// Applies the limit of the law. Returns the wakers of waiters that got a permit.
    fn apply(&self, learner: &Learner, law: &Law) -> Vec<Waker> {
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
