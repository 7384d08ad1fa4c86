//! What the headers say: waits, whether to retry, and codes.

use std::time::{Duration, SystemTime};

use http::header::AsHeaderName;
use http::{HeaderMap, HeaderName};

use super::wait;
use crate::http::{answered, retry_after};

/// Milliseconds, a fraction allowed.
static MILLISECONDS: [HeaderName; 3] = [
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-ms-retry-after-ms"),
    HeaderName::from_static("x-amz-retry-after"),
];

/// Codes of an error in headers: Amazon's, Azure's.
static CODES: [HeaderName; 2] =
    [HeaderName::from_static("x-amzn-errortype"), HeaderName::from_static("x-ms-error-code")];

static SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The value of a header, if it is text.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether the provider says that the same request should be made again.
pub(super) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match text(headers, &SHOULD_RETRY)?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The codes in headers.
pub(super) fn codes(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    CODES.iter().filter_map(|name| text(headers, name))
}

/// The wait that the headers ask for outright.
pub(super) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let exact = MILLISECONDS.iter().find_map(|name| wait::number(text(headers, name)?, 1e-3));
    exact.or_else(|| retry_after(headers, now).filter(|wait| !wait.is_zero()))
}

/// The moment at which the answer was made by its own clock, against which its other moments are read; else `now`.
pub(super) fn date(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    answered(headers).unwrap_or(now)
}

/// Until the limits that are used up are reset: the longest, by pairs of headers that say what remains and when it
/// resets.
pub(super) fn reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let resets = headers.iter().filter(|(name, _)| name.as_str().contains("reset"));
    resets
        .filter(|(name, _)| is_used_up(headers, name.as_str()))
        .filter_map(|(_, value)| wait::reset(value.to_str().ok()?, now))
        .max()
}

/// Whether the limit whose reset `name` tells is used up, by the header that stands beside it.
fn is_used_up(headers: &HeaderMap, name: &str) -> bool {
    let beside = |other: &str| text(headers, name.replace("reset", other)).map(str::trim);
    let remaining = beside("remaining").and_then(|left| left.parse::<f64>().ok());
    let used = name
        .split_once("reset")
        .and_then(|(limit, _)| text(headers, format!("{limit}used-percent")));
    remaining.is_some_and(|left| left <= 0.0)
        || beside("status") == Some("rejected")
        || used.and_then(|used| used.trim().parse::<f64>().ok()).is_some_and(|used| used >= 100.0)
}
