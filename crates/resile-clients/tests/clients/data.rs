//! The rows of the data file. The tests against servers include this file too.

#![allow(dead_code, reason = "each of both reads some of it")]

use std::borrow::Cow;

use resile_clients::Classifier;
use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::resile::{Classify, Health, Verdict};

/// A line of the data file.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) family: &'static str,
    pub(crate) code: &'static str,
    pub(crate) says: Says,
    pub(crate) wait: &'static str,
    pub(crate) note: &'static str,
    pub(crate) evidence: &'static str,
}

/// Sent again if idempotent, sent again if not, the health, and whether it is a limit of the caller.
pub(crate) type Says = (bool, bool, Health, bool);

/// Returns the rows of the data file.
pub(crate) fn rows() -> Vec<Row> {
    let mut lines = include_str!("../../data/errors.csv").lines();
    let head = "family,code,name,idempotent,not_idempotent,health,wait,note,evidence";
    assert_eq!(lines.next(), Some(head));
    lines.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let fields: Vec<_> = line.split(',').collect();
    let [family, code, _, safe, booking, health, wait, note, evidence] = fields[..] else {
        panic!("not nine fields: {line}")
    };
    let answer = |word| match word {
        "yes" => true,
        "no" => false,
        _ => panic!("neither yes nor no: {line}"),
    };
    let (health, own) = match health {
        "healthy" => (Health::Healthy, false),
        "failing" => (Health::Failing, false),
        "unknown" => (Health::Unknown, false),
        "overload" => (Health::Throttling, false),
        "own_limit" => (Health::Throttling, true),
        _ => panic!("no such health: {line}"),
    };
    Row { family, code, says: (answer(safe), answer(booking), health, own), wait, note, evidence }
}

/// Returns what a function says under both idempotencies.
pub(crate) fn says(ask: impl Fn(Idempotency) -> Option<Verdict>) -> Option<Says> {
    match (ask(Idempotent), ask(NotIdempotent)) {
        (None, None) => None,
        (Some(safe), Some(booking)) => {
            assert_eq!(safe.health(), booking.health());
            assert_eq!(safe.is_own_limit(), booking.is_own_limit());
            Some((safe.is_again(), booking.is_again(), safe.health(), safe.is_own_limit()))
        }
        (safe, booking) => panic!("one opinion is missing: {safe:?} and {booking:?}"),
    }
}

/// Returns what the classifier says of an error, for a policy.
pub(crate) fn classified<E>(error: &E) -> Option<Says>
where
    Classifier: Classify<E>,
{
    says(|it| match it {
        Idempotent => Classifier::idempotent().classify(error),
        NotIdempotent => Classifier::non_idempotent().classify(error),
    })
}

/// Returns the `error.type` of an error. It is empty for an error that has the name of its Rust type.
pub(crate) fn word<E>(error: &E) -> String
where
    Classifier: Classify<E>,
{
    Classifier::idempotent().error_type(error).map(Cow::into_owned).unwrap_or_default()
}
