//! Counts the cases that support each rule of the tables.
//!
//! A rule that only one failure supports may be a rule for one sentence. A second, independent failure
//! shows that a provider says so again. A case supports a rule if the rule matches and speaks for the
//! kind of the case. A rule that a stronger rule hides has no support from that case. A word may also keep
//! a statement from another kind. Such a word has the support of the cases that are misread without it.
//!
//! `CORPUS=a.jsonl:b.jsonl cargo test -p resile-llm --lib supported -- --nocapture` counts over more
//! files and prints the rules with one case, with one source and without a case.

use std::collections::BTreeSet;

use crate::left_out::{cases, corpus, is_documented, support};
use crate::trial::Name;
use crate::{codes, grammar, phrases};

/// The tables, each with the largest number of its rules with fewer than two cases and without a case.
/// Documented codes and phrases do not count. The numbers may only fall, while a rule without a case may
/// get its first one.
const LARGEST: [(&str, usize, usize); 4] =
    [("code", 143, 129), ("phrase", 772, 737), ("stem", 78, 70), ("word", 310, 289)];

#[test]
fn a_second_case_supports_each_supported_rule() {
    let cases = cases();
    let support = support(&cases);
    let names: BTreeSet<Name> =
        codes::rules().chain(phrases::rules()).chain(grammar::rules()).collect();
    let is_told = !corpus().is_empty();
    let none = BTreeSet::new();
    let mut counts = LARGEST.map(|(table, ..)| (table, 0, 0));
    for name in names.iter().filter(|name| !is_documented(name)) {
        let (table, kind, words) = *name;
        let at = support.get(name).unwrap_or(&none);
        let sources: BTreeSet<&str> = at.iter().map(|at| cases[*at].source.as_str()).collect();
        let count = counts.iter_mut().find(|(of, ..)| *of == table).unwrap();
        let what = match (at.len(), sources.len()) {
            (0, _) => {
                count.2 += 1;
                "no case"
            }
            (1, _) => {
                count.1 += 1;
                "one case"
            }
            (_, 1) => "one source",
            _ => continue,
        };
        if is_told {
            let cases: Vec<&str> = at.iter().map(|at| cases[*at].name.as_str()).collect();
            println!("{what} | {table} | {kind} | {words} | {sources:?} | {cases:?}");
        }
    }
    for (table, one, without) in counts {
        println!("{table}: {one} rules with one case, {without} without");
    }
    if !is_told {
        let is_within = |(count, largest): (&(_, usize, usize), &(_, usize, usize))| {
            count.1 + count.2 <= largest.1 && count.2 <= largest.2
        };
        let are_within = counts.iter().zip(&LARGEST).all(is_within);
        assert!(are_within, "{counts:?} for at most {LARGEST:?}");
    }
}
