use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::demand::Standing;
use super::reserved::Amounts;
#[cfg(feature = "fleet")]
use super::{Dimension, Waiting};
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// The waiters of a quota. Only the first waiter takes, so small costs do not starve a large one.
///
/// # Order
///
/// Each eighth turn belongs to the oldest waiter if it has waited for the patience of the line, so
/// no waiter starves and old waiters take no more than this share. Otherwise the highest priority
/// is first. At one priority the groups share the quota by start-time fair queueing (Goyal, Vin and
/// Cheng 1996): each waiter has a tag, and the lowest tag is first. The tag is the largest tag
/// served so far, or the end of the latest cost of its group if that is later.
///
/// # Wakes
///
/// A call that gives something back changes a word of the quota, then loads `count` and wakes the
/// first waiter. A waiter increments `count`, adds 0 to every word of the quota and then looks at
/// the words. At each word one of the two calls comes first, so either the waiter sees what was
/// given back, or the other call sees the waiter.
pub(super) struct Line {
    count: AtomicU64,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    next: u64,
    /// The number of waiters served.
    turns: u64,
    /// The latest time at which a waiter has asked.
    latest: u64,
    /// The largest tag served since the line was empty.
    served: u64,
    /// The end of the latest cost of each group.
    ends: BTreeMap<u64, u64>,
    /// The end of the latest cost of the calls without a group. Kept apart: it needs no allocation.
    end: u64,
    places: BTreeMap<Place, Waiter>,
    /// The places and their times in the order of arrival. Places that were left stay until they
    /// are found.
    arrivals: VecDeque<(u64, Place)>,
    /// The waiter that was last woken because of its age.
    aged: Option<Place>,
    /// The sum of the amounts of all waiters.
    amounts: [u64; 4],
}

/// The place of a waiter. Lower places go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The inverse of the priority in the highest byte, and below it the tag in nanoseconds.
    order: u64,
    ticket: u64,
}

/// The bits of a tag. A tag is reset when the line is empty and saturates after two years.
const TAG: u64 = (1 << 56) - 1;

struct Waiter {
    /// `None` after the waiter was woken, until it asks again.
    waker: Option<Waker>,
    amounts: Amounts,
    group: u64,
    /// The end of its cost after its tag.
    end: u64,
}

/// The result of [`Line::join`] and [`Line::ask`].
pub(super) enum Turn<R> {
    /// The waiter was first and has taken what it needs.
    Taken(R),
    /// The waiter is first and must wait.
    First,
    /// Other waiters are ahead. For a newcomer, the sum of their amounts.
    Behind([u64; 4]),
}

/// A call that wants to join the line.
pub(super) struct Newcomer<'a> {
    pub(super) standing: Standing,
    pub(super) amounts: Amounts,
    /// The time in which the whole cost refills, in nanoseconds.
    pub(super) cost: u64,
    pub(super) waker: &'a Waker,
}

