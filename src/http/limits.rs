use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::{HeaderMap, StatusCode};

use super::headers::{date, now as wall_clock};
use super::service_limit::{ServiceLimit, count};
use crate::quota::{self, Dimension, Limit, Limits};

/// Returns the limits that the headers of an answer report.
///
/// | fields | senders |
/// |---|---|
/// | `x-ratelimit-{limit,remaining,reset}` | many services, for requests |
/// | the same with `-requests`, `-tokens`, `-input-tokens` or `-output-tokens` | services with limits for tokens |
/// | the same with `-second`, `-minute`, `-hour` or `-day` | services with several windows |
/// | `RateLimit-Policy` and `RateLimit` | draft-ietf-httpapi-ratelimit-headers-11, with the units requests and tokens |
/// | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | older drafts |
///
/// The crate `resile-llm` reads these and the fields of LLM providers.
///
/// * Absent numbers: a negative number is absent, and so is an unreadable one. A 0 beside a status
///   below 400 is absent too, because some services send 0 and -1 for unknown numbers.
/// * Several windows: the shortest window of each dimension counts. A field without a window comes
///   before all others.
/// * Several numbers: of two numbers for one window the smaller one counts.
/// * Resets: seconds, or seconds or milliseconds since 1970. A moment is compared with the answer's
///   own `Date`, or with `now` if there is no usable `Date`.
///
/// # Examples
///
/// ```
/// use ::http::{HeaderMap, StatusCode};
/// use resile::{http::limits, quota::Dimension};
/// use std::time::SystemTime;
///
/// let mut headers = HeaderMap::new();
/// let field = "x-ratelimit-remaining-tokens";
/// headers.insert(field, "149984".parse().unwrap());
/// headers.insert("ratelimit", "\"burst\";r=40;t=12".parse().unwrap());
/// let limits = limits(StatusCode::OK, &headers, SystemTime::now());
/// assert_eq!(limits.get(Dimension::Tokens).remaining, Some(149_984));
/// assert_eq!(limits.get(Dimension::Requests).remaining, Some(40));
/// ```
pub fn limits(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Limits {
    read(status, headers, || now)
}

/// Passes the [`limits`] of an answer to the quota of the current attempt.
///
/// Call this within the operation of a call, for good and bad answers. See [`quota::learn`].
/// Returns false if no limit and no remaining number is known or if there is no current attempt. Reads the wall
/// clock only if the reset is a moment and the answer has no usable `Date`.
///
/// # Examples
///
/// ```
/// use resile::http::{self, StatusError};
///
/// async fn get(client: &reqwest::Client, url: &str) -> anyhow::Result<String> {
///     let response = client.get(url).send().await?;
///     http::learn(response.status(), response.headers());
///     StatusError::check(response.status(), response.headers())?;
///     Ok(response.text().await?)
/// }
/// ```
pub fn learn(status: StatusCode, headers: &HeaderMap) -> bool {
    let limits = read(status, headers, wall_clock);
    !limits.is_empty() && quota::learn(limits)
}

fn read(status: StatusCode, headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Limits {
    let is_error = status.as_u16() >= 400;
    let known = |number: Option<u64>| number.filter(|number| is_error || *number > 0);
    let now = || date(headers).unwrap_or_else(&now);
    let mut windows = Windows::default();
    for (name, value) in headers {
        let Some((field, text)) = Field::of(name.as_str()).zip(value.to_str().ok()) else {
            continue;
        };
        let mut limit = Limit::default();
        match field.measure {
            Measure::Limit => limit.limit = known(count(text)),
            Measure::Remaining => limit.remaining = known(count(text)),
            Measure::Reset => limit.reset = reset(text, now),
        }
        windows.add(field.dimension, field.window, limit);
    }
    for service in ServiceLimit::all(headers) {
        if let Some(dimension) = dimension(&service) {
            let limit = Limit {
                limit: known(service.quota),
                remaining: known(service.remaining),
                reset: service.reset.filter(|reset| *reset > 0).map(Duration::from_secs),
                window: None, // `Windows` adds it
            };
            windows.add(dimension, service.window.unwrap_or(0), limit);
        }
    }
    windows.limits()
}

/// The number in a header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Limit,
    Remaining,
    Reset,
}

/// The meaning of a header field by its name.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    dimension: Dimension,
    /// The length of the window in seconds, or 0 if the name has none.
    window: u64,
    measure: Measure,
}

const PREFIXES: [&str; 3] = ["x-ratelimit-", "x-rate-limit-", "ratelimit-"];

impl Field {
    /// Returns the meaning of a lower-case name. A name with an unknown word has none: it may be
    /// about a project or about another unit.
    fn of(name: &str) -> Option<Self> {
        let words = PREFIXES.into_iter().find_map(|prefix| name.strip_prefix(prefix))?;
        let (mut dimension, mut window, mut measure) = (Dimension::Requests, 0, None);
        for word in words.split('-') {
            match word {
                "limit" => measure = Some(Measure::Limit),
                "remaining" => measure = Some(Measure::Remaining),
                "reset" => measure = Some(Measure::Reset),
                "tokens" if dimension == Dimension::Requests => dimension = Dimension::Tokens,
                "requests" | "request" | "tokens" => {}
                "input" => dimension = Dimension::Input,
                "output" => dimension = Dimension::Output,
                "second" => window = 1,
                "minute" => window = 60,
                "hour" => window = 60 * 60,
                "day" => window = 24 * 60 * 60,
                _ => return None,
            }
        }
        Some(Self { dimension, window, measure: measure? })
    }
}

