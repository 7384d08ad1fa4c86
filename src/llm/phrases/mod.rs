//! The words of the providers as data: each phrase with its meaning.
//!
//! A row is one phrase or several phrases with `…` between them. Several phrases must stand in that
//! order with at most [`GAP`] bytes between them. Letter case does not matter. The first of the
//! groups that count at the status decides.

use std::sync::LazyLock;

use super::finder::Place;
use super::kind::{Kind, Scope};
use super::statuses::Statuses;

/// Rows with one meaning.
pub(super) struct Group {
    pub(super) means: Kind,
    pub(super) scope: Option<Scope>,
    at: Statuses,
    /// The statuses at which the rows count only at the start of a message. Elsewhere the message
    /// may quote other text.
    leading_at: Statuses,
    /// The rows only name a status.
    names_status: bool,
    rows: &'static str,
}

const fn group(means: Kind, at: Statuses, rows: &'static str) -> Group {
    Group {
        means,
        scope: None,
        at,
        leading_at: Statuses::ALL.but(Statuses::ALL),
        names_status: false,
        rows,
    }
}

/// Creates a group about a limit on requests. At a 400 its rows count only at the start of a
/// message.
const fn limit(rows: &'static str) -> Group {
    let at = Statuses::RATE
        .and(Statuses::FAULT)
        .and(Statuses::BUSY)
        .and(Statuses::NONE)
        .and(Statuses::DENIED);
    Group { leading_at: Statuses::BAD, ..group(Kind::RateLimit, at, rows) }
}

impl Group {
    const fn names_status(mut self) -> Self {
        self.names_status = true;
        self
    }

    const fn over(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

const NONE: Statuses = Statuses::NONE;
const BAD: Statuses = Statuses::BAD;
const AUTH: Statuses = Statuses::AUTH;
const PAY: Statuses = Statuses::PAY;
const DENIED: Statuses = Statuses::DENIED;
const MISSING: Statuses = Statuses::MISSING;
const LARGE: Statuses = Statuses::LARGE;
const RATE: Statuses = Statuses::RATE;
const FAULT: Statuses = Statuses::FAULT;
const BUSY: Statuses = Statuses::BUSY;
const WIRE: Statuses = Statuses::WIRE;

/// Every 4xx that answers this request.
const REFUSED: Statuses = BAD.and(AUTH).and(PAY).and(DENIED).and(MISSING).and(LARGE).and(RATE);

/// The statuses at which the request itself is at fault.
const OURS: Statuses = BAD.and(LARGE).and(NONE);

/// The largest number of bytes between two phrases of a row.
const GAP: usize = 90;

/// The largest index of a phrase at the start of a message. `Error: ` or a class name may precede
/// it.
const LEAD: usize = 24;

/// Words that deny a limit of the caller's own. They overrule a code for a rate limit.
const NOT_OWN: &str = "not your usage limit\ntemporarily limiting requests";

static GROUPS: &[Group] = &[
    // These rows come before the rows about a usage limit.
    group(Kind::Overloaded, FAULT.and(BUSY).and(RATE).and(NONE), NOT_OWN),
    group(
        Kind::QuotaExhausted,
        REFUSED.and(NONE).and(FAULT).and(BUSY).but(MISSING.and(LARGE)),
        include_str!("quota.txt"),
    ),
    group(Kind::QuotaExhausted, RATE.and(NONE), include_str!("quota_day.txt")).over(Scope::Day),
    group(
        Kind::Overloaded,
        FAULT.and(BUSY).and(RATE).and(NONE).and(WIRE),
        include_str!("capacity.txt"),
    ),
    group(Kind::Overloaded, BAD, include_str!("loading.txt")),
    limit(include_str!("concurrency.txt")).over(Scope::Concurrency),
    limit(include_str!("rate_minute.txt")).over(Scope::Minute),
    limit(include_str!("rate.txt")),
    // These rows are about a part that is too large. They mention tokens, like rows about a long
    // prompt.
    group(Kind::InvalidRequest, OURS, include_str!("output_size.txt")),
    group(Kind::TooLarge, OURS, "split into more\nsplit into smaller\ntoo many inputs"),
    // A 413 is about the size of the whole request if its words say so.
    group(Kind::TooLarge, LARGE, include_str!("size.txt")),
    group(Kind::ContextLength, OURS.and(FAULT).and(BUSY), include_str!("context.txt")),
    group(
        Kind::ContextLength,
        BAD.and(DENIED).and(RATE),
        "extra usage is required for long context",
    ),
    group(Kind::TooLarge, OURS.and(RATE), include_str!("size.txt")),
    group(Kind::ContentFilter, OURS.and(DENIED).and(FAULT).and(RATE), include_str!("content.txt")),
    group(Kind::InvalidOutput, BAD.and(FAULT).and(NONE), include_str!("output.txt")),
    group(Kind::Auth, BAD.and(AUTH).and(DENIED).and(NONE), include_str!("auth.txt")),
    // The model is there, but not here.
    group(
        Kind::Permission,
        BAD.and(DENIED).and(NONE),
        "location is not supported\nnot available in your\nterritory not supported",
    ),
    group(Kind::NotFound, BAD.and(MISSING).and(NONE), include_str!("model.txt")),
    // Only at a 400: elsewhere the model exists but does not support a parameter.
    group(Kind::NotFound, BAD, "model … is not supported"),
    group(Kind::NotFound, FAULT, include_str!("model_fault.txt")),
    group(Kind::Permission, BAD.and(DENIED).and(NONE), include_str!("access.txt")),
    // Local servers answer like this with a 500, and the failure does not pass.
    group(
        Kind::InvalidRequest,
        FAULT,
        "is not supported\ndoes not support\nnot implemented\ncannot use both",
    ),
    group(Kind::Timeout, FAULT.and(NONE).and(WIRE), include_str!("timeout.txt")),
    // Only the caller can have done this.
    group(Kind::Cancelled, WIRE, include_str!("cancelled.txt")),
    group(Kind::InvalidRequest, WIRE, include_str!("request_wire.txt")),
    group(Kind::InvalidOutput, NONE, include_str!("parse.txt")),
    // Words of the provider behind a client's words about its stream.
    group(
        Kind::Server,
        NONE.and(WIRE),
        "has crashed\nunexpectedly stopped\nerror occurred while processing\nan error occurred during\nserver had an error\nserver had an issue",
    ),
    group(Kind::Network, WIRE.and(NONE), include_str!("network.txt")),
    // The words of validators.
    group(Kind::InvalidRequest, NONE, include_str!("request.txt")),
    // These are the reason phrases of HTTP, for failures that are only a text.
    group(
        Kind::Server,
        NONE.and(WIRE),
        "internal server error\nbad gateway\ninternal error\nserver error\nserver had an error",
    )
    .names_status(),
    group(Kind::Permission, WIRE.and(NONE).and(BAD).and(DENIED), "forbidden").names_status(),
    group(Kind::Auth, WIRE.and(NONE), "unauthorized").names_status(),
    group(Kind::NotFound, NONE, "not found").names_status(),
    group(
        Kind::InvalidRequest,
        NONE,
        "bad request\nunprocessable entity\nvalidation error\ninvalid request\nnot implemented",
    )
    .names_status(),
];

/// A row that matched.
#[derive(Clone, Copy)]
pub(super) struct PhraseMatch {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    /// The row's first phrase.
    pub(super) name: &'static str,
    /// The row only names a status.
    pub(super) names_status: bool,
}

impl PhraseMatch {
    /// Returns whether the row says more than a code for a rate limit does.
    pub(super) fn overrules_rate(&self) -> bool {
        self.kind == Kind::QuotaExhausted || self.denies_limit()
    }

    /// Returns whether the row denies a limit of the caller's own.
    pub(super) fn denies_limit(&self) -> bool {
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
            rows.push(Row { group, name: phrases.get(first)?, rest });
        }
    }
    Some(Phrases { known: phrases, rows, rows_of })
});

