//! Reads what a message says by the meanings of its words, whatever their order.
//!
//! A provider words the same fact anew for each plan and each model: "daily limit reached", "you
//! have used up today's free requests". The table has the words. A rule names the meanings that
//! must stand together in one statement. A statement ends like a sentence.

mod rules;
mod words;

use std::ops::Range;
use std::sync::LazyLock;

use crate::finder::Place;
use crate::kind::{Kind, Scope};
use crate::numbers;
use crate::statuses::Statuses;
use rules::{LIMITED, has, longer, other, quota};
use words::{
    ALLOWANCE, DAY, LOAD, MINUTE, MINUTE_USED, Meanings, PERIODS, RATE, TODAY, USED, VOID, WORDS,
};

/// The common meaning of the statements of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
    /// The rule of the grammar.
    pub(crate) rule: &'static str,
}

/// The statements of a message about limits and about the request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// A limit that no short wait refills. Words and codes about a rate do not change this.
    pub(crate) quota: Option<Said>,
    /// A limit per minute or second, and no longer one.
    pub(crate) is_minute: bool,
    /// A fact about the request or its answer. A known code or phrase says more.
    pub(crate) other: Option<Said>,
}

struct Grammar {
    /// Each word once. Its place here is its number.
    known: Vec<&'static str>,
    meanings: Vec<Meanings>,
}

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    let mut known: Vec<&'static str> = Vec::new();
    let mut meanings: Vec<Meanings> = Vec::new();
    for (meaning, words) in WORDS {
        for word in words.split('|') {
            if let Some(known) = known.iter().position(|other| *other == word) {
                meanings[known] |= meaning;
            } else {
                known.push(word);
                meanings.push(*meaning);
            }
        }
    }
    Grammar { known, meanings }
});

/// Returns all words. The place of a word is its number.
pub(crate) fn known() -> &'static [&'static str] {
    &GRAMMAR.known
}

/// Reads a message in lower case. `places` holds the places of the words in the order of their
/// starts.
pub(crate) fn read(message: &str, places: &[Place], status: Statuses) -> Reading {
    read_each(message, places, status, |_, _| {})
}

/// Reads like [`read`], and calls `each` with each statement and its place.
pub(crate) fn read_each(
    message: &str,
    places: &[Place],
    status: Statuses,
    mut each: impl FnMut(Said, Range<usize>),
) -> Reading {
    let meanings = &GRAMMAR.meanings;
    let meaning = |place: &Place| meanings.get(place.phrase).copied().unwrap_or_default();
    #[cfg(test)]
    let meaning = |place: &Place| if is_left_out(place) { 0 } else { meaning(place) };
    let together = |places: &[Place]| places.iter().fold(0, |all, place| all | meaning(place));
    let statements = || places.chunk_by(|one, next| !is_stopped(message, one.start, next.start));
    let mut all = together(places);
    let is_minute_used = |statement: &[Place]| {
        let said = together(statement);
        has(said, MINUTE | USED) && periods_within(message, statement, &meaning) & MINUTE == 0
    };
    if has(all, MINUTE | USED) && all & PERIODS != 0 && statements().any(is_minute_used) {
        all |= MINUTE_USED;
    }
    let mut reading = Reading::default();
    let (mut is_minute, mut is_rate) = (false, false);
    #[cfg(test)]
    let mut about_rate: Vec<&Place> = Vec::new();
    #[cfg(test)]
    for place in places.iter().filter(|place| meaning(place) & VETOES != 0) {
        note_in(place, crate::trial::VETO);
    }
    let voids: Vec<_> = places.iter().filter(|place| meaning(place) & VOID != 0).collect();
    for statement in statements() {
        let counts = |place: &&Place| {
            !voids.iter().any(|void| void.start <= place.start && place.end <= void.end)
        };
        let mut said = statement.iter().filter(counts).fold(0, |all, place| all | meaning(place));
        if said & PERIODS != 0 {
            said &= !periods_within(message, statement, &meaning);
        }
        if has(said, TODAY | USED) && said & (RATE | LOAD) == 0 {
            said |= DAY;
        }
        let is_about_rate = has(said, RATE | USED | ALLOWANCE);
        let is_about_minute = has(said, MINUTE | ALLOWANCE);
        is_rate |= is_about_rate;
        is_minute |= is_about_minute;
        #[cfg(test)]
        if is_about_rate || is_about_minute {
            let is_meant =
                |place: &&Place| meaning(place) & (RATE | MINUTE | USED | ALLOWANCE) != 0;
            about_rate.extend(statement.iter().filter(is_meant));
        }
        let text = || {
            let start = statement.first().map_or(0, |place| place.start);
            message.get(start..stop(message, start)).unwrap_or_default()
        };
        let (quota, other) = (quota(said, all, status), other(said, all, status, text));
        for said in [quota, other].into_iter().flatten() {
            let start = statement.first().map_or(0, |place| place.start);
            let end = statement.iter().map(|place| place.end).max().unwrap_or(start);
            #[cfg(test)]
            for place in statement {
                note(place, said.kind);
            }
            each(said, start..end);
        }
        reading.quota = longer(reading.quota, quota);
        reading.other = reading.other.or(other);
    }
    reading.is_minute = is_minute && reading.quota.is_none();
    if status.meets(LIMITED.and(Statuses::NONE)) {
        let of = |scope, rule| Some(Said { kind: Kind::RateLimit, scope, rule });
        let rate = if is_minute {
            of(Some(Scope::Minute), "a limit per minute")
        } else if is_rate {
            of(None, "a limit on a rate")
        } else {
            None
        };
        if let Some(rate) = rate {
            #[cfg(test)]
            for place in about_rate {
                note(place, rate.kind);
            }
            each(rate, 0..0);
        }
        reading.other = reading.other.or(rate);
    }
    reading
}

