//! Readers of single header fields, for a classifier of your own.
//!
//! [`http::Classifier`](super::Classifier) and [`http::limits`](super::limits) use them too.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::HeaderMap;
use ::http::header::{DATE, RETRY_AFTER};

use super::service_limit::ServiceLimit;

/// Returns the wait that `Retry-After` asks for, or `None` if it asks for none. Never returns zero.
///
/// * Form: seconds, also with a fraction, or any of the three forms of an HTTP-date. A number too
///   large for a `Duration` gives [`Duration::MAX`] because the wait is excessive and not absent.
/// * Dates: a date is compared with the answer's own `Date`, so a wrong clock on either side does
///   not matter. Without a readable `Date` it is compared with `now`.
/// * Clocks that are not set: a `Date` before 1990 or after 2999 comes from such a clock. This
///   `Date` only counts if the `Retry-After` date is outside these years too, because both then
///   come from the same clock. Otherwise `now` counts.
/// * `None`: the wait is zero, negative, in the past or unreadable.
/// * Several fields: a proxy may add its own field, so the longest wait counts.
///
/// Source: RFC 9110 §10.2.3 and §5.6.7.
///
/// # Examples
///
/// ```
/// use resile::http::headers::retry_after;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = ::http::HeaderMap::new();
/// headers.insert("date", "Fri, 31 Dec 1999 23:59:50 GMT".parse().unwrap());
/// headers.insert("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT".parse().unwrap());
/// let wait = retry_after(&headers, SystemTime::now());
/// assert_eq!(wait, Some(Duration::from_secs(9)));
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    hint(headers, || now)
}

/// Returns `wait` in whole seconds, rounded up and at least 1.
///
/// Use it for a `Retry-After` header of your own, such as that of a 503 after a call that gave up
/// with [`GaveUp::retry_after`](crate::GaveUp::retry_after).
///
/// # Examples
///
/// ```
/// use resile::http::headers::retry_after_secs;
/// use std::time::Duration;
///
/// assert_eq!(retry_after_secs(Duration::from_millis(400)), 1);
/// assert_eq!(retry_after_secs(Duration::from_millis(29_990)), 30);
/// ```
#[must_use]
pub const fn retry_after_secs(wait: Duration) -> u64 {
    let whole = wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64);
    if whole == 0 { 1 } else { whole }
}

/// Returns the time of the answer by its sender's clock: its `Date`. `None` if that is absent,
/// unreadable, before 1990 or after 2999, as of a clock that is not set.
///
/// Measure other moments of the same answer from it, so that a wrong clock on either side does not
/// matter.
///
/// # Examples
///
/// ```
/// use resile::http::headers::date;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let mut headers = ::http::HeaderMap::new();
/// headers.insert("date", "Thu, 09 Oct 2025 08:53:20 GMT".parse().unwrap());
/// let seconds = Duration::from_secs(1_760_000_000);
/// assert_eq!(date(&headers), Some(UNIX_EPOCH + seconds));
/// ```
#[must_use]
pub fn date(headers: &HeaderMap) -> Option<SystemTime> {
    sent(headers).filter(|date| is_set(*date))
}

/// Returns the time until all limits that `RateLimit` reports as used up are reset. `None` if no
/// limit is used up, or if no reset is named. Never returns zero.
///
/// Use it for a refusal without `Retry-After`. The fields that are read are those of
/// draft-ietf-httpapi-ratelimit-headers-11.
///
/// # Examples
///
/// ```
/// use resile::http::headers::rate_limit_reset;
/// use std::time::Duration;
///
/// let mut headers = ::http::HeaderMap::new();
/// let limits = "\"second\";r=4;t=1, \"hour\";r=0;t=1200";
/// headers.insert("ratelimit", limits.parse().unwrap());
/// let wait = rate_limit_reset(&headers);
/// assert_eq!(wait, Some(Duration::from_secs(1_200)));
/// ```
#[must_use]
pub fn rate_limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let used_up = ServiceLimit::all(headers).into_iter().filter(|limit| limit.remaining == Some(0));
    used_up
        .filter_map(|limit| limit.reset.filter(|reset| *reset > 0))
        .max()
        .map(Duration::from_secs)
}

/// Returns the time of this machine's clock, for a function that takes `now`.
///
/// Unlike [`SystemTime::now`] it does not panic on wasm32-unknown-unknown: there it is the clock of
/// JavaScript with the feature `browser`. Without a clock the time is the end of the year 2999, so
/// every moment named by an upstream is in the past.
#[must_use]
pub fn now() -> SystemTime {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    return SystemTime::now();
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    {
        let since = Duration::from_secs(PLAUSIBLE_YEARS.end);
        #[cfg(feature = "browser")]
        let since = crate::time::since_1970().unwrap_or(since).min(since);
        UNIX_EPOCH + since
    }
}

/// Returns what [`retry_after`] returns. Calls `now` only if the result depends on the wall clock.
pub(super) fn hint(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<Duration> {
    let answered =
        |until| sent(headers).filter(|sent| is_set(*sent) || !is_set(until)).unwrap_or_else(&now);
    let wait = |text: &str| match text.as_bytes().first()? {
        // The first byte excludes negative numbers, NaN and words like "inf". An infinite result is
        // then a number too large for an `f64`.
        b'0'..=b'9' | b'.' => {
            text.parse().ok().map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX))
        }
        _ => instant(text).and_then(|until| until.duration_since(answered(until)).ok()),
    };
    let waits = headers
        .get_all(RETRY_AFTER)
        .into_iter()
        .filter_map(|value| wait(value.to_str().ok()?.trim()));
    waits.max().filter(|wait| !wait.is_zero())
}

/// Parses an HTTP-date.
fn instant(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Returns the time of the answer by its sender's clock, set or not.
fn sent(headers: &HeaderMap) -> Option<SystemTime> {
    instant(headers.get(DATE)?.to_str().ok()?.trim())
}

/// The years 1990 to 2999, in seconds since 1970.
const PLAUSIBLE_YEARS: Range<u64> = 631_152_000..32_503_680_000;

/// Returns whether a clock with this reading is set.
fn is_set(at: SystemTime) -> bool {
    at.duration_since(UNIX_EPOCH).is_ok_and(|since| PLAUSIBLE_YEARS.contains(&since.as_secs()))
}
