//! The words of the providers as data: each phrase with its meaning.
//!
//! A row is one phrase or several phrases with `…` between them. Several phrases must stand in that
//! order with at most [`GAP`] bytes between them. Letter case does not matter. The first of the
//! groups that count at the status decides.

mod groups;

use std::ops::Range;
use std::sync::LazyLock;

use groups::{BARE_QUOTA, GROUPS, Group, NOT_OWN};

use crate::finder::Place;
use crate::kind::{Kind, Scope};
use crate::statuses::Statuses;

/// The largest number of bytes between two phrases of a row.
const GAP: usize = 90;

/// The largest index of a phrase at the start of a message. `Error: ` or a class name may precede
/// it.
const LEAD: usize = 24;

/// A row that matched.
#[derive(Clone, Copy)]
pub(crate) struct PhraseMatch {
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
    /// The row's first phrase.
    pub(crate) name: &'static str,
    /// The row only names a status.
    pub(crate) names_status: bool,
}

impl PhraseMatch {
    /// Returns whether the row says more than a code for a rate limit does.
    pub(crate) fn overrules_rate(&self) -> bool {
        let is_crowd = self.kind == Kind::Overloaded
            && ["demand", "peak", "heavy", "traffic"].iter().any(|word| self.name.contains(word));
        self.kind == Kind::QuotaExhausted || self.denies_limit() || is_crowd
    }

    /// Returns whether the row is about an allowance of requests or tokens, and not about money. Such
    /// words stand beside the limit of a minute too.
    pub(crate) fn is_allowance(&self) -> bool {
        let is_any = |words: &[&str]| words.iter().any(|word| self.name.contains(word));
        self.kind == Kind::QuotaExhausted
            && is_any(&["quota", "limit", "usage", "配额", "クォータ", "할당량", "한도"])
            && !is_any(&["credit", "spend"])
    }

    /// Returns whether the row is only about a quota of some kind.
    pub(crate) fn is_bare_quota(&self) -> bool {
        self.kind == Kind::QuotaExhausted
            && (self.name == BARE_QUOTA || self.name == "exceeded your current quota")
    }

    /// Returns whether the row denies a limit of the caller's own.
    pub(crate) fn denies_limit(&self) -> bool {
        NOT_OWN.lines().any(|row| row == self.name)
    }
}

struct Phrases {
    /// Each phrase once. Its place here is its number.
    known: Vec<&'static str>,
    rows: Vec<Row>,
    /// The rows that begin with each phrase.
    rows_of: Vec<Vec<usize>>,
}

struct Row {
    group: &'static Group,
    name: &'static str,
    /// The phrases after the first one.
    rest: Vec<usize>,
    #[cfg(test)]
    line: &'static str,
}

static PHRASES: LazyLock<Option<Phrases>> = LazyLock::new(|| {
    let mut phrases: Vec<&'static str> = Vec::new();
    let mut rows_of: Vec<Vec<usize>> = Vec::new();
    let mut rows = Vec::new();
    for group in GROUPS {
        for line in group.rows.lines() {
            let mut parts =
                line.split('…').map(|phrase| phrase.trim_matches(BLANK)).map(|phrase| {
                    phrases.iter().position(|known| *known == phrase).unwrap_or_else(|| {
                        phrases.push(phrase);
                        rows_of.push(Vec::new());
                        phrases.len() - 1
                    })
                });
            let Some(first) = parts.next() else { continue };
            let rest = parts.collect();
            rows_of.get_mut(first)?.push(rows.len());
            rows.push(Row {
                group,
                name: phrases.get(first)?,
                rest,
                #[cfg(test)]
                line,
            });
        }
    }
    Some(Phrases { known: phrases, rows, rows_of })
});

/// The character that may stand around a phrase in a table.
const BLANK: char = ' ';

/// Returns all phrases. The place of a phrase is its number.
pub(crate) fn known() -> &'static [&'static str] {
    PHRASES.as_ref().map_or(&[], |phrases| phrases.known.as_slice())
}

