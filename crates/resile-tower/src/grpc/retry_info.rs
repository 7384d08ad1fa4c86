//! `google.rpc.RetryInfo` in the headers of an answer.

use std::time::Duration;

use http::HeaderMap;
use resile_clients::grpc;

/// The header with the details of a status.
const DETAILS: &str = "grpc-status-details-bin";

/// Returns the delay that the details of a status have. `None` if they have none or are unreadable.
pub(super) fn retry_info(headers: &HeaderMap) -> Option<Duration> {
    grpc::retry_info(&details(headers)?)
}

/// Returns the details of a status. `None` if it has none or they are unreadable.
pub(super) fn details(headers: &HeaderMap) -> Option<Vec<u8>> {
    decoded(headers.get(DETAILS)?.as_bytes())
}

/// Decodes the value of a binary header: base64, with or without the padding at its end. Source: gRPC
/// over HTTP/2, `Binary-Header`.
fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    let padding = value.iter().rev().take_while(|byte| **byte == b'=').count();
    let value = value.get(..value.len() - padding).filter(|_| padding <= 2)?;
    let mut bytes = Vec::with_capacity(value.len() / 4 * 3 + 2);
    for group in value.chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            bits = bits << 6 | group.get(at).map_or(Some(0), |byte| sextet(*byte))?;
        }
        // Two characters are one byte, three are two, and four are three. One alone is none.
        let count = Some(group.len() - 1).filter(|count| *count > 0)?;
        bytes.extend_from_slice(u32::to_be_bytes(bits).get(1..=count)?);
    }
    Some(bytes)
}

/// Returns the six bits of a character.
fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_with_and_without_its_padding() {
        for (value, bytes) in [
            (&b""[..], Some(&b""[..])),
            (b"Zg==", Some(b"f")),
            (b"Zg", Some(b"f")),
            (b"Zm8=", Some(b"fo")),
            (b"Zm8", Some(b"fo")),
            (b"Zm9v", Some(b"foo")),
            (b"Zm9vYmFy", Some(b"foobar")),
            (b"+/+/", Some(b"\xfb\xff\xbf")),
            // Not base64.
            (b"Z", None),
            (b"Zm9vY", None),
            (b"Zg===", None),
            (b"Z=g=", None),
            (b"Zm 9", None),
            (b"-_-_", None),
            (b"Zm9v,Zm9v", None),
        ] {
            assert_eq!(decoded(value).as_deref(), bytes, "{}", value.escape_ascii());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_panics(value: Vec<u8>) {
            decoded(&value);
        }
    }
}
