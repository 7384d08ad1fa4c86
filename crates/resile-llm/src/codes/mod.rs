//! The machine codes of the providers.
//!
//! A code is compared by its lower-case letters and digits without a final `Error` or `Exception`.
//! So `rate_limit_exceeded`, `RATE_LIMIT_EXCEEDED` and `rateLimitExceeded` are equal. The normal
//! form of `ThrottlingException` is `throttling`. If a body has several codes, the code in the
//! first group decides. A code outside all groups is tried against `STEMS` in the same order of
//! meaning. The generic codes say less than a status, another code or a message.

mod groups;
mod stems;

use std::sync::LazyLock;

use groups::{GROUPS, Group};
use stems::STEMS;

use crate::kind::{Kind, Scope};
use crate::normal::{LONGEST, normalize};
use crate::rule::Rule;
use crate::statuses::Statuses;

/// The meaning of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeMatch {
    /// The place in the order of priority. A smaller rank is stronger.
    pub(crate) rank: usize,
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
    pub(crate) yields_to_words: bool,
    pub(crate) rule: Rule,
}

/// All names with the places of their groups in the order of the names.
static NAMES: LazyLock<Vec<(&'static str, usize)>> = LazyLock::new(|| {
    let mut names: Vec<_> = GROUPS
        .iter()
        .enumerate()
        .flat_map(|(at, group)| group.names().map(move |name| (name, at)))
        .collect();
    names.sort_unstable();
    names
});

/// Returns the meaning of `code` at that status if a group or a stem has the code.
pub(crate) fn look_up(code: &str, status: Statuses) -> Option<CodeMatch> {
    let mut buffer = [0; LONGEST];
    let name = normalize(code, &mut buffer)?;
    match_whole(name, status)
        .or_else(|| {
            // "Throttling.User": each part may be a code.
            let mut buffer = [0; LONGEST];
            let mut parts = code.split('.').skip(usize::from(!code.contains('.')));
            parts.find_map(|part| match_whole(normalize(part, &mut buffer)?, status))
        })
        .or_else(|| match_stem(name, status))
}

/// The fewest letters and digits of a code that counts under any name. Shorter codes are words too.
const SURE: usize = 10;

/// Returns whether `text` is a code of the table and no ordinary word.
pub(crate) fn is_known(text: &str) -> bool {
    let mut buffer = [0; LONGEST];
    !text.contains(' ')
        && normalize(text, &mut buffer).is_some_and(|name| {
            name.len() >= SURE && NAMES.binary_search_by(|(known, _)| known.cmp(&name)).is_ok()
        })
}

/// Returns whether `text` is [known](is_known) as the code of a failure that does not pass.
pub(crate) fn is_permanent(text: &str) -> bool {
    is_known(text) && look_up(text, Statuses::ALL).is_some_and(|code| !code.kind.is_passing())
}

fn match_whole(name: &str, status: Statuses) -> Option<CodeMatch> {
    let first = NAMES.partition_point(|(known, _)| *known < name);
    let (known, at) = NAMES[first..]
        .iter()
        .take_while(|(known, _)| *known == name)
        .find(|(_, at)| GROUPS.get(*at).is_some_and(|group| group.at.meets(status)))?;
    #[cfg(test)]
    crate::trial::counts("code", known, GROUPS.get(*at)?.kind.as_str()).then_some(())?;
    Some(code_match(*at, GROUPS.get(*at)?, Rule::Code(known)))
}

fn match_stem(name: &str, status: Statuses) -> Option<CodeMatch> {
    let hit = |group: &'static Group| {
        #[allow(unused_mut)]
        let mut stems =
            group.names().filter(|stem| stem.len() <= name.len() && name.contains(stem));
        #[cfg(test)]
        let mut stems =
            stems.filter(|stem| crate::trial::counts("stem", stem, group.kind.as_str()));
        stems.next()
    };
    let (group, stem) = STEMS
        .iter()
        .filter(|group| group.at.meets(status))
        .find_map(|group| Some((group, hit(group)?)))?;
    // A stem ranks with the first group of its meaning because it commits to no more.
    let rank = GROUPS.iter().position(|known| known.kind == group.kind).unwrap_or(GROUPS.len());
    Some(code_match(rank, group, Rule::Stem(stem)))
}

fn code_match(rank: usize, group: &Group, rule: Rule) -> CodeMatch {
    CodeMatch {
        rank,
        kind: group.kind,
        scope: group.scope,
        yields_to_words: group.yields_to_words,
        rule,
    }
}

/// Returns the rules of both tables.
#[cfg(test)]
pub(crate) fn rules() -> impl Iterator<Item = crate::trial::Name> {
    let rules = |table, groups: &'static [Group]| {
        let rule = move |group: &'static Group| {
            group.names().map(move |name| (table, group.kind.as_str(), name))
        };
        groups.iter().flat_map(rule)
    };
    rules("code", GROUPS).chain(rules("stem", STEMS))
}

/// Returns the status that a code spells out: `http_429`, `upstream_http_503`.
pub(crate) fn status_in(code: &str) -> Option<u16> {
    if !code.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = code.rsplit_once("http_")?.1;
    let status = digits.strip_prefix("status_").unwrap_or(digits).parse().ok()?;
    (400..600).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::super::generic;
    use super::*;

    #[test]
    fn names_are_in_normal_form() {
        for name in GROUPS.iter().flat_map(Group::names) {
            let mut buffer = [0; LONGEST];
            assert_eq!(normalize(name, &mut buffer), Some(name));
        }
    }

    #[test]
    fn a_name_stands_once_per_status() {
        for (n, (name, at)) in NAMES.iter().enumerate() {
            for (other, there) in &NAMES[n + 1..] {
                let apart = GROUPS[*at].at != GROUPS[*there].at;
                assert!(name != other || apart, "{name} is in two groups with the same statuses");
            }
        }
    }

    #[test]
    fn spellings_of_a_code_are_equal() {
        for code in [
            "rate_limit_exceeded",
            "RATE_LIMIT_EXCEEDED",
            "rateLimitExceeded",
            "RateLimitExceededError",
        ] {
            assert_eq!(
                look_up(code, Statuses::NONE).map(|said| said.kind),
                Some(Kind::RateLimit),
                "{code}"
            );
        }
        let amazon = "com.amazon.coral#ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/";
        assert_eq!(
            look_up(amazon, Statuses::BAD).map(|said| said.rule),
            Some(Rule::Code("throttling"))
        );
    }

    #[test]
    fn generic_codes_match_no_group_and_no_stem() {
        for code in generic::names() {
            assert_eq!(look_up(code, Statuses::ALL), None, "{code}");
        }
    }
}
