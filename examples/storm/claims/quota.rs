//! A limit of tokens, and the ways of a client to stay below it.
//!
//! An account allows 400,000 tokens a minute and keeps those of 10 s. 64 workers make one call after
//! the other, which is five times the limit. The provider refuses a call that does not fit, and
//! states the exact time after which the call fits. One provider charges the actual tokens. Another
//! charges the maximum at the start and refunds the rest.
//!
//! No source has figures for this model. A quota must use the limit with less than one refusal in
//! 1,000 calls. The usual ways must waste calls, or a part of the limit.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::{self, Charge, Cost, Dimension, Limit, Limits, Quota, Rate};
use resile::{ManualTimer, Never, RetryPolicy, Timer, Upstream, Verdict, retry};

use super::Published::{AtLeast, AtMost, PlusMinus};
pub(crate) use super::account::LIMIT;
use super::account::{Account, BURST, Charges, MAXIMUM, MeanCall, Tokens};
use super::sim::{self, Series, drive, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

const WORKERS: u64 = 64;
/// The way of a request to the provider, and of its answer.
const HOP: Duration = Duration::from_millis(50);
/// The time after which the share of the limit is measured.
const WARM: u64 = 60;

/// The way of a client.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// A loop without the crate that sleeps for the hint.
    Hint,
    /// The same loop at an even rate of requests, by the mean tokens of a call.
    Requests,
    /// The same loop with a count of each minute that is checked before a call and raised after.
    Check,
    /// `retry` with a quota that charges the maximum and refunds nothing.
    NoRefund,
    /// `retry` with a quota that charges as the provider does.
    Quota,
    /// The same quota, which also learns the tokens that remain from each answer.
    Headers,
    /// `retry` with a quota that charges as the other provider does.
    OtherCharge,
}

const WAYS: [(&str, Way); 7] = [
    ("hint alone", Way::Hint),
    ("requests per minute", Way::Requests),
    ("check, then add", Way::Check),
    ("maximum kept", Way::NoRefund),
    ("quota", Way::Quota),
    ("quota, headers", Way::Headers),
    ("quota, other charge", Way::OtherCharge),
];

