use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::header::{DATE, RETRY_AFTER};
use ::http::{HeaderMap, StatusCode};

/// Returns the wait that `Retry-After` asks for, or `None` if it asks for none. Never returns zero.
///
/// * Form: seconds, also with a fraction, or any of the three forms of an HTTP-date. A number too
///   large for a `Duration` gives [`Duration::MAX`] because the wait is excessive and not absent.
/// * Dates: a date is compared with the answer's own `Date`. A wrong clock on either side therefore
///   does not matter. Without a readable `Date` it is compared with `now`.
/// * Clocks that are not set: a `Date` before 1990 or after 2999 comes from such a clock. This
///   `Date` only counts if the `Retry-After` date is outside these years too. Both then come from
///   the same clock. Otherwise `now` counts.
/// * `None`: the wait is zero, negative, in the past or unreadable.
/// * Several fields: a proxy may add its own field. The longest wait counts.
///
/// Source: RFC 9110 §10.2.3 and §5.6.7.
///
/// # Examples
///
/// ```
/// use resile::http::retry_after;
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
/// Use it for a `Retry-After` header of your own. An example is a 503 after a call that gave up
/// with [`GaveUp::retry_after`](crate::GaveUp::retry_after).
///
/// # Examples
///
/// ```
/// use resile::http::retry_after_secs;
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

/// Does the work of [`retry_after`]. Calls `now` only if the result depends on the wall clock.
fn hint(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<Duration> {
    let answered =
        |until| date(headers).filter(|date| is_set(*date) || !is_set(until)).unwrap_or_else(&now);
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

/// Returns the time of this machine's clock. On wasm32-unknown-unknown it is the clock of JavaScript
/// with the feature `browser`. Without a clock the time is the end of the year 2999. Every moment
/// named by an upstream is then in the past.
pub(crate) fn wall_clock() -> SystemTime {
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

/// Parses an HTTP-date.
fn instant(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Returns the time of the answer by its sender's clock.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    instant(headers.get(DATE)?.to_str().ok()?.trim())
}

/// The years 1990 to 2999, in seconds since 1970.
const PLAUSIBLE_YEARS: Range<u64> = 631_152_000..32_503_680_000;

/// Returns whether a clock with this reading is set.
fn is_set(at: SystemTime) -> bool {
    at.duration_since(UNIX_EPOCH).is_ok_and(|since| PLAUSIBLE_YEARS.contains(&since.as_secs()))
}

/// Returns the time of the answer by its sender's clock, if that clock is set.
pub(crate) fn answered(headers: &HeaderMap) -> Option<SystemTime> {
    date(headers).filter(|date| is_set(*date))
}

/// An error for a 4xx or 5xx answer with the wait that the answer asks for.
///
/// [`Failure`](super::Failure) also has the start of the body, and holds the cause if there is no
/// answer. Use a `StatusError` if the rest of the answer is yours to read.
///
/// # Examples
///
/// With `reqwest`:
///
/// ```
/// use resile::http::StatusError;
///
/// async fn get(client: &reqwest::Client, url: &str) -> anyhow::Result<String> {
///     let response = client.get(url).send().await?;
///     StatusError::check(response.status(), response.headers())?;
///     Ok(response.text().await?)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusError {
    status: StatusCode,
    retry_after: Option<Duration>,
}

impl StatusError {
    /// Returns an error for 4xx and 5xx. Every other answer is accepted.
    ///
    /// Reads the wall clock only if `Retry-After` is a date and the answer has no usable `Date`.
    ///
    /// # Errors
    ///
    /// Returns a `StatusError` for 4xx and 5xx.
    pub fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), Self> {
        Self::check_by(status, headers, wall_clock)
    }

    /// Does the same as [`check`](Self::check) for an answer received at `now`. Reads no clock.
    ///
    /// # Errors
    ///
    /// Returns a `StatusError` for 4xx and 5xx.
    pub fn check_at(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Result<(), Self> {
        Self::check_by(status, headers, || now)
    }

    fn check_by(
        status: StatusCode,
        headers: &HeaderMap,
        now: impl Fn() -> SystemTime,
    ) -> Result<(), Self> {
        if status.is_client_error() || status.is_server_error() {
            return Err(Self { status, retry_after: hint(headers, now) });
        }
        Ok(())
    }

    /// Creates an error without a wait.
    #[cfg(feature = "reqwest")]
    pub(super) const fn of(status: StatusCode) -> Self {
        Self { status, retry_after: None }
    }

    /// Returns the status, which is 4xx or 5xx.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the wait that the answer asks for. This wait counts from the time of the answer. See
    /// [`retry_after`].
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// Displays the error as in "503 Service Unavailable, retry after 2s". The alternate form (`{:#}`)
/// omits the wait, because a log line prints the hint of the verdict.
impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status.as_str())?;
        if let Some(reason) = self.status.canonical_reason() {
            write!(f, " {reason}")?;
        }
        match self.retry_after {
            Some(after) if !f.alternate() => write!(f, ", retry after {after:?}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for StatusError {}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "Thu, 01 Jan 1970 00:00:09 GMT";

    /// The wall clock is only read for a `Retry-After` date without a readable `Date`.
    #[test]
    fn the_wall_clock_is_read_only_without_a_usable_date() {
        let reads = |retry_after: &'static str, date: &'static str| {
            let reads = std::cell::Cell::new(0);
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
            headers.insert(DATE, date.parse().unwrap());
            let now = || {
                reads.set(reads.get() + 1);
                SystemTime::UNIX_EPOCH
            };
            let refused =
                StatusError::check_by(StatusCode::SERVICE_UNAVAILABLE, &headers, now).unwrap_err();
            (reads.get(), refused.retry_after())
        };
        let nine = Some(Duration::from_secs(9));
        assert_eq!(reads("9", "garbage"), (0, nine));
        assert_eq!(reads("garbage", "garbage"), (0, None));
        assert_eq!(reads(AT, "Thu, 01 Jan 1970 00:00:00 GMT"), (0, nine));
        assert_eq!(reads(AT, "garbage"), (1, nine));
    }
}
