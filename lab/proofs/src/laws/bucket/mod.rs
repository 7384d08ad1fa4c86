//! The bucket of the quota.

mod any;
mod change;
mod take;

use crate::law::{Givens, Law, Prover};
use crate::term::Term;

const FILES: &[&str] = &["quota/bucket.rs", "quota/lease.rs", "quota/rate.rs"];

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, about, prove| Law { name, says, files: FILES, about, prove };
    vec![
        law(
            "bucket: ranges",
            "the latest time and two of the longest times fit below the first lease, and one above it",
            &[] as &[&str],
            ranges as fn(&mut Prover<'_>),
        ),
        law(
            "bucket: take",
            "no overflow; a time stays a time and a lease a lease; exactly the cost is taken, or nothing",
            &["Bucket::take", "Bucket::moment", "is_leased"],
            take::take,
        ),
        law(
            "bucket: refusal",
            "a time that a refusal states is exact to the nanosecond: then it fits, and not before",
            &["Bucket::fits_at"],
            take::refusal,
        ),
        law(
            "bucket: window",
            "in any window of time at most the burst and what refills in it is taken",
            &[],
            take::window,
        ),
        law(
            "bucket: give back",
            "units that go back leave the bucket as before, and never fuller",
            &["Bucket::give_back"],
            change::give_back,
        ),
        law(
            "bucket: change",
            "no overflow; a change of a reservation moves the word by its time, within its range",
            &["Bucket::change"],
            change::change,
        ),
        law(
            "bucket: clock",
            "the clock of a pace that ends moves a time by what it was late, and no lease",
            &["Bucket::slow_moment"],
            change::clock,
        ),
        law(
            "bucket: lower",
            "a reported level only lowers the bucket, and leaves a time a time and a lease a lease",
            &["Bucket::lower_to", "Bucket::word_at", "Bucket::leased_word", "Bucket::update"],
            change::lower,
        ),
    ]
}

fn ranges(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let [latest, longest, first, empty, last] =
            ["LATEST", "LONGEST", "FIRST_LEASED", "EMPTY", "LAST"]
                .map(|name| it.call_constant(name));
        let two = longest.clone().plus(longest.clone());
        vec![
            ("the longest time is 2^61", longest.clone().is(Term::Int(1 << 61))),
            ("a time and two costs end below a lease", latest.plus(two).is(first.clone())),
            ("the last time is below the first lease", last.is(first.clone().minus(Term::Int(1)))),
            ("a lease has room for the longest time", empty.is(first.plus(longest))),
        ]
    });
}
