use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::law::{Givens, Law, Prover};
use crate::machine::Machine;
use crate::term::Term;
use crate::value::{Kind, Value};

const FILES: &[&str] = &["cooldown/gate.rs", "time/nanos.rs"];

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, about, prove| Law { name, says, files: FILES, about, prove };
    vec![
        law(
            "gate: hold",
            "a hold ends no earlier than before, and at the latest after the cap; it says whether it grew",
            &["Gate::hold", "Gate::hold_until", "Gate::is_over"] as &[&str],
            hold as fn(&mut Prover<'_>),
        ),
        law(
            "gate: wait",
            "a call waits for the whole hold, never for no time, never beyond the release, and for its end only if its place is behind it",
            &["Gate::wait", "Gate::clear"],
            wait,
        ),
        law(
            "nanos: of a duration",
            "the nanoseconds of a duration are exact, or the largest number",
            &["nanos"],
            nanos,
        ),
    ]
}

struct Any {
    gate: Value,
    until: Value,
    before: Term,
    since: Term,
    hint: Term,
    cap: Term,
    default_hold: Term,
}

impl Any {
    fn new(it: &mut Machine<'_>) -> Self {
        let before = it.unknown("until", Kind::U64).term();
        let (cap, default_hold) =
            (it.unknown("cap", Kind::Duration), it.unknown("default", Kind::Duration));
        let settings = Value::record(
            "Settings",
            [("cap", cap.clone()), ("default_hold", default_hold.clone())],
        );
        let until = Value::atomic(before.clone());
        let (since, hint) =
            (it.unknown("since", Kind::U64).term(), it.unknown("hint", Kind::U64).term());
        let gate = Value::record(
            "Gate",
            [
                ("until", until.clone()),
                ("since", Value::atomic(since.clone())),
                ("hint", Value::atomic(hint.clone())),
                ("settings", settings),
            ],
        );
        let (cap, default_hold) = (cap.term(), default_hold.term());
        Self { gate, until, before, since, hint, cap, default_hold }
    }
}

/// What the functions asked for on this path.
#[derive(Default)]
struct Seen {
    /// The length of the release.
    spread: Option<Term>,
    /// The draws: the ends of the range, and the number.
    drawn: Vec<(Term, Term, Term)>,
}

/// The length of the release is any number: it comes from a product of floating point.
fn check(
    prover: &mut Prover<'_>,
    run: impl Fn(&mut Machine<'_>, &RefCell<Seen>) -> Vec<(&'static str, Term)>,
) {
    let seen = RefCell::new(Seen::default());
    let spread = |it: &mut Machine<'_>, _: &[Value]| {
        let spread = it.unknown("spread", Kind::U64);
        seen.borrow_mut().spread = Some(spread.term());
        spread
    };
    let draw = |it: &mut Machine<'_>, args: &[Value]| {
        let Value::Range(start, end) = &args[0] else { panic!("a range is drawn from") };
        it.claim_order(start.term(), end.term());
        let drawn = it.unknown("drawn", Kind::U64);
        it.assume(start.term().le(drawn.term()).and(drawn.term().le(end.term())));
        seen.borrow_mut().drawn.push((start.term(), end.term(), drawn.term()));
        drawn
    };
    let mut given: Givens<'_> = BTreeMap::new();
    given.insert("Gate::spread", &spread);
    given.insert("draw", &draw);
    prover.check(&given, |it| {
        seen.take();
        run(it, &seen)
    });
}

const MOST: Term = Term::Int(u64::MAX as i128);

fn hold(prover: &mut Prover<'_>) {
    check(prover, |it, seen| {
        let any = Any::new(it);
        let now = it.unknown("now", Kind::U64);
        let stated = it.unknown("stated", Kind::U32).term().is(Term::Int(1));
        let after = it.unknown("after", Kind::Duration);
        let (asked, after) = if it.decide(stated) {
            (after.term(), Value::some(after))
        } else {
            (any.default_hold.clone(), Value::none())
        };
        let grew = it.call("Gate::hold", &[any.gate.clone(), now.clone(), after]).term();
        let (before, until) = (any.before.clone(), any.until.term());
        let length = asked.min(any.cap.clone()).min(MOST);
        let end = now.term().plus(length.clone()).min(MOST);
        let is_none = length.clone().is(Term::Int(0));
        // The hold was over if its release was.
        let asks = Term::Bool(seen.borrow().spread.is_some());
        let runs = before.clone().is(Term::Int(0)).or(now.term().lt(before.clone()));
        let is_past = seen.borrow().spread.clone().map_or(Term::Bool(false), |release| {
            let end = before.clone().plus(release).min(MOST);
            before.clone().le(now.term()).and(end.le(now.term()))
        });
        let is_over = before.clone().is(Term::Int(0)).or(is_past);
        let past = it.call_constant("PAST");
        let begins = is_none.clone().negated().and(is_over);
        let since = begins.choose(now.term().plus(past.clone()).min(MOST), any.since.clone());
        let rest = before.clone().minus(now.term()).max(Term::Int(0));
        let longest = any.hint.clone().max(length.clone()).max(rest);
        let hint = before.clone().le(now.term()).choose(length, longest);
        let hint = is_none.clone().choose(any.hint.clone(), hint);
        vec![
            ("a hold that has ended is asked for its release", asks.or(runs).or(is_none.clone())),
            (
                "a hold that is over begins anew, another one goes on",
                any.gate.field("since").term().is(since),
            ),
            ("the longest hint of the hold is kept", any.gate.field("hint").term().is(hint)),
            ("a hold of another process can be two years old", past.is(Term::Int(1 << 56))),
            ("a hold ends no earlier", before.clone().le(until.clone())),
            (
                "a hold ends after what was asked, at most the cap",
                is_none.clone().choose(
                    until.clone().is(before.clone()),
                    until.clone().is(before.clone().max(end)),
                ),
            ),
            ("it says whether it grew", grew.is(before.lt(until))),
        ]
    });
}