/// The smallest number that is a moment since 1970. Smaller numbers are lengths in seconds: as
/// moments they would be before September 2001.
const MOMENT: f64 = 1e9;

/// The limit between seconds and milliseconds since 1970. Seconds stay below it until the year
/// 5138. Milliseconds have been above it since 1973.
const MILLISECONDS: f64 = 1e11;

/// Parses a reset: a length in seconds, or a moment in seconds or milliseconds since 1970. Zero, a
/// negative number and a past moment are none. Calls `now` only for a moment.
fn reset(text: &str, now: impl Fn() -> SystemTime) -> Option<Duration> {
    let text = text.trim();
    // The first byte excludes negative numbers, NaN and words like "inf".
    let number =
        text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let left = match number? {
        seconds if seconds < MOMENT => seconds,
        moment => {
            let since = now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            (if moment > MILLISECONDS { moment / 1e3 } else { moment }) - since
        }
    };
    let is_ahead = left > 0.0;
    let wait = is_ahead.then(|| Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX));
    wait.filter(|wait| !wait.is_zero())
}

/// Returns the dimension of a service limit by its unit and its name. Other units, such as
/// `content-bytes`, have none.
fn dimension(service: &ServiceLimit<'_>) -> Option<Dimension> {
    let is_in = |text: &str, words: &[&str]| {
        let text = text.as_bytes();
        let is_word = |word: &&str| {
            text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
        };
        words.iter().any(is_word)
    };
    let unit = service.unit.unwrap_or_default();
    if unit.eq_ignore_ascii_case("requests") || unit.eq_ignore_ascii_case("request") {
        return Some(Dimension::Requests);
    }
    let about = |words: &[&str]| is_in(unit, words) || is_in(service.name, words);
    if about(&["byte", "concurren"]) {
        None
    } else if about(&["input", "prompt"]) {
        Some(Dimension::Input)
    } else if about(&["output", "generated", "completion"]) {
        Some(Dimension::Output)
    } else if about(&["token"]) {
        Some(Dimension::Tokens)
    } else {
        service.unit.is_none().then_some(Dimension::Requests)
    }
}

/// The state of the shortest window of each dimension.
struct Windows([(u64, Limit); Dimension::ALL.len()]);

impl Default for Windows {
    fn default() -> Self {
        Self([(u64::MAX, Limit::default()); Dimension::ALL.len()])
    }
}

impl Windows {
    fn add(&mut self, dimension: Dimension, window: u64, limit: Limit) {
        let Some((shortest, known)) = self.0.get_mut(dimension as usize) else { return };
        if window > *shortest || limit == Limit::default() {
            return;
        }
        if window < *shortest {
            (*shortest, *known) = (window, Limit::default());
            known.window = (window > 0).then(|| Duration::from_secs(window));
        }
        let smaller = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        known.limit = smaller(known.limit, limit.limit);
        known.remaining = smaller(known.remaining, limit.remaining);
        known.reset = known.reset.max(limit.reset);
    }

    fn limits(self) -> Limits {
        let all = Dimension::ALL.into_iter().zip(self.0);
        all.fold(Limits::new(), |limits, (dimension, (_, limit))| limits.with(dimension, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_unknown_word_has_no_meaning() {
        for name in [
            "x-ratelimit-remaining-project-tokens",
            "x-ratelimit-remaining-tokens_usage_based",
            "x-ratelimit-tokens-query-cost",
            "x-ratelimit-remaining-tokens-prompt",
            "another-ratelimit-requests-remaining",
            "x-ratelimit-requests",
            "x-ratelimit-",
            "ratelimit-policy",
            "ratelimit",
        ] {
            assert_eq!(Field::of(name), None, "{name}");
        }
        let of = |dimension, window, measure| Some(Field { dimension, window, measure });
        assert_eq!(
            Field::of("x-ratelimit-remaining-requests-minute"),
            of(Dimension::Requests, 60, Measure::Remaining)
        );
    }

    #[test]
    fn the_size_of_a_number_decides_about_a_reset() {
        let now = || UNIX_EPOCH + Duration::from_secs(1_760_000_000);
        for (text, millis) in [
            ("60", Some(60_000)),
            (" 0.25 ", Some(250)),
            ("1760000060", Some(60_000)),
            ("1760000060000", Some(60_000)),
            ("999999999", Some(999_999_999_000)),
            ("1000000000", None),
            ("100000000000", Some(98_240_000_000_000)),
            ("1759999999", None),
            ("0", None),
            ("1e-30", None),
            ("-1", None),
            ("+1", None),
            ("60s", None),
            ("inf", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(reset(text, now), millis.map(Duration::from_millis), "{text}");
        }
        assert_eq!(reset(&"9".repeat(400), now), Some(Duration::MAX));
    }

    /// The wall clock is only read for a moment without a usable `Date`.
    #[test]
    fn the_wall_clock_is_read_only_for_a_moment() {
        let reads = |fields: &[(&'static str, &'static str)]| {
            let reads = std::cell::Cell::new(0);
            let headers = fields.iter().map(|(name, value)| {
                (name.parse::<::http::HeaderName>().unwrap(), value.parse().unwrap())
            });
            let _ = read(StatusCode::OK, &headers.collect(), || {
                reads.set(reads.get() + 1);
                SystemTime::UNIX_EPOCH
            });
            reads.get()
        };
        let moment = ("x-ratelimit-reset", "1760000060");
        assert_eq!(reads(&[("x-ratelimit-remaining", "4"), ("x-ratelimit-reset", "60")]), 0);
        assert_eq!(reads(&[moment, ("date", "Thu, 09 Oct 2025 08:53:20 GMT")]), 0);
        assert_eq!(reads(&[moment]), 1);
    }
}
