//! Counts the rows by their verdict.

use std::fmt;

use crate::claims::{Check, Verdict};

/// The rows so far, by verdict.
#[derive(Default)]
pub struct Tally {
    hold: usize,
    /// The rows by name: their claim and their own name.
    outcome_only: Vec<String>,
    fail: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, claim: &str, checks: &[Check]) {
        for check in checks {
            let name = || format!("{claim}: {}", check.what().trim_start());
            match check.verdict() {
                Verdict::Holds => self.hold += 1,
                Verdict::OutcomeOnly => self.outcome_only.push(name()),
                Verdict::Fails => self.fail.push(name()),
            }
        }
    }

    /// Returns true if a row fails.
    pub fn fails(&self) -> bool {
        !self.fail.is_empty()
    }

    /// Returns each row that does not hold, with its verdict and its name.
    pub fn named(&self) -> impl Iterator<Item = String> {
        let verdicts = [(Verdict::OutcomeOnly, &self.outcome_only), (Verdict::Fails, &self.fail)];
        verdicts.into_iter().flat_map(|(verdict, names)| {
            names.iter().map(move |name| format!("{}: {name}", verdict.name()))
        })
    }
}

/// The number of rows with each verdict.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, fail) = (self.outcome_only.len(), self.fail.len());
        write!(f, "{} rows hold, {outcome} hold in outcome only, {fail} fail", self.hold)
    }
}