fn wait(prover: &mut Prover<'_>) {
    check(prover, |it, seen| {
        let any = Any::new(it);
        let (now, ends_at) = (it.unknown("now", Kind::U64), it.unknown("ends_at", Kind::U64));
        let is_new = it.unknown("is_new", Kind::U32).term().is(Term::Int(1));
        let is_new = it.decide(is_new);
        let new = Value::Truth(Term::Bool(is_new));
        let args = [any.gate.clone(), now.clone(), ends_at.clone(), new, Value::Given("draw")];
        let answer = it.call("Gate::wait", &args);
        let (before, until) = (any.before.clone(), any.until.term());
        let (now, ends_at) = (now.term(), ends_at.term());
        let Seen { spread, drawn } = seen.take();
        let spread = spread.unwrap_or(Term::Int(0));
        let runs = before.clone().is(Term::Int(0)).negated();
        let held = now.clone().lt(before.clone());
        let start = before.clone().max(now.clone());
        let released_at = before.clone().plus(spread.clone()).min(MOST);
        let is_over = released_at.clone().le(now.clone());
        let turn = spread.quotient(Term::Int(16));
        // The call ends during the release, so the last moment at which it can go is before its end.
        let is_within =
            start.clone().lt(ends_at.clone()).and(ends_at.clone().le(released_at.clone()));
        let is_within = it.decide(runs.clone().and(is_within));
        let goes_until =
            if is_within { ends_at.clone().minus(Term::Int(1)) } else { released_at.clone() };
        let left = goes_until.minus(start.clone());
        // A new call first draws its place in the whole release.
        let draws_place = is_within && is_new;
        let (place, drawn) = drawn.split_at(usize::from(draws_place).min(drawn.len()));
        let is_whole = place.first().map_or(Term::Bool(!draws_place), |(low, high, _)| {
            let places = released_at.clone().minus(start.clone());
            low.clone().is(Term::Int(0)).and(high.clone().plus(Term::Int(1)).is(places))
        });
        let place = place.first().map(|(_, _, place)| start.clone().plus(place.clone()));
        let is_behind = place.clone().map_or(Term::Bool(false), |place| ends_at.clone().le(place));
        let placed = ("a new call draws one place of the release", is_whole);
        let Value::Variant(_, parts) = &answer else { panic!("no `Option`") };
        let Some(delay) = parts.first() else {
            let ended = until.clone().is(Term::Int(0)).and(is_over);
            // The draw decides whether a call goes during the release.
            let goes = match drawn.first() {
                None => {
                    let is_last = Term::Bool(is_within).and(left.is(Term::Int(0)));
                    runs.negated().or(ended.clone()).or(is_last)
                }
                Some((low, high, drawn)) => low
                    .clone()
                    .is(Term::Int(0))
                    .and(high.clone().plus(Term::Int(1)).is(left))
                    .and(drawn.clone().le(turn)),
            };
            return vec![
                placed,
                ("no call goes while the hold runs", held.negated()),
                ("a call goes after the release, at its last moment, or by its draw", goes),
                ("no call goes if its place is behind its end", is_behind.negated()),
                ("only a hold that is over ends", until.is(before).or(ended)),
            ];
        };
        let delay = delay.term();
        let asks_at = now.clone().plus(delay.clone());
        let stays = match drawn {
            [] => is_behind.clone().and(place.unwrap_or(Term::Int(0)).is(asks_at.clone())),
            [(low, high, drawn)] => {
                let whole = low.clone().is(Term::Int(0)).and(high.clone().is(turn.min(left)));
                held.clone().and(whole).and(before.clone().plus(drawn.clone()).is(asks_at.clone()))
            }
            [(_, _, first), (low, high, second)] => {
                let whole = low.clone().is(Term::Int(0)).and(high.clone().is(turn.clone()));
                let half = turn.clone().quotient(Term::Int(2));
                let exact = half.plus(second.clone()).max(Term::Int(1)).min(left);
                turn.lt(first.clone()).and(whole).and(delay.clone().is(exact))
            }
            _ => Term::Bool(false),
        };
        let ends = ends_at.clone().le(asks_at.clone());
        vec![
            placed,
            ("no wait is empty", Term::Int(1).le(delay.clone())),
            ("no wait ends before the hold", start.clone().le(asks_at.clone())),
            ("no wait ends after the release", asks_at.le(released_at)),
            ("a call stays for its hold, by its place, or by its draw for a turn about", stays),
            (
                "a call waits for its end if its place is behind it or the hold is",
                ends.is(is_behind.or(ends_at.le(start))),
            ),
            ("a wait changes nothing", until.is(before)),
        ]
    });
}

fn nanos(prover: &mut Prover<'_>) {
    prover.check(&Givens::new(), |it| {
        let duration = it.unknown("duration", Kind::Duration);
        let nanos = it.call("nanos", std::slice::from_ref(&duration)).term();
        vec![("exact, or the largest number", nanos.is(duration.term().min(MOST)))]
    });
}
