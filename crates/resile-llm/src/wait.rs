//! Parsers for waits in all forms that providers write.
//!
//! Nothing here panics. NaN, negative numbers, a literal infinity, zero and past moments are no
//! wait. A number too large to hold is `Duration::MAX`: an excessive wait is not an absent one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::span::{self, MOMENT, digits, leading_span, seconds, span, until_epoch};

/// Parses a plain number of units of `unit` seconds: `2`, `1.5`, `1e3`. Rejects `inf` although
/// `f64` would parse it.
pub(crate) fn number(text: &str, unit: f64) -> Option<Duration> {
    seconds(digits(text)? * unit)
}

/// Returns the time from `now` until a moment. The moment is RFC 3339, or seconds or milliseconds
/// since 1970.
pub(crate) fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Some(value) = digits(text) {
        return until_epoch(value, now);
    }
    let moment: jiff::Timestamp = text.parse().ok()?;
    // A moment before 1970 is past, even if this platform's clock cannot show it.
    let moment = UNIX_EPOCH.checked_add(Duration::try_from(moment.as_duration()).ok()?)?;
    let left = moment.duration_since(now).ok()?;
    (!left.is_zero()).then_some(left)
}

/// Parses a reset header: a duration, a moment or a number. A small number is a duration and a
/// large one a moment.
pub(crate) fn reset(text: &str, now: SystemTime) -> Option<Duration> {
    span::reset(text, || now).or_else(|| until(text, now))
}

/// Returns the wait in a body field if the name of the field is one for waits.
pub(crate) fn field(name: &str, value: &Value, now: SystemTime) -> Option<Duration> {
    match name {
        "retry_after"
        | "retryAfter"
        | "retry_after_seconds"
        | "retryAfterSeconds"
        | "retry-after"
        | "resets_in_seconds"
        | "clears_in"
        | "reset_after_seconds"
        | "estimated_time"
        | "retryDelay"
        | "retry_delay"
        | "quotaResetDelay"
        | "wait_seconds" => amount(value, 1.0),
        "retry_after_ms" | "retryAfterMs" | "retry_delay_ms" => amount(value, 1e-3),
        "resets_at"
        | "reset_at"
        | "resetsAt"
        | "resetAt"
        | "reset_time"
        | "quotaResetTimeStamp" => match value {
            Value::Number(number) => until_epoch(number.as_f64()?, now),
            Value::String(text) => until(text, now),
            _ => None,
        },
        _ => None,
    }
}

/// Parses a number of units, a duration in words or Google's `{seconds, nanos}`.
fn amount(value: &Value, unit: f64) -> Option<Duration> {
    match value {
        Value::Number(number) => seconds(number.as_f64()? * unit),
        Value::String(text) => number(text, unit).or_else(|| span(text)),
        Value::Object(parts) => {
            let part = |name| {
                parts.get(name).and_then(|part| part.as_f64().or_else(|| digits(part.as_str()?)))
            };
            seconds(part("seconds").unwrap_or(0.0) + part("nanos").unwrap_or(0.0) * 1e-9)
        }
        _ => None,
    }
}

/// Lower-case words before a wait in a sentence.
const ANCHORS: [&str; 18] = [
    "again in",
    "again after",
    "retry in",
    "retry after",
    "retry-after",
    "retry_after",
    "wait",
    "reset after",
    "resets after",
    "reset in",
    "resets in",
    "request after",
    "requests after",
    "available in",
    "again at",
    "resets at",
    "reset at",
    "access on",
];

/// Words that may stand between an anchor and the wait.
const FILLERS: [&str; 9] = [
    " about",
    " approximately",
    " around",
    " at least",
    " another",
    " for",
    " up to",
    " a further",
    " is",
];

/// Characters that may stand around anchors and fillers.
const MARKS: [char; 8] = [' ', ':', '=', '"', '\'', '~', '(', '`'];

/// Words before a moment since 1970: "Claude AI usage limit reached|1760007200".
const MOMENT_ANCHOR: &str = "limit reached|";

/// Returns the longest wait that a lower-case message asks for in words: "try again in 9m38.016s".
/// An anchor without an amount asks for none: "please adjust your input and try again".
pub(crate) fn sentence(text: &str, now: SystemTime) -> Option<Duration> {
    let bytes = text.as_bytes();
    let starts = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_some_and(|before| !before.is_ascii_alphanumeric())
    };
    let figures =
        (0..bytes.len()).filter(|at| bytes.get(*at).is_some_and(u8::is_ascii_digit)).filter(starts);
    let wait = |at: usize| {
        let (before, rest) = text.split_at_checked(at)?;
        if is_anchored(before) {
            asked(rest, now)
        } else if before.ends_with(MOMENT_ANCHOR) {
            moment(rest, now)
        } else {
            None
        }
    };
    figures.filter_map(wait).max()
}

