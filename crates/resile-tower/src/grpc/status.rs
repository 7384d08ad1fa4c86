//! The status of an answer, as its headers have it.

use std::error::Error;
use std::fmt;

use http::{HeaderMap, HeaderValue};
use resile_clients::grpc::{Pushback, name};

/// The code of success.
pub(super) const OK: i32 = 0;

/// The code of a failure that tells nothing.
const UNKNOWN: i32 = 2;

/// A status in the headers of an answer.
#[derive(Debug)]
pub(super) struct Status {
    /// `None` if it is not a number.
    pub(super) code: Option<i32>,
    /// Without its percent-encoding.
    pub(super) message: String,
    pub(super) pushback: Pushback,
}

impl Status {
    pub(super) fn read(status: &HeaderValue, headers: &HeaderMap) -> Self {
        let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
        let pushback = headers.get(Pushback::NAME);
        Self {
            code: status.to_str().ok().and_then(|status| status.parse().ok()),
            message: decoded(message.unwrap_or_default()),
            pushback: Pushback::read(pushback.map(|value| value.to_str().unwrap_or_default())),
        }
    }

    /// Returns the code. One that gRPC does not know is `UNKNOWN`, as clients read it.
    pub(super) fn number(&self) -> i32 {
        self.code.filter(|code| name(*code).is_some()).unwrap_or(UNKNOWN)
    }

    pub(super) fn error_type(&self) -> &'static str {
        name(self.number()).unwrap_or_default()
    }
}

/// Decodes a `grpc-message`, which is percent-encoded UTF-8. An invalid value stays as it arrived, because
/// it must not be discarded. Source: gRPC over HTTP/2, `Status-Message`.
fn decoded(message: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = encoded(rest).unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| String::from_utf8_lossy(message).into_owned())
}

/// Returns the byte that the text begins with in encoded form, such as `%20`, and the text behind it.
fn encoded(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, after @ ..] = text else { return None };
    Some((digit(*high)? << 4 | digit(*low)?, after))
}

/// Returns the value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.code.and_then(name)) {
            (_, Some(name)) => f.write_str(name)?,
            (Some(code), None) => write!(f, "grpc-status {code}")?,
            (None, None) => f.write_str("no grpc-status")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_name_of_its_code() {
        for (status, words, word) in [
            ("14", "UNAVAILABLE: down", "UNAVAILABLE"),
            ("99", "grpc-status 99: down", "UNKNOWN"),
            ("odd", "no grpc-status: down", "UNKNOWN"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-message", HeaderValue::from_static("down"));
            let status = Status::read(&HeaderValue::from_static(status), &headers);
            assert_eq!((status.to_string().as_str(), status.error_type()), (words, word));
        }
    }

    #[test]
    fn a_message_is_decoded_and_never_lost() {
        for (sent, read) in [
            (&b"the%20server%20restarts"[..], "the server restarts"),
            (b"18%20%C2%B0C in %e6%9d%b1%e4%ba%ac", "18 \u{b0}C in \u{6771}\u{4eac}"),
            (b"100%25", "100%"),
            (b"%2525", "%25"),
            // Not encoded, or not by the rules: as it arrived.
            (b"100%", "100%"),
            (b"50% of %4 and %zz", "50% of %4 and %zz"),
            (b"%+1%-1", "%+1%-1"),
            (b"%ff%20", "%ff%20"),
            ("18 \u{b0}C".as_bytes(), "18 \u{b0}C"),
            (b"\xff%20", "\u{fffd}%20"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-message", HeaderValue::from_bytes(sent).unwrap());
            let status = Status::read(&HeaderValue::from_static("14"), &headers);
            assert_eq!(status.to_string(), format!("UNAVAILABLE: {read}"));
        }
    }

    proptest::proptest! {
        /// A message is read as it was before its encoding, and any other value is read too.
        #[test]
        fn each_message_is_read(text in ".{0,20}", bytes: Vec<u8>) {
            let digits = b"0123456789ABCDEF";
            let percent = |byte: u8| [b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
            let sent: Vec<_> = text.bytes().flat_map(percent).collect();
            proptest::prop_assert_eq!(decoded(&sent), text);
            decoded(&bytes);
        }
    }
}
