//! The walk: it runs functions of the sources with unknown inputs, once for each path.

mod call;
mod expression;
mod methods;
mod pattern;
mod walk;

use std::collections::BTreeMap;

use crate::source::Source;
use crate::term::Term;
use crate::value::{Kind, Scope, Value};

pub use walk::{Path, walk};

/// A function that the law gives in place of one of the sources.
pub type Given<'a> = &'a dyn Fn(&mut Machine<'_>, &[Value]) -> Value;

/// One run along one path.
pub struct Machine<'a> {
    source: &'a Source,
    /// By name, and for a method by `Type::name`.
    given: &'a BTreeMap<&'static str, Given<'a>>,
    /// The answers to the questions that the inputs leave open.
    choices: Vec<bool>,
    next: usize,
    /// The facts of this path so far.
    pub facts: Vec<Term>,
    /// The claims that the sources make themselves: that no addition overflows.
    pub claims: Vec<Claim>,
    /// The types whose functions run, the innermost one last.
    of: Vec<String>,
    /// The names that blocks have declared, with the values that they hide.
    declared: Vec<(String, Option<Value>)>,
    fresh: usize,
}

/// A claim that must be true after the first facts of a path.
#[derive(Clone)]
pub struct Claim {
    pub facts: usize,
    pub claim: Term,
    pub text: String,
}

/// The reason why a block ends early.
enum Stop {
    Return(Value),
    Break(Value),
}

type Run<T = Value> = Result<T, Stop>;

impl Machine<'_> {
    /// Decides a question. If the inputs leave it open, this path takes one of the answers.
    pub fn decide(&mut self, question: Term) -> bool {
        if let Term::Bool(known) = question {
            return known;
        }
        if self.next == self.choices.len() {
            self.choices.push(true);
        }
        let answer = self.choices[self.next];
        self.next += 1;
        self.facts.push(if answer { question } else { question.negated() });
        answer
    }

    /// Adds a fact.
    pub fn assume(&mut self, fact: Term) {
        self.facts.push(fact);
    }

    /// Makes a number of this type, with a name that begins with `name`.
    pub fn unknown(&mut self, name: &str, kind: Kind) -> Value {
        self.fresh += 1;
        let term = Term::unknown(&format!("{name}_{}", self.fresh));
        self.assume(term.clone().within(kind.least(), kind.most()));
        Value::Number(term, kind)
    }

    /// Claims that a number is one of its type.
    fn number(&mut self, term: Term, kind: Kind, text: impl FnOnce() -> String) -> Value {
        let claim = term.clone().within(kind.least(), kind.most());
        match claim {
            Term::Bool(true) => {}
            claim => self.claims.push(Claim { facts: self.facts.len(), claim, text: text() }),
        }
        Value::Number(term, kind)
    }

    fn bind(&mut self, name: String, value: Value, scope: &mut Scope) {
        let hidden = scope.insert(name.clone(), value);
        self.declared.push((name, hidden));
    }

    /// Runs `part` in a block of its own: the names that it declares end with it.
    fn block_of<T>(
        &mut self,
        scope: &mut Scope,
        part: impl FnOnce(&mut Self, &mut Scope) -> T,
    ) -> T {
        let before = self.declared.len();
        let result = part(self, scope);
        for (name, hidden) in self.declared.split_off(before).into_iter().rev() {
            match hidden {
                Some(hidden) => scope.insert(name, hidden),
                None => scope.remove(&name),
            };
        }
        result
    }
}

/// What laws ask.
impl Machine<'_> {
    /// Returns a constant of the sources.
    pub fn call_constant(&mut self, name: &str) -> Term {
        self.constant(&[name.to_owned()]).term()
    }

    /// Claims that the ends of a range are in order.
    pub fn claim_order(&mut self, start: Term, end: Term) {
        let text = format!("{start}..={end}");
        self.claims.push(Claim { facts: self.facts.len(), claim: start.le(end), text });
    }
}
