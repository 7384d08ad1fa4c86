use std::sync::atomic::Ordering;
use std::task::Waker;

use super::bucket::{Bucket, Take};
use super::line::Turn;
use super::margin::Margin;
use super::reserved::{Amounts, Reserved};
use super::waiters::{Newcomer, Place};
use super::{Cost, Demand, Dimension, Estimate, Lack, Quota, TooLarge};

/// The answer of a quota to an attempt that wants to begin. Times are in nanoseconds.
pub(crate) enum Ask {
    /// The cost is reserved.
    Reserved(Reserved),
    /// The quota only watches, and would have made the attempt wait or refused it.
    Shadowed(Reserved),
    /// The attempt waits at `place`. It asks again at `asks_at` or when it is woken, and its cost
    /// cannot fit before `earliest`.
    Waiting { place: Place, asks_at: u64, earliest: u64, is_new: bool },
    /// The attempt may not wait, and its cost fits at this time.
    NotBefore(u64),
    /// Too many calls wait already.
    Full,
    /// The cost is larger than the burst.
    TooLarge,
}

/// The way in which an attempt asks.
#[derive(Clone, Copy)]
pub(crate) enum Entry<'a> {
    /// The attempt does not wait.
    AtOnce,
    /// The attempt joins the queue if it must wait. Its call ends at this time.
    Joining { waker: &'a Waker, ends_at: u64 },
    /// The attempt waits already.
    At(Place, &'a Waker),
}

const NEVER: u64 = u64::MAX;

impl Quota {
    /// Reserves the cost of an attempt, or says when to ask again.
    ///
    /// Nothing is reserved before `not_before`.
    pub(crate) fn ask(
        &self,
        demand: &Demand<'_>,
        entry: Entry<'_>,
        now: u64,
        not_before: u64,
    ) -> Ask {
        let cost = &demand.cost;
        let reserved = self.price(cost);
        let amounts = reserved.amounts(cost);
        if self.is_shadow {
            return self.watch(reserved, &amounts, now);
        }
        let take = || {
            if now < not_before {
                return None;
            }
            match self.take(&amounts, reserved.output(), now) {
                Take::Refused => None,
                taken => Some(taken),
            }
        };
        let reserved_by = |taken: Take| {
            if taken == Take::Last {
                self.signal.hint(); // no lock is held here
            }
            Ask::Reserved(reserved)
        };
        let (place, turn, is_new) = match entry {
            Entry::At(place, waker) => {
                self.note_wait(true, now);
                (place, self.line.ask(place, waker, now, take), false)
            }
            Entry::AtOnce | Entry::Joining { .. } => {
                if self.line.len() == 0 {
                    if let Some(taken) = take() {
                        return reserved_by(taken);
                    }
                    // `take` may have held a part for a moment that a new waiter missed.
                    self.line.wake_first();
                }
                if self.too_large(&amounts).is_some() {
                    return Ask::TooLarge;
                }
                let Entry::Joining { waker, ends_at } = entry else {
                    return Ask::NotBefore(self.fits_at(&amounts, now));
                };
                let newcomer = Newcomer {
                    standing: demand.standing,
                    amounts,
                    cost: self.time_of(&amounts),
                    ends_at,
                    waker,
                };
                let take = || {
                    self.touch();
                    take()
                };
                let Some((place, turn)) = self.line.join(&newcomer, self.queue, now, take) else {
                    self.note_refusal(cost);
                    return Ask::Full;
                };
                self.note_wait(self.line.len() > 1, now);
                if demand.standing.is_retry {
                    self.wake_late(now); // the first attempts behind it wait for longer
                }
                (place, turn, true)
            }
        };
        let (asks_at, ahead) = match turn {
            Turn::Taken(taken) => return reserved_by(taken),
            // After a hold the waiter asks again even if its cost fits before.
            Turn::First if now < not_before => {
                (self.fits_at(&amounts, now).max(not_before), [0; 4])
            }
            Turn::First => (self.asks_at(&amounts, now), [0; 4]),
            Turn::Behind(ahead) => (NEVER, ahead),
        };
        if is_new {
            self.note_need();
        }
        let earliest = self.earliest(&amounts, ahead, self.held_until(now)).max(not_before);
        Ask::Waiting { place, asks_at, earliest, is_new }
    }

    /// Admits an attempt in shadow mode.
    fn watch(&self, reserved: Reserved, amounts: &Amounts, now: u64) -> Ask {
        self.counts.admit();
        match self.take(amounts, reserved.output(), now) {
            Take::Taken => return Ask::Reserved(reserved),
            Take::Last => {
                self.signal.hint();
                return Ask::Reserved(reserved);
            }
            Take::Refused => {}
        }
        self.note_wait(true, now);
        self.note_need();
        if self.too_large(amounts).is_some() || self.is_queue_full(amounts, now) {
            self.counts.refuse();
            self.enter_anyway();
            return Ask::Shadowed(Reserved::UNCHARGED);
        }
        self.counts.delay();
        self.take_anyway(amounts, reserved.output(), now);
        Ask::Shadowed(reserved)
    }

    /// Returns whether as many attempts as may wait would wait: the debt is their cost.
    fn is_queue_full(&self, amounts: &Amounts, now: u64) -> bool {
        let queue = i64::from(self.queue);
        self.buckets.iter().zip(amounts).any(|(bucket, amount)| {
            let most = queue.saturating_mul(i64::from(*amount));
            let is_short = |level: i64| level < i64::from(*amount) && level.min(0) <= -most;
            bucket.as_ref().is_some_and(|bucket| *amount > 0 && is_short(bucket.level(now)))
        })
    }

    /// Returns a time before which the cost does not fit, by the levels known now and the waiters that would
    /// be ahead. 0 if there is none: a lease can get any number of units at any time, and a quota that only
    /// watches holds nothing.
    #[cold]
    pub(crate) fn forecast(&self, demand: &Demand<'_>, now: impl FnOnce() -> u64) -> u64 {
        if self.is_shadow {
            return 0;
        }
        let ahead = self.line.ahead(demand.standing);
        let is_held = self.held_until.load(Ordering::Relaxed) > 0;
        let held_until = if is_held { self.held_until(now()) } else { 0 };
        self.earliest(&self.price(&demand.cost).amounts(&demand.cost), ahead, held_until)
    }

    /// Wakes the waiters whose cost cannot fit before their calls end, by the levels and the hold known at `now`.
    #[cold]
    pub(super) fn wake_late(&self, now: u64) {
        let held_until = self.held_until(now);
        self.line
            .wake_late(|amounts, ahead| self.earliest(amounts, ahead, held_until).max(held_until));
    }

    /// Returns the end of a hold that goes on at `now`, or 0.
    fn held_until(&self, now: u64) -> u64 {
        let until = self.held_until.load(Ordering::Relaxed);
        if until > now { until } else { 0 }
    }

    /// Returns the part of the cost that is larger than a burst.
    #[cold]
    pub(crate) fn excess(&self, cost: &Cost<'_>) -> Option<TooLarge> {
        self.too_large(&self.price(cost).amounts(cost))
    }

    /// Returns the cost in the dimension that holds the attempt longest, by the levels known now. `None` if a
    /// lease has the units, which can get any number at any time.
    #[cold]
    pub(crate) fn lack(&self, cost: &Cost<'_>) -> Option<Lack> {
        let amounts = self.price(cost).amounts(cost);
        let limited = Dimension::ALL.into_iter().zip(amounts).filter_map(|(dimension, cost)| {
            let bucket = self.buckets[dimension.index()].as_ref().filter(|_| cost > 0)?;
            Some((dimension, cost, bucket))
        });
        let (dimension, cost, bucket) =
            limited.max_by_key(|(_, cost, bucket)| bucket.earliest(u64::from(*cost), 0))?;
        let share = bucket.pace().share();
        let (is_learned, rate) = (share < 1.0, bucket.rate().scaled(share.min(1.0)));
        (!bucket.is_leased()).then_some(Lack { dimension, cost, rate, is_learned })
    }

    /// Notes for the owner of a lease that a call does not wait for its units.
    #[cold]
    pub(crate) fn note_refusal(&self, cost: &Cost<'_>) {
        let amounts = self.price(cost).amounts(cost);
        for (bucket, amount) in self.buckets.iter().zip(amounts) {
            if let Some(bucket) = bucket {
                bucket.lease().refuse(u64::from(amount));
            }
        }
        self.note_need();
    }

    /// Sets the signal for the owner of a lease: a call did not get its units at once. Comes after
    /// the call has joined the queue, or else the owner would look too early.
    #[cold]
    pub(crate) fn note_need(&self) {
        self.signal.set();
    }

    /// Returns the time that a waiter must have left to begin.
    #[inline]
    pub(crate) const fn margin(&self) -> &Margin {
        &self.margin
    }

    /// Returns true if the time of an attempt is needed: calls wait, or a deadline has cut one that waited.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        self.line.len() > 0 || !self.margin.is_zero()
    }

    /// Leaves the queue.
    pub(crate) fn leave(&self, place: Place) {
        self.line.leave(place);
    }

    /// Returns the amounts to reserve for a cost.
    #[inline]
    pub(super) fn price(&self, cost: &Cost<'_>) -> Reserved {
        let (estimate, known_input, most) =
            (self.estimate_of(cost), cost.known_input(), cost.most_output());
        let (tokens, inputs) = (self.burst(Dimension::Tokens), self.burst(Dimension::Input));
        let input_to_reserve = |room: u32| match known_input {
            Some(_) => 0,
            None => estimate.input_to_reserve().min(room).min(inputs),
        };
        // An estimate alone refuses no call: it is cut to the room in the bursts.
        if self.charge.reserves_maximum() {
            let output = most.unwrap_or(self.charge.default_maximum());
            return Reserved::new(input_to_reserve(tokens.saturating_sub(output)), output);
        }
        let input = input_to_reserve(tokens);
        let most = most.map(|most| self.charge.output_of(u64::from(most)));
        let room = tokens.saturating_sub(known_input.unwrap_or(input));
        let output = estimate.output_to_reserve(most).min(room).min(self.burst(Dimension::Output));
        Reserved::new(input, output)
    }

    #[inline]
    pub(super) fn estimate_of<'a>(&'a self, cost: &Cost<'a>) -> &'a Estimate {
        cost.estimate().unwrap_or(&self.estimate)
    }

    /// Returns the burst of a dimension, or `u32::MAX` without a limit.
    #[inline]
    fn burst(&self, dimension: Dimension) -> u32 {
        self.buckets[dimension.index()].as_ref().map_or(u32::MAX, |bucket| bucket.rate().burst())
    }

    #[cold]
    fn too_large(&self, amounts: &Amounts) -> Option<TooLarge> {
        Dimension::ALL.into_iter().zip(amounts).find_map(|(dimension, cost)| {
            let rate = self.buckets[dimension.index()].as_ref()?.rate();
            let (limit, has_no_rate) = (rate.burst(), rate.count() == 0);
            (*cost > limit).then_some(TooLarge { dimension, cost: *cost, limit, has_no_rate })
        })
    }

    /// Returns the time at which the first waiter asks again: when its cost fits, or never if it
    /// waits for another attempt to end or for a larger lease.
    fn asks_at(&self, amounts: &Amounts, now: u64) -> u64 {
        let at = self.latest_of(amounts, |bucket, amount, _| {
            if bucket.is_leased() { 0 } else { bucket.fits_at(amount, now) }
        });
        if at > now { at } else { NEVER }
    }

    /// Returns the time at which the amounts fit. See [`Bucket::fits_at`] for a lease.
    fn fits_at(&self, amounts: &Amounts, now: u64) -> u64 {
        self.latest_of(amounts, |bucket, amount, _| bucket.fits_at(amount, now))
    }

    /// Returns the earliest time at which the amounts could fit after the amounts `ahead`: if all
    /// attempts in flight give back their output. Nothing is taken before `held_until`, or 0.
    fn earliest(&self, amounts: &Amounts, ahead: [u64; 4], held_until: u64) -> u64 {
        let [requests, input, ..] = ahead;
        let (ahead, back) = if self.charge.refunds() {
            let output = self.unsettled.load(Ordering::Relaxed);
            // The waiters ahead may use no output.
            ([requests, input, 0, input], [0, 0, output, output])
        } else {
            (ahead, [0; 4])
        };
        self.latest_of(amounts, |bucket, amount, index| {
            let [ahead, back] = [ahead, back].map(|units| bucket.rate().time_of(units[index]));
            let mut earliest = bucket.earliest(amount, ahead);
            // A wait for concurrency after the hold lets more of the burst come into use.
            if held_until > 0 && self.concurrency == u32::MAX {
                let one = bucket.rate().time_of(1);
                let first = match ahead {
                    0 => bucket.rate().time_of(amount),
                    _ if index == Dimension::Requests.index() => one,
                    ahead => ahead,
                };
                let held = bucket.earliest_after(amount, ahead, first, held_until);
                // The hold itself is not the quota's.
                earliest = earliest.max(if held > held_until { held } else { 0 });
            }
            earliest.saturating_sub(back)
        })
    }

    /// Returns the time in which the amounts refill.
    fn time_of(&self, amounts: &Amounts) -> u64 {
        self.latest_of(amounts, |bucket, amount, _| bucket.rate().time_of(amount))
    }

    /// Returns the largest time over the limited dimensions with an amount, or 0 without one.
    fn latest_of(&self, amounts: &Amounts, time: impl Fn(&Bucket, u64, usize) -> u64) -> u64 {
        let buckets = self.buckets.iter().zip(amounts).enumerate();
        let times = buckets.filter_map(|(index, (bucket, amount))| {
            let bucket = bucket.as_ref().filter(|_| *amount > 0)?;
            Some(time(bucket, u64::from(*amount), index))
        });
        times.max().unwrap_or(0)
    }
}