impl Way {
    /// Returns the charge of the quota at this provider if the way has a quota.
    fn charge(self, provider: Charges) -> Option<Charge> {
        match (self, provider) {
            (Way::Hint | Way::Requests | Way::Check, _) => None,
            (Way::NoRefund, _) => Some(Charge::OPENAI),
            (Way::Quota | Way::Headers, Charges::Actual) | (Way::OtherCharge, Charges::Maximum) => {
                Some(Charge::ACTUAL)
            }
            (Way::Quota | Way::Headers, Charges::Maximum) | (Way::OtherCharge, Charges::Actual) => {
                Some(Charge::BEDROCK)
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("too many tokens")]
struct TooMany {
    after: Duration,
}

fn throttled(error: &TooMany) -> Verdict {
    Verdict::throttled().after(error.after)
}

struct Scene {
    way: Way,
    timer: ManualTimer,
    account: Account,
    upstream: Upstream<ManualTimer>,
    /// The time of the next request at an even rate, and the time between two.
    next: Cell<Duration>,
    apart: Duration,
    /// The minute of the count, and its tokens.
    counted: Cell<(u64, u32)>,
}

impl Scene {
    async fn ask(&self, call: Tokens) -> Result<(), TooMany> {
        self.timer.sleep(HOP).await;
        if let Err(after) = self.account.begin(call, self.timer.now()) {
            self.timer.sleep(HOP).await;
            return Err(TooMany { after });
        }
        self.timer.sleep(call.takes()).await;
        let left = self.account.end(call, self.timer.now());
        self.timer.sleep(HOP).await;
        quota::record(call.usage());
        if self.way == Way::Headers {
            quota::learn(Limits::new().with(Dimension::Tokens, Limit::of_remaining(left)));
        }
        Ok(())
    }

    /// Waits for the next request at an even rate.
    async fn pace(&self) {
        let at = self.next.get().max(self.timer.now());
        self.next.set(at + self.apart);
        self.timer.sleep(at - self.timer.now()).await;
    }

    /// Returns the count of this minute.
    fn count(&self) -> u32 {
        let minute = self.timer.now().as_secs() / 60;
        if self.counted.get().0 != minute {
            self.counted.set((minute, 0));
        }
        self.counted.get().1
    }

    /// Waits for the next minute while the count has reached the limit.
    async fn check(&self) {
        while self.count() >= LIMIT {
            let next = Duration::from_secs((self.counted.get().0 + 1) * 60);
            self.timer.sleep(next - self.timer.now()).await;
        }
    }

    async fn by_hand(&self, call: Tokens) {
        loop {
            match self.way {
                Way::Requests => self.pace().await,
                Way::Check => self.check().await,
                _ => {}
            }
            match self.ask(call).await {
                Ok(()) => break,
                Err(refused) => self.timer.sleep(refused.after).await,
            }
        }
        let count = self.count();
        self.counted.set((self.counted.get().0, count + call.all()));
    }

    async fn call(&self, call: Tokens) {
        if self.upstream.quota().is_some() {
            let policy = RetryPolicy::new().with_attempts(u32::MAX).with_classifier(throttled);
            let cost = Cost::input(call.input.into()).with_max_output(MAXIMUM.into());
            let outcome =
                retry(|_| self.ask(call), &policy, Never).on(self.upstream.at_cost(cost)).await;
            assert!(outcome.is_ok(), "nothing ends a call but its success");
        } else {
            self.by_hand(call).await;
        }
    }

    async fn worker(&self, mut rng: ChaCha8Rng, until: Duration) {
        while self.timer.now() < until {
            self.call(Tokens::draw(&mut rng)).await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// The tokens used and the calls refused for each second.
    pub(crate) used: Vec<f64>,
    pub(crate) refused: Vec<f64>,
    /// The share of the limit used after the start, in percent.
    pub(crate) share: f64,
    /// The refusals per success.
    pub(crate) wasted: f64,
}

/// The ways at both providers.
#[derive(Debug)]
pub(crate) struct Measured {
    mean: MeanCall,
    pub(crate) actual: Vec<Line>,
    pub(crate) maximum: Vec<Line>,
}

fn run(way: Way, charges: Charges, mean: MeanCall, until: u64, seed: u64) -> Line {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("provider").with_timer(timer.clone()).with_observer(&());
    let rate = Rate::per_minute(LIMIT).with_burst(BURST);
    let scene = Scene {
        way,
        account: Account::new(charges, until),
        upstream: match way.charge(charges) {
            Some(charge) => upstream.with_quota(Quota::new().with_tokens(rate).with_charge(charge)),
            None => upstream,
        },
        next: Cell::default(),
        apart: seconds(mean.all * 60.0 / f64::from(LIMIT)),
        counted: Cell::default(),
        timer,
    };
    let worker = |number| scene.worker(seeded(seed * WORKERS + number), Duration::from_secs(until));
    drive(&scene.timer, (0..WORKERS).map(worker));
    let average = |series: RefCell<Series>| Series::average([&series.into_inner()]);
    let Account { used, refused, answered, .. } = scene.account;
    let (used, refused) = (average(used), average(refused));
    let after = sim::mean(used[WARM as usize..].iter().copied());
    Line {
        name: WAYS.iter().find(|(_, it)| *it == way).map_or("", |(name, _)| name),
        share: 100.0 * after * 60.0 / f64::from(LIMIT),
        wasted: refused.iter().sum::<f64>() / f64::from(answered.get()),
        used,
        refused,
    }
}

impl Line {
    /// Returns the series of the first run and the means of all runs.
    fn of(runs: &[Line]) -> Self {
        let Line { name, used, refused, .. } = &runs[0];
        Line {
            name,
            used: used.clone(),
            refused: refused.clone(),
            share: sim::mean(runs.iter().map(|line| line.share)),
            wasted: sim::mean(runs.iter().map(|line| line.wasted)),
        }
    }
}

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Measured {
    // A quota has about two refusals in half an hour, so the full size takes several seeds.
    let (until, seeds) = size.pick((600, 1), (1_800, 16));
    let mean = MeanCall::new();
    let runs = on_all_cores(2 * WAYS.len() * seeds, progress, |job| {
        let (way, charges) = (job / seeds % WAYS.len(), job / seeds / WAYS.len());
        let charges = if charges == 0 { Charges::Actual } else { Charges::Maximum };
        run(WAYS[way].1, charges, mean, until, (job % seeds) as u64)
    });
    let mut actual: Vec<Line> = runs.chunks(seeds).map(Line::of).collect();
    let maximum = actual.split_off(WAYS.len());
    Measured { mean, actual, maximum }
}

pub(crate) fn checks(measured: &Measured, size: Size) -> Vec<Check> {
    // The reduced form has one seed and few refusals, most of them in the first minute.
    let (few, less, some) = size.pick((0.01, 0.007, 3.0), (0.0, 0.0, 0.0));
    let used = |share| AtLeast(share, some);
    // Each call keeps the maximum of its output.
    let kept = (1_000.0 * measured.mean.all / measured.mean.reserved).round() / 10.0;
    let kept = PlusMinus(kept, 0.5 + some);
    let none = || AtMost(0.0, 0.0);
    let many = || AtLeast(5.0, 0.0);
    let pace = || AtLeast(0.01, less);
    // The used share and the refusals, first at the provider that charges the actual tokens.
    let expected = [
        [(used(95.0), many()), (used(95.0), many())],
        [(used(95.0), pace()), (used(95.0), pace())],
        [(used(95.0), many()), (used(95.0), many())],
        [(kept.clone(), none()), (kept, none())],
        [(used(98.0), AtMost(0.001, few)), (used(97.0), none())],
        [(used(98.0), AtMost(0.001, few)), (used(97.0), none())],
        [(used(95.0), AtMost(0.01, few)), (AtMost(95.0, 0.0), AtLeast(0.005, 0.0))],
    ];
    let mut checks = Vec::new();
    let providers = [("actual", &measured.actual), ("maximum", &measured.maximum)];
    for (at, (charges, lines)) in providers.into_iter().enumerate() {
        for (line, expected) in lines.iter().zip(&expected) {
            let (used, refused) = expected[at].clone();
            let what = format!("{charges}: {}: used", line.name);
            checks.push(Check::new(what, used, (line.share, 1, " %")).ours());
            let what = "  refusals per success";
            checks.push(Check::new(what, refused, (line.wasted, 4, "")).ours());
        }
    }
    checks
}
