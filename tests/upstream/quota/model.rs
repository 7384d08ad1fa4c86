//! A plain model of a quota: token buckets with exact arithmetic, in nanoseconds of refill.

use std::time::Duration;

use resile::Quota;
use resile::quota::{Charge, Dimension, Limit, Limits, Rate, Usage};

use crate::by_hand::{ByHand, Refusal};

/// The last reading of the clock. Later readings count as this one.
const LATEST: i128 = 1 << 63;

/// A token bucket. Its level is the time in which that many units refill.
#[derive(Debug)]
struct Bucket {
    per_unit: i128,
    burst: i128,
    level: i128,
    now: i128,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        let per_unit = rate.period().as_nanos().div_ceil(rate.count().into()).max(1);
        let per_unit = i128::try_from(per_unit).unwrap();
        let burst = per_unit * i128::from(rate.burst());
        Self { per_unit, burst, level: burst, now: 0 }
    }

    fn advance(&mut self, now: Duration) {
        let now = i128::try_from(now.as_nanos()).unwrap().min(LATEST);
        self.level = (self.level + now - self.now).min(self.burst);
        self.now = now;
    }

    fn time_of(&self, units: u64) -> i128 {
        i128::from(units) * self.per_unit
    }

    fn change(&mut self, from: u64, to: u64) {
        self.level = (self.level + self.time_of(from) - self.time_of(to)).min(self.burst);
    }

    fn lower_to(&mut self, units: i128) {
        self.level = self.level.min(units * self.per_unit);
    }

    /// Returns the whole units. A debt is rounded up.
    fn units(&self) -> i64 {
        self.level.div_euclid(self.per_unit).try_into().unwrap()
    }
}

/// The amounts that an attempt holds.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a plain model")]
pub(crate) struct Held {
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// True if the caller knows its input.
    knows_input: bool,
    is_sent: bool,
    has_input: bool,
    has_output: bool,
    has_limits: bool,
}

impl Held {
    const fn amounts(&self) -> [u64; 4] {
        [1, self.input, self.output, self.input + self.output]
    }
}

/// The model of a [`Quota`].
#[derive(Debug)]
pub(crate) struct Model {
    buckets: [Option<Bucket>; 4],
    charge: Charge,
    concurrency: Option<u32>,
    in_flight: u32,
    /// The output reserved by attempts whose output is not charged yet.
    unsettled: u64,
    /// The largest usage so far. It is the estimate as long as too few calls are known.
    largest: [u64; 2],
    /// The dimensions of which an answer has reported what is left.
    reported: [bool; 4],
    /// The dimensions of which the last answer has only reported that nothing is left.
    bare: [bool; 4],
}

/// An answer to [`Model::reserve`].
#[derive(Debug)]
pub(crate) enum Answer {
    Reserved(Held),
    NotYet(Duration),
    TooLarge(Dimension, u64),
}

impl Model {
    pub(crate) fn new(quota: &Quota) -> Self {
        Self {
            buckets: Dimension::ALL.map(|dimension| quota.rate(dimension).map(Bucket::new)),
            charge: quota.charge(),
            concurrency: quota.concurrency(),
            in_flight: 0,
            unsettled: 0,
            largest: [0; 2],
            reported: [false; 4],
            bare: [false; 4],
        }
    }

    pub(crate) fn advance(&mut self, now: Duration) {
        self.buckets.iter_mut().flatten().for_each(|bucket| bucket.advance(now));
    }

    /// Returns the burst of a dimension in units.
    fn burst(&self, dimension: Dimension) -> u64 {
        let burst = self.buckets[dimension as usize].as_ref().map(|it| it.burst / it.per_unit);
        burst.map_or(u32::MAX.into(), |burst| burst.try_into().unwrap())
    }

