use std::collections::BTreeMap;

use super::super::learned::{Known, LearnedRequest, Report};
use super::super::limits::{rate, words};
use super::{Model, Stored, Time};

/// The lessons of the members, as `learned.lua` keeps them. Limits are doubles, as in the script.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lessons {
    time: Time,
    limits: BTreeMap<String, Lesson>,
}

/// The knowledge of one limit.
#[derive(Debug, Clone, PartialEq)]
struct Lesson {
    /// The lowest limit that a member was built with, its words, and the time of its last report.
    base: f64,
    words: String,
    /// The member that last had it.
    by: String,
    based: i128,
    /// The lowest limit that the provider reports, and its time.
    cap: f64,
    capped: i128,
    /// The limit that all use. `None` before the first answer.
    used: Option<f64>,
    /// The largest limit that was allowed.
    top: f64,
    told: i128,
    /// The share of the base of which operators were told last, 1 for none.
    said: f64,
    /// The time since which a lower share is news, 0 for none.
    since: i128,
}

/// The time for which a report counts, and that for which a lesson is kept, in microseconds.
const FRESH: i128 = 3_000_000;
const MEMORY: i128 = 60_000_000;

fn bounded(n: f64, low: f64, high: f64) -> f64 {
    if n.is_nan() { low } else { n.clamp(low, high) }
}

impl Lesson {
    /// A limit of which nothing is known.
    fn new(own: f64, words: &str, id: &str, now: i128) -> Self {
        let (words, by) = (words.to_owned(), id.to_owned());
        Self {
            base: own,
            words,
            by,
            based: now,
            cap: own,
            capped: 0,
            used: None,
            top: own,
            told: now,
            said: 1.0,
            since: 0,
        }
    }

    /// Returns whether a member has to tell operators of the limit that all use, and notes it.
    fn tells(&mut self, used: f64, now: i128) -> bool {
        let share = used / self.base;
        let is_told = self.said < 1.0;
        let falls = share < if is_told { 0.8 * self.said } else { 0.9 };
        self.since = match self.since {
            _ if !falls => 0,
            0 => now,
            since => since,
        };
        let is_news = if falls { now - self.since > FRESH } else { is_told && share >= 0.97 };
        if is_news {
            (self.said, self.since) = (if share < 0.97 { share } else { 1.0 }, 0);
        }
        is_news
    }

    /// Takes the report of a member. Returns the limit that all use.
    fn take(&mut self, report: &Report, own: f64, id: &str, now: i128) -> f64 {
        let is_lower = own < self.base * 0.999_999;
        if is_lower || now - self.based > FRESH {
            (self.base, self.words, self.based) = (own, words(&report.rate), now);
            id.clone_into(&mut self.by);
        } else if own <= self.base * 1.000_001 {
            (self.based, self.by) = (now, id.to_owned());
        }
        if let Some(cap) = report.reported {
            if cap <= self.cap * 1.000_001 || now - self.capped > FRESH {
                (self.cap, self.capped) = (bounded(cap, 1e-12, 1e18), now);
            }
        }
        let is_capped = now - self.capped <= FRESH;
        let most = if is_capped { self.base.min(self.cap) } else { self.base };
        let mut used = self.used.or(report.used).unwrap_or(most);
        if self.used.is_some() && most > self.top && used >= 0.9 * self.top {
            used = used / self.top * most;
        }
        let change = bounded(report.change, -1e18, 1e18);
        let used = bounded(used + change, most / 1_024.0, most);
        (self.used, self.top, self.told) = (Some(used), most, now);
        used
    }
}

impl Model<LearnedRequest<'_>> for Lessons {
    fn step(&mut self, now: i128, request: &LearnedRequest<'_>) -> Vec<Known> {
        self.time.follow(now);
        let now = self.time.now;
        let answer = |report: &Report| {
            let own = bounded(report.own, 1e-12, 1e18);
            let new = || Lesson::new(own, &words(&report.rate), request.id, now);
            let lesson = self.limits.entry(report.name()).or_insert_with(new);
            if now - lesson.told > MEMORY {
                *lesson = new();
            }
            let used = lesson.take(report, own, request.id, now);
            let is_news = lesson.tells(used, now);
            let base = rate(&lesson.words).unwrap();
            Known { base, used, is_news, by: lesson.by.clone() }
        };
        request.reports.iter().map(answer).collect()
    }

    fn stored(&self) -> Stored {
        let text = |(name, lesson): (&String, &Lesson)| {
            let Lesson { base, words, by, based, cap, capped, used, top, told, said, since } =
                lesson;
            let [base, cap, top, said] = [base, cap, top, said].map(|limit| digits(*limit));
            let used = used.map(digits).unwrap_or_default();
            (
                name.clone(),
                format!(
                    "{base} {based} {cap} {capped} {used} {top} {told} {said} {since} {words} {by}"
                ),
            )
        };
        let Time { now, offset } = self.time;
        let times = [("t", now), ("d", offset)].map(|(name, at)| (name.to_owned(), at.to_string()));
        self.limits.iter().map(text).chain(times).collect()
    }

    fn life(&self) -> i128 {
        120_000
    }
}

/// Returns the text of the format `%.17g` of C.
fn digits(number: f64) -> String {
    let short = |text: &str| {
        let zeros = if text.contains('.') { text.trim_end_matches('0') } else { text };
        zeros.trim_end_matches('.').to_owned()
    };
    let text = format!("{number:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    match usize::try_from(16 - exponent) {
        Ok(decimals) if exponent >= -4 => short(&format!("{number:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(mantissa), exponent.abs())
        }
    }
}
