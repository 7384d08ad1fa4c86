//! Parsers for lengths of time in headers.
//!
//! Nothing here panics. NaN, negative numbers, a literal infinity, zero and past moments are no
//! span. A number too large to hold is `Duration::MAX`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns `value` seconds as a wait, if they are one.
pub(crate) fn seconds(value: f64) -> Option<Duration> {
    if value.is_nan() || value <= 0.0 {
        return None;
    }
    let wait = Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
    (!wait.is_zero()).then_some(wait)
}

/// Parses a plain number: `2`, `1.5`, `1e3`. Rejects `inf` although `f64` would parse it.
pub(crate) fn digits(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if plain { text.parse().ok() } else { None }
}

/// Parses the whole of `text` as a duration such as `1 minute and 5 seconds`, `34.4s`, `900ms`,
/// `6m0s`, `19h14m47s`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let (wait, rest) = leading_span(text.trim())?;
    if rest.is_empty() { wait } else { None }
}

/// Returns the duration at the start of `text` and the rest. `Some((None, …))` is a duration of
/// zero.
pub(crate) fn leading_span(text: &str) -> Option<(Option<Duration>, &str)> {
    let mut total = 0.0;
    let mut rest = text;
    let mut after = None;
    loop {
        let figures = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (figures, tail) = rest.split_at(figures);
        let figures = figures.strip_suffix('.').unwrap_or(figures);
        let Some((value, (unit, tail))) = digits(figures).zip(leading_unit(tail)) else { break };
        total += value * unit;
        after = Some(tail);
        let next = tail.trim_start_matches([' ', ',']);
        rest = next.strip_prefix("and ").unwrap_or(next);
    }
    after.map(|tail| (seconds(total), tail))
}

/// Returns the seconds of the lower-case unit at the start of `text` and the rest.
fn leading_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start_matches([' ', '-']);
    let word = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(word);
    let unit = match word {
        "ns" | "nanosecond" | "nanoseconds" => 1e-9,
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => 1e-6,
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    };
    Some((unit, rest))
}

/// The limit between seconds and milliseconds since 1970. Seconds stay below it until the year
/// 5138. Milliseconds have been above it since 1973.
const MILLISECONDS: f64 = 1e11;

/// The smallest number that is a moment since 1970. Smaller numbers are lengths in seconds: as
/// moments they would be before September 2001.
pub(crate) const MOMENT: f64 = 1e9;

/// Returns the time from `now` until a number of seconds or milliseconds since 1970.
pub(crate) fn until_epoch(value: f64, now: SystemTime) -> Option<Duration> {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    seconds(if value > MILLISECONDS { value / 1e3 } else { value } - since)
}

/// Parses a reset: a duration, a moment or a number. A small number is a duration and a large one a
/// moment. Calls `now` only for a moment.
pub(crate) fn reset(text: &str, now: impl Fn() -> SystemTime) -> Option<Duration> {
    match digits(text) {
        Some(value) if value < MOMENT => seconds(value),
        Some(value) => until_epoch(value, now()),
        None => span(text).or_else(|| {
            let left = moment(text.trim())?.duration_since(now()).ok()?;
            (!left.is_zero()).then_some(left)
        }),
    }
}

/// Parses a moment of RFC 3339 in UTC since 1970, without its fraction: `2025-10-09T08:54:20Z`.
fn moment(text: &str) -> Option<SystemTime> {
    let bytes = text.strip_suffix('Z')?.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !marks.iter().all(|(at, mark)| bytes.get(*at) == Some(mark))
        || bytes.get(19).is_some_and(|byte| *byte != b'.')
    {
        return None;
    }
    let number = |range: std::ops::Range<usize>, most: u64| {
        let digits = text.get(range).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        digits?.parse().ok().filter(|number: &u64| *number <= most)
    };
    let (year, month, day) = (number(0..4, 9_999)?, number(5..7, 12)?, number(8..10, 31)?);
    let (hour, minute, second) = (number(11..13, 23)?, number(14..16, 59)?, number(17..19, 60)?);
    // Years begin in March, so a leap day is the last day of its year.
    let months = (month + 9) % 12;
    let year = year.checked_sub(u64::from(month < 3))?;
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (months * 153 + 2) / 5 + day.checked_sub(1)?;
    // 719,468 days are from March of the year 0 to 1970.
    let days = days.checked_sub(719_468).filter(|_| month > 0)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + hour * 3_600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_micros().div_ceil(1_000))
    }

    #[test]
    fn a_span_is_the_whole_text() {
        for (text, want) in [
            ("34.4s", Some(34_400)),
            ("900ms", Some(900)),
            ("6m0s", Some(360_000)),
            ("2m59.56s", Some(179_560)),
            ("19h14m47s", Some(69_287_000)),
            ("1d2h", Some(93_600_000)),
            ("1 minute and 5 seconds", Some(65_000)),
            ("0s", None),
            ("5", None),
            ("s", None),
            ("", None),
            ("5 apples", None),
            ("1..5s", None),
        ] {
            assert_eq!(ms(span(text)), want, "{text}");
        }
    }

    #[test]
    fn a_moment_is_in_utc() {
        for (text, want) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400)),
            ("2000-03-01T00:00:00.5Z", Some(951_868_800)),
            ("2025-10-09T08:53:20Z", Some(1_760_000_000)),
            ("9999-12-31T23:59:60Z", Some(253_402_300_800)),
            ("1969-12-31T23:59:59Z", None),
            ("0000-01-01T00:00:00Z", None),
            ("2025-00-09T08:53:20Z", None),
            ("2025-10-00T08:53:20Z", None),
            ("2025-13-09T08:53:20Z", None),
            ("2025-10-09T08:53:20", None),
            ("2025-10-09T08:53:20+02:00", None),
            ("2025-10-09T08:53:2éZ", None),
            ("+025-10-09T08:53:20Z", None),
            ("2025-10-09T08:53Z", None),
            ("Z", None),
            ("", None),
        ] {
            let moment = moment(text).map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs());
            assert_eq!(moment, want, "{text}");
        }
    }

    #[test]
    fn the_size_of_a_number_decides_about_a_reset() {
        let now = || UNIX_EPOCH + Duration::from_secs(1_760_000_000);
        for (text, want) in [
            ("60", Some(60_000)),
            ("0.25", Some(250)),
            ("1760000060", Some(60_000)),
            ("1760000060000", Some(60_000)),
            ("999999999", Some(999_999_999_000)),
            ("1000000000", None),
            ("100000000000", Some(98_240_000_000_000)),
            ("6m0s", Some(360_000)),
            ("2025-10-09T08:54:20Z", Some(60_000)),
            ("2025-10-09T08:53:20Z", None),
            ("0", None),
            ("0s", None),
            ("-1", None),
            ("1759999999", None),
            ("soon", None),
        ] {
            assert_eq!(ms(reset(text, now)), want, "{text}");
        }
    }
}
