//! The lease of a quota: an upstream that is shared follows a plain model with exact numbers.

use std::time::Duration;

use proptest::prelude::*;
use resile::call::Admission;
use resile::fleet::State;
use resile::quota::{Cost, Dimension, Learning, Limit, Limits, Rate, Usage};
use resile::time::{ManualTimer, Timer};
use resile::upstream::{AtCost, Resource, Shared};
use resile::{Quota, StopReason, Upstream, Verdict};

const TOKENS: Resource = Resource::Quota(Dimension::Tokens);
const BURST: u32 = 10;
/// The time in which one token refills, in nanoseconds: about half a second. A power of two, so that
/// the largest lease is a whole number of tokens.
const UNIT: i128 = 1 << 29;
/// The most units of a lease, and of a debt: 73 years.
const MOST: i128 = (1 << 61) / UNIT;
const RATE: Rate = Rate::new(1, Duration::from_nanos(1 << 29)).with_burst(BURST as u64);

type Host = Upstream<ManualTimer>;
type Held<'a> = Admission<AtCost<'static, &'a Host>>;

fn host(timer: &ManualTimer) -> Host {
    let quota = Quota::new().with_tokens(RATE).with_learning(Learning::Off);
    Upstream::new("model").with_quota(quota).with_timer(timer.clone()).with_observer(&())
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(Duration),
    Share,
    Leave,
    Adjust(i64),
    Extend(Duration),
    Take(u32),
    Withdraw(usize),
    Settle(usize, u64),
    Learn(usize, u64),
    Throttled(usize),
    Refused(usize),
    Told,
}

fn step() -> impl Strategy<Value = Step> {
    let time = || (0..8_000_u64).prop_map(Duration::from_millis);
    let at = || 0..4_usize;
    let units = prop_oneof![-30..60_i64, Just(i64::MIN), Just(i64::MAX)];
    prop_oneof![
        3 => time().prop_map(Step::Pass),
        2 => Just(Step::Share),
        1 => Just(Step::Leave),
        6 => units.prop_map(Step::Adjust),
        4 => prop_oneof![8 => time(), 1 => Just(Duration::MAX)].prop_map(Step::Extend),
        8 => (0..=BURST + 1).prop_map(Step::Take),
        2 => at().prop_map(Step::Withdraw),
        3 => (at(), 0..20_u64).prop_map(|(at, used)| Step::Settle(at, used)),
        1 => (at(), 0..20_u64).prop_map(|(at, level)| Step::Learn(at, level)),
        1 => at().prop_map(Step::Throttled),
        1 => at().prop_map(Step::Refused),
        1 => Just(Step::Told),
    ]
}

/// The level is a number of units in a lease, and a time of refill without one.
#[derive(Debug)]
enum Mode {
    Own { level: i128 },
    Leased { units: i128, end: Duration, told: Option<u64> },
}

#[derive(Debug)]
struct Model {
    mode: Mode,
    now: Duration,
}

impl Model {
    fn new() -> Self {
        Self { mode: Mode::Own { level: Self::full() }, now: Duration::ZERO }
    }

    fn full() -> i128 {
        i128::from(BURST) * UNIT
    }

    fn pass(&mut self, by: Duration) {
        self.now += by;
        if let Mode::Own { level } = &mut self.mode {
            *level = (*level + i128::try_from(by.as_nanos()).unwrap()).min(Self::full());
        }
    }

    /// Returns whole units. A debt is rounded up. After the end of a lease only a debt is left.
    fn level(&self) -> i128 {
        match self.mode {
            Mode::Own { level } => level.div_euclid(UNIT),
            Mode::Leased { units, end, .. } if self.now >= end => units.min(0),
            Mode::Leased { units, .. } => units,
        }
    }

    fn share(&mut self) {
        let units = self.level().clamp(-MOST, 0);
        self.mode = Mode::Leased { units, end: Duration::ZERO, told: None };
    }

    fn leave(&mut self) {
        let level = self.level().min(BURST.into()) * UNIT;
        self.mode = Mode::Own { level };
    }

    fn add(&mut self, change: i128) {
        match &mut self.mode {
            Mode::Own { level } => {
                *level = (*level + change * UNIT).min(Self::full());
            }
            Mode::Leased { units, .. } => *units = (*units + change).clamp(-MOST, MOST),
        }
    }

    fn lower_to(&mut self, most: u64) {
        let whole = i128::from(most);
        match &mut self.mode {
            Mode::Own { level } => *level = (*level).min(whole * UNIT),
            Mode::Leased { units, told, .. } => {
                *units = (*units).min(whole);
                *told = Some(told.map_or(most, |told| told.min(most)));
            }
        }
    }
}

/// Takes the attempt at `at` out of those in flight.
fn one<'a>(held: &mut Vec<(Held<'a>, u32)>, at: usize) -> Option<(Held<'a>, u32)> {
    (at < held.len()).then(|| held.swap_remove(at))
}

