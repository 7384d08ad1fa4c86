//! The two forms of a deadline in a header.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue};

/// The header of gRPC: at most eight digits and a unit. Source: gRPC over HTTP/2, `Timeout`.
pub(super) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The header that Envoy sends to the service behind it, in milliseconds. Source: Envoy, Router, HTTP
/// headers.
pub(super) const EXPECTED: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// The time that a client of gRPC waits longer than the attempt, so that both do not race. It is that of
/// `grpc::prepare` of `resile-clients`.
pub(super) const MARGIN: Duration = Duration::from_millis(50);

/// Reads the time that the caller waits. The shorter one of both forms counts, and an unreadable one is
/// as if it were absent.
pub(super) fn read(headers: &HeaderMap, plain: &HeaderName) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
    let grpc = text(&GRPC_TIMEOUT).and_then(read_grpc);
    let plain = text(plain).and_then(read_millis);
    match (grpc, plain) {
        (Some(grpc), Some(plain)) => Some(grpc.min(plain)),
        (grpc, plain) => grpc.or(plain),
    }
}

/// Writes what is left, in the form that the request has. An earlier value that is shorter stays.
pub(super) fn write(headers: &mut HeaderMap, plain: &HeaderName, left: Duration) {
    let earlier = read(headers, plain);
    let left = earlier.map_or(left, |earlier| earlier.min(left));
    if is_grpc(headers) {
        headers.insert(GRPC_TIMEOUT, grpc(left));
    } else {
        headers.insert(plain.clone(), HeaderValue::from(millis(left)));
    }
}

/// Returns the timeout that a request of gRPC has, and adds the margin to its header: a client of gRPC
/// ends the call at the header's time too.
#[cfg(feature = "grpc")]
pub(crate) fn take_limit(headers: &mut HeaderMap) -> Option<Duration> {
    let told = headers.get(&GRPC_TIMEOUT)?.to_str().ok().and_then(read_grpc)?;
    headers.insert(GRPC_TIMEOUT, grpc(told.saturating_add(MARGIN)));
    Some(told)
}

/// Returns what a server may use of the time that a request of gRPC tells. A caller of this crate stops
/// [`MARGIN`] earlier than it tells, and each answer needs some time for its way. A call of the handler that ended
/// later would be dropped with the handler, and no breaker and no line would know of it.
pub(super) fn usable(told: Duration) -> Duration {
    let way = MARGIN.min(told / 10);
    told.saturating_sub((MARGIN + way).min(told / 2))
}

/// Returns whether a request or an answer is one of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Reads a plain number of milliseconds.
fn read_millis(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_millis(text.parse().unwrap_or(u64::MAX)))
}

/// Reads at most eight digits and a unit.
fn read_grpc(text: &str) -> Option<Duration> {
    let (unit, digits) = text.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = text.get(..digits.len())?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Returns whole milliseconds, rounded down so that nobody waits in vain, and at least 1.
fn millis(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Returns the value for gRPC: in milliseconds, or in a larger unit if it has too many digits.
fn grpc(left: Duration) -> HeaderValue {
    const MOST: u64 = 99_999_999;
    let millis = millis(left);
    let text = match (millis, millis / 1000, millis / 3_600_000) {
        (count @ ..=MOST, ..) => format!("{count}m"),
        (_, count @ ..=MOST, _) => format!("{count}S"),
        (.., count) => format!("{}H", count.min(MOST)),
    };
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("1m"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_timeout_of_grpc_has_eight_digits_and_a_unit() {
        for (text, want) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("9n", Some(Duration::from_nanos(9))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("0m", Some(Duration::ZERO)),
            ("100000000m", None),
            ("m", None),
            ("", None),
            ("12", None),
            ("-1m", None),
            ("1.5S", None),
            ("1 m", None),
            ("1s", None),
            ("1é", None),
        ] {
            assert_eq!(read_grpc(text), want, "{text}");
        }
    }

    #[test]
    fn a_plain_timeout_is_a_number_of_milliseconds() {
        for (text, want) in [
            ("250", Some(Duration::from_millis(250))),
            ("0", Some(Duration::ZERO)),
            ("99999999999999999999999", Some(Duration::from_millis(u64::MAX))),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1s", None),
        ] {
            assert_eq!(read_millis(text), want, "{text}");
        }
    }

    proptest! {
        /// What is written is read again: not longer than it was, unless it was below a millisecond.
        #[test]
        fn what_is_left_is_never_promised_twice(nanos in any::<u64>(), is_grpc in any::<bool>()) {
            let left = Duration::from_nanos(nanos);
            let mut headers = HeaderMap::new();
            if is_grpc {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            }
            write(&mut headers, &EXPECTED, left);
            let told = read(&headers, &EXPECTED).unwrap();
            prop_assert!(told <= left.max(Duration::from_millis(1)));
            // What is lost is less than one unit. For gRPC it is the smallest one with eight digits.
            let unit = match left.as_millis() {
                100_000_000_000.. if is_grpc => Duration::from_secs(3_600),
                100_000_000.. if is_grpc => Duration::from_secs(1),
                _ => Duration::from_millis(1),
            };
            prop_assert!(told + unit > left);
            // A shorter time that is there already stays.
            write(&mut headers, &EXPECTED, Duration::MAX);
            prop_assert_eq!(read(&headers, &EXPECTED), Some(told));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (read_grpc(&text), read_millis(&text));
        }
    }
}
