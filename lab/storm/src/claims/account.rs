//! A provider with a limit of tokens. It counts by itself and shares no code with the crate.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::Usage;

use super::sim::{Series, mean, seconds, seeded, standard_normal};

/// The limit in tokens per minute.
pub(crate) const LIMIT: u32 = 400_000;
/// The tokens that the provider keeps during a pause: 10 s of the limit.
pub(crate) const BURST: u32 = 66_666;
/// The most output of a call.
pub(crate) const MAXIMUM: u32 = 8_192;
/// The most input of a call. One call then always fits.
const LONGEST: f64 = 50_000.0;
/// The nanoseconds in which a token refills.
const REFILL: i64 = 60_000_000_000 / LIMIT as i64;

/// The tokens of one call.
#[derive(Clone, Copy)]
pub(crate) struct Tokens {
    pub(crate) input: u32,
    pub(crate) output: u32,
}

impl Tokens {
    /// Draws lognormal tokens: an input with a median of 3,000 and an output with a median of 400.
    pub(crate) fn draw(rng: &mut ChaCha8Rng) -> Self {
        let mut tokens = |median: f64, sigma: f64, most: f64| {
            (median * (sigma * standard_normal(rng)).exp()).clamp(1.0, most) as u32
        };
        Self { input: tokens(3_000.0, 0.8, LONGEST), output: tokens(400.0, 1.0, MAXIMUM.into()) }
    }

    pub(crate) fn all(self) -> u32 {
        self.input + self.output
    }

    /// Returns the time of the answer: one second, and a second for each 100 tokens of output.
    pub(crate) fn takes(self) -> Duration {
        seconds(1.0 + f64::from(self.output) / 100.0)
    }

    pub(crate) fn usage(self) -> Usage {
        Usage::new().with_input(self.input.into()).with_output(self.output.into())
    }
}

/// The mean of many calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanCall {
    /// The tokens that a call uses.
    pub(crate) all: f64,
    /// The input and the most output.
    pub(crate) reserved: f64,
}

impl MeanCall {
    pub(crate) fn new() -> Self {
        let mut rng = seeded(0);
        let calls: Vec<_> = (0..100_000).map(|_| Tokens::draw(&mut rng)).collect();
        Self {
            all: mean(calls.iter().map(|call| call.all().into())),
            reserved: mean(calls.iter().map(|call| (call.input + MAXIMUM).into())),
        }
    }
}

/// The rule by which the provider charges.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Charges {
    /// The input at the start and the output at the end.
    Actual,
    /// The input and the most output at the start. The rest comes back at the end.
    Maximum,
    /// The actual tokens, while other programs use 30 % of the limit.
    Shared,
}

/// An account at the provider, and the count of its calls.
pub(crate) struct Account {
    charges: Charges,
    /// The tokens that are left, as the time in which they refill. A debt is negative.
    level: Cell<i64>,
    as_of: Cell<Duration>,
    /// The tokens of answered calls, and the refused calls, for each second.
    pub(crate) used: RefCell<Series>,
    pub(crate) refused: RefCell<Series>,
    pub(crate) answered: Cell<f64>,
}

/// Returns the time in which tokens refill, in nanoseconds.
fn refill(tokens: u32) -> i64 {
    i64::from(tokens) * REFILL
}

impl Account {
    /// Creates a full account that keeps the counts of `until` seconds.
    pub(crate) fn new(charges: Charges, until: u64) -> Self {
        Self {
            charges,
            level: Cell::new(refill(BURST)),
            as_of: Cell::default(),
            used: RefCell::new(Series::new(until)),
            refused: RefCell::new(Series::new(until)),
            answered: Cell::default(),
        }
    }

    /// Returns the percentage of the limit that is left for this program.
    fn percent(&self) -> u32 {
        if self.charges == Charges::Shared { 70 } else { 100 }
    }

    /// Adds to the level what has refilled, and this change.
    fn change(&self, now: Duration, by: i64) {
        let since = now.saturating_sub(self.as_of.replace(now)).as_nanos() as i64;
        let refilled = self.level.get() + since * i64::from(self.percent()) / 100;
        let refilled = refilled.min(refill(BURST));
        self.level.set((refilled + by).min(refill(BURST)));
    }

    fn charge_of(&self, call: Tokens) -> i64 {
        refill(call.input + if self.charges == Charges::Maximum { MAXIMUM } else { 0 })
    }

    /// Begins a call, or returns the exact time after which the call fits.
    pub(crate) fn begin(&self, call: Tokens, now: Duration) -> Result<(), Duration> {
        self.change(now, 0);
        let rest = self.level.get() - self.charge_of(call);
        if rest >= 0 {
            self.level.set(rest);
            return Ok(());
        }
        self.refused.borrow_mut().count(now);
        // Rounded up to a nanosecond.
        Err(Duration::from_nanos((rest.unsigned_abs() * 100).div_ceil(self.percent().into())))
    }

    /// Ends a call and returns the tokens that are left.
    pub(crate) fn end(&self, call: Tokens, now: Duration) -> u64 {
        self.change(now, self.charge_of(call) - refill(call.all()));
        self.used.borrow_mut().add(now, call.all());
        self.answered.set(self.answered.get() + 1.0);
        (self.level.get().max(0) / REFILL) as u64
    }
}