impl Line {
    pub(super) const fn new() -> Self {
        let waiters = Waiters {
            next: 0,
            turns: 0,
            latest: 0,
            served: 0,
            ends: BTreeMap::new(),
            end: 0,
            places: BTreeMap::new(),
            arrivals: VecDeque::new(),
            aged: None,
            amounts: [0; 4],
        };
        Self { count: AtomicU64::new(0), waiters: Mutex::new(waiters) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // Wakers are cloned, woken and dropped outside the lock, so a poisoned queue is whole.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Joins the line, or takes at once if no waiter is ahead. `take` takes the amounts if they
    /// fit. Returns `None` if `most` calls wait already.
    #[cold]
    pub(super) fn join<R>(
        &self,
        newcomer: &Newcomer<'_>,
        most: u32,
        now: u64,
        take: impl FnOnce() -> Option<R>,
    ) -> Option<(Place, Turn<R>)> {
        let waker = newcomer.waker.clone();
        let mut waiters = self.lock();
        if waiters.places.len() >= most as usize {
            drop(waiters);
            return None;
        }
        let (place, end) = waiters.place(newcomer);
        let Newcomer { amounts, standing: Standing { group, .. }, .. } = *newcomer;
        waiters.insert(place, Waiter { waker: Some(waker), amounts, group, end }, now);
        // Counted before `take`, which must not miss what is given back.
        self.count.fetch_add(1, Ordering::AcqRel);
        let ahead = waiters.ahead_of(place);
        Some((place, self.take_turn(waiters, place, now, ahead, take)))
    }

    /// Asks again from a place in the line. The first waiter takes if `take` can.
    pub(super) fn ask<R>(
        &self,
        place: Place,
        waker: &Waker,
        now: u64,
        take: impl FnOnce() -> Option<R>,
    ) -> Turn<R> {
        let mut waker = Some(waker.clone());
        let mut waiters = self.lock();
        if let Some(waiter) = waiters.places.get_mut(&place) {
            std::mem::swap(&mut waiter.waker, &mut waker);
        }
        let turn = self.take_turn(waiters, place, now, [0; 4], take);
        drop(waker);
        turn
    }

    fn take_turn<R>(
        &self,
        mut waiters: MutexGuard<'_, Waiters>,
        place: Place,
        now: u64,
        ahead: [u64; 4],
        take: impl FnOnce() -> Option<R>,
    ) -> Turn<R> {
        waiters.latest = waiters.latest.max(now);
        if waiters.first() != Some(place) {
            let first = waiters.newly_aged().then(|| waiters.first_waker()).flatten();
            drop(waiters);
            wake(first);
            return Turn::Behind(ahead);
        }
        let Some(taken) = take() else {
            drop(waiters);
            return Turn::First;
        };
        waiters.turns = waiters.turns.wrapping_add(1);
        waiters.served = waiters.served.max(place.order & TAG);
        let served = waiters.remove(place);
        self.count.fetch_sub(1, Ordering::Relaxed);
        let next = waiters.first_waker();
        drop(waiters);
        drop(served);
        wake(next);
        Turn::Taken(taken)
    }

    /// Returns the amounts of the waiters in one dimension.
    #[cfg(feature = "fleet")]
    pub(super) fn amounts(&self, dimension: Dimension) -> Waiting {
        if self.len() == 0 {
            return Waiting::default();
        }
        let mut waiters = self.lock();
        let first = waiters.first().and_then(|place| waiters.places.get(&place));
        let first = first.map_or(0, |waiter| u64::from(waiter.amounts[dimension.index()]));
        Waiting { first, all: waiters.amounts[dimension.index()] }
    }

    /// Leaves the line.
    #[cold]
    pub(super) fn leave(&self, place: Place) {
        let mut waiters = self.lock();
        let left = waiters.remove(place);
        if let Some(waiter) = &left {
            waiters.give_back_turn(place, waiter);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        // It may have been the first. A needless wake is harmless.
        let next = waiters.first_waker();
        drop(waiters);
        drop(left);
        wake(next);
    }

    /// Wakes the first waiter after something was given back.
    #[inline]
    pub(super) fn wake_first(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.wake_first_waiter();
        }
    }

    #[cold]
    fn wake_first_waiter(&self) {
        let first = self.lock().first_waker();
        wake(first);
    }
}

impl Waiters {
    /// Returns the place of a newcomer, behind all calls of its group and priority, and the end of
    /// its cost.
    fn place(&mut self, newcomer: &Newcomer<'_>) -> (Place, u64) {
        let Standing { priority, group } = newcomer.standing;
        let served = self.served;
        if self.ends.len() > 2 * self.places.len() + 64 {
            self.ends.retain(|_, end| *end > served);
        }
        let end = if group == 0 { &mut self.end } else { self.ends.entry(group).or_default() };
        let tag = served.max(*end).min(TAG);
        *end = tag.saturating_add(newcomer.cost.max(1));
        let end = *end;
        let order = u64::from(u8::MAX - priority) << TAG.count_ones() | tag;
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        (Place { order, ticket }, end)
    }

    /// Takes the cost of a waiter that was not served from its group, if it is the latest one.
    fn give_back_turn(&mut self, place: Place, left: &Waiter) {
        let end = match left.group {
            0 => Some(&mut self.end),
            group => self.ends.get_mut(&group),
        };
        if let Some(end) = end.filter(|end| **end == left.end) {
            *end = place.order & TAG;
        }
    }

    fn insert(&mut self, place: Place, waiter: Waiter, now: u64) {
        for (sum, amount) in self.amounts.iter_mut().zip(waiter.amounts) {
            *sum += u64::from(amount);
        }
        self.places.insert(place, waiter);
        if self.arrivals.len() > 2 * self.places.len() + 64 {
            let places = &self.places;
            self.arrivals.retain(|(_, place)| places.contains_key(place));
        }
        self.arrivals.push_back((now, place));
    }

    fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.places.remove(&place)?;
        for (sum, amount) in self.amounts.iter_mut().zip(waiter.amounts) {
            *sum -= u64::from(amount);
        }
        if self.places.is_empty() {
            // Without waiters every group begins equal.
            self.ends.clear();
            self.arrivals.clear();
            (self.served, self.end) = (0, 0);
        }
        Some(waiter)
    }

    /// Returns the first waiter.
    fn first(&mut self) -> Option<Place> {
        while let Some((joined, place)) = self.arrivals.front().copied() {
            if !self.places.contains_key(&place) {
                self.arrivals.pop_front();
                continue;
            }
            if self.turns % AGED == 0 && self.latest.saturating_sub(joined) >= PATIENCE {
                return Some(place);
            }
            break;
        }
        self.first_by_order()
    }

    /// Returns the first waiter without its age.
    fn first_by_order(&self) -> Option<Place> {
        self.places.first_key_value().map(|(place, _)| *place)
    }

    /// Returns whether another waiter has become the first by its age. Nothing has woken it then,
    /// so it is woken, but only once: the waiters of one task would otherwise wake each other for
    /// ever.
    fn newly_aged(&mut self) -> bool {
        let first = self.first();
        let aged = first.filter(|_| first != self.first_by_order());
        std::mem::replace(&mut self.aged, aged) != aged
    }

    /// Takes the waker of the first waiter.
    fn first_waker(&mut self) -> Option<Waker> {
        let first = self.first()?;
        self.places.get_mut(&first)?.waker.take()
    }

    /// Returns the amounts of the waiters ahead of `place`. Most newcomers are last.
    fn ahead_of(&self, place: Place) -> [u64; 4] {
        let mut ahead = [0; 4];
        let Some(own) = self.places.get(&place) else { return ahead };
        if self.places.last_key_value().is_some_and(|(last, _)| *last == place) {
            for ((sum, all), own) in ahead.iter_mut().zip(self.amounts).zip(own.amounts) {
                *sum = all - u64::from(own);
            }
            return ahead;
        }
        for waiter in self.places.range(..place).map(|(_, waiter)| waiter) {
            for (sum, amount) in ahead.iter_mut().zip(waiter.amounts) {
                *sum += u64::from(amount);
            }
        }
        ahead
    }
}

/// The turns of which one belongs to the oldest waiter.
const AGED: u64 = 8;

/// The time after which a waiter counts as old, in nanoseconds: ten minutes.
const PATIENCE: u64 = 600 * 1_000_000_000;

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
