use std::cell::Cell;
use std::collections::BTreeMap;

use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

const FILES: &[&str] = &["breaker/window.rs"];

/// The slots of a window, and the generations and laps that a tag tells apart.
const SLOTS: i128 = 16;
const GENERATIONS: i128 = 1 << 7;
const LAPS: i128 = 1 << 24;
/// The number above the count of a word.
const TAG: i128 = 1 << 32;

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, about, prove| Law { name, says, files: FILES, about, prove };
    vec![
        law(
            "window: place",
            "a tick has one of 16 slots, and its tag has the generation and the lap",
            &["place"] as &[&str],
            place as fn(&mut Prover<'_>),
        ),
        law(
            "window: fresh",
            "the two tags of a window are those of its 16 ticks, and of no tick 16,777,216 laps before",
            &[],
            fresh,
        ),
        law(
            "window: emptied",
            "each 64th transition empties the window",
            &["Window::transition"],
            emptied,
        ),
        law(
            "window: generations",
            "between two emptyings a tag names one generation, also with late calls of the half before",
            &[],
            generations,
        ),
        law(
            "window: tick",
            "a reading of up to 146 years has the number of past slots, or one more; a small one is exact",
            &["Slot::of", "Slot::tick"],
            tick,
        ),
        law(
            "window: count",
            "a call counts once under its tag or not at all, and a full count stays full",
            &["add_one", "retag", "tag_of"],
            count,
        ),
    ]
}

/// Returns the slot of a tick, and its tag.
fn placed(it: &mut Machine<'_>, tick: &Term, generation: &Term) -> (Term, Term) {
    let args = [Value::u64(tick.clone()), Value::u32(generation.clone())];
    let Value::Tuple(parts) = it.call("place", &args) else { panic!("no slot and tag") };
    (parts[0].term(), parts[1].term())
}

fn place(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let tick = it.unknown("tick", Kind::U64).term();
        let generation = it.unknown("generation", Kind::U32).term();
        let (index, tag) = placed(it, &tick, &generation);
        let number = Term::Int;
        let lap = tick.clone().quotient(number(SLOTS)).remainder(number(LAPS));
        let upper = generation.remainder(number(GENERATIONS)).times(number(LAPS));
        vec![
            ("the slot is the tick in a round of 16", index.is(tick.remainder(number(SLOTS)))),
            (
                "the tag is used, and has the generation and the lap",
                tag.is(number(TAG / 2).plus(upper).plus(lap)),
            ),
        ]
    });
}

/// The window that ends with a tick, as `Window::counts` reads it: a slot up to the newest one has the
/// newest tag, and a later slot that of the lap before.
fn fresh(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let number = Term::Int;
        let generation = it.unknown("generation", Kind::U32).term();
        let last = it.unknown("last", Kind::U64).term();
        let tick = it.unknown("tick", Kind::U64).term();
        it.assume(number(SLOTS).le(last.clone()));
        it.assume(tick.clone().le(last.clone()));
        let age = last.clone().minus(tick.clone());
        it.assume(age.clone().lt(number(SLOTS * (LAPS - 1))));
        let (newest, lap) = placed(it, &last, &generation);
        let (_, before) = placed(it, &last.minus(number(SLOTS)), &generation);
        let (index, tag) = placed(it, &tick, &generation);
        let read = tag.is(index.le(newest).choose(lap, before));
        vec![(
            "a tick counts if and only if it is one of the last 16",
            read.is(age.lt(number(SLOTS))),
        )]
    });
}

fn emptied(prover: &mut Prover<'_>) {
    let is_emptied = Cell::new(false);
    let empty = |_: &mut Machine<'_>, _: &[Value]| {
        is_emptied.set(true);
        Value::Unit
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Window::empty", &empty);
    prover.check(&given, |it| {
        is_emptied.set(false);
        let number = Term::Int;
        let half = number(GENERATIONS / 2);
        let from = it.unknown("from", Kind::U32).term();
        // The generation after the highest one is the lowest.
        let is_highest = it.decide(from.clone().is(number(Kind::U32.most())));
        let to = if is_highest { number(0) } else { from.clone().plus(number(1)) };
        let window = Value::record("Window", []);
        it.call("Window::transition", &[window, Value::u32(from), Value::u32(to.clone())]);
        let is_due = to.remainder(half).is(number(0));
        vec![("a multiple of 64 empties, and no other", is_due.is(Term::Bool(is_emptied.get())))]
    });
}