    /// Returns the amounts that the documentation promises to reserve.
    fn price(&self, input: Option<u64>, most: Option<u64>) -> Held {
        let [tokens, inputs, outputs] =
            [Dimension::Tokens, Dimension::Input, Dimension::Output].map(|it| self.burst(it));
        let knows_input = input.is_some();
        let (input, output) = if self.charge.reserves_maximum() {
            let output = most.unwrap_or(self.charge.default_maximum().into());
            let room = inputs.min(tokens.saturating_sub(output));
            (input.unwrap_or(self.largest[0].min(room)), output)
        } else {
            let input = input.unwrap_or(self.largest[0].min(inputs).min(tokens));
            let output = most.unwrap_or(self.largest[1]);
            (input, output.min(outputs).min(tokens.saturating_sub(input)))
        };
        // A larger output counts as this one, and is above every burst.
        let output = output.min((1 << 28) - 1);
        Held { input, output, knows_input, ..Held::default() }
    }

    pub(crate) fn reserve(&mut self, input: Option<u64>, most: Option<u64>) -> Answer {
        let held = self.price(input, most);
        let buckets = || self.buckets.iter().zip(held.amounts());
        let limits = buckets().zip(Dimension::ALL);
        let too_large = limits.filter_map(|((bucket, amount), dimension)| {
            let bucket = bucket.as_ref()?;
            (bucket.time_of(amount) > bucket.burst).then_some(Answer::TooLarge(dimension, amount))
        });
        if let Some(too_large) = too_large.into_iter().next() {
            return too_large;
        }
        let lacks = buckets().filter_map(|(bucket, amount)| {
            let bucket = bucket.as_ref().filter(|_| amount > 0)?;
            Some(bucket.time_of(amount) - bucket.level)
        });
        let lack = lacks.max().unwrap_or(0).max(0);
        if lack > 0 || self.concurrency.is_some_and(|most| self.in_flight >= most) {
            return Answer::NotYet(Duration::from_nanos(lack.try_into().unwrap()));
        }
        self.change([0; 4], held.amounts());
        self.in_flight += 1;
        self.unsettled += held.output;
        Answer::Reserved(held)
    }

    fn change(&mut self, from: [u64; 4], to: [u64; 4]) {
        for ((bucket, from), to) in self.buckets.iter_mut().zip(from).zip(to) {
            if let Some(bucket) = bucket {
                bucket.change(from, to);
            }
        }
    }

    pub(crate) const fn sent(held: &mut Held) {
        held.is_sent = true;
    }

    /// Charges the usage in place of what the attempt holds.
    pub(crate) fn record(&mut self, held: &mut Held, usage: Usage) {
        held.is_sent = true;
        let before = *held;
        if let Some(input) = usage.input() {
            let charged = input + self.weighted(usage);
            if !held.has_input && !held.knows_input {
                self.largest[0] = self.largest[0].max(charged);
            }
            held.has_input = true;
            if self.charge.refunds() {
                held.input = charged;
            }
        }
        if let Some(output) = usage.output() {
            if !held.has_output {
                self.unsettled -= held.output;
            }
            held.has_output = true;
            if self.charge.refunds() {
                held.output = output;
            }
        }
        // A reported level has the actual input already, and so has no more input to give back.
        let (mut from, now) = (before.amounts(), held.amounts());
        if held.has_limits && !self.charge.reserves_maximum() {
            let more = before.input.saturating_sub(held.input);
            for index in [1, 3] {
                from[index] -= if self.reported[index] { more } else { 0 };
            }
        }
        self.change(from, now);
    }

    /// Returns the charged tokens of the cache. The weights of the presets are 0 and 1.
    fn weighted(&self, usage: Usage) -> u64 {
        let reads = if self.charge.cache_read_weight() > 0.0 { usage.cache_reads() } else { 0 };
        reads + usage.cache_writes()
    }

