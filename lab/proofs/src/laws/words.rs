use std::collections::BTreeMap;

use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

pub(super) fn laws() -> Vec<Law> {
    vec![
        Law {
            name: "until: one word",
            says: "each wait of a call is found again in its word, or the nearest one that it can have",
            files: &["engine/until.rs"],
            about: &["Packed::new", "Packed::get", "Packed::is_nothing"],
            prove: until,
        },
        Law {
            name: "ticket: one word",
            says: "a breaker's ticket has the generation and the probe that went into it",
            files: &["breaker/ticket.rs"],
            about: &[
                "Ticket::new",
                "Ticket::of_closed",
                "Ticket::generation",
                "Ticket::probe",
                "lower",
                "upper",
            ],
            prove: ticket,
        },
    ]
}

fn until(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let kind = it.unknown("kind", Kind::U32).term();
        let length = it.unknown("length", Kind::U64);
        let is = |it: &mut Machine<'_>, nth| it.decide(kind.clone().is(Term::Int(nth)));
        let (name, parts) = if is(it, 0) {
            ("Nothing", Vec::new())
        } else if is(it, 1) {
            ("Deadline", Vec::new())
        } else if is(it, 2) {
            ("Finish", Vec::new())
        } else if is(it, 3) {
            ("Delay", vec![length.clone()])
        } else {
            ("Timeout", vec![length.clone()])
        };
        let word = it.call("Packed::new", &[Value::Variant(name.into(), parts)]);
        let found = it.call("Packed::get", std::slice::from_ref(&word));
        let is_nothing = it.call("Packed::is_nothing", &[word]).term();
        let same = Term::Bool(found.is_variant(name));
        let Value::Variant(_, parts) = &found else { panic!("no variant") };
        let length = length.term();
        let latest = it.call_constant("LATEST");
        let latest_is = latest.clone().is(Term::Int(i128::from(u64::MAX) - 1));
        // The lowest fifteen sixteenths are the ends of delays, and the rest are timeouts.
        let (last, longest) = (Term::Int((0b1111 << 60) - 1), Term::Int((1 << 60) - 3));
        let value = match (name, parts.first()) {
            ("Delay", Some(at)) => {
                let late = last.le(length.clone());
                at.term().is(late.choose(latest, length.max(Term::Int(1))))
            }
            ("Timeout", Some(limit)) => limit.term().is(length.min(longest)),
            _ => Term::Bool(true),
        };
        vec![
            ("the kind is found again", same),
            ("the length is found again", value),
            ("the latest time is not the unknown one", latest_is),
            ("nothing is nothing", is_nothing.is(Term::Bool(name == "Nothing"))),
        ]
    });
}

fn ticket(prover: &mut Prover<'_>) {
    let probe = |it: &mut Machine<'_>, args: &[Value]| {
        let number = args[0].term();
        if it.decide(number.clone().is(Term::Int(0))) {
            Value::none()
        } else {
            Value::some(Value::u32(number))
        }
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Probe::new", &probe); // a `NonZeroU32`
    prover.check(&given, |it| {
        let generation = it.unknown("generation", Kind::U32);
        let probe = it.unknown("probe", Kind::U32);
        let is_probe = it.decide(Term::Int(1).le(probe.term()));
        let given = if is_probe { Value::some(probe.clone()) } else { Value::none() };
        let ticket = it.call("Ticket::new", &[generation.clone(), given]);
        let found = it.call("Ticket::generation", std::slice::from_ref(&ticket)).term();
        let found_probe = it.call("Ticket::probe", &[ticket]);
        let same = match &found_probe {
            Value::Variant(_, parts) if is_probe => {
                parts.first().map_or(Term::Bool(false), |found| found.term().is(probe.term()))
            }
            _ => Term::Bool(found_probe.is_variant("None")),
        };
        let wide = Value::u64(generation.term());
        let closed = it.call("Ticket::of_closed", &[wide]);
        let of_closed = it.call("Ticket::generation", std::slice::from_ref(&closed)).term();
        let no_probe = it.call("Ticket::probe", &[closed]).is_variant("None");
        vec![
            ("the generation is found again", found.is(generation.term())),
            ("the probe is found again", same),
            ("a ticket of a closed breaker has its generation", of_closed.is(generation.term())),
            ("a ticket of a closed breaker has no probe", Term::Bool(no_probe)),
        ]
    });
}
