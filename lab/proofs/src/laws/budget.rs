use std::cell::Cell;
use std::collections::BTreeMap;

use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

const FILES: &[&str] = &["budget/prices.rs", "budget/budget.rs"];

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, about, prove| Law { name, says, files: FILES, about, prove };
    vec![
        law(
            "budget: take",
            "a retry takes exactly its cost or nothing; the budget never goes below zero",
            &["Budget::take", "Budget::allows", "Budget::cost", "Prices::of"] as &[&str],
            take as fn(&mut Prover<'_>),
        ),
        law(
            "budget: give",
            "a deposit adds exactly its amount up to the ceiling, a refund up to the capacity; what is above \
             the usable number waits",
            &[
                "put",
                "Budget::bring",
                "Budget::earn",
                "Budget::deposit",
                "Budget::deposit_for",
                "Budget::refund_for",
            ],
            give,
        ),
        law(
            "budget: failure",
            "a failure takes one token as far as it is there, where failures count",
            &["Budget::note_failure"],
            failure,
        ),
        law(
            "budget: conserved",
            "a retry that is not made leaves the budget as before, with what waits",
            &[],
            conserved,
        ),
    ]
}

struct Any {
    budget: Value,
    left: Value,
    before: Term,
    /// What waits for the store.
    earned: Value,
    waits: Term,
    usable: Term,
    capacity: Term,
    ceiling: Term,
    prices: [Term; 3],
    counts_failures: Term,
    refunds: Term,
}

impl Any {
    fn new(it: &mut Machine<'_>) -> Self {
        let before = it.unknown("left", Kind::U64).term();
        let capacity = it.unknown("capacity", Kind::U64);
        let ceiling = it.unknown("ceiling", Kind::U64).term();
        let low = it.unknown("low", Kind::U64).term();
        let (waits, usable) =
            (it.unknown("earned", Kind::U64).term(), it.unknown("usable", Kind::U64).term());
        it.assume(waits.clone().plus(before.clone()).le(capacity.term()));
        it.assume(usable.clone().le(capacity.term()));
        it.assume(before.clone().le(capacity.term()));
        it.assume(ceiling.clone().le(capacity.term()));
        let prices = ["failed", "throttled", "deposit"].map(|name| it.unknown(name, Kind::U64));
        let truth =
            |it: &mut Machine<'_>, name| it.unknown(name, Kind::U32).term().is(Term::Int(1));
        let (counts_failures, refunds) = (truth(it, "counts"), truth(it, "refunds"));
        let [failed, throttled, deposit] = prices.clone();
        let fields = [
            ("failed", failed),
            ("throttled", throttled),
            ("deposit", deposit),
            ("counts_failures", Value::Truth(counts_failures.clone())),
            ("refunds", Value::Truth(refunds.clone())),
        ];
        let (left, earned) = (Value::atomic(before.clone()), Value::atomic(waits.clone()));
        let budget = Value::record(
            "Budget",
            [
                ("left", left.clone()),
                ("capacity", capacity.clone()),
                ("ceiling", Value::atomic(ceiling.clone())),
                ("usable", Value::atomic(usable.clone())),
                ("earned", earned.clone()),
                ("low", Value::atomic(low)),
                ("prices", Value::record("Prices", fields)),
                ("signal", Value::record("Signal", [])),
            ],
        );
        let prices = prices.map(|price| price.term());
        let capacity = capacity.term();
        Self {
            budget,
            left,
            before,
            earned,
            waits,
            usable,
            capacity,
            ceiling,
            prices,
            counts_failures,
            refunds,
        }
    }

    fn after(&self) -> Term {
        self.left.term()
    }

    /// Returns what waits for the store afterwards.
    fn waits_after(&self) -> Term {
        self.earned.term()
    }

    /// Returns a cause and the cost of a retry with it.
    fn cause(&self, it: &mut Machine<'_>) -> (Value, Term) {
        let throttled = it.unknown("cause", Kind::U32).term().is(Term::Int(1));
        let [failed, after_throttling, _] = self.prices.clone();
        let (name, price) =
            if it.decide(throttled) { ("Throttled", after_throttling) } else { ("Failed", failed) };
        (Value::Variant(name.into(), Vec::new()), price.min(self.capacity.clone()))
    }
}

fn check(
    prover: &mut Prover<'_>,
    run: impl Fn(&mut Machine<'_>, &Cell<bool>) -> Vec<(&'static str, Term)>,
) {
    let is_told = Cell::new(false);
    let hint = |_: &mut Machine<'_>, _: &[Value]| {
        is_told.set(true);
        Value::Unit
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Signal::hint", &hint);
    prover.check(&given, |it| {
        is_told.set(false);
        run(it, &is_told)
    });
}

