//! The limits in the headers of answers, in the words of LLM providers.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use resile::http::headers;
use resile::quota::Limits;
#[cfg(any(feature = "reqwest", feature = "stream"))]
use resile::quota::{Dimension, Limit, learn};

use crate::span::{self, digits};

/// Returns the limits that the headers of an answer report.
///
/// Reads the fields of [`resile::http::limits`] by the rules there, and these:
///
/// | fields | senders |
/// |---|---|
/// | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` | OpenAI, Azure, Groq |
/// | the same with `-second`, `-minute`, `-hour` or `-day` | Cerebras, Mistral, Kong |
/// | `x-ratelimit-{limit,remaining}-tokens-{prompt,generated}` | Fireworks |
/// | `x-tokenlimit-{limit,remaining}` | Together |
/// | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}` | Anthropic |
///
/// OpenAI names no window, so the window of its limits is `None`. They refill at an even rate: a reset
/// such as `6s` is the time until all of a limit is back. One answer does not tell this from the end of
/// a fixed window. A quota therefore finds the window by [several answers](resile::quota#limits-that-are-wrong).
///
/// A reset may also be a duration such as `6m0s`, or a moment of RFC 3339 in UTC. A moment is
/// compared with the answer's own `Date`, or with `now` if there is no usable `Date`.
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use resile::quota::Dimension;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// for (field, value) in [
///     ("x-ratelimit-remaining-tokens", "149984"),
///     ("x-ratelimit-reset-tokens", "6m0s"),
/// ] {
///     headers.insert(field, value.parse().unwrap());
/// }
/// let now = SystemTime::now();
/// let limits = resile_llm::limits(StatusCode::OK, &headers, now);
/// let tokens = limits.get(Dimension::Tokens);
/// assert_eq!(tokens.remaining, Some(149_984));
/// assert_eq!(tokens.reset, Some(Duration::from_secs(360)));
/// ```
pub fn limits(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Limits {
    resile::http::limits(status, &plain(headers, || now), now)
}

/// Passes the [`limits`] of an answer to the quota of the current attempt.
///
/// Call this within the operation of a call, for good and bad answers. See
/// [`quota::learn`](resile::quota::learn). Returns false if no limit and no remaining number is known or
/// if there is no current attempt. Reads the wall clock only if the reset is a moment and the answer has no
/// usable `Date`.
pub fn learn_limits(status: StatusCode, headers: &HeaderMap) -> bool {
    resile::http::learn(status, &plain(headers, headers::now))
}

/// Tells the quota of the current attempt that a limit of requests is used up, as the words of a refusal say,
/// unless its headers say what is left. Otherwise the quota would count its tokens as used up too.
#[cfg(any(feature = "reqwest", feature = "stream"))]
pub(crate) fn learn_used_requests(status: StatusCode, headers: &HeaderMap) {
    let limits = limits(status, headers, headers::now());
    if Dimension::ALL.iter().all(|dimension| limits.get(*dimension).remaining.is_none()) {
        learn(limits.with(Dimension::Requests, Limit::of_remaining(0)));
    }
}

/// Prefixes of providers, and the words that they mean.
const PREFIXES: [(&str, &str); 5] = [
    ("x-ratelimit-", ""),
    ("anthropic-ratelimit-", ""),
    ("x-tokenlimit-", "tokens-"),
    ("x-rate-limit-", ""),
    ("ratelimit-", ""),
];

/// Words of providers in the names of fields, and the words that they mean.
const WORDS: [(&str, &str); 3] =
    [("req", "requests"), ("prompt", "input"), ("generated", "output")];

/// Returns the headers with a second field for each one that a provider words in its own way. The
/// second field says the same as `resile::http::limits` reads it. Most answers need none or few.
fn plain(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Cow<'_, HeaderMap> {
    let now = || headers::date(headers).unwrap_or_else(&now);
    let mut plain = Cow::Borrowed(headers);
    for (name, value) in headers {
        if let Some((name, value)) = plain_field(name.as_str(), value, now) {
            // A map is full at 32,768 fields.
            let _ = plain.to_mut().try_append(name, value);
        }
    }
    plain
}

/// Returns the plain form of a field. `None` if the field has it, or if it has none.
fn plain_field(
    name: &str,
    value: &HeaderValue,
    now: impl Fn() -> SystemTime,
) -> Option<(HeaderName, HeaderValue)> {
    let strip = |(theirs, plain): (&str, &'static str)| Some((plain, name.strip_prefix(theirs)?));
    let (prefix, words) = PREFIXES.into_iter().find_map(strip)?;
    let seconds = if words.split('-').any(|word| word == "reset") {
        seconds(value.to_str().ok()?, now)
    } else {
        None
    };
    let known = |word: &str| WORDS.iter().find(|(theirs, _)| *theirs == word);
    let is_plain =
        name.starts_with("x-ratelimit-") && !words.split('-').any(|w| known(w).is_some());
    if is_plain && seconds.is_none() {
        return None;
    }
    let words = words.split('-').map(|word| known(word).map_or(word, |(_, plain)| *plain));
    let words = words.collect::<Vec<_>>().join("-");
    let name = HeaderName::try_from(format!("x-ratelimit-{prefix}{words}")).ok()?;
    let value = match seconds {
        Some(seconds) => HeaderValue::try_from(seconds).ok()?,
        None => value.clone(),
    };
    Some((name, value))
}

/// Returns a duration or a moment in words as a number of seconds. `None` for a number, and for
/// words that are neither.
fn seconds(text: &str, now: impl Fn() -> SystemTime) -> Option<String> {
    /// A greater number would be a moment.
    const MOST: Duration = Duration::from_secs(999_999_999);
    if digits(text).is_some() {
        return None;
    }
    let left = span::reset(text, now)?.min(MOST);
    Some(left.as_secs_f64().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        fields.collect()
    }

    /// Returns the fields that are added, and the number of readings of the wall clock.
    fn added(fields: &[(&'static str, &'static str)]) -> (Vec<(String, String)>, u32) {
        let (headers, reads) = (of(fields), std::cell::Cell::new(0));
        let plain = plain(&headers, || {
            reads.set(reads.get() + 1);
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000)
        });
        let mut added = Vec::new();
        for (name, value) in plain.iter() {
            if !headers.get_all(name).iter().any(|own| own == value) {
                added.push((name.to_string(), value.to_str().unwrap().to_owned()));
            }
        }
        assert_eq!(matches!(plain, Cow::Borrowed(_)), added.is_empty(), "a copy for nothing");
        (added, reads.get())
    }

    #[test]
    fn a_field_gets_a_plain_twin() {
        for (name, value, plain, plain_value) in [
            ("anthropic-ratelimit-tokens-limit", "9", "x-ratelimit-tokens-limit", "9"),
            ("x-tokenlimit-remaining", "9", "x-ratelimit-tokens-remaining", "9"),
            ("x-ratelimit-limit-tokens-prompt", "9", "x-ratelimit-limit-tokens-input", "9"),
            ("x-ratelimit-limit-req-day", "9", "x-ratelimit-limit-requests-day", "9"),
            ("x-ratelimit-reset-tokens", "6m0s", "x-ratelimit-reset-tokens", "360"),
            ("ratelimit-reset", "1500ms", "x-ratelimit-reset", "1.5"),
            // As a number of seconds it would be a moment.
            ("x-ratelimit-reset", "9999w", "x-ratelimit-reset", "999999999"),
        ] {
            let twin = (plain.to_owned(), plain_value.to_owned());
            assert_eq!(added(&[(name, value)]), (vec![twin], 0), "{name}: {value}");
        }
        for (name, value) in [
            ("x-ratelimit-remaining-tokens", "9"),
            ("x-ratelimit-reset-tokens", "360"),
            ("x-ratelimit-reset-tokens", "soon"),
            ("ratelimit", "\"a\";r=3"),
            ("content-type", "req"),
        ] {
            assert_eq!(added(&[(name, value)]), (vec![], 0), "{name}: {value}");
        }
    }

    #[test]
    fn the_wall_clock_is_read_only_for_a_moment() {
        let moment = ("anthropic-ratelimit-requests-reset", "2025-10-09T08:54:20Z");
        let twin =
            |seconds: &str| vec![("x-ratelimit-requests-reset".to_owned(), seconds.to_owned())];
        assert_eq!(added(&[moment]), (twin("60"), 1));
        let date = ("date", "Thu, 09 Oct 2025 08:54:10 GMT");
        assert_eq!(added(&[moment, date]), (twin("10"), 0));
    }
}
