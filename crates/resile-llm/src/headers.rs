//! The facts in the headers: waits and codes and the permission to retry.

use std::time::{Duration, SystemTime};

use http::header::AsHeaderName;
use http::{HeaderMap, HeaderName};

use crate::kind::Scope;
use crate::wait;
use resile::http::headers::{self, rate_limit_reset, retry_after};

/// Headers with a wait in milliseconds with or without a fraction.
static MILLISECONDS: [HeaderName; 3] = [
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-ms-retry-after-ms"),
    HeaderName::from_static("x-amz-retry-after"),
];

/// Headers of Amazon and Azure with error codes.
static CODES: [HeaderName; 2] =
    [HeaderName::from_static("x-amzn-errortype"), HeaderName::from_static("x-ms-error-code")];

static SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Returns the value of a header if the value is text.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether the provider wants the same request again. `None` if no header says so.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match text(headers, &SHOULD_RETRY)?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns the codes in the headers.
pub(crate) fn codes(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    CODES.iter().filter_map(|name| text(headers, name))
}

/// Returns the wait that the headers ask for directly.
pub(crate) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let exact = MILLISECONDS.iter().find_map(|name| wait::number(text(headers, name)?, 1e-3));
    exact.or_else(|| retry_after(headers, now).filter(|wait| !wait.is_zero()))
}

/// Returns the moment of the answer by its sender's clock or else `now`. Other moments in the
/// answer are measured from this moment.
pub(crate) fn date(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    headers::date(headers).unwrap_or(now)
}

/// Returns the time until all used-up limits are reset. For each limit, one header has the
/// remaining amount and another header has the reset. The field `RateLimit` has both.
pub(crate) fn reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let resets = headers.iter().filter(|(name, _)| name.as_str().contains("reset"));
    let resets = resets
        .filter(|(name, _)| is_used_up(headers, name.as_str()))
        .filter_map(|(_, value)| wait::reset(value.to_str().ok()?, now));
    resets.chain(rate_limit_reset(headers)).max()
}

/// Returns the longest window of hours or more that the headers show as used up. The name of the
/// window is in the name of a header, or in the claim that Anthropic's plans send.
pub(crate) fn window(headers: &HeaderMap) -> Option<Scope> {
    let mut longest = None;
    for (name, value) in headers {
        let (name, value) = (name.as_str(), value.to_str().unwrap_or_default().trim());
        if !is_limit(name) {
            continue;
        }
        let is_used = match name {
            _ if name.contains("remaining") => {
                value.parse::<f64>().is_ok_and(|left| left <= 0.0 && left > -1.0)
            }
            _ if name.ends_with("status") => value == "rejected",
            _ if name.ends_with("used-percent") => {
                value.parse::<f64>().is_ok_and(|used| used >= 100.0)
            }
            _ => false,
        };
        let window = if is_used { window_in(name) } else { None };
        if window.is_some() && longest != Some(Scope::Window) {
            longest = window;
        }
    }
    longest
}

/// Returns whether the name of a header is about a limit.
fn is_limit(name: &str) -> bool {
    name.contains("ratelimit") || name.ends_with("used-percent")
}

/// Returns the window in the name of a header about a limit.
fn window_in(name: &str) -> Option<Scope> {
    let windows = ["unified", "primary", "secondary", "hour", "week", "month", "5h", "7d"];
    if name.contains("day") {
        Some(Scope::Day)
    } else {
        windows.iter().any(|window| name.contains(window)).then_some(Scope::Window)
    }
}

/// Returns whether a limit is used up. The headers beside its reset header `name` decide. A
/// negative remaining amount says nothing: Azure sends -1 for an unknown one.
fn is_used_up(headers: &HeaderMap, name: &str) -> bool {
    let beside = |other: &str| text(headers, name.replace("reset", other)).map(str::trim);
    let remaining = beside("remaining").and_then(|left| left.parse::<f64>().ok());
    let used = name
        .split_once("reset")
        .and_then(|(limit, _)| text(headers, format!("{limit}used-percent")));
    remaining.is_some_and(|left| (0.0..=0.0).contains(&left))
        || beside("status") == Some("rejected")
        || used.and_then(|used| used.trim().parse::<f64>().ok()).is_some_and(|used| used >= 100.0)
}
