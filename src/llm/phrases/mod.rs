//! The providers' words, as data: what a message means by what it says.
//!
//! A row is a phrase, or some phrases in that order with at most [`GAP`] bytes between them, parted by `…`. Case does not
//! matter. The group that stands first decides, of those that count at the status.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::kind::{Kind, Scope};
use super::statuses::Statuses;

/// Rows of one meaning.
pub(super) struct Group {
    pub(super) means: Kind,
    pub(super) scope: Option<Scope>,
    at: Statuses,
    /// At these statuses only where the message begins with it: elsewhere in it somebody may be quoted.
    leading_at: Statuses,
    rows: &'static str,
}

const fn group(means: Kind, at: Statuses, rows: &'static str) -> Group {
    Group { means, scope: None, at, leading_at: Statuses::ALL.but(Statuses::ALL), rows }
}

/// Words of a limit on requests, which at a 400 count only at the beginning.
const fn limit(rows: &'static str) -> Group {
    let at = Statuses::RATE.and(Statuses::FAULT).and(Statuses::BUSY).and(Statuses::NONE).and(Statuses::DENIED);
    Group { leading_at: Statuses::BAD, ..group(Kind::RateLimit, at, rows) }
}

impl Group {
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

/// Every 4xx that is an answer to this request.
const REFUSED: Statuses = BAD.and(AUTH).and(PAY).and(DENIED).and(MISSING).and(LARGE).and(RATE);

/// Statuses at which the request itself is at fault.
const OURS: Statuses = BAD.and(LARGE).and(NONE);

/// Between two phrases of a row.
const GAP: u32 = 90;

/// How far into a message still is its beginning: past `Error: ` or the name of a class.
const LEAD: u32 = 24;

static GROUPS: &[Group] = &[
    group(Kind::QuotaExhausted, REFUSED.and(NONE).but(MISSING.and(LARGE)), include_str!("quota.txt")),
    group(Kind::QuotaExhausted, RATE.and(NONE), include_str!("quota_day.txt")).over(Scope::Day),
    group(Kind::Overloaded, FAULT.and(BUSY).and(RATE).and(NONE).and(WIRE), include_str!("capacity.txt")),
    group(Kind::Overloaded, BAD, include_str!("loading.txt")),
    limit(include_str!("concurrency.txt")).over(Scope::Concurrency),
    limit(include_str!("rate_day.txt")).over(Scope::Day),
    limit(include_str!("rate_minute.txt")).over(Scope::Minute),
    limit(include_str!("rate.txt")),
    // Of a part that is too large, not of the whole that is too long, though they speak of tokens too.
    group(Kind::InvalidRequest, OURS, include_str!("output_size.txt")),
    group(Kind::TooLarge, OURS, "split into more\nsplit into smaller\ntoo many inputs"),
    group(Kind::ContextLength, OURS.and(FAULT), include_str!("context.txt")),
    group(Kind::ContextLength, BAD.and(DENIED).and(RATE), "extra usage is required for long context"),
    group(Kind::TooLarge, OURS.and(RATE), include_str!("size.txt")),
    group(Kind::ContentFilter, OURS.and(DENIED).and(FAULT), include_str!("content.txt")),
    group(Kind::InvalidOutput, BAD.and(FAULT).and(NONE), include_str!("output.txt")),
    group(Kind::Auth, BAD.and(AUTH).and(DENIED).and(NONE), include_str!("auth.txt")),
    group(Kind::NotFound, BAD.and(MISSING).and(NONE), include_str!("model.txt")),
    // At a 400 alone: elsewhere it is a parameter that is not supported with the model.
    group(Kind::NotFound, BAD, "model … is not supported"),
    group(Kind::NotFound, FAULT, "model not found\nmodel_not_found\nmodel … does not exist"),
    group(Kind::Permission, BAD.and(DENIED).and(NONE), include_str!("access.txt")),
    // Local servers answer so with a 500: it does not pass.
    group(Kind::InvalidRequest, FAULT, "is not supported\ndoes not support\nnot implemented\ncannot use both"),
    group(Kind::Timeout, FAULT.and(NONE).and(WIRE), include_str!("timeout.txt")),
    // What only we can have done.
    group(Kind::Cancelled, WIRE, include_str!("cancelled.txt")),
    group(Kind::InvalidRequest, WIRE, include_str!("request_wire.txt")),
    group(Kind::InvalidOutput, NONE, include_str!("parse.txt")),
    group(Kind::Network, WIRE.and(NONE), include_str!("network.txt")),
    // The reason phrases of HTTP, where a text is all there is.
    group(
        Kind::Server,
        NONE.and(WIRE),
        "internal server error\nbad gateway\ninternal error\nserver error\nserver had an error",
    ),
    group(Kind::Permission, WIRE, "forbidden"),
    group(Kind::Auth, WIRE, "unauthorized"),
    group(Kind::NotFound, NONE, "not found"),
    group(
        Kind::InvalidRequest,
        NONE,
        "bad request\nunprocessable entity\nvalidation error\ninvalid request\nnot implemented",
    ),
];

/// A row that matched.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    /// The row's first phrase.
    pub(super) name: &'static str,
}

