//! A quota follows a plain model with exact arithmetic. On any clock it admits at most the burst,
//! the refilled units and the units given back.

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::{Charge, Cost, Dimension, Learning, Limit, Limits, Rate, Usage};
use resile::{Health, Quota, Verdict};

use super::model::{Answer, Held, Model, is_same};
use super::{FREE_READS, NOT_REFUNDED, RESERVED};
use crate::by_hand::{ByHand, Reservation};

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(Duration),
    Reserve(Option<u64>, Option<u64>),
    Sent(usize),
    Record(usize, Usage),
    Settle(usize, Usage),
    Failed(usize, Verdict),
    Learn(usize, Dimension, u64),
    Drop(usize),
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..12_u64, 4 => 0..3_000_u64, 1 => Just(u64::from(u32::MAX))]
}

/// A limit that is used up counts also in a quota without it.
fn remaining() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 3 => 0..4_000_u64]
}

fn usage() -> impl Strategy<Value = Usage> {
    let input = proptest::option::of((amount(), 0..40_u64, 0..40_u64));
    (input, proptest::option::of(amount())).prop_map(|(input, output)| {
        // A charge saturates at 16 million tokens of input and 268 million of output.
        let usage = input.map_or(Usage::new(), |(plain, reads, writes)| {
            let usage = Usage::new().with_input(plain.min(1 << 23));
            usage.with_cache_reads(reads).with_cache_writes(writes)
        });
        output.map_or(usage, |output| usage.with_output(output.min(1 << 27)))
    })
}

fn step() -> impl Strategy<Value = Step> {
    let nanos = prop_oneof![0..2_000_u64, 0..100_000_000_000_u64, Just(u64::MAX / 4)];
    let refused = Verdict::fatal().without_effect();
    let verdicts = vec![Verdict::throttled(), Verdict::overloaded(), Verdict::transient(), refused];
    let cost = || proptest::option::weighted(0.8, amount());
    let at = || 0..8_usize;
    prop_oneof![
        4 => nanos.prop_map(|nanos| Step::Advance(Duration::from_nanos(nanos))),
        8 => (cost(), cost()).prop_map(|(input, most)| Step::Reserve(input, most)),
        2 => at().prop_map(Step::Sent),
        4 => (at(), usage()).prop_map(|(at, usage)| Step::Record(at, usage)),
        2 => (at(), usage()).prop_map(|(at, usage)| Step::Settle(at, usage)),
        2 => (at(), prop::sample::select(verdicts))
            .prop_map(|(at, verdict)| Step::Failed(at, verdict)),
        1 => (at(), prop::sample::select(&Dimension::ALL[..]), remaining())
            .prop_map(|(at, dimension, units)| Step::Learn(at, dimension, units)),
        3 => at().prop_map(Step::Drop),
    ]
}

fn rate() -> impl Strategy<Value = Rate> {
    let count = prop_oneof![1..6_u32, 1..5_000_u32, Just(u32::MAX)];
    let nanos = prop_oneof![
        Just(0),
        Just(1),
        Just(7),
        Just(1_000_000_000),
        Just(60_000_000_000),
        Just(86_400_000_000_000)
    ];
    let burst = proptest::option::of(prop_oneof![0..20_u32, 0..5_000_u32, Just(u32::MAX)]);
    (count, nanos, burst).prop_map(|(count, nanos, burst)| {
        let rate = Rate::new(u64::from(count), Duration::from_nanos(nanos));
        let rate = burst.map_or(rate, |burst| rate.with_burst(u64::from(burst)));
        // The model has no limit of the time in which a burst refills.
        let per_unit = nanos.div_ceil(count.into()).max(1);
        let most = u32::try_from((1 << 50) / per_unit).unwrap_or(u32::MAX);
        if rate.burst() > most { rate.with_burst(u64::from(most)) } else { rate }
    })
}

const CHARGES: [Charge; 5] = [
    Charge::ACTUAL,
    FREE_READS,
    RESERVED.with_default_maximum(900),
    NOT_REFUNDED,
    RESERVED.with_maximum_reserved(false),
];

fn quota() -> impl Strategy<Value = Quota> {
    let rates = [(); 4].map(|()| proptest::option::weighted(0.6, rate()));
    let charge = prop::sample::select(&CHARGES[..]);
    (rates, charge, proptest::option::of(0..5_u32)).prop_map(|(rates, charge, concurrency)| {
        let [requests, input, output, tokens] = rates;
        // What it learns has laws of its own.
        let quota = Quota::new().with_charge(charge).with_learning(Learning::Off);
        let quota = set(quota, requests, Quota::with_requests);
        let quota = set(quota, input, Quota::with_input);
        let quota = set(quota, output, Quota::with_output);
        let quota = set(quota, tokens, Quota::with_tokens);
        set(quota, concurrency, Quota::with_concurrency)
    })
}

fn set<T>(quota: Quota, value: Option<T>, with: impl FnOnce(Quota, T) -> Quota) -> Quota {
    match value {
        Some(value) => with(quota, value),
        None => quota,
    }
}

/// Returns the usage with numbers whose debts the model can hold in every dimension.
fn cut(usage: Usage, quota: &Quota) -> Usage {
    let per_unit = |rate: Rate| rate.period().as_nanos().div_ceil(rate.count().into()).max(1);
    let rates = Dimension::ALL.into_iter().filter_map(|dimension| quota.rate(dimension));
    let most = rates.map(|rate| (1 << 50) / per_unit(rate)).min().unwrap_or(1 << 50);
    let most = u64::try_from(most).unwrap();
    let cut = usage.input().map_or(Usage::new(), |input| {
        let parts = Usage::new().with_input(input.min(most));
        parts.with_cache_reads(usage.cache_reads()).with_cache_writes(usage.cache_writes())
    });
    usage.output().map_or(cut, |output| cut.with_output(output.min(most)))
}

