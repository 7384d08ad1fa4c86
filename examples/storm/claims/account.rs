//! A provider with a limit of tokens. It counts by itself and shares no code with the crate.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::Usage;

use super::sim::{Series, seconds, standard_normal};

/// The limit in tokens per minute.
pub(crate) const LIMIT: u32 = 400_000;
/// The tokens that the provider keeps during a pause: 10 s of the limit.
pub(crate) const BURST: u32 = 66_666;
/// The most output of a call.
pub(crate) const MAXIMUM: u32 = 8_192;
/// The most input of a call. One call then always fits.
const LONGEST: f64 = 50_000.0;

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

/// The rule by which the provider charges.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Charges {
    /// The input at the start and the output at the end.
    Actual,
    /// The input and the most output at the start. The rest comes back at the end.
    Maximum,
}

/// An account at the provider, and the count of its calls.
pub(crate) struct Account {
    charges: Charges,
    level: Cell<f64>,
    as_of: Cell<Duration>,
    /// The tokens of answered calls, and the refused calls, for each second.
    pub(crate) used: RefCell<Series>,
    pub(crate) refused: RefCell<Series>,
    pub(crate) answered: Cell<u32>,
}

impl Account {
    /// Creates a full account that keeps the counts of `until` seconds.
    pub(crate) fn new(charges: Charges, until: u64) -> Self {
        Self {
            charges,
            level: Cell::new(BURST.into()),
            as_of: Cell::default(),
            used: RefCell::new(Series::new(until)),
            refused: RefCell::new(Series::new(until)),
            answered: Cell::default(),
        }
    }

    /// Returns the tokens that are left. A debt is negative.
    fn level(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.as_of.replace(now)).as_secs_f64();
        let refilled = self.level.get() + since * f64::from(LIMIT) / 60.0;
        self.level.set(refilled.min(BURST.into()));
        self.level.get()
    }

    fn charge_of(&self, call: Tokens) -> f64 {
        let output = if self.charges == Charges::Maximum { MAXIMUM } else { 0 };
        f64::from(call.input + output)
    }

    /// Begins a call, or returns the exact time after which the call fits.
    pub(crate) fn begin(&self, call: Tokens, now: Duration) -> Result<(), Duration> {
        let rest = self.level(now) - self.charge_of(call);
        if rest >= 0.0 {
            self.level.set(rest);
            return Ok(());
        }
        self.refused.borrow_mut().count(now);
        Err(seconds(-rest * 60.0 / f64::from(LIMIT)))
    }

    /// Ends a call and returns the tokens that are left.
    pub(crate) fn end(&self, call: Tokens, now: Duration) -> u64 {
        let level = self.level(now) + self.charge_of(call) - f64::from(call.all());
        self.level.set(level.min(BURST.into()));
        self.used.borrow_mut().add(now, call.all());
        self.answered.set(self.answered.get() + 1);
        self.level.get().max(0.0) as u64
    }
}
