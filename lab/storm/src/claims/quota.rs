//! A limit of tokens, and the ways of a client to stay below it.
//!
//! An account allows 400,000 tokens a minute and keeps those of 10 s. 64 workers make one call after
//! the other, which is five times the limit. The provider refuses a call that does not fit, and
//! states the exact time after which the call fits. One provider charges the actual tokens. Another
//! charges the maximum at the start and refunds the rest. In a third account, other programs use 30 %
//! of the limit.
//!
//! No source has figures for this model. A quota must use the limit with less than one refusal in
//! 1,000 calls. The usual ways must waste calls, or a part of the limit.

use super::Published::{AtLeast, AtMost, PlusMinus};
pub(crate) use super::account::LIMIT;
use super::account::{Account, Charges, MeanCall};
use super::sim::{self, Series, on_all_cores};
use super::ways::{self, Way};
use super::{Check, Progress, Size};

/// The second after which the share of the limit is measured.
const WARM: usize = 60;

const WAYS: [(&str, Way); 7] = [
    ("hint alone", Way::Hint),
    ("requests per minute", Way::Requests),
    ("check, then add", Way::Check),
    ("maximum kept", Way::NoRefund),
    ("quota", Way::Quota),
    ("quota, headers", Way::Headers),
    ("quota, other charge", Way::OtherCharge),
];

/// The ways in an account that others use too.
const SHARED: [(&str, Way); 3] = [WAYS[0], WAYS[4], WAYS[5]];

#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    /// The tokens used and the calls refused for each second.
    pub used: Vec<f64>,
    pub refused: Vec<f64>,
    /// The share of the limit used after the start, in percent.
    share: f64,
    /// The refusals per success.
    wasted: f64,
}

/// The ways at each provider.
#[derive(Debug)]
pub struct Measured {
    mean: MeanCall,
    pub actual: Vec<Line>,
    pub maximum: Vec<Line>,
    shared: Vec<Line>,
}

impl Line {
    /// Returns the mean of all runs, and the series of the first one.
    fn of(name: &'static str, runs: &[Account]) -> Self {
        let share = |account: &Account| {
            let until = account.used.borrow().len();
            100.0 * account.used.borrow().mean(WARM..until) * 60.0 / f64::from(LIMIT)
        };
        let wasted = |account: &Account| account.refused.borrow().sum() / account.answered.get();
        Line {
            name,
            used: Series::average([&*runs[0].used.borrow()]),
            refused: Series::average([&*runs[0].refused.borrow()]),
            share: sim::mean(runs.iter().map(share)),
            wasted: sim::mean(runs.iter().map(wasted)),
        }
    }
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    // A quota has about two refusals in half an hour, so the full size takes several seeds.
    let (until, seeds) = size.pick((600, 1), (1_800, 16));
    let mean = MeanCall::new();
    let at = |charges: Charges, ways: &[(&'static str, Way)], from: f64, share: f64| {
        let runs = on_all_cores(ways.len() * seeds, &|done| progress(from + share * done), |job| {
            ways::run(ways[job / seeds].1, charges, mean.all, until, (job % seeds) as u64)
        });
        let lines = ways.iter().zip(runs.chunks(seeds));
        lines.map(|((name, _), runs)| Line::of(name, runs)).collect()
    };
    Measured {
        mean,
        actual: at(Charges::Actual, &WAYS, 0.0, 0.4),
        maximum: at(Charges::Maximum, &WAYS, 0.4, 0.4),
        shared: at(Charges::Shared, &SHARED, 0.8, 0.2),
    }
}

pub fn checks(measured: &Measured, size: Size) -> Vec<Check> {
    // The reduced form has one seed and few refusals, most of them in the first minute.
    let (few, less, some) = size.pick((0.01, 0.007, 3.0), (0.0, 0.0, 0.0));
    let used = |share| AtLeast(share, some);
    // Each call keeps the maximum of its output.
    let kept = (1_000.0 * measured.mean.all / measured.mean.reserved).round() / 10.0;
    let kept = PlusMinus(kept, 0.5 + some);
    let none = || AtMost(0.0, 0.0);
    let many = || AtLeast(5.0, 0.0);
    let pace = || AtLeast(0.01, less);
    // The used share and the refusals.
    let actual = [
        (used(95.0), many()),
        (used(95.0), pace()),
        (used(95.0), many()),
        (kept.clone(), none()),
        (used(98.0), AtMost(0.001, few)),
        (used(98.0), AtMost(0.001, few)),
        (used(95.0), AtMost(0.01, few)),
    ];
    let maximum = [
        (used(95.0), many()),
        (used(95.0), pace()),
        (used(95.0), many()),
        (kept, none()),
        (used(97.0), none()),
        (used(97.0), none()),
        (AtMost(95.0, 0.0), AtLeast(0.005, 0.0)),
    ];
    let shared =
        [(used(66.5), many()), (used(66.5), AtMost(0.2, few)), (used(66.5), AtMost(0.01, few))];
    let actual = measured.actual.iter().zip(actual).map(|line| ("actual", line));
    let maximum = measured.maximum.iter().zip(maximum).map(|line| ("maximum", line));
    let shared = measured.shared.iter().zip(shared).map(|line| ("shared", line));
    let rows = actual.chain(maximum).chain(shared);
    let checks = rows.flat_map(|(charges, (line, (used, refused)))| {
        let what = format!("{charges}: {}: used", line.name);
        [
            Check::new(what, used, (line.share, 1, " %")).ours(),
            Check::new("  refusals per success", refused, (line.wasted, 4, "")).ours(),
        ]
    });
    checks.collect()
}
