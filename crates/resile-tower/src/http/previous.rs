//! How many attempts were made before a request of gRPC, in a header.

use http::HeaderMap;
use http::header::HeaderName;
use resile::Attempt;

use crate::deadline::is_grpc;

/// Source: gRPC A6, "Exposed Retry Metadata".
const PREVIOUS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// Writes the number of attempts before a retry of gRPC. Those that a client above has told count too. A
/// first attempt stays as it is, and so does a request that is not one of gRPC.
pub(super) fn write(headers: &mut HeaderMap, attempt: Attempt) {
    if attempt.is_first() || !is_grpc(headers) {
        return;
    }
    let above = headers.get(&PREVIOUS).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    let before = above.unwrap_or(0).saturating_add(attempt.number() - 1);
    headers.insert(PREVIOUS, before.into());
}
