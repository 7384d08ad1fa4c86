//! The errors of the transport, which have no status yet.

use resile::http::Classifier;
use resile_clients::Idempotency;

use crate::BoxError;
use crate::http::judge::judged_error;
use crate::judge::Judged;

/// The code of an error that tells nothing.
const UNKNOWN: &str = "UNKNOWN";

/// Judges an error as a retry around the call does: by the status that `tonic` has for it. The error stays
/// as it was.
#[cfg(feature = "tonic-0_14")]
pub(super) fn judged(
    error: BoxError,
    is_sent: bool,
    classifier: Classifier,
    idempotency: Idempotency,
) -> Judged {
    use std::sync::Arc;

    use resile_clients::grpc::{name, status};
    use tonic::Status;

    use super::lent::Lent;
    use crate::below::is_not_sent;

    let error = Arc::new(error);
    // `tonic` takes the error, so it gets a share of it, which ends with the status.
    let told = Status::from_error(Box::new(Lent(Arc::clone(&error))));
    let word = name(told.code().into()).unwrap_or(UNKNOWN);
    let verdict = status(&told, idempotency);
    drop(told);
    let error = Arc::try_unwrap(error).unwrap_or_else(|shared| Box::new(Lent(shared)));
    if !is_sent || is_not_sent(&*error) {
        return Judged { error_type: Some(word.into()), ..judged_error(classifier, error, false) };
    }
    Judged::new(error, verdict, Some(word.into()))
}

/// Judges an error as [`Http`](crate::http::Http) does, and names the code that fits it.
#[cfg(not(feature = "tonic-0_14"))]
pub(super) fn judged(
    error: BoxError,
    is_sent: bool,
    classifier: Classifier,
    _: Idempotency,
) -> Judged {
    let word = if resile::io::never_sent(&*error) { "UNAVAILABLE" } else { UNKNOWN };
    Judged { error_type: Some(word.into()), ..judged_error(classifier, error, is_sent) }
}
