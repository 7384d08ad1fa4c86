use std::sync::atomic::Ordering;
use std::task::Waker;

use super::line::{Newcomer, Place, Turn};
use super::reserved::{Amounts, Change, Reserved};
use super::{Cost, Demand, Dimension, Estimate, Levels, Limits, Quota, Usage};

/// The answer of a quota to an attempt that wants to begin. Times are in nanoseconds.
pub(crate) enum Ask {
    /// The cost is reserved.
    Reserved(Reserved),
    /// The attempt waits at `place`. It asks again at `asks_at`, or when it is woken. Its cost
    /// cannot fit before `earliest`.
    Waiting { place: Place, asks_at: u64, earliest: u64, is_new: bool },
    /// The attempt may not wait, and its cost fits at this time.
    NotBefore(u64),
    /// Too many calls wait already.
    Full,
    /// The cost is larger than the burst.
    TooLarge { dimension: Dimension, cost: u32, limit: u32 },
}

/// The way in which an attempt asks.
#[derive(Clone, Copy)]
pub(crate) enum Entry<'a> {
    /// The attempt does not wait.
    AtOnce,
    /// The attempt joins the queue if it must wait.
    Joining(&'a Waker),
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
        let take = || {
            let takes = now >= not_before && self.take(&amounts, reserved.output(), now);
            takes.then_some(reserved)
        };
        let (place, turn, is_new) = match entry {
            Entry::At(place, waker) => (place, self.line.ask(place, waker, now, take), false),
            Entry::AtOnce | Entry::Joining(_) => {
                if self.line.len() == 0 {
                    if let Some(reserved) = take() {
                        return Ask::Reserved(reserved);
                    }
                    // `take` may have held a part for a moment that a new waiter missed.
                    self.line.wake_first();
                }
                if let Some(too_large) = self.too_large(&amounts) {
                    return too_large;
                }
                let Entry::Joining(waker) = entry else {
                    return Ask::NotBefore(self.fits_at(&amounts, [0; 4]));
                };
                let newcomer = Newcomer {
                    standing: demand.standing,
                    amounts,
                    cost: self.time_of(&amounts),
                    waker,
                };
                let take = || {
                    self.touch();
                    take()
                };
                match self.line.join(&newcomer, self.queue, now, take) {
                    Some((place, turn)) => (place, turn, true),
                    None => return Ask::Full,
                }
            }
        };
        let (asks_at, ahead) = match turn {
            Turn::Taken(reserved) => return Ask::Reserved(reserved),
            Turn::First => (self.asks_at(&amounts, now.max(not_before)), [0; 4]),
            Turn::Behind(ahead) => (NEVER, ahead),
        };
        let asks_at = if now < not_before { not_before.max(asks_at) } else { asks_at };
        let earliest = self.earliest(&amounts, ahead).max(not_before);
        Ask::Waiting { place, asks_at, earliest, is_new }
    }

    /// Leaves the queue.
    pub(crate) fn leave(&self, place: Place) {
        self.line.leave(place);
    }

    /// Returns the amounts to reserve for a cost.
    #[inline]
    fn price(&self, cost: &Cost<'_>) -> Reserved {
        let most = cost.most_output();
        let input = cost.known_input();
        if self.charge.reserves_maximum() {
            let output = most.unwrap_or(self.charge.default_maximum());
            let input_estimate =
                if input.is_none() { self.estimate_of(cost).input_to_reserve() } else { 0 };
            let room = self.burst(Dimension::Tokens).saturating_sub(output);
            let room = room.min(self.burst(Dimension::Input));
            return Reserved::new(input_estimate.min(room), output);
        }
        let estimate = self.estimate_of(cost);
        let most = most.map(|most| self.charge.output_of(u64::from(most)));
        // An estimate alone refuses no call: it is cut to the room in the bursts.
        let tokens = self.burst(Dimension::Tokens);
        let input_estimate = match input {
            Some(_) => 0,
            None => estimate.input_to_reserve().min(tokens).min(self.burst(Dimension::Input)),
        };
        let room = tokens.saturating_sub(input.unwrap_or(input_estimate));
        let output = estimate.output_to_reserve(most).min(room).min(self.burst(Dimension::Output));
        Reserved::new(input_estimate, output)
    }

    #[inline]
    fn estimate_of<'a>(&'a self, cost: &Cost<'a>) -> &'a Estimate {
        cost.estimate().unwrap_or(&self.estimate)
    }

    /// Returns the burst of a dimension, or `u32::MAX` without a limit.
    #[inline]
    fn burst(&self, dimension: Dimension) -> u32 {
        self.buckets[dimension.index()].as_ref().map_or(u32::MAX, |bucket| bucket.rate().burst())
    }

    #[cold]
    fn too_large(&self, amounts: &Amounts) -> Option<Ask> {
        Dimension::ALL.into_iter().zip(amounts).find_map(|(dimension, cost)| {
            let limit = self.burst(dimension);
            let is_limited = self.buckets[dimension.index()].is_some();
            (is_limited && *cost > limit).then_some(Ask::TooLarge { dimension, cost: *cost, limit })
        })
    }

    /// Takes the amounts in every dimension, or in none. Wakes no waiter: the line may be locked.
    #[inline]
    fn take(&self, amounts: &Amounts, output: u32, now: u64) -> bool {
        if !self.enter() {
            return false;
        }
        for (index, bucket) in self.buckets.iter().enumerate() {
            let Some(bucket) = bucket else { continue };
            if !bucket.take(amounts[index], now) {
                self.undo(amounts, index);
                return false;
            }
        }
        if output > 0 {
            self.unsettled.fetch_add(u64::from(output), Ordering::AcqRel);
        }
        true
    }

    /// Gives back what was taken before the dimension at `until` refused.
    #[cold]
    fn undo(&self, amounts: &Amounts, until: usize) {
        for (bucket, amount) in self.buckets.iter().zip(amounts).take(until) {
            if let Some(bucket) = bucket {
                bucket.give_back(*amount);
            }
        }
        self.exit();
    }

    /// Takes a place among the attempts in flight.
    #[inline]
    fn enter(&self) -> bool {
        if self.concurrency == u32::MAX {
            return true;
        }
        let mut in_flight = self.in_flight.load(Ordering::Relaxed);
        while in_flight < u64::from(self.concurrency) {
            match self.in_flight.compare_exchange_weak(
                in_flight,
                in_flight + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => in_flight = seen,
            }
        }
        false
    }

    #[inline]
    fn exit(&self) {
        if self.concurrency != u32::MAX {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Takes part in the modification order of every word: see [`Line`](super::line::Line).
    fn touch(&self) {
        self.buckets.iter().flatten().for_each(super::bucket::Bucket::touch);
        self.in_flight.fetch_add(0, Ordering::AcqRel);
    }

    /// Charges a usage in place of the reservation. Returns the tokens charged before and now.
    #[inline]
    pub(crate) fn charge_usage(
        &self,
        cost: &Cost<'_>,
        reserved: &mut Reserved,
        usage: Usage,
        now: u64,
    ) -> (u64, u64) {
        let (had_input, had_output) = (reserved.is_input_charged(), reserved.is_output_charged());
        let change = reserved.charge(cost, &self.charge, usage);
        if !had_input && reserved.is_input_charged() && cost.known_input().is_none() {
            self.estimate_of(cost).record_input(u64::from(change.input.1));
        }
        if !had_output && reserved.is_output_charged() {
            self.settle_output(change.output.0);
        }
        let Change { input, output } = change;
        let sum = |input: u32, output: u32| u64::from(input) + u64::from(output);
        if !self.charge.refunds() {
            return (sum(input.0, output.0), sum(input.0, output.0));
        }
        self.change(&change, now);
        (sum(input.0, output.0), sum(input.1, output.1))
    }

    #[inline]
    fn change(&self, change: &Change, now: u64) {
        let wide = |(from, to): (u32, u32)| (u64::from(from), u64::from(to));
        let (input, output) = (wide(change.input), wide(change.output));
        let changes = [(0, 0), input, output, (input.0 + output.0, input.1 + output.1)];
        for (bucket, (from, to)) in self.buckets.iter().zip(changes) {
            if let Some(bucket) = bucket {
                bucket.change(from, to, now);
            }
        }
        if input.1 < input.0 || output.1 < output.0 {
            self.line.wake_first();
        }
    }

    /// Counts reserved output as settled.
    #[inline]
    fn settle_output(&self, output: u32) {
        if output > 0 {
            self.unsettled.fetch_sub(u64::from(output), Ordering::AcqRel);
        }
    }

    /// Ends an attempt that was sent. What it has reserved or charged stands.
    #[inline]
    pub(crate) fn end(&self, cost: &Cost<'_>, reserved: Reserved) {
        if reserved.is_output_charged() {
            if !self.charge.reserves_maximum() {
                self.estimate_of(cost).record_output(u64::from(reserved.output()));
            }
        } else {
            self.settle_output(reserved.output());
        }
        if self.concurrency != u32::MAX {
            self.exit();
            self.line.wake_first();
        }
    }

    /// Ends an attempt that was not sent: gives everything back.
    #[cold]
    pub(crate) fn cancel(&self, cost: &Cost<'_>, reserved: Reserved) {
        if !reserved.is_output_charged() {
            self.settle_output(reserved.output());
        }
        if let Some(bucket) = &self.buckets[Dimension::Requests.index()] {
            bucket.give_back(1);
        }
        let (input, output) = (reserved.input(cost), reserved.output());
        self.change(&Change { input: (input, 0), output: (output, 0) }, 0); // adds nothing
        self.exit();
        self.line.wake_first();
    }

    /// Ends an attempt that the provider refused. Its tokens are given back. If the caller's own
    /// limit refused it, the level becomes 0 where the answer did not report another level.
    #[cold]
    pub(crate) fn refuse(&self, cost: &Cost<'_>, reserved: Reserved, own_limit: bool, now: u64) {
        if !reserved.is_output_charged() {
            self.settle_output(reserved.output());
            let (input, output) = (reserved.input(cost), reserved.output());
            // A reported level has no part of the refused input.
            let input = if reserved.is_reported() { 0 } else { input };
            if !reserved.is_input_charged() {
                self.change(&Change { input: (input, 0), output: (output, 0) }, now);
            }
        }
        if own_limit && !reserved.is_reported() {
            for dimension in Dimension::ALL {
                self.lower(dimension, 0, now);
            }
        }
        self.exit();
        self.line.wake_first();
    }

    /// Lowers the levels to the limits that the provider has reported.
    #[cold]
    pub(crate) fn learn(&self, reserved: &mut Reserved, limits: &Limits, now: u64) {
        for dimension in Dimension::ALL {
            if let Some(remaining) = limits.get(dimension).remaining {
                reserved.note_reported();
                self.lower(dimension, remaining, now);
            }
        }
    }

    /// Lowers a level to `told`, less what the provider has not charged yet.
    fn lower(&self, dimension: Dimension, told: u64, now: u64) {
        let Some(bucket) = &self.buckets[dimension.index()] else { return };
        let uncharged = match dimension {
            Dimension::Output | Dimension::Tokens if !self.charge.reserves_maximum() => {
                self.unsettled.load(Ordering::Relaxed)
            }
            _ => 0,
        };
        bucket.lower_to(signed(told).saturating_sub(signed(uncharged)), now);
    }

    /// Returns the time at which the first waiter asks again: when its cost fits, or never if it
    /// waits for another attempt to end.
    fn asks_at(&self, amounts: &Amounts, now: u64) -> u64 {
        let at = self.fits_at(amounts, [0; 4]);
        if at > now { at } else { NEVER }
    }

    /// Returns the time at which the amounts fit after the amounts `ahead`.
    fn fits_at(&self, amounts: &Amounts, ahead: [u64; 4]) -> u64 {
        let buckets = self.buckets.iter().zip(amounts).zip(ahead);
        let times = buckets.filter_map(|((bucket, amount), ahead)| {
            let bucket = bucket.as_ref().filter(|_| *amount > 0)?;
            Some(bucket.fits_at(u64::from(*amount), bucket.rate().time_of(ahead)))
        });
        times.max().unwrap_or(0)
    }

    /// Returns the earliest time at which the amounts could fit: if all attempts in flight give
    /// back their output.
    fn earliest(&self, amounts: &Amounts, ahead: [u64; 4]) -> u64 {
        let back = if self.charge.refunds() { self.unsettled.load(Ordering::Relaxed) } else { 0 };
        let back = [0, 0, back, back];
        let buckets = self.buckets.iter().zip(amounts).zip(ahead).zip(back);
        let times = buckets.filter_map(|(((bucket, amount), ahead), back)| {
            let bucket = bucket.as_ref().filter(|_| *amount > 0)?;
            let at = bucket.fits_at(u64::from(*amount), bucket.rate().time_of(ahead));
            Some(at.saturating_sub(bucket.rate().time_of(back)))
        });
        times.max().unwrap_or(0)
    }

    /// Returns the time in which the amounts refill.
    fn time_of(&self, amounts: &Amounts) -> u64 {
        let buckets = self.buckets.iter().zip(amounts);
        let times = buckets.filter_map(|(bucket, amount)| {
            Some(bucket.as_ref()?.rate().time_of(u64::from(*amount)))
        });
        times.max().unwrap_or(0)
    }

    /// Returns the units left in a dimension at `now`. Negative units are a debt.
    pub(crate) fn level(&self, dimension: Dimension, now: u64) -> Option<i64> {
        Some(self.buckets[dimension.index()].as_ref()?.level(now))
    }

    /// Returns the state of the quota at `now`.
    pub(crate) fn levels(&self, now: u64) -> Levels {
        let level = |dimension| self.level(dimension, now);
        Levels {
            requests: level(Dimension::Requests),
            input: level(Dimension::Input),
            output: level(Dimension::Output),
            tokens: level(Dimension::Tokens),
            reserved: self.reserved(),
            in_flight: self.in_flight(),
            waiting: self.waiting(),
        }
    }

    /// Returns the number of attempts in flight. Without a limit it is not counted.
    #[must_use]
    pub fn in_flight(&self) -> Option<u32> {
        self.concurrency().map(|_| count(self.in_flight.load(Ordering::Relaxed)))
    }

    /// Returns the number of output tokens that attempts in flight have reserved.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that wait now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        count(self.line.len())
    }
}

fn count(all: u64) -> u32 {
    u32::try_from(all).unwrap_or(u32::MAX)
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