fn apply<'a>(
    step: Step,
    (host, timer): (&'a Host, &ManualTimer),
    shared: &mut Option<Shared<'a, ManualTimer>>,
    held: &mut Vec<(Held<'a>, u32)>,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    match (step, &*shared) {
        (Step::Pass(by), _) => {
            timer.advance(by);
            model.pass(by);
        }
        (Step::Share, None) => {
            *shared = host.share();
            prop_assert!(shared.is_some());
            model.share();
        }
        (Step::Share, Some(_)) => prop_assert!(host.share().is_none()),
        (Step::Leave, Some(_)) => {
            *shared = None;
            model.leave();
        }
        (Step::Adjust(units), Some(shared)) => {
            shared.adjust(TOKENS, units);
            model.add(i128::from(units).clamp(-MOST, MOST));
        }
        (Step::Extend(after), Some(shared)) => {
            shared.extend(TOKENS, after);
            if let Mode::Leased { end, .. } = &mut model.mode {
                *end = model.now.saturating_add(after).min(Duration::from_nanos(u64::MAX));
            }
        }
        (Step::Told, Some(shared)) => {
            let Mode::Leased { told, .. } = &mut model.mode else { unreachable!() };
            prop_assert_eq!(shared.reported_level(TOKENS), told.take());
        }
        (Step::Take(units), _) => {
            let admitted =
                AtCost::new(host, Cost::input(units.into()).with_max_output(0)).try_admit();
            let fits = units == 0 || model.level() >= units.into();
            match admitted {
                Ok(admission) => {
                    prop_assert!(fits, "{units} of {model:?}");
                    model.add(-i128::from(units));
                    held.push((admission, units));
                }
                Err(gave_up) if units > BURST => {
                    prop_assert_eq!(gave_up.reason(), StopReason::TooLarge);
                }
                Err(gave_up) => {
                    prop_assert!(!fits, "not {units} of {model:?}");
                    prop_assert_eq!(gave_up.reason(), StopReason::Deadline);
                }
            }
        }
        (Step::Withdraw(at), _) => {
            if let Some((admission, units)) = one(held, at) {
                admission.withdraw();
                model.add(units.into());
            }
        }
        (Step::Settle(at, used), _) => {
            if let Some((mut admission, units)) = one(held, at) {
                admission.record(Usage::new().with_input(used).with_output(0));
                admission.succeeded();
                model.add(i128::from(units) - i128::from(used));
            }
        }
        (Step::Learn(at, level), _) => {
            if let Some((mut admission, _)) = one(held, at) {
                let limits = Limits::new().with(Dimension::Tokens, Limit::of_remaining(level));
                admission.learn(limits);
                admission.succeeded();
                model.lower_to(level);
            }
        }
        (Step::Throttled(at), _) => {
            if let Some((admission, units)) = one(held, at) {
                admission.settle(&Verdict::throttled());
                model.add(units.into());
                model.lower_to(0);
            }
        }
        (Step::Refused(at), _) => {
            if let Some((admission, units)) = one(held, at) {
                admission.settle(&Verdict::fatal().without_effect());
                model.add(units.into());
            }
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    /// The balance is what was granted less what was spent. Nothing refills by time. No unit can be
    /// used after the end of a lease. A lease may be larger than the burst. A debt is paid first.
    #[test]
    fn a_lease_follows_a_plain_model(steps in prop::collection::vec(step(), 1..80)) {
        let timer = ManualTimer::new();
        let host = host(&timer);
        let (mut shared, mut held, mut model) = (None, Vec::new(), Model::new());
        for step in steps {
            apply(step, (&host, &timer), &mut shared, &mut held, &mut model)?;
            let level = host.quota_level(Dimension::Tokens).map(i128::from);
            prop_assert_eq!(level, Some(model.level()), "{:?} after {:?}", &model, step);
            if let (Some(shared), Mode::Leased { units, .. }) = (&shared, &model.mode) {
                prop_assert_eq!(shared.balance(TOKENS).map(i128::from), Some(*units));
            }
            let is_shared = host.fleet().is_some_and(|status| status.state != State::Left);
            prop_assert_eq!(is_shared, shared.is_some());
            prop_assert_eq!(timer.now(), model.now);
        }
    }

    /// A lease of any size at any time is defined, and its end keeps the level up to the burst.
    #[test]
    fn extreme_numbers_are_defined(
        count in prop_oneof![0..3_u32, any::<u32>()],
        period in any::<Duration>(),
        changes in prop::collection::vec(any::<i64>(), 0..8),
        (after, low, by) in any::<(Duration, u64, Duration)>(),
    ) {
        let timer = ManualTimer::new();
        let quota = Quota::new().with_tokens(Rate::new(u64::from(count), period));
        let host = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
        let shared = host.share().unwrap();
        for change in changes {
            shared.adjust(TOKENS, change);
            shared.extend(TOKENS, after);
            shared.set_low(TOKENS, low);
            drop(AtCost::new(&host, Cost::input(1)).try_admit());
            timer.advance(by);
        }
        let before = host.quota_level(Dimension::Tokens).unwrap();
        drop(shared);
        let after = host.quota_level(Dimension::Tokens).unwrap();
        let full = Upstream::new("full").with_quota(Quota::new().with_tokens(Rate::new(u64::from(count), period)));
        let full = full.with_timer(ManualTimer::new()).quota_level(Dimension::Tokens).unwrap();
        prop_assert!(after.abs_diff(before.min(full)) <= 1, "{before} and {after} of {full}");
    }
}