/// Returns the rules of the table.
#[cfg(test)]
pub(crate) fn rules() -> impl Iterator<Item = crate::trial::Name> {
    known().iter().map(|word| ("word", "", *word))
}

#[cfg(test)]
fn is_left_out(place: &Place) -> bool {
    known().get(place.phrase).is_some_and(|word| crate::trial::is_off(&("word", "", word)))
}

#[cfg(test)]
fn note(place: &Place, kind: Kind) {
    note_in(place, kind.as_str());
}

#[cfg(test)]
fn note_in(place: &Place, kind: &'static str) {
    known().get(place.phrase).into_iter().for_each(|word| {
        crate::trial::note(("word", "", word), kind);
    });
}

/// The meanings that keep a statement from another kind.
#[cfg(test)]
const VETOES: Meanings =
    words::FIELD | words::OFFER | words::PART | words::REQUEST | words::TOOL | VOID;

/// Returns whether a statement ends between two places.
fn is_stopped(message: &str, from: usize, to: usize) -> bool {
    let bytes = message.as_bytes();
    let between = bytes.get(from..to).unwrap_or_default();
    // The full stop, the question mark and their like are below the letters. The first bytes of
    // other scripts are above them.
    between.iter().enumerate().filter(|(_, byte)| !(b'@'..0xe3).contains(*byte)).any(
        |(at, byte)| match byte {
            b'.' | b';' | b'!' | b'?' => {
                bytes.get(from + at + 1).is_none_or(u8::is_ascii_whitespace)
            }
            // The first bytes of the Chinese full stop and semicolon.
            0xe3 => bytes.get(from + at..from + at + 3) == Some("。".as_bytes()),
            0xef => bytes.get(from + at..from + at + 3) == Some("；".as_bytes()),
            _ => false,
        },
    )
}

/// Returns the end of the statement that goes on at `from`.
fn stop(message: &str, from: usize) -> usize {
    (from..message.len()).find(|at| is_stopped(message, *at, at + 1)).unwrap_or(message.len())
}

/// The largest number of periods of a statement whose numbers are read.
const PERIODS_READ: usize = 8;

/// Returns the periods of a statement whose own numbers show that they are not used up.
fn periods_within(
    message: &str,
    statement: &[Place],
    meaning: &impl Fn(&Place) -> Meanings,
) -> Meanings {
    let of_period = |place: &&Place| meaning(place) & (MINUTE | PERIODS) != 0;
    let periods: Vec<&Place> = statement.iter().filter(of_period).take(PERIODS_READ).collect();
    let mut within = 0;
    let mut beyond = 0;
    for (n, place) in periods.iter().enumerate() {
        let end = periods.get(n + 1).map_or_else(|| stop(message, place.end), |next| next.start);
        let after = message.get(place.end..end.max(place.end)).unwrap_or_default();
        match numbers::is_used_up(after) {
            Some(false) => within |= meaning(place),
            Some(true) => beyond |= meaning(place),
            None => {}
        }
    }
    within & (MINUTE | PERIODS) & !beyond
}

#[cfg(test)]
mod tests {
    use super::super::finder::Finder;
    use super::*;

    fn read(message: &str, status: Statuses) -> Reading {
        let mut places = Vec::new();
        Finder::new(known()).find(message, message, |place| places.push(place));
        super::read(message, &places, status)
    }

    #[test]
    fn every_word_is_found() {
        for (meanings, words) in WORDS {
            for word in words.split('|') {
                assert!(word.len() >= super::super::finder::FIRST, "{word} is never found");
                let plain = crate::text::plain(word);
                assert_eq!(word, plain, "words must be in lower case, without underscores");
                assert!(*meanings != 0 && !word.is_empty());
            }
        }
    }

    #[test]
    fn meanings_must_stand_in_one_statement() {
        let quota = |message| read(message, Statuses::NONE).quota.map(|said| said.scope);
        assert_eq!(quota("the daily limit is reached"), Some(Some(Scope::Day)));
        assert_eq!(quota("reached: your limit of this month"), Some(Some(Scope::Window)));
        assert_eq!(quota("the limit is 3 per day. you have reached us"), None);
        assert_eq!(quota("your credits are not sufficient"), Some(None));
        assert_eq!(quota("the limit per minute is exceeded"), None);
        assert_eq!(quota("the thinking budget exceeds its maximum"), None);
        assert_eq!(quota("today's limit is used up"), Some(Some(Scope::Day)));
        let busy = read("we see many requests today", Statuses::RATE);
        assert!(busy.quota.is_none());
    }

    #[test]
    fn any_mark_and_the_end_of_the_message_end_a_word() {
        let is_quota =
            |end| read(&format!("insufficient balance{end}"), Statuses::RATE).quota.is_some();
        for end in ["", " now", ".", ", recharge", ")", "，"] {
            assert!(is_quota(end), "{end}");
        }
        assert!(!is_quota("r") && !is_quota("2"));
    }

    #[test]
    fn a_word_counts_from_its_start() {
        let is_quota = |message| read(message, Statuses::RATE).quota.is_some();
        assert!(is_quota("the daily limit"));
        assert!(is_quota("max_limit_daily"));
        assert!(is_quota("x每日limit"));
        assert!(!is_quota("the daily unlimited plan"));
    }
}
