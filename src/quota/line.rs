use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::demand::Standing;
use super::reserved::Amounts;
use super::waiters::{Newcomer, Place, Waiter, Waiters, add};
#[cfg(feature = "fleet")]
use super::{Dimension, Waiting};
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// The waiters of a quota. Only the first waiter takes, so small costs do not starve a large one.
///
/// # Order
///
/// Each eighth turn belongs to the oldest waiter if it has waited for the patience of the line, so
/// no waiter starves and old waiters take no more than this share. Otherwise the highest priority
/// is first. At one priority a retry goes in front of all attempts that are the first of their calls, because
/// its call has waited before: only the number of attempts and the budget limit how many there are. Retries
/// go by their arrival. Of the first attempts the groups share the quota by start-time fair queueing (Goyal, Vin and
/// Cheng 1996): each waiter has a tag, and the lowest tag is first. The tag is the largest tag
/// served so far, or the end of the latest cost of its group if that is later. The cost of a retry
/// delays the later calls of its group.
///
/// # Wakes
///
/// A call that gives something back changes a word of the quota, then loads `count` and wakes the
/// first waiter. A waiter increments `count`, adds 0 to every word of the quota and then looks at
/// the words. At each word one of the two calls comes first, so either the waiter sees what was
/// given back, or the other call sees the waiter.
///
/// A waiter behind others sleeps until it is the first one. [`wake_late`](Line::wake_late) wakes it before if
/// its cost does not fit any more before its call ends.
pub(super) struct Line {
    count: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// The result of [`Line::join`] and [`Line::ask`].
pub(super) enum Turn<R> {
    /// The waiter was first and has taken what it needs.
    Taken(R),
    /// The waiter is first and must wait.
    First,
    /// Other waiters are ahead. For a newcomer and a late waiter, the sum of their amounts.
    Behind([u64; 4]),
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU64::new(0), waiters: Mutex::new(Waiters::new()) }
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
        let (place, ends) = waiters.join(newcomer);
        let Newcomer { amounts, standing: Standing { group, .. }, ends_at, .. } = *newcomer;
        let waker = Some(waker);
        let waiter = Waiter { waker, amounts, group, ends, ends_at, is_late: false };
        waiters.insert(place, waiter, now);
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
        let mut is_late = false;
        if let Some(waiter) = waiters.places.get_mut(&place) {
            std::mem::swap(&mut waiter.waker, &mut waker);
            is_late = std::mem::take(&mut waiter.is_late);
        }
        let ahead = if is_late { waiters.ahead_of(place) } else { [0; 4] };
        let turn = self.take_turn(waiters, place, now, ahead, take);
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
        let served = waiters.serve(place);
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
            waiters.give_back_turn(waiter);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        // It may have been the first. A needless wake is harmless.
        let next = waiters.first_waker();
        drop(waiters);
        drop(left);
        wake(next);
    }

    /// Returns the amounts of the waiters ahead of a newcomer with this standing.
    #[cold]
    pub(super) fn ahead(&self, standing: Standing) -> [u64; 4] {
        if self.len() == 0 {
            return [0; 4];
        }
        let waiters = self.lock();
        waiters.ahead_of(waiters.next_place(standing))
    }

    /// Wakes the waiters whose cost cannot fit before their calls end: `earliest` returns the time before
    /// which amounts cannot fit behind others. Those that are woken do not count for the next ones.
    #[cold]
    pub(super) fn wake_late(&self, earliest: impl Fn(&Amounts, [u64; 4]) -> u64) {
        if self.len() == 0 {
            return;
        }
        let (mut ahead, mut wakers) = ([0; 4], Vec::new());
        for waiter in self.lock().places.values_mut() {
            waiter.is_late = earliest(&waiter.amounts, ahead) >= waiter.ends_at;
            if waiter.is_late {
                wakers.extend(waiter.waker.take());
            } else {
                add(&mut ahead, &waiter.amounts);
            }
        }
        wakers.into_iter().for_each(Waker::wake);
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

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