/// Takes an element of the list, or `None` of an empty list.
fn pick<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    let at = at.checked_rem(list.len())?;
    Some(list.swap_remove(at))
}

/// A quota and its model, with the reservations that are not ended.
struct Pair<'a> {
    quota: &'a ByHand,
    model: Model,
    now: Duration,
    open: Vec<(Reservation<'a>, Held)>,
}

impl Pair<'_> {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (now, quota, model) = (self.now, self.quota, &mut self.model);
        match step {
            Step::Advance(by) => {
                self.now = now.saturating_add(by).min(Duration::from_nanos(u64::MAX));
                model.advance(self.now);
            }
            Step::Reserve(input, most) => {
                let cost = input.map_or(Cost::new(), Cost::input);
                let cost = most.map_or(cost, |most| cost.with_max_output(most));
                match (quota.try_reserve(cost, now), model.reserve(input, most)) {
                    (Ok(reservation), Answer::Reserved(held)) => {
                        self.open.push((reservation, held));
                    }
                    (Err(refusal), answer) if is_same(refusal, &answer, now) => {}
                    (seen, answer) => {
                        return Err(TestCaseError::fail(format!("{seen:?} instead of {answer:?}")));
                    }
                }
            }
            Step::Sent(at) => {
                if let Some((mut reservation, mut held)) = pick(&mut self.open, at) {
                    reservation.sent();
                    Model::sent(&mut held);
                    self.open.push((reservation, held));
                }
            }
            Step::Record(at, usage) => {
                let usage = cut(usage, quota);
                if let Some((mut reservation, mut held)) = pick(&mut self.open, at) {
                    reservation.record(usage, now);
                    model.record(&mut held, usage);
                    self.open.push((reservation, held));
                }
            }
            Step::Settle(at, usage) => {
                let usage = cut(usage, quota);
                if let Some((reservation, mut held)) = pick(&mut self.open, at) {
                    reservation.settle(usage, now);
                    model.record(&mut held, usage);
                    model.drop(held);
                }
            }
            Step::Failed(at, verdict) => {
                if let Some((reservation, mut held)) = pick(&mut self.open, at) {
                    reservation.failed(&verdict, now);
                    Model::sent(&mut held);
                    if verdict.health() == Health::Throttling || verdict.is_without_effect() {
                        model.refused(held, verdict.is_own_limit());
                    } else {
                        model.drop(held);
                    }
                }
            }
            Step::Learn(at, dimension, units) => {
                if let Some((mut reservation, mut held)) = pick(&mut self.open, at) {
                    let limits = Limits::new().with(dimension, Limit::of_remaining(units));
                    reservation.learn(&limits, now);
                    model.learn(&mut held, &limits);
                    self.open.push((reservation, held));
                }
            }
            Step::Drop(at) => {
                if let Some((reservation, held)) = pick(&mut self.open, at) {
                    drop(reservation);
                    model.drop(held);
                }
            }
        }
        self.model.check(self.quota, self.now).map_err(TestCaseError::fail)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_quota_follows_the_model(
        quota in quota(),
        // Fewer than 30 calls are ever known, so the estimate is the largest usage so far.
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let quota = ByHand::new(quota);
        let model = Model::new(&quota);
        let mut pair = Pair { quota: &quota, model, now: Duration::ZERO, open: Vec::new() };
        for step in steps {
            pair.take(step)?;
        }
        for (reservation, held) in std::mem::take(&mut pair.open) {
            drop(reservation);
            pair.model.drop(held);
        }
        prop_assert_eq!(quota.reserved(), 0);
        prop_assert_eq!(quota.in_flight().unwrap_or(0), 0);
        pair.model.check(&quota, pair.now).map_err(TestCaseError::fail)?;
    }

    /// On any clock, the units taken and not given back are at most the burst and the units that
    /// refill between the first reading and the latest one.
    #[test]
    fn no_clock_makes_free_units(
        rate in rate(),
        steps in prop::collection::vec((any::<u64>(), 0..64_u32, 0..6_u32, 0..3_u8), 1..80),
    ) {
        let quota = ByHand::new(Quota::new().with_tokens(rate));
        let per_unit = rate.period().as_nanos().div_ceil(rate.count().into()).max(1);
        let (mut open, mut used, mut latest) = (Vec::new(), 0_u128, 0_u64);
        for (clock, shift, units, kind) in steps {
            let clock = clock >> shift;
            let now = Duration::from_nanos(clock);
            match (kind, open.pop()) {
                (0, Some((reservation, before))) => {
                    let reservation: Reservation<'_> = reservation;
                    reservation.settle(Usage::new().with_input(units.into()), now);
                    used = used - before + u128::from(units);
                }
                (1, Some((reservation, before))) => {
                    drop(reservation);
                    used -= before;
                }
                (_, last) => open.extend(last),
            }
            latest = latest.max(clock);
            if let Ok(reservation) = quota.try_reserve(Cost::input(units.into()), now) {
                open.push((reservation, u128::from(units)));
                used += u128::from(units);
                let refilled = u128::from(latest).div_ceil(per_unit);
                let most = u128::from(rate.burst()) + refilled;
                prop_assert!(units == 0 || used <= most, "{} of {} units", used, most);
            }
            let level = quota.level_at(Dimension::Tokens, now).unwrap();
            prop_assert!(level <= i64::from(rate.burst()), "a level of {}", level);
        }
    }
}