/// Returns whether the words before a number make the number a wait.
fn is_anchored(before: &str) -> bool {
    let mut before = before.trim_end_matches(MARKS);
    for filler in FILLERS {
        before =
            before.strip_suffix(filler).map_or(before, |before| before.trim_end_matches(MARKS));
    }
    // "Will retry in 210 ms" is what a client does.
    !before.ends_with("will retry in") && ANCHORS.iter().any(|anchor| before.ends_with(anchor))
}

/// Returns the wait at the start of `text`.
fn asked(text: &str, now: SystemTime) -> Option<Duration> {
    if let Some((wait, _)) = leading_span(text) {
        return wait;
    }
    let word = text
        .find(|c: char| c.is_whitespace() || c == ',' || c == ')' || c == '"')
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(word);
    let word = word.trim_end_matches('.');
    // A bare number is seconds, unless it counts something else: "try again after 3 attempts".
    let bare = !rest.trim_start().starts_with(char::is_alphanumeric);
    match digits(word) {
        Some(value) if value >= MOMENT => until_epoch(value, now),
        Some(value) => seconds(value).filter(|_| bare),
        None => until(&word.to_ascii_uppercase(), now).or_else(|| day(word, rest, now)),
    }
}

/// Returns the time from `now` until the moment since 1970 at the start of `text`.
fn moment(text: &str, now: SystemTime) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = digits(text.get(..end)?).filter(|value| *value >= MOMENT)?;
    until_epoch(value, now)
}

/// Parses a day and a time of day in UTC: "2025-11-01 at 00:00 UTC".
fn day(word: &str, rest: &str, now: SystemTime) -> Option<Duration> {
    let rest = rest.trim_start();
    let time = rest.strip_prefix("at ").unwrap_or(rest).get(..5)?;
    until(&format!("{word}T{time}:00Z"), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_micros().div_ceil(1_000))
    }

    #[test]
    fn a_number_is_plain_and_positive() {
        for text in ["NaN", "inf", "infinity", "-1", "0", "", " ", "0x10", "1,5", "soon", "+5"] {
            assert_eq!(number(text, 1.0), None, "{text}");
        }
        assert_eq!(number("1.5", 1.0), Some(Duration::from_millis(1_500)));
        assert_eq!(number(&"9".repeat(400), 1.0), Some(Duration::MAX));
    }

    #[test]
    fn sentences_name_the_longest_wait() {
        let now = UNIX_EPOCH + Duration::from_secs(1_760_000_000);
        for (text, want) in [
            ("Please try again in 9m38.016s. Visit …", Some(578_016)),
            ("Please retry after 2 seconds.", Some(2_000)),
            ("Your quota will reset after 19h14m47s.", Some(69_287_000)),
            ("Please wait 30 seconds before trying again", Some(30_000)),
            ("or try again in 4 days 20 hours 9 minutes.", Some(418_140_000)),
            ("Retry after 7", Some(7_000)),
            ("try again after 3 attempts", None),
            ("will retry in 210ms", None),
            ("Please adjust your input and try again", None),
            ("Please try again with a pdf", None),
            ("Try again with a maximum tokens value lower than 4096", None),
            (
                "You will regain access on 2025-10-09 at 09:00 UTC",
                Some(1_760_000_400_000 - 1_760_000_000_000),
            ),
            ("in 20ms. first, wait 1 s then", Some(1_000)),
            ("Claude AI usage limit reached|1760007200", Some(7_200_000)),
            ("Claude AI usage limit reached|1760007200. Later", Some(7_200_000)),
            ("Claude AI usage limit reached|1759999999", None),
            ("usage limit reached|20", None),
            ("usage limit reached: 1760007200", None),
        ] {
            assert_eq!(ms(sentence(&text.to_lowercase(), now)), want, "{text}");
        }
    }

    #[test]
    fn past_moments_are_no_wait() {
        let now = UNIX_EPOCH + Duration::from_secs(1_760_000_000);
        for text in
            ["1760000060", "1760000060000", "2025-10-09T08:54:20Z", "2025-10-09T10:54:20+02:00"]
        {
            assert_eq!(until(text, now), Some(Duration::from_secs(60)), "{text}");
        }
        for text in
            ["1760000000", "1759999999", "2025-10-09T08:53:20Z", "2025-13-09T08:53:20Z", "tomorrow"]
        {
            assert_eq!(until(text, now), None, "{text}");
        }
        for text in ["0001-01-01T00:00:00Z", "-009999-01-02T01:59:59Z", "1969-12-31T23:59:59Z"] {
            assert_eq!(until(text, UNIX_EPOCH), None, "{text}");
        }
        assert!(until("9999-12-30T22:00:00Z", UNIX_EPOCH).is_some());
    }
}
