use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::{Clock, LEAST, MOST};
use super::comparison::Comparison;
use super::finding::Evidence;
use super::law::{Law, Terms};
use super::learning::Learning;
use super::limits::Limit;
use super::rate::Rate;
use super::told::Told;
use crate::sync::{Mutex, MutexGuard};

/// The pace of a bucket: the share of its limit that it uses, and what it has learned of the limit.
///
/// At rest the bucket refills by the real clock, and a call only loads one flag. It takes the lock
/// from the first refusal on, until all of the limit is in use again.
pub(super) struct Pace {
    /// A hint for calls, so it is not a subject of a model and always the standard library's.
    is_on: AtomicBool,
    /// The same, set once an answer has reported what is left.
    is_reported: AtomicBool,
    /// The same, set while the last report is [bare](Limit::is_bare).
    is_bare: AtomicBool,
    /// True if this process has warned alone of a lower limit. Read for a line only, so it is no subject of a model and
    /// always the standard library's.
    #[cfg(feature = "fleet")]
    has_warned: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    clock: Clock,
    law: Law,
    comparison: Comparison,
    told: Told,
}

/// A moment as a bucket reads it, in nanoseconds of its own clock.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: u64,
    /// The part of the burst that may not be used.
    pub(super) gap: u64,
}

/// A share of the configured limit that was found, and its evidence.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) share: f64,
    /// The limit as the provider has reported it.
    pub(super) reported: Option<Rate>,
    /// False for a report without a window.
    pub(super) has_window: bool,
    pub(super) by: Evidence,
    pub(super) is_used: bool,
}

impl Found {
    /// A share that is in use, and that no answer has reported.
    pub(super) const fn new(share: f64, by: Evidence) -> Self {
        Self { share, reported: None, has_window: true, by, is_used: true }
    }
}

