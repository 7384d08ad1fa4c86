use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::law::{Givens, Prover};
use crate::machine::Machine;
use crate::solver::TIME_OF;
use crate::term::Term;
use crate::value::{Kind, Value};

/// Gives `time_of` as a function of which only the law `rate: time of units` is known.
pub(super) fn with_times(
    prover: &mut Prover<'_>,
    paces: bool,
    run: impl Fn(&mut Machine<'_>, &RefCell<Option<Term>>) -> Vec<(&'static str, Term)>,
) {
    // The time of the bucket's own clock on this path, if the path asked for it.
    let own: RefCell<Option<Term>> = RefCell::new(None);
    let asked: RefCell<Vec<Term>> = RefCell::new(Vec::new());
    let time_of = |it: &mut Machine<'_>, args: &[Value]| {
        let units = args[1].term();
        let time = Term::apply(TIME_OF, units.clone());
        let longest = it.call_constant("LONGEST");
        it.assume(Term::Int(0).le(time.clone()).and(time.clone().le(longest)));
        it.assume(units.clone().is(Term::Int(0)).implies(time.clone().is(Term::Int(0))));
        it.assume(Term::Int(1).le(units.clone()).implies(Term::Int(1).le(time.clone())));
        let mut asked = asked.borrow_mut();
        for other in asked.iter() {
            let time_of_other = Term::apply(TIME_OF, other.clone());
            it.assume(
                other.clone().le(units.clone()).implies(time_of_other.clone().le(time.clone())),
            );
            it.assume(units.clone().le(other.clone()).implies(time.clone().le(time_of_other)));
        }
        asked.push(units);
        Value::u64(time)
    };
    let burst = |_: &mut Machine<'_>, args: &[Value]| args[0].field("burst");
    let is_on = move |it: &mut Machine<'_>, _: &[Value]| {
        Value::Truth(Term::Bool(
            paces && {
                let on = it.unknown("is_on", Kind::U32).term();
                it.decide(on.is(Term::Int(1)))
            },
        ))
    };
    let moment = |it: &mut Machine<'_>, _: &[Value]| {
        let (now, gap) = (it.unknown("own", Kind::U64), it.unknown("gap", Kind::U64));
        own.replace(Some(now.term()));
        Value::record("Moment", [("now", now), ("gap", gap)])
    };
    let when = |_: &mut Machine<'_>, args: &[Value]| args[1].clone();
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Rate::time_of", &time_of);
    given.insert("Rate::burst", &burst);
    given.insert("Pace::is_on", &is_on);
    given.insert("Pace::moment", &moment);
    given.insert("Pace::when", &when);
    prover.check(&given, |it| {
        asked.borrow_mut().clear();
        own.replace(None);
        run(it, &own)
    });
}

/// A bucket with any word that it can have.
pub(super) struct Any {
    pub(super) bucket: Value,
    pub(super) word: Value,
    pub(super) before: Term,
    pub(super) burst: Term,
    pub(super) burst_time: Term,
    pub(super) is_lease: Term,
    pub(super) end: Term,
    pub(super) resumes: Term,
}

impl Any {
    pub(super) fn new(it: &mut Machine<'_>) -> Self {
        let burst = it.unknown("burst", Kind::U32);
        let largest = it.call_constant("LARGEST_BURST");
        it.assume(burst.term().le(largest));
        let rate = Value::record("Rate", [("burst", burst.clone())]);
        // As `Bucket::new` has it.
        let burst_time = it.call("Rate::time_of", &[rate.clone(), burst.clone()]);
        let before = it.unknown("word", Kind::U64).term();
        let first = it.call_constant("FIRST_LEASED");
        let is_lease = first.le(before.clone());
        let word = Value::atomic(before.clone());
        let (end, low) = (it.unknown("end", Kind::U64).term(), it.unknown("low", Kind::U64).term());
        let resumes = it.unknown("resumes", Kind::U64).term();
        let lease = [
            ("end", Value::atomic(end.clone())),
            ("low", Value::atomic(low)),
            ("resumes_at", Value::atomic(resumes.clone())),
            ("told", Value::atomic(Term::Int(i128::from(u64::MAX)))),
        ];
        let bucket = Value::record(
            "Bucket",
            [
                ("rate", rate),
                ("burst_time", burst_time.clone()),
                ("full_at", word.clone()),
                ("lease", Value::record("Lease", lease)),
                ("pace", Value::record("Pace", [])),
            ],
        );
        let (burst, burst_time) = (burst.term(), burst_time.term());
        Self { bucket, word, before, burst, burst_time, is_lease, end, resumes }
    }

    pub(super) fn after(&self) -> Term {
        self.word.term()
    }

    pub(super) fn keeps_its_range(&self, it: &mut Machine<'_>) -> Term {
        let first = it.call_constant("FIRST_LEASED");
        self.is_lease.clone().is(first.le(self.after()))
    }
}
