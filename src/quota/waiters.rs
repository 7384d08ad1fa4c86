use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::task::Waker;

use super::demand::Standing;
use super::reserved::Amounts;

/// The waiters of a line, in its order.
#[derive(Default)] // a model makes them at first use
pub(super) struct Waiters {
    next: u64,
    /// The number of waiters served.
    turns: u64,
    /// The latest time at which a waiter has asked.
    pub(super) latest: u64,
    /// The largest tag served since the line was empty.
    served: u64,
    /// The end of the latest cost of each group.
    ends: BTreeMap<u64, u64>,
    /// The end of the latest cost of the calls without a group. Kept apart: it needs no allocation.
    end: u64,
    pub(super) places: BTreeMap<Place, Waiter>,
    /// The places and their times in the order of arrival. Places that were left stay until they
    /// are found.
    arrivals: VecDeque<(u64, Place)>,
    /// The waiter that was last woken because of its age.
    aged: Option<Place>,
    /// The sum of the amounts of all waiters.
    pub(super) amounts: [u64; 4],
}

/// The place of a waiter. Lower places go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The inverse of the priority in the highest byte, then a bit that is 0 for a retry, and below it the tag
    /// in nanoseconds.
    order: u64,
    ticket: u64,
}

/// The bits of a tag. A tag is reset when the line is empty and saturates after a year.
const TAG: u64 = FIRST - 1;

/// The bit of an attempt that is the first one of its call.
const FIRST: u64 = 1 << 55;

pub(super) struct Waiter {
    /// `None` after the waiter was woken, until it asks again.
    pub(super) waker: Option<Waker>,
    pub(super) amounts: Amounts,
    pub(super) group: u64,
    /// The end of the latest cost of its group, before it joined and with its cost.
    pub(super) ends: Range<u64>,
    /// The end of its call.
    pub(super) ends_at: u64,
    /// True if its cost may not fit before that end any more, until it asks again.
    pub(super) is_late: bool,
}

/// A call that wants to join the line.
pub(super) struct Newcomer<'a> {
    pub(super) standing: Standing,
    pub(super) amounts: Amounts,
    /// The time in which the whole cost refills, in nanoseconds.
    pub(super) cost: u64,
    /// The end of its call, in nanoseconds.
    pub(super) ends_at: u64,
    pub(super) waker: &'a Waker,
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self {
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
        }
    }

    /// Returns the place that a newcomer would get: a retry behind the retries of its priority, and a first
    /// attempt behind all calls of its group and priority.
    pub(super) fn next_place(&self, standing: Standing) -> Place {
        let Standing { priority, group, is_retry } = standing;
        let end = if group == 0 { Some(&self.end) } else { self.ends.get(&group) };
        let (is_first, tag) = match end {
            Some(end) if !is_retry => (FIRST, self.served.max(*end)),
            _ => (if is_retry { 0 } else { FIRST }, self.served),
        };
        let priority = u64::from(u8::MAX - priority) << 56;
        Place { order: priority | is_first | tag.min(TAG), ticket: self.next }
    }

    /// Returns the place of a newcomer, and the end of the latest cost of its group before and with it.
    pub(super) fn join(&mut self, newcomer: &Newcomer<'_>) -> (Place, Range<u64>) {
        let place = self.next_place(newcomer.standing);
        let (served, group) = (self.served, newcomer.standing.group);
        if self.ends.len() > 2 * self.places.len() + 64 {
            self.ends.retain(|_, end| *end > served);
        }
        let end = if group == 0 { &mut self.end } else { self.ends.entry(group).or_default() };
        let before = served.max(*end).min(TAG);
        *end = before.saturating_add(newcomer.cost.max(1));
        let ends = before..*end;
        self.next = self.next.wrapping_add(1);
        (place, ends)
    }

    /// Takes the cost of a waiter that was not served from its group, if it is the latest one.
    pub(super) fn give_back_turn(&mut self, left: &Waiter) {
        let end = match left.group {
            0 => Some(&mut self.end),
            group => self.ends.get_mut(&group),
        };
        if let Some(end) = end.filter(|end| **end == left.ends.end) {
            *end = left.ends.start;
        }
    }

    pub(super) fn insert(&mut self, place: Place, waiter: Waiter, now: u64) {
        add(&mut self.amounts, &waiter.amounts);
        self.places.insert(place, waiter);
        if self.arrivals.len() > 2 * self.places.len() + 64 {
            let places = &self.places;
            self.arrivals.retain(|(_, place)| places.contains_key(place));
        }
        self.arrivals.push_back((now, place));
    }

    /// Removes the waiter that takes.
    pub(super) fn serve(&mut self, place: Place) -> Option<Waiter> {
        self.turns = self.turns.wrapping_add(1);
        self.served = self.served.max(place.order & TAG);
        self.remove(place)
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
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
    pub(super) fn first(&mut self) -> Option<Place> {
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
    pub(super) fn newly_aged(&mut self) -> bool {
        let first = self.first();
        let aged = first.filter(|_| first != self.first_by_order());
        std::mem::replace(&mut self.aged, aged) != aged
    }

    /// Takes the waker of the first waiter.
    pub(super) fn first_waker(&mut self) -> Option<Waker> {
        let first = self.first()?;
        self.places.get_mut(&first)?.waker.take()
    }

    /// Returns the amounts of the waiters ahead of `place`. Most newcomers are last.
    pub(super) fn ahead_of(&self, place: Place) -> [u64; 4] {
        if self.places.last_key_value().is_some_and(|(last, _)| *last <= place) {
            let own = self.places.get(&place).map_or([0; 4], |own| own.amounts);
            let mut ahead = self.amounts;
            for (sum, own) in ahead.iter_mut().zip(own) {
                *sum -= u64::from(own);
            }
            return ahead;
        }
        let mut ahead = [0; 4];
        for waiter in self.places.range(..place).map(|(_, waiter)| waiter) {
            add(&mut ahead, &waiter.amounts);
        }
        ahead
    }
}

pub(super) fn add(sums: &mut [u64; 4], amounts: &Amounts) {
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum += u64::from(*amount);
    }
}

/// The turns of which one belongs to the oldest waiter.
const AGED: u64 = 8;

/// The time after which a waiter counts as old, in nanoseconds: ten minutes.
const PATIENCE: u64 = 600 * 1_000_000_000;