fn take(prover: &mut Prover<'_>) {
    check(prover, |it, is_told| {
        let any = Any::new(it);
        let (cause, cost) = any.cause(it);
        let paid = it.call("Budget::take", &[any.budget.clone(), cause]).term();
        let (before, after) = (any.before.clone(), any.after());
        let half = any.capacity.clone().quotient(Term::Int(2));
        let allows = any
            .counts_failures
            .clone()
            .choose(half.lt(before.clone()), Term::Int(0).lt(any.capacity.clone()));
        let low = any.budget.field("low").term();
        let is_low = paid.clone().negated().or(after.clone().lt(low));
        let pays = allows.and(cost.clone().le(before.clone()));
        vec![
            ("a retry is paid if and only if it is allowed and there", paid.clone().is(pays)),
            (
                "a paid retry takes exactly its cost",
                paid.clone().implies(after.clone().is(before.clone().minus(cost))),
            ),
            ("a refused retry takes nothing", paid.or(after.clone().is(before))),
            ("what waits pays for nothing", any.waits_after().is(any.waits.clone())),
            (
                "the budget stays within its capacity",
                Term::Int(0).le(after.clone()).and(after.le(any.capacity)),
            ),
            ("a low budget is told", is_low.is(Term::Bool(is_told.get()))),
        ]
    });
}

fn give(prover: &mut Prover<'_>) {
    check(prover, |it, _| {
        let any = Any::new(it);
        let (cause, cost) = any.cause(it);
        let way = it.unknown("way", Kind::U32).term();
        let deposit = any.prices[2].clone();
        let (amount, most) = if it.decide(way.clone().is(Term::Int(0))) {
            it.call("Budget::deposit", std::slice::from_ref(&any.budget));
            (deposit, any.ceiling.clone())
        } else if it.decide(way.is(Term::Int(1))) {
            it.call("Budget::deposit_for", &[any.budget.clone(), cause]);
            (any.refunds.clone().choose(cost.max(deposit.clone()), deposit), any.ceiling.clone())
        } else {
            it.call("Budget::refund_for", &[any.budget.clone(), cause]);
            (cost, any.capacity.clone())
        };
        let (before, after) = (any.before.clone(), any.after());
        let limit = most.clone().min(any.usable.clone());
        let filled = before.clone().plus(amount.clone()).min(limit).max(before.clone());
        let rest = amount.minus(after.clone().minus(before.clone()));
        let room = most.clone().minus(after.clone()).max(Term::Int(0));
        let (waits, waits_after) = (any.waits.clone(), any.waits_after());
        let waiting = waits.clone().plus(rest).min(room).max(waits.clone());
        let waiting = any.usable.clone().lt(most).choose(waiting, waits);
        vec![
            (
                "exactly the amount is added, up to the most that is usable",
                after.clone().is(filled),
            ),
            ("the rest waits, up to the most in all", waits_after.is(waiting)),
            ("the budget never loses by it", before.le(after.clone())),
            ("the budget stays within its capacity", after.le(any.capacity)),
        ]
    });
}

fn failure(prover: &mut Prover<'_>) {
    check(prover, |it, _| {
        let any = Any::new(it);
        it.call("Budget::note_failure", std::slice::from_ref(&any.budget));
        let (before, after) = (any.before.clone(), any.after());
        let token = it.call_constant("TOKEN");
        let less = before.clone().minus(token).max(Term::Int(0));
        vec![
            ("one token less, or nothing", after.is(any.counts_failures.choose(less, before))),
            ("a token has a million parts", it.call_constant("TOKEN").is(Term::Int(1_000_000))),
        ]
    });
}

fn conserved(prover: &mut Prover<'_>) {
    check(prover, |it, _| {
        let any = Any::new(it);
        let (cause, _) = any.cause(it);
        let paid = it.call("Budget::take", &[any.budget.clone(), cause.clone()]).term();
        if !it.decide(paid) {
            return Vec::new();
        }
        it.call("Budget::refund_for", &[any.budget.clone(), cause]);
        let (before, after) = (any.before.clone(), any.after());
        let both = after.clone().plus(any.waits_after());
        vec![
            ("nothing is lost", both.is(before.clone().plus(any.waits.clone()))),
            ("the usable part is as before", any.usable.lt(before.clone()).or(after.is(before))),
        ]
    });
}