impl State {
    const fn new() -> Self {
        Self {
            clock: Clock::new(),
            law: Law::new(),
            comparison: Comparison::new(),
            told: Told::WHOLE,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
            is_bare: AtomicBool::new(false),
            #[cfg(feature = "fleet")]
            has_warned: AtomicBool::new(false),
            state: Mutex::new(State::new()),
        }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Notes that an answer has reported what is left.
    pub(super) fn note_reported(&self, limit: &Limit) {
        self.is_reported.store(true, Ordering::Relaxed);
        self.is_bare.store(limit.is_bare(), Ordering::Relaxed);
    }

    /// Returns true if the last report says nothing of the refill.
    pub(super) fn is_bare(&self) -> bool {
        self.is_bare.load(Ordering::Relaxed)
    }

    /// Returns true if an answer has reported what is left. A provider reports the same dimensions
    /// with each of its answers.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing foreign runs under the lock, so a poisoned state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the moment at `now` while the pace is on. Once all of the limit is in use again, the
    /// clock of the bucket is the real one: `shift` adds the time by which it was late.
    #[cold]
    pub(super) fn moment(&self, rate: &Rate, now: u64, shift: impl FnOnce(u64)) -> Moment {
        let mut state = self.lock();
        if !self.is_on() {
            return Moment { now, gap: 0 };
        }
        let (terms, own) = (Terms::of(rate), state.clock.at(now));
        if own <= now && state.law.is_at_rest(&terms, now) {
            shift(now - own);
            state.clock = Clock::new();
            self.is_on.store(false, Ordering::Release);
            return Moment { now, gap: 0 };
        }
        let unused = 1.0 - state.law.burst(&terms, now).clamp(0.0, 1.0);
        Moment { now: own, gap: part(rate.time_of(u64::from(rate.burst())), unused) }
    }

    /// Returns the moment at a later time, as far as it is known now. Changes nothing.
    #[cold]
    pub(super) fn forecast(&self, rate: &Rate, later: u64) -> Moment {
        if !self.is_on() {
            return Moment { now: later, gap: 0 };
        }
        let state = self.lock();
        let unused = 1.0 - state.law.burst(&Terms::of(rate), later).clamp(0.0, 1.0);
        let gap = part(rate.time_of(u64::from(rate.burst())), unused);
        Moment { now: state.clock.at(later), gap }
    }

    /// Returns the real time of a time of the bucket's clock.
    #[inline]
    pub(super) fn when(&self, own: u64) -> u64 {
        if self.is_on() { self.lock().clock.when(own) } else { own }
    }

    /// Returns the learned share of the limit.
    pub(super) fn share(&self) -> f64 {
        if self.is_on() { self.lock().law.share() } else { 1.0 }
    }

    /// Changes what is learned at `now`, and then the clock. Turns the pace on if need be.
    fn change<R>(&self, now: u64, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        if !self.is_on() {
            state.clock = Clock::starting_at(now);
        }
        let result = change(&mut state);
        let share = state.law.share();
        state.clock.set(share, now);
        self.is_on.store(true, Ordering::Release);
        result
    }

    /// Learns from a refusal. Returns the time until which no unit refills, and what is worth a line.
    pub(super) fn refuse(
        &self,
        rate: &Rate,
        cost: u64,
        resume: u64,
        now: u64,
    ) -> (u64, Option<Found>) {
        self.change(now, |state| {
            let until = state.law.refuse(&Terms::of(rate), cost, resume, now);
            let share = state.law.share();
            let is_news = state.told.falls_to(share / state.law.top());
            (until, is_news.then_some(Found::new(share, Evidence::Refused)))
        })
    }

    /// Learns that a call waits. Returns what is worth a line.
    #[cold]
    pub(super) fn wait(&self, rate: &Rate, has_waited: bool, now: u64) -> Option<Found> {
        let mut state = self.lock();
        if !self.is_on() {
            return None;
        }
        state.law.wait(&Terms::of(rate), has_waited, now);
        let share = state.law.share();
        state.clock.set(share, now);
        let top = state.law.top();
        let is_back = state.told.ends_at(share / top);
        is_back.then_some(Found::new(share, Evidence::Accepted))
    }

    /// Compares a reported limit with the configured one, and takes it if `learning` says so.
    pub(super) fn report(
        &self,
        rate: &Rate,
        limit: &Limit,
        learning: Learning,
        now: u64,
    ) -> Option<Found> {
        limit.limit?;
        let turn = Terms::of(rate).turn();
        let (report, top) = {
            let mut state = self.lock();
            (state.comparison.compare(rate, limit, turn, now)?, state.law.top())
        };
        let most = match learning {
            Learning::Off => top,
            Learning::Lower => report.share.min(1.0),
            Learning::Both => report.share,
        };
        let is_taken = report.is_sure || most >= top;
        let most = if is_taken { most.clamp(LEAST, MOST) } else { top.min(1.0) };
        if most.to_bits() != top.to_bits() {
            self.change(now, |state| state.law.report(most));
        }
        let is_used = (most - report.share.min(MOST)).abs() < 0.01;
        report.is_news.then_some(Found {
            share: report.share,
            reported: report.reported,
            has_window: report.is_sure,
            by: Evidence::Reported,
            is_used,
        })
    }
}

/// The exchange with the other processes that share the limit.
#[cfg(feature = "fleet")]
impl Pace {
    /// Takes the change of the share that calls have taught since the last call. Returns the share
    /// that the provider reports too.
    pub(super) fn take_learned(&self) -> (f64, Option<f64>) {
        if !self.is_on() {
            return (0.0, None);
        }
        let mut state = self.lock();
        let top = state.law.top();
        (state.law.take_moved(), (top < 1.0).then_some(top))
    }

    /// Notes a line of this process alone: that the limit is lower, or the end of that.
    pub(super) fn note_alone(&self, is_lower: bool) {
        self.has_warned.store(is_lower, Ordering::Relaxed);
    }

    /// Takes the share that all processes use at `now`, and the most that they allow. If it ends what was told, that is
    /// no news of the provider: the store tells it. Returns whether this process has warned alone since the last time.
    pub(super) fn join(&self, rate: &Rate, share: f64, most: f64, now: u64) -> bool {
        if self.is_on() || share < 1.0 || most < 1.0 {
            self.change(now, |state| {
                state.law.join(&Terms::of(rate), share, most);
                let _ = state.told.ends_at(state.law.share() / state.law.top());
            });
        }
        self.has_warned.swap(false, Ordering::Relaxed)
    }
}

/// Returns a part of a time. The share is within 0 and 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn part(time: u64, share: f64) -> u64 {
    (time as f64 * share) as u64
}
