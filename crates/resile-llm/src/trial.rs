//! Rules that tests switch off, and rules that a case supports.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// A rule of a table: the table, the kind and the words.
pub(crate) type Name = (&'static str, &'static str, &'static str);

thread_local! {
    static OFF: RefCell<BTreeSet<Name>> = RefCell::default();
    static MATCHED: RefCell<BTreeSet<(Name, &'static str)>> = RefCell::default();
}

/// Stands for the kind of a word that may keep a statement from another kind.
pub(crate) const VETO: &str = "veto";

/// Notes that a rule matched. Returns whether the rule counts.
pub(crate) fn counts(table: &'static str, words: &'static str, kind: &'static str) -> bool {
    let name = (table, kind, words);
    note(name, kind);
    !is_off(&name)
}

/// Notes that a rule matched and speaks for `kind`.
pub(crate) fn note(name: Name, kind: &'static str) {
    MATCHED.with_borrow_mut(|matched| _ = matched.insert((name, kind)));
}

pub(crate) fn is_off(name: &Name) -> bool {
    OFF.with_borrow(|off| off.contains(name))
}

/// Runs `body` without the rules `off`. Returns its value and the rules that matched, with the kinds
/// that they spoke for.
pub(crate) fn without<T>(
    off: BTreeSet<Name>,
    body: impl FnOnce() -> T,
) -> (T, BTreeSet<(Name, &'static str)>) {
    OFF.set(off);
    MATCHED.take();
    let value = body();
    OFF.take();
    (value, MATCHED.take())
}
