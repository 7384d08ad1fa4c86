use std::collections::BTreeMap;

use super::{Claim, Given, Machine};
use crate::source::Source;
use crate::term::Term;

/// A path with its facts, the claims of the sources on it, and the result of the walk.
pub struct Path<R> {
    pub facts: Vec<Term>,
    pub claims: Vec<Claim>,
    pub result: R,
}

const MOST: usize = 4096;

/// Runs `run` once for each path.
pub fn walk<R>(
    source: &Source,
    given: &BTreeMap<&'static str, Given<'_>>,
    run: impl Fn(&mut Machine<'_>) -> R,
) -> Vec<Path<R>> {
    let mut paths = Vec::new();
    let mut choices = Vec::new();
    loop {
        let mut machine = Machine {
            source,
            given,
            choices,
            next: 0,
            facts: Vec::new(),
            claims: Vec::new(),
            of: Vec::new(),
            declared: Vec::new(),
            fresh: 0,
        };
        let result = run(&mut machine);
        let Machine { facts, claims, choices: made, .. } = machine;
        paths.push(Path { facts, claims, result });
        assert!(paths.len() < MOST, "more than {MOST} paths");
        choices = made;
        while choices.last() == Some(&false) {
            choices.pop();
        }
        match choices.last_mut() {
            Some(last) => *last = false,
            None => return paths,
        }
    }
}