    pub(crate) fn learn(&mut self, held: &mut Held, limits: &Limits) {
        held.is_sent = true;
        for dimension in Dimension::ALL {
            let is_limited = self.buckets[dimension as usize].is_some();
            let Some(remaining) = limits.get(dimension).remaining else { continue };
            // A limit that is used up explains a refusal, whether the quota has it or not.
            held.has_limits |= is_limited || remaining == 0;
            if is_limited {
                self.reported[dimension as usize] = true;
                self.bare[dimension as usize] = limits.get(dimension) == Limit::of_remaining(0);
                self.lower(dimension, remaining);
            }
        }
    }

    fn lower(&mut self, dimension: Dimension, told: u64) {
        let is_output = matches!(dimension, Dimension::Output | Dimension::Tokens);
        let uncharged =
            if is_output && !self.charge.reserves_maximum() { self.unsettled } else { 0 };
        if let Some(bucket) = &mut self.buckets[dimension as usize] {
            bucket.lower_to(i128::from(told) - i128::from(uncharged));
        }
    }

    /// Ends an attempt that was dropped.
    pub(crate) fn drop(&mut self, held: Held) {
        self.in_flight -= 1;
        if held.has_output {
            if !self.charge.reserves_maximum() {
                self.largest[1] = self.largest[1].max(held.output);
            }
        } else {
            self.unsettled -= held.output;
        }
        if !held.is_sent {
            self.change(held.amounts(), [0; 4]);
        }
    }

    /// Ends an attempt that the provider refused.
    pub(crate) fn refused(&mut self, held: Held, is_own_limit: bool) {
        self.in_flight -= 1;
        // A reported level has no part of the refused input, nor of a maximum charged at the start.
        let reserves_maximum = self.charge.reserves_maximum();
        for (index, bucket) in self.buckets.iter_mut().enumerate() {
            let Some(bucket) = bucket else { continue };
            let keeps = held.has_limits && self.reported[index];
            let input = if held.has_input || keeps { held.input } else { 0 };
            let keeps_output = held.has_output || keeps && reserves_maximum;
            let output = if keeps_output { held.output } else { 0 };
            bucket.change(held.amounts()[index], [1, input, output, input + output][index]);
        }
        if !held.has_output {
            self.unsettled -= held.output;
        }
        for (index, dimension) in Dimension::ALL.into_iter().enumerate() {
            let amount = i128::from(held.amounts()[index]);
            let lacks =
                self.buckets[index].as_ref().is_some_and(|it| i128::from(it.units()) < amount);
            if is_own_limit && (!held.has_limits || self.bare[index] && lacks) {
                self.lower(dimension, 0);
            }
        }
    }

    /// Compares the state of the quota with the model.
    pub(crate) fn check(&self, quota: &ByHand, now: Duration) -> Result<(), String> {
        for (bucket, dimension) in self.buckets.iter().zip(Dimension::ALL) {
            let (seen, expected) =
                (quota.level_at(dimension, now), bucket.as_ref().map(Bucket::units));
            if seen != expected {
                return Err(format!("{dimension:?}: {seen:?} instead of {expected:?}, {self:?}"));
            }
        }
        let seen = (quota.reserved(), quota.in_flight(), quota.waiting());
        let expected = (self.unsettled, self.concurrency.map(|_| self.in_flight), 0);
        if seen == expected { Ok(()) } else { Err(format!("{seen:?} instead of {expected:?}")) }
    }
}

/// Compares the refusal of the quota with the answer of the model. After the last reading of the
/// clock nothing refills, so no wait is right.
pub(crate) fn is_same(refusal: Refusal, answer: &Answer, now: Duration) -> bool {
    let is_over = now.as_nanos() >= LATEST.unsigned_abs();
    match (refusal, answer) {
        (Refusal::NotYet { wait, .. }, Answer::NotYet(expected)) => is_over || wait == *expected,
        (Refusal::TooLarge(refused), Answer::TooLarge(expected, amount)) => {
            (refused.dimension, u64::from(refused.cost))
                == (*expected, (*amount).min(u32::MAX.into()))
        }
        _ => false,
    }
}
