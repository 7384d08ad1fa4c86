use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

const FILES: &[&str] = &["quota/rate.rs"];

pub(super) fn laws() -> Vec<Law> {
    vec![Law {
        name: "rate: time of units",
        says: "0 for none, at least 1 for one, at most `LONGEST`, and more for more units",
        files: FILES,
        about: &["Rate::time_of"],
        prove: time_of,
    }]
}

fn time_of(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let longest = it.call_constant("LONGEST");
        let per_unit = it.unknown("per_unit", Kind::U64);
        it.assume(Term::Int(1).le(per_unit.term()).and(per_unit.term().le(longest.clone())));
        let rate = Value::record("Rate", [("per_unit", per_unit.clone())]);
        let of = |it: &mut Machine<'_>, units: &Value| {
            it.call("Rate::time_of", &[rate.clone(), units.clone()]).term()
        };
        let (less, more) = (it.unknown("less", Kind::U64), it.unknown("more", Kind::U64));
        it.assume(less.term().le(more.term()));
        let (time_of_less, time_of_more) = (of(it, &less), of(it, &more));
        let none = of(it, &Value::u64(Term::Int(0)));
        let one = of(it, &Value::u64(Term::Int(1)));
        let product = per_unit.term().times(more.term());
        vec![
            ("the longest time is 2^61", longest.clone().is(Term::Int(1 << 61))),
            ("no units refill in no time", none.is(Term::Int(0))),
            ("one unit refills in its time", one.is(per_unit.term())),
            ("no time is longer than the longest", time_of_more.clone().le(longest.clone())),
            ("more units need no less time", time_of_less.le(time_of_more.clone())),
            (
                "a time below the longest is exact",
                product
                    .clone()
                    .lt(longest.clone())
                    .implies(time_of_more.clone().is(product.clone())),
            ),
            (
                "a longer time is the longest",
                longest.clone().le(product).implies(time_of_more.is(longest)),
            ),
        ]
    });
}