/// A late call may write a word of the half before the live one, but of no earlier half.
fn generations(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let number = Term::Int;
        let half = it.call_constant("TRANSITIONS");
        let tick = it.unknown("tick", Kind::U64).term();
        let halves = it.unknown("halves", Kind::U32).term();
        let after = it.unknown("after", Kind::U32).term();
        it.assume(after.clone().lt(half.clone()));
        let live = halves.times(half.clone()).plus(after.clone());
        it.assume(live.clone().le(number(Kind::U32.most())));
        let back = it.unknown("back", Kind::U32).term();
        it.assume(number(1).le(back.clone()));
        it.assume(back.clone().le(after.plus(half)));
        let other = live.clone().minus(back);
        it.assume(number(0).le(other.clone()));
        let [(_, tag), (_, old)] = [live, other].map(|generation| placed(it, &tick, &generation));
        vec![("an earlier generation has another tag", tag.is(old).negated())]
    });
}

fn tick(prover: &mut Prover<'_>) {
    let nanos = |_: &mut Machine<'_>, _: &[Value]| Value::u64(Term::unknown("nanos"));
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("nanos", &nanos);
    prover.check(&given, |it| {
        let number = Term::Int;
        let window = Term::unknown("nanos");
        it.assume(window.clone().within(0, Kind::U64.most()));
        let slot = it.call("Slot::of", &[Value::Number(window.clone(), Kind::Duration)]);
        let now = it.unknown("now", Kind::U64).term();
        it.assume(now.clone().lt(number(1 << 62)));
        let tick = it.call("Slot::tick", &[slot, Value::u64(now.clone())]).term();
        let length = window.quotient(number(SLOTS)).max(number(2));
        let past = now.clone().quotient(length.clone());
        let is_small = now.lt(number(Kind::U64.most()).quotient(length));
        vec![
            (
                "the number of past slots, or one more",
                past.clone().le(tick.clone()).and(tick.clone().le(past.clone().plus(number(1)))),
            ),
            ("a small reading is exact", is_small.implies(tick.is(past))),
        ]
    });
}

fn count(prover: &mut Prover<'_>) {
    let truth = |name: &'static str| Value::Truth(Term::unknown(name).is(Term::Int(1)));
    let live = |_: &mut Machine<'_>, _: &[Value]| truth("live");
    let begins = |_: &mut Machine<'_>, _: &[Value]| truth("begins");
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("live", &live);
    given.insert("begins", &begins);
    prover.check(&given, |it| {
        let number = Term::Int;
        let before = it.unknown("word", Kind::U64).term();
        let tag = it.unknown("tag", Kind::U64).term();
        it.assume(tag.clone().lt(number(TAG)));
        let word = Value::atomic(before.clone());
        let [is_live, begins] = ["live", "begins"].map(|name| Term::unknown(name).is(number(1)));
        let [live, begin] = ["live", "begins"].map(Value::Given);
        let is_tagged = before.clone().quotient(number(TAG)).is(tag.clone());
        let same = |after: &Term| after.clone().is(before.clone());
        if it.decide(Term::unknown("retags").is(number(1))) {
            it.call("retag", &[word.clone(), Value::u64(tag.clone()), live]);
            let after = word.term();
            let changes = is_live.and(is_tagged.negated());
            let empty = after.clone().is(tag.times(number(TAG)));
            return vec![("a live call gives the tag and no count", {
                changes.clone().implies(empty).and(changes.or(same(&after)))
            })];
        }
        let args = [word.clone(), Value::u64(tag.clone()), live, begin];
        let told = it.call("add_one", &args).term();
        let after = word.term();
        let had = is_tagged.clone().choose(before.clone().remainder(number(TAG)), number(0));
        let more = had.plus(number(1)).min(number(TAG - 1));
        let counts = is_live.and(is_tagged.or(begins));
        vec![
            ("a live call counts if the slot has its tag or begins", told.clone().is(counts)),
            (
                "one more under the tag",
                told.clone().implies(after.clone().is(tag.times(number(TAG)).plus(more))),
            ),
            ("or nothing changes", told.or(same(&after))),
        ]
    });
}
