use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::machine::{Given, Machine, walk};
use crate::solver::{Answer, Solver};
use crate::source::Source;
use crate::term::Term;

/// A law about functions of the sources.
pub struct Law {
    pub name: &'static str,
    pub says: &'static str,
    pub files: &'static [&'static str],
    /// The functions that it is about. A change of one of them should break a law.
    pub about: &'static [&'static str],
    pub prove: fn(&mut Prover<'_>),
}

/// The functions that a law gives in place of those of the sources.
pub type Givens<'a> = BTreeMap<&'static str, Given<'a>>;

/// A proof on its way.
pub struct Prover<'a> {
    pub source: &'a Source,
    solver: &'a mut Solver,
    pub paths: usize,
    pub claims: usize,
    broken: Option<Broken>,
}

/// A claim that some inputs break.
#[derive(Debug)]
pub struct Broken {
    pub claim: String,
    /// The inputs.
    pub inputs: String,
}

/// The outcome of a proof.
pub struct Proof {
    pub paths: usize,
    pub claims: usize,
    pub broken: Option<Broken>,
}

impl Law {
    /// Proves the law for these sources.
    pub fn prove(&self, source: &Source, solver: &mut Solver) -> Proof {
        let mut prover = Prover { source, solver, paths: 0, claims: 0, broken: None };
        // A source that the walk cannot read is no proof either.
        let read = catch_unwind(AssertUnwindSafe(|| (self.prove)(&mut prover)));
        let Prover { paths, claims, mut broken, .. } = prover;
        if let Err(panic) = read {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let claim = format!("the walk ends: {}", text.unwrap_or_default());
            broken = broken.or(Some(Broken { claim, inputs: String::new() }));
        }
        Proof { paths, claims, broken }
    }
}

impl Prover<'_> {
    /// Checks the claims that `run` makes on each path, and those that the sources make themselves.
    pub fn check(
        &mut self,
        given: &Givens<'_>,
        run: impl Fn(&mut Machine<'_>) -> Vec<(&'static str, Term)>,
    ) {
        let mut is_possible = false;
        for path in walk(self.source, given, run) {
            self.paths += 1;
            for claim in path.claims {
                let text = format!("no overflow of `{}`", claim.text);
                self.claim(&path.facts[..claim.facts], claim.claim, &text);
            }
            for (text, claim) in path.result {
                self.claim(&path.facts, claim, text);
            }
            if self.broken.is_some() {
                return;
            }
            is_possible = is_possible || !matches!(self.solver.ask(&path.facts), Answer::No);
        }
        assert!(is_possible, "no input fulfils what the law assumes");
    }

    /// Checks one claim under some facts.
    pub fn claim(&mut self, facts: &[Term], claim: Term, text: &str) {
        self.claims += 1;
        if self.broken.is_some() {
            return;
        }
        let mut question = facts.to_vec();
        question.push(claim.negated());
        let inputs = match self.solver.ask(&question) {
            Answer::No => return,
            Answer::Yes(inputs) => inputs,
            Answer::Unknown => "z3 does not know".into(),
        };
        self.broken = Some(Broken { claim: text.to_owned(), inputs });
    }
}
