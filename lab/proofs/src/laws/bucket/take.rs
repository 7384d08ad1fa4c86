use super::any::{Any, with_times};
use crate::law::Prover;
use crate::solver::TIME_OF;
use crate::term::Term;
use crate::value::{Kind, Value};

pub(super) fn take(prover: &mut Prover<'_>) {
    with_times(prover, true, |it, own| {
        let any = Any::new(it);
        let (units, now) = (it.unknown("units", Kind::U32), it.unknown("now", Kind::U64));
        let latest = it.call_constant("LATEST");
        let args = [any.bucket.clone(), units.clone(), now.clone()];
        let refused = it.call("Bucket::take", &args).is_variant("Refused");
        let cost = Term::apply(TIME_OF, units.term());
        let (before, after) = (any.before.clone(), any.after());
        let keeps = any.keeps_its_range(it);
        let is_none = units.term().is(Term::Int(0));
        let lease = any.is_lease.clone();
        let live = now.term().lt(any.end.clone());
        let empty = it.call_constant("EMPTY");
        // The clock of the call, or that of the pace.
        let clock = own.borrow().clone().unwrap_or(now.term()).min(latest);
        let is_paced = Term::Bool(own.borrow().is_some());
        if refused {
            let fits = units.term().le(any.burst.clone());
            let overdrawn = empty.lt(before.clone().plus(cost));
            let is_full = before.clone().le(clock);
            return vec![
                ("a refusal takes nothing", before.is(after)),
                ("no units are never refused", is_none.negated()),
                (
                    "a lease that has the units pays",
                    lease.clone().and(fits.clone()).and(live).implies(overdrawn),
                ),
                (
                    "a full bucket pays each cost up to the burst",
                    lease.negated().and(is_full).and(fits).negated(),
                ),
            ];
        }
        let is_more = before.clone().plus(cost.clone()).le(after.clone());
        let taken = after.clone().is(before.clone().plus(cost.clone()));
        let fills = after.clone().le(clock.clone().plus(any.burst_time.clone()));
        let starts = after.clone().is(before.clone().max(clock).plus(cost));
        let pays = is_none.clone().negated();
        let of_lease = pays.clone().and(lease.clone());
        let of_time = pays.clone().and(lease.negated());
        vec![
            ("a word keeps its range", keeps),
            ("no units cost nothing", is_none.implies(before.is(after.clone()))),
            ("units cost at least their time", pays.clone().implies(is_more)),
            ("no cost above the burst is taken", pays.implies(units.term().le(any.burst.clone()))),
            ("a lease pays exactly the cost", of_lease.clone().implies(taken)),
            ("a lease is never overdrawn", of_lease.clone().implies(after.le(empty))),
            ("nothing is taken after the end of a lease", of_lease.implies(live)),
            ("at most a burst is in use", of_time.clone().implies(fills)),
            ("a time pays the cost from now on", of_time.implies(is_paced.or(starts))),
        ]
    });
    // `Last` is said exactly when few units of the lease are left.
    with_times(prover, false, |it, _| {
        let any = Any::new(it);
        let low = any.bucket.field("lease").field("low").term();
        let (units, now) = (it.unknown("units", Kind::U32), it.unknown("now", Kind::U64));
        it.assume(Term::Int(1).le(units.term()));
        let answer = it.call("Bucket::take", &[any.bucket.clone(), units, now]);
        if answer.is_variant("Refused") {
            return Vec::new();
        }
        let is_low = any.is_lease.clone().and(low.lt(any.after()));
        vec![("few units left are said", is_low.is(Term::Bool(answer.is_variant("Last"))))]
    });
}

pub(super) fn refusal(prover: &mut Prover<'_>) {
    with_times(prover, false, |it, _| {
        let any = Any::new(it);
        it.assume(any.is_lease.clone().negated());
        let (units, now) = (it.unknown("units", Kind::U32), it.unknown("now", Kind::U64));
        // The quota refuses a larger cost for good. Without this premise the law is false.
        it.assume(Term::Int(1).le(units.term()).and(units.term().le(any.burst.clone())));
        let latest = it.call_constant("LATEST");
        it.assume(now.term().le(latest));
        let wide = Value::u64(units.term());
        let fits_at = it.call("Bucket::fits_at", &[any.bucket.clone(), wide, now.clone()]).term();
        let answer = it.call("Bucket::take", &[any.bucket.clone(), units, now.clone()]);
        let is_early = now.term().lt(fits_at);
        vec![(
            "it fits at the stated time and not before",
            is_early.is(Term::Bool(answer.is_variant("Refused"))),
        )]
    });
    with_times(prover, false, |it, _| {
        let any = Any::new(it);
        it.assume(any.is_lease.clone());
        let (units, now) = (it.unknown("units", Kind::U64), it.unknown("now", Kind::U64));
        let fits_at =
            it.call("Bucket::fits_at", &[any.bucket.clone(), units.clone(), now.clone()]).term();
        let empty = it.call_constant("EMPTY");
        let cost = Term::apply(TIME_OF, units.term());
        let lacks = any.before.clone().plus(cost).min(Term::Int(i128::from(u64::MAX))).minus(empty);
        let most = Term::Int(i128::from(u64::MAX));
        let later = now.term().plus(lacks.clone()).min(most);
        vec![
            (
                "units that a lease has fit at once",
                lacks.clone().le(Term::Int(0)).implies(fits_at.clone().is(Term::Int(0))),
            ),
            (
                "what a lease lacks refills at the whole rate",
                Term::Int(0).lt(lacks).implies(fits_at.is(later)),
            ),
        ]
    });
}

/// The sum of the costs taken since any moment. Each take moves the word by at least its cost
/// (`bucket: take`), and no word is more than a burst after the clock.
pub(super) fn window(prover: &mut Prover<'_>) {
    with_times(prover, false, |it, _| {
        let any = Any::new(it);
        it.assume(any.is_lease.clone().negated());
        let (units, now) = (it.unknown("units", Kind::U32), it.unknown("now", Kind::U64));
        let latest = it.call_constant("LATEST");
        it.assume(Term::Int(1).le(units.term()).and(now.term().le(latest)));
        // At the start of the window the word was `first`, and `sum` was taken since.
        let since = it.unknown("since", Kind::U64).term();
        let first = it.unknown("first", Kind::U64).term().max(since.clone());
        let sum = it.unknown("sum", Kind::U64).term();
        it.assume(since.clone().le(now.term()));
        it.assume(sum.clone().le(any.before.clone().max(since.clone()).minus(first.clone())));
        let answer = it.call("Bucket::take", &[any.bucket.clone(), units.clone(), now.clone()]);
        if answer.is_variant("Refused") {
            return Vec::new();
        }
        let sum = sum.plus(Term::apply(TIME_OF, units.term()));
        let most = any.burst_time.clone().plus(now.term().minus(since.clone()));
        vec![
            (
                "the sum stays below the way of the word",
                sum.clone().le(any.after().max(since).minus(first)),
            ),
            ("at most the burst and the time of the window", sum.le(most)),
        ]
    });
}
