//! The errors of the transport, which have no status yet.

use std::error::Error;

use resile::http::Classifier;
use resile_clients::Idempotency;

use crate::BoxError;
use crate::below::links;
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

    use resile_clients::grpc::{Failure, name, status};
    use tonic::Status;

    use super::lent::Lent;
    use crate::below::is_not_sent;

    let error = Arc::new(error);
    // `tonic` takes the error, so it gets a share of it, which ends with the status.
    let told = Status::from_error(Box::new(Lent(Arc::clone(&error))));
    let word = name(told.code().into()).unwrap_or(UNKNOWN);
    // `tonic` leaves an error that is a status as it is, but here that would be the source of another one.
    let verdict = status((**error).downcast_ref().unwrap_or(&told), idempotency);
    let words = with_sources(format!("{:#}", Failure::from(told)), &**error);
    let error = Arc::try_unwrap(error).unwrap_or_else(|shared| Box::new(Lent(shared)));
    let judged = if !is_sent || is_not_sent(&*error) {
        judged_error(classifier, error, false)
    } else {
        Judged::new(error, verdict, None)
    };
    Judged { error_type: Some(word.into()), words: Some(words), ..judged }
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
    let words = with_sources(format!("{word}: {error:#}"), &*error);
    let judged = judged_error(classifier, error, is_sent);
    Judged { error_type: Some(word.into()), words: Some(words), ..judged }
}

/// Adds the words of the sources of an error that are not in the words yet.
fn with_sources(mut words: String, error: &(dyn Error + 'static)) -> String {
    for source in links(error).skip(1) {
        let source = format!("{source:#}");
        if !words.contains(&source) {
            words.push_str(": ");
            words.push_str(&source);
        }
    }
    words
}