/// All phrases in one automaton, so that a message is read once however many there are.
struct Phrases {
    automaton: AhoCorasick,
    rows: Vec<Row>,
}

struct Row {
    group: &'static Group,
    name: &'static str,
    parts: Vec<usize>,
}

/// Where a phrase stands in a message: its first and its last place.
#[derive(Clone, Copy)]
struct Place {
    first: (u32, u32),
    last: (u32, u32),
}

static PHRASES: LazyLock<Option<Phrases>> = LazyLock::new(|| {
    let mut patterns: Vec<&'static str> = Vec::new();
    let mut rows = Vec::new();
    for group in GROUPS {
        for line in group.rows.lines() {
            let mut parts = Vec::new();
            for phrase in line.split('…').map(|phrase| phrase.trim_matches(BLANK)) {
                parts.push(patterns.iter().position(|known| *known == phrase).unwrap_or_else(|| {
                    patterns.push(phrase);
                    patterns.len() - 1
                }));
            }
            let name = parts.first().and_then(|first| patterns.get(*first)).copied().unwrap_or_default();
            rows.push(Row { group, name, parts });
        }
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&patterns).ok()?;
    Some(Phrases { automaton, rows })
});

/// What may stand around a phrase in a table.
const BLANK: char = ' ';

/// The first row, in the table's order, that `message` has outside of `quoted` and that counts at `status`.
pub(super) fn look_up(
    message: &str,
    quoted: &[Range<usize>],
    status: Statuses,
    mut veto: impl FnMut(&Hit) -> bool,
) -> Option<Hit> {
    let phrases = PHRASES.as_ref()?;
    let mut places: Vec<Option<Place>> = Vec::new();
    for found in phrases.automaton.find_overlapping_iter(message) {
        if quoted.iter().any(|range| range.contains(&found.start())) {
            continue;
        }
        if places.is_empty() {
            places.resize(phrases.automaton.patterns_len(), None);
        }
        let span = (position(found.start()), position(found.end()));
        if let Some(place) = places.get_mut(found.pattern().as_usize()) {
            let first = place.map_or(span, |place| place.first);
            *place = Some(Place { first, last: span });
        }
    }
    if places.is_empty() {
        return None;
    }
    let hits = phrases.rows.iter().filter(|row| row.counts(&places, status));
    hits.map(|row| Hit { kind: row.group.means, scope: row.group.scope, name: row.name }).find(|hit| !veto(hit))
}

impl Row {
    fn counts(&self, places: &[Option<Place>], status: Statuses) -> bool {
        let place = |part: &usize| places.get(*part).copied().flatten();
        let Some(first) = self.parts.first().and_then(place) else { return false };
        let at = self.group.at.meets(status) || self.group.leading_at.meets(status) && first.first.0 <= LEAD;
        at && self.parts.windows(2).all(|pair| match (pair.first().and_then(place), pair.get(1).and_then(place)) {
            (Some(a), Some(b)) => follows(a.first, b.first) || follows(a.last, b.last) || follows(a.first, b.last),
            _ => false,
        })
    }
}

fn follows(a: (u32, u32), b: (u32, u32)) -> bool {
    b.0.checked_sub(a.1).is_some_and(|between| between <= GAP)
}

/// Messages are bounded far below 4 GiB.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_own_words() {
        let phrases = PHRASES.as_ref().unwrap();
        for row in &phrases.rows {
            let words: Vec<_> =
                GROUPS.iter().flat_map(|group| group.rows.lines()).filter(|line| line.contains(row.name)).collect();
            assert!(!words.is_empty() && !row.name.is_empty(), "an empty row in {:?}", row.group.means);
        }
        assert!(phrases.rows.iter().all(|row| row.name == row.name.to_ascii_lowercase()));
    }
}
