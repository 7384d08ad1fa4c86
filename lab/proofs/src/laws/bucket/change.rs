use std::cell::RefCell;
use std::collections::BTreeMap;

use super::any::{Any, with_times};
use crate::law::{Givens, Prover};
use crate::machine::Machine;
use crate::solver::TIME_OF;
use crate::term::Term;
use crate::value::{Kind, Value};

pub(super) fn give_back(prover: &mut Prover<'_>) {
    with_times(prover, false, |it, _| {
        let any = Any::new(it);
        let (units, now) = (it.unknown("units", Kind::U32), it.unknown("now", Kind::U64));
        it.assume(Term::Int(1).le(units.term()));
        let last = it.call_constant("LATEST");
        let answer = it.call("Bucket::take", &[any.bucket.clone(), units.clone(), now.clone()]);
        if answer.is_variant("Refused") {
            return Vec::new();
        }
        it.call("Bucket::give_back", &[any.bucket.clone(), units]);
        let clock = now.term().min(last);
        let lease = any.is_lease.clone();
        let whole = lease.clone().choose(any.before.clone(), any.before.clone().max(clock));
        vec![
            ("the bucket is as before the take", any.after().is(whole)),
            ("the bucket is never fuller", any.before.clone().le(any.after())),
            ("a word keeps its range", any.keeps_its_range(it)),
        ]
    });
}

pub(super) fn change(prover: &mut Prover<'_>) {
    with_times(prover, true, |it, own| {
        let any = Any::new(it);
        let (from, to) = (it.unknown("from", Kind::U64), it.unknown("to", Kind::U64));
        let now = it.unknown("now", Kind::U64);
        it.call("Bucket::change", &[any.bucket.clone(), from.clone(), to.clone(), now.clone()]);
        let clock = own.borrow().clone().unwrap_or(now.term()).min(it.call_constant("LATEST"));
        let keeps = any.keeps_its_range(it);
        let (from, to) = (from.term(), to.term());
        let (before, after) = (any.before.clone(), any.after());
        let is_more = from.clone().lt(to.clone());
        let (last, first) = (it.call_constant("LAST"), it.call_constant("FIRST_LEASED"));
        let step = Term::apply(TIME_OF, to.clone()).minus(Term::apply(TIME_OF, from.clone()));
        let most = any.is_lease.clone().choose(Term::Int(i128::from(u64::MAX)), last);
        let floor = any.is_lease.clone().choose(first, Term::Int(0));
        let moved = before.clone().plus(step.clone()).max(floor).min(most.clone());
        let adds = Term::Int(0).lt(step.clone());
        let charged = before.clone().max(clock).plus(step).min(most);
        let of_time = any.is_lease.clone().negated().and(adds.clone());
        vec![
            ("a word keeps its range", keeps),
            (
                "no change changes nothing",
                from.clone().is(to.clone()).implies(before.clone().is(after.clone())),
            ),
            ("more units are charged from now on", of_time.implies(after.clone().is(charged))),
            (
                "a lease moves by the time alone",
                any.is_lease.clone().implies(moved.clone().is(after.clone())),
            ),
            ("fewer units move the word by the time", is_more.and(adds).or(moved.is(after))),
        ]
    });
}

pub(super) fn clock(prover: &mut Prover<'_>) {
    let said = RefCell::new(None);
    // A pace that is all in use again moves the word.
    let moment = |it: &mut Machine<'_>, args: &[Value]| {
        let late = it.unknown("late", Kind::U64);
        it.apply(&args[3], std::slice::from_ref(&late));
        let (now, gap) = (it.unknown("own", Kind::U64), it.unknown("gap", Kind::U64));
        said.replace(Some([args[2].term(), late.term(), now.term(), gap.term()]));
        Value::record("Moment", [("now", now), ("gap", gap)])
    };
    let time_of = |it: &mut Machine<'_>, _: &[Value]| it.unknown("time", Kind::U64);
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Pace::moment", &moment);
    given.insert("Rate::time_of", &time_of);
    prover.check(&given, |it| {
        let any = Any::new(it);
        let now = it.unknown("now", Kind::U64);
        let moment = it.call("Bucket::slow_moment", &[any.bucket.clone(), now.clone()]);
        let (latest, last) = (it.call_constant("LATEST"), it.call_constant("LAST"));
        let [asked, late, own, gap] = said.take().expect("the pace is asked");
        let later = any.before.clone().plus(late).min(last);
        let moved = any.is_lease.clone().choose(any.before.clone(), later);
        vec![
            ("the pace is asked for no later time", asked.is(now.term().min(latest.clone()))),
            ("a time is as late as the clock was, a lease stays", any.after().is(moved)),
            ("a word keeps its range", any.keeps_its_range(it)),
            ("the time is not after the latest", moment.field("now").term().is(own.min(latest))),
            (
                "no more than the burst is closed",
                moment.field("gap").term().is(gap.min(any.burst_time)),
            ),
        ]
    });
}

pub(super) fn lower(prover: &mut Prover<'_>) {
    with_times(prover, true, |it, own| {
        let any = Any::new(it);
        let (units, now) = (it.unknown("units", Kind::I64), it.unknown("now", Kind::U64));
        it.call("Bucket::lower_to", &[any.bucket.clone(), units.clone(), now.clone()]);
        let clock = own.borrow().clone().unwrap_or(now.term()).min(it.call_constant("LATEST"));
        let told = any.bucket.field("lease").field("told").term();
        let resumes = any.bucket.field("lease").field("resumes_at").term();
        let keeps = any.keeps_its_range(it);
        let (before, after) = (any.before.clone(), any.after());
        let negative = units.term().lt(Term::Int(0));
        let apart = negative.clone().choose(Term::Int(0).minus(units.term()), units.term());
        let time = Term::apply(TIME_OF, apart);
        let level = negative.choose(Term::Int(0).minus(time.clone()), time);
        let (last, first) = (it.call_constant("LAST"), it.call_constant("FIRST_LEASED"));
        let empty = it.call_constant("EMPTY");
        let most = Term::Int(i128::from(u64::MAX));
        let leased = empty.minus(level.clone()).max(first).min(most);
        let timed = clock.plus(any.burst_time.clone()).minus(level).max(Term::Int(0)).min(last);
        let lease = any.is_lease.clone();
        let not_told = Term::Int(i128::from(u64::MAX));
        let tells = lease.clone().choose(units.term().max(Term::Int(0)), not_told);
        let latest = any.resumes.clone().max(now.term());
        let refills = lease.clone().choose(latest, any.resumes.clone());
        vec![
            ("a word keeps its range", keeps),
            ("the level only falls", before.clone().le(after.clone())),
            (
                "a lease has at most the level",
                lease.clone().implies(after.clone().is(before.clone().max(leased))),
            ),
            ("a time has at most the level", lease.or(after.is(before.max(timed)))),
            ("the owner of a lease is told the level", told.is(tells)),
            ("and the latest time from which on it refills", resumes.is(refills)),
        ]
    });
}