/// Returns the first row of the table that stands in a message. `places` holds the places of the
/// phrases in the order of their starts. The row must count at `status` and `veto` must not reject
/// the row.
pub(crate) fn look_up(
    places: &[Place],
    status: Statuses,
    mut veto: impl FnMut(&PhraseMatch) -> bool,
) -> Option<PhraseMatch> {
    let Phrases { rows, rows_of, .. } = PHRASES.as_ref()?;
    let mut best: Option<(usize, PhraseMatch)> = None;
    for (n, place) in places.iter().enumerate() {
        for at in rows_of.get(place.phrase)? {
            let row = rows.get(*at)?;
            if best.as_ref().is_some_and(|(best, _)| best <= at)
                || row.end(place, places.get(n..)?, status).is_none()
            {
                continue;
            }
            let hit = row.hit();
            if !veto(&hit) {
                best = Some((*at, hit));
            }
        }
    }
    best.map(|(_, hit)| hit)
}

/// Returns all rows that stand in a message and count at `status`, with their places.
pub(crate) fn all(places: &[Place], status: Statuses) -> Vec<(PhraseMatch, Range<usize>)> {
    let Some(Phrases { rows, rows_of, .. }) = PHRASES.as_ref() else { return Vec::new() };
    let mut all = Vec::new();
    for (n, place) in places.iter().enumerate() {
        let rows = rows_of.get(place.phrase).into_iter().flatten().filter_map(|at| rows.get(*at));
        for row in rows {
            let end = row.end(place, places.get(n..).unwrap_or_default(), status);
            all.extend(end.map(|end| (row.hit(), place.start..end)));
        }
    }
    all
}

/// Returns the rules of the table.
#[cfg(test)]
pub(crate) fn rules() -> impl Iterator<Item = crate::trial::Name> {
    let rows =
        |group: &'static Group| group.rows.lines().map(|row| ("phrase", group.means.as_str(), row));
    GROUPS.iter().flat_map(rows)
}

impl Row {
    fn hit(&self) -> PhraseMatch {
        PhraseMatch {
            kind: self.group.means,
            scope: self.group.scope,
            name: self.name,
            names_status: self.group.names_status,
        }
    }

    /// Returns the end of the row if it counts. Its first phrase stands at `place`. `after` holds
    /// this place and all later places.
    fn end(&self, place: &Place, after: &[Place], status: Statuses) -> Option<usize> {
        let leads = self.group.leading_at.meets(status) && place.start <= LEAD;
        if !leads && !self.group.at.meets(status) {
            return None;
        }
        let mut end = place.end;
        let is_whole = self.rest.iter().all(|phrase| {
            let near = after.iter().take_while(|place| place.start <= end + GAP);
            let mut fits = near.filter(|place| place.phrase == *phrase && place.start >= end);
            fits.next().is_some_and(|place| {
                end = place.end;
                true
            })
        });
        #[cfg(test)]
        let is_whole =
            is_whole && crate::trial::counts("phrase", self.line, self.group.means.as_str());
        is_whole.then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finder::{self, Finder};
    use super::*;

    fn places(message: &str) -> Vec<Place> {
        let mut places = Vec::new();
        Finder::new(known()).find(message, message, |place| places.push(place));
        places
    }

    #[test]
    fn every_row_is_found_by_its_own_words() {
        for group in GROUPS {
            for row in group.rows.lines() {
                assert!(row.split('…').all(|phrase| phrase.trim().len() >= finder::FIRST), "{row}");
                let plain = crate::text::plain(row);
                assert_eq!(row, plain, "rows must be in lower case, without underscores");
                let message = row.replace('…', "x");
                let statuses = group.at.and(group.leading_at);
                assert!(
                    look_up(&places(&message), statuses, |hit| hit.kind != group.means).is_some(),
                    "{row}"
                );
            }
        }
    }

    #[test]
    fn phrases_of_a_row_stand_in_order_and_near() {
        let kind =
            |message: &str| look_up(&places(message), Statuses::BAD, |_| false).map(|hit| hit.kind);
        assert_eq!(kind("the model x does not exist"), Some(Kind::NotFound));
        assert_eq!(kind("it does not exist, this model"), None);
        assert_eq!(kind(&format!("the model {} does not exist", "x".repeat(100))), None);
    }
}
