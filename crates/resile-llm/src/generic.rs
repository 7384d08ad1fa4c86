//! Codes and classes that say little. They count if there is no better sign.

use crate::kind::Kind;
use crate::normal::{LONGEST, normalize};
use crate::rule::Rule;

/// Codes that a provider sends if it has no better one. Their meaning counts if there is no status.
static GENERIC: &[(&str, Kind)] = &[
    ("api", Kind::Server),
    ("badrequest", Kind::InvalidRequest),
    ("failedprecondition", Kind::InvalidRequest),
    ("invalidargument", Kind::InvalidRequest),
    ("invalidparameter", Kind::InvalidRequest),
    ("invalidprompt", Kind::InvalidRequest),
    ("invalidrequest", Kind::InvalidRequest),
    ("server", Kind::Server),
    ("unknown", Kind::Server),
    ("validation", Kind::InvalidRequest),
];

/// Classes of errors of client libraries. They count if nothing else says more.
static CLASSES: &[(&str, Kind)] = &[
    ("apiconnection", Kind::Network),
    ("asyncenginedead", Kind::Server),
    ("connect", Kind::Network),
    ("connection", Kind::Network),
    ("connectionfailed", Kind::Network),
    ("enginedead", Kind::Server),
    ("jsondecode", Kind::InvalidOutput),
    ("type", Kind::InvalidRequest),
    ("value", Kind::InvalidRequest),
];

/// Returns the meaning of a generic code for failures without any better sign.
pub(crate) fn code(code: &str) -> Option<(Kind, Rule)> {
    let mut buffer = [0; LONGEST];
    let name = normalize(code, &mut buffer)?;
    GENERIC
        .iter()
        .find(|(generic, _)| *generic == name)
        .map(|(generic, kind)| (*kind, Rule::Code(generic)))
}

/// Returns the rule if a generic code says that the provider failed.
pub(crate) fn server(name: &str) -> Option<Rule> {
    let mut buffer = [0; LONGEST];
    let name = normalize(name, &mut buffer)?;
    ["server", "internalserver"].iter().find(|code| **code == name).map(|code| Rule::Code(code))
}

/// Returns the meaning of the class of an error in a text: `openai.APIConnectionError`.
pub(crate) fn class(class: &str) -> Option<(Kind, Rule)> {
    client(class).or_else(|| code(class))
}

/// Returns the meaning of the class of an error that only clients and local servers have.
pub(crate) fn client(class: &str) -> Option<(Kind, Rule)> {
    let mut buffer = [0; LONGEST];
    let name = normalize(class, &mut buffer)?;
    let known = CLASSES.iter().find(|(known, _)| *known == name);
    known.map(|(known, kind)| (*kind, Rule::Transport(known)))
}

/// Returns all generic codes.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    GENERIC.iter().map(|(code, _)| *code)
}
