use std::fmt;
use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, StatusCode};

use super::headers::{hint, now as wall_clock};

/// An error for a 4xx or 5xx answer with the wait that the answer asks for.
///
/// [`Failure`](super::Failure) also has the start of the body, and it holds the cause if there is
/// no answer. Use a `StatusError` if the rest of the answer is yours to read.
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

    /// Does the same as [`check`](Self::check), but 301, 302, 307 and 308 are errors too: the request goes on
    /// elsewhere, and nobody has followed it.
    pub(super) fn check_followed(status: StatusCode, headers: &HeaderMap) -> Result<(), Self> {
        if matches!(status.as_u16(), 301 | 302 | 307 | 308) {
            return Err(Self { status, retry_after: None });
        }
        Self::check(status, headers)
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

    /// Returns the wait that the answer asks for, counted from the time of the answer. See
    /// [`retry_after`](super::headers::retry_after).
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
    use ::http::header::{DATE, RETRY_AFTER};

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
