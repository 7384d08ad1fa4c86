use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::header::{DATE, RETRY_AFTER};
use ::http::{HeaderMap, StatusCode};

/// How long `Retry-After` asks to wait, if it does; never zero.
///
/// In seconds (a fraction is tolerated, a number too large is [`Duration::MAX`]: excessive, not absent) or as any of
/// the three forms of an HTTP-date. A date is measured against the answer's own `Date`, so that a wrong clock on either
/// side does not matter; against `now` where there is no `Date` that can be read. `None` when the wait is zero,
/// negative or over, or cannot be read. Of several fields (a proxy may add its own) the longest wait counts.
///
/// A `Date` before 1990 or after 2999 comes from a clock that is not set. It counts only where `Retry-After` is out
/// of these years too, by the same clock; else `now` counts.
///
/// RFC 9110 §10.2.3 and §5.6.7.
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
/// assert_eq!(retry_after(&headers, SystemTime::now()), Some(Duration::from_secs(9)));
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    hint(headers, || now)
}

/// Returns `wait` in whole seconds, rounded up and at least 1: for a `Retry-After` header of your own, such as that of a
/// 503 when a call was given up with [`GaveUp::retry_after`](crate::GaveUp::retry_after).
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

/// [`retry_after`], where `now` is asked only if it matters.
fn hint(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<Duration> {
    let answered =
        |until| date(headers).filter(|date| is_set(*date) || !is_set(until)).unwrap_or_else(&now);
    let wait = |text: &str| match text.as_bytes().first()? {
        // So it is neither negative nor NaN, and no word like "inf"; an infinity is then a number too large for an f64.
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

/// The clock of this machine. In a browser there is none to read without another crate: there it is so late that no moment
/// which an upstream names is still to come.
pub(crate) fn wall_clock() -> SystemTime {
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    return UNIX_EPOCH + Duration::from_secs(SET.end);
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    SystemTime::now()
}

/// An HTTP-date.
fn instant(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Returns when the answer was made, by the clock of its sender.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    instant(headers.get(DATE)?.to_str().ok()?.trim())
}

/// The years 1990 to 2999, in seconds since 1970.
const SET: Range<u64> = 631_152_000..32_503_680_000;

/// Returns whether a clock that shows this moment is set.
fn is_set(at: SystemTime) -> bool {
    at.duration_since(UNIX_EPOCH).is_ok_and(|since| SET.contains(&since.as_secs()))
}

/// Returns when the answer was made, by the clock of its sender, if that clock is set.
#[cfg(feature = "llm")]
pub(crate) fn answered(headers: &HeaderMap) -> Option<SystemTime> {
    date(headers).filter(|date| is_set(*date))
}

/// An answer that is not a success: its status, and how long it asks to wait.
///
/// An error for the caller's own enum to take in with `#[from]`; what else the answer said is the caller's to read.
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
    /// Lets every answer pass but 4xx and 5xx. Reads the wall clock only for a `Retry-After` that is a date, in an
    /// answer that has no `Date`.
    ///
    /// # Errors
    ///
    /// `StatusError` for 4xx and 5xx.
    pub fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), Self> {
        Self::check_by(status, headers, wall_clock)
    }

    /// [`check`](Self::check) for an answer that came at `now`: reads no clock.
    ///
    /// # Errors
    ///
    /// `StatusError` for 4xx and 5xx.
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

    /// The status: 4xx or 5xx.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// How long the answer asks to wait, counted from when it was given; see [`retry_after`].
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// As in "503 Service Unavailable, retry after 2s".
impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status.as_str())?;
        if let Some(reason) = self.status.canonical_reason() {
            write!(f, " {reason}")?;
        }
        match self.retry_after {
            Some(after) => write!(f, ", retry after {after:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StatusError {}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "Thu, 01 Jan 1970 00:00:09 GMT";

    /// The wall clock is read only for a date that nothing else can be measured against.
    #[test]
    fn clock_is_read_only_for_a_date_without_a_date() {
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