/// The character that may stand around a phrase in a table.
const BLANK: char = ' ';

/// Returns all phrases. The place of a phrase is its number.
pub(super) fn known() -> &'static [&'static str] {
    PHRASES.as_ref().map_or(&[], |phrases| phrases.known.as_slice())
}

/// Returns the first row of the table that stands in a message. `places` holds the places of the
/// phrases in the order of their starts. The row must count at `status` and `veto` must not reject
/// the row.
pub(super) fn look_up(
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
                || !row.counts(place, places.get(n..)?, status)
            {
                continue;
            }
            let hit = PhraseMatch {
                kind: row.group.means,
                scope: row.group.scope,
                name: row.name,
                names_status: row.group.names_status,
            };
            if !veto(&hit) {
                best = Some((*at, hit));
            }
        }
    }
    best.map(|(_, hit)| hit)
}

impl Row {
    /// Returns whether the row counts. Its first phrase stands at `place`. `after` holds this place
    /// and all later places.
    fn counts(&self, place: &Place, after: &[Place], status: Statuses) -> bool {
        let leads = self.group.leading_at.meets(status) && place.start <= LEAD;
        if !leads && !self.group.at.meets(status) {
            return false;
        }
        let mut end = place.end;
        self.rest.iter().all(|phrase| {
            let near = after.iter().take_while(|place| place.start <= end + GAP);
            let mut fits = near.filter(|place| place.phrase == *phrase && place.start >= end);
            fits.next().is_some_and(|place| {
                end = place.end;
                true
            })
        })
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
                assert_eq!(row, row.to_lowercase(), "rows must be in lower case");
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
        let kind = |message: &str| look_up(&places(message), BAD, |_| false).map(|hit| hit.kind);
        assert_eq!(kind("the model x does not exist"), Some(Kind::NotFound));
        assert_eq!(kind("it does not exist, this model"), None);
        assert_eq!(kind(&format!("the model {} does not exist", "x".repeat(100))), None);
    }
}
