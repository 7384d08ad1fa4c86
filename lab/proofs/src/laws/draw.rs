use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

pub(super) fn laws() -> Vec<Law> {
    vec![
        Law {
            name: "draw: within a range",
            says: "a drawn number is in its range, whatever the random bits are",
            files: &["time/rng.rs"],
            about: &["within"],
            prove: within,
        },
        Law {
            name: "jitter: spread",
            says: "a delay is drawn from a range in order, at most the delay or the cap",
            files: &["backoff/jitter.rs"],
            about: &["Jitter::spread"],
            prove: spread,
        },
    ]
}

fn within(prover: &mut Prover<'_>) {
    let products = RefCell::new(Vec::new());
    let bits = |it: &mut Machine<'_>, _: &[Value]| it.unknown("bits", Kind::U64);
    // The two words of a product, which the sources compute in 128 bits. One factor is below 2^64, so
    // the product is at most 2^64 - 1 times the other one.
    let product = |it: &mut Machine<'_>, args: &[Value]| {
        let (upper, lower) = (it.unknown("upper", Kind::U64), it.unknown("lower", Kind::U64));
        let whole = upper.term().times(Term::Int(1 << 64)).plus(lower.term());
        it.assume(whole.le(args[1].term().times(Term::Int(u64::MAX.into()))));
        products.borrow_mut().push((upper.term(), lower.term()));
        Value::Tuple(vec![upper, lower])
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("bits", &bits);
    given.insert("product", &product);
    prover.check(&given, |it| {
        products.borrow_mut().clear();
        let (start, end) = (it.unknown("start", Kind::U64), it.unknown("end", Kind::U64));
        it.assume(start.term().le(end.term()));
        let range = Value::Range(start.clone().into(), end.clone().into());
        let drawn = it.call("within", &[range, Value::Given("bits")]).term();
        // Lemire's multiplication: the upper word, and the carry of the next bits.
        let exact = match &**products.borrow() {
            [] => Term::Bool(true),
            [(number, _)] => drawn.clone().is(start.term().plus(number.clone())),
            [(number, fraction), (more, _), ..] => {
                let carry = Term::Int(u64::MAX.into()).lt(fraction.clone().plus(more.clone()));
                let carry = carry.choose(Term::Int(1), Term::Int(0));
                drawn.clone().is(start.term().plus(number.clone()).plus(carry))
            }
        };
        vec![
            ("the upper word of the product, with the carry", exact),
            ("not below the range", start.term().le(drawn.clone())),
            ("not above the range", drawn.le(end.term())),
        ]
    });
}

fn spread(prover: &mut Prover<'_>) {
    // A product of floating point: at most the delay, because the share is at most 1.
    let parts = RefCell::new(Term::Int(0));
    let scale = |it: &mut Machine<'_>, args: &[Value]| {
        it.claim_order(Term::Int(0), args[1].term());
        it.claim_order(args[1].term(), Term::Int(1));
        let part = it.unknown("part", Kind::U64);
        parts.replace(part.term());
        it.assume(part.term().le(args[0].term()));
        part
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("scale", &scale);
    prover.check(&given, |it| {
        let [delay, previous, cap] =
            ["delay", "previous", "cap"].map(|name| it.unknown(name, Kind::U64));
        it.assume(delay.term().le(cap.term())); // a curve ends at the cap
        let kind = it.unknown("kind", Kind::U32).term();
        let is = |it: &mut Machine<'_>, nth| it.decide(kind.clone().is(Term::Int(nth)));
        let name = if is(it, 0) {
            "None"
        } else if is(it, 1) {
            "Full"
        } else if is(it, 2) {
            "Equal"
        } else if is(it, 3) {
            "Proportional"
        } else {
            "Decorrelated"
        };
        // Any share: the sources compare it with 0 and with 1 alone.
        let share = it.unknown("share", Kind::I64);
        let jitter = Value::Variant(name.into(), vec![share]);
        let args = [jitter, delay.clone(), previous.clone(), cap.clone()];
        let Value::Range(start, end) = it.call("Jitter::spread", &args) else { panic!("no range") };
        let (start, end, delay, cap) = (start.term(), end.term(), delay.term(), cap.term());
        let exact = match name {
            "None" => start.clone().is(delay.clone()).and(end.clone().is(delay)),
            "Full" => start.clone().is(Term::Int(0)).and(end.clone().is(delay)),
            "Equal" => {
                start.clone().is(delay.clone().quotient(Term::Int(2))).and(end.clone().is(delay))
            }
            "Proportional" => {
                let reach = parts.borrow().clone();
                let high = delay.plus(reach.clone()).min(MOST).min(cap.clone());
                let low = high.clone().minus(reach.clone().plus(reach)).max(Term::Int(0));
                start.clone().is(low).and(end.clone().is(high))
            }
            _ => {
                let high = previous
                    .term()
                    .max(delay.clone())
                    .times(Term::Int(3))
                    .min(MOST)
                    .min(cap.clone());
                let low = delay.min(cap.clone().quotient(Term::Int(3)));
                start.clone().is(low).and(end.clone().is(high))
            }
        };
        vec![
            ("the ends are in order", start.le(end.clone())),
            ("no delay is above the cap", end.le(cap)),
            ("the ends are those of the jitter", exact),
        ]
    });
}

const MOST: Term = Term::Int(u64::MAX as i128);
