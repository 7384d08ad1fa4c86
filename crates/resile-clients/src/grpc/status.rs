use std::borrow::Cow;
use std::error::Error;
use std::iter;

use ::tonic::{Code, ConnectError, Status, TimeoutExpired};
use resile::Verdict;
use resile::io::{Classifier, never_sent};

use super::{Pushback, code, name, retry_info, with_retry_info};
use crate::classifier::classifies;
use crate::rule::State::Failing;
use crate::rule::{always, if_idempotent};
use crate::{Idempotency, http2};

/// Returns the verdict on a status of `tonic`.
///
/// The evidence counts in this order:
///
/// 1. the pushback in the metadata, and then `google.rpc.RetryInfo` in the details: the server says
///    what it wants
/// 2. the source chain: no connection was made, the peer reset the stream, or it closed the
///    connection and did not process the stream
/// 3. the timeout of an `Endpoint`: it has the code `CANCELLED`, and its request may be executed
/// 4. the code
///
/// A request that was cut by a timeout has no status, so pass [`Classifier`](crate::Classifier) to a
/// policy instead of a closure around this function.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, grpc};
/// use tonic::{ConnectError, Status};
/// use std::io::ErrorKind;
///
/// let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
/// let status = Status::from_error(ConnectError(refused.into()).into());
/// let verdict = grpc::status(&status, NotIdempotent).unwrap();
/// assert!(verdict.is_again()); // nothing was sent
/// ```
#[must_use]
pub fn status(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    let number = i32::from(status.code());
    let pushback = status.metadata().get(Pushback::NAME);
    // A value that is not ASCII is unreadable.
    let pushback = Pushback::read(pushback.map(|value| value.to_str().unwrap_or_default()));
    if pushback != Pushback::None {
        return code(number, pushback, idempotency);
    }
    if let Some(delay) = retry_info(status.details()) {
        return with_retry_info(number, delay, idempotency);
    }
    by_sources(status, idempotency).or_else(|| code(number, pushback, idempotency))
}

fn by_sources(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    for error in iter::successors(status.source(), |error| below(*error)) {
        if error.is::<ConnectError>() {
            // Nothing was sent, so any request may come again, if a repetition can help at all.
            let verdict = Classifier::idempotent().verdict(error);
            return Some(verdict.unwrap_or(always(Failing).verdict(idempotency)));
        }
        if error.is::<TimeoutExpired>() && status.code() == Code::Cancelled {
            return Some(if_idempotent(Failing).verdict(idempotency).on_cut());
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return http2::frame(error, idempotency);
        }
    }
    let is_passing = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal);
    (is_passing && never_sent(status)).then(|| always(Failing).verdict(idempotency))
}

fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    error.source()
}

classifies!(Status => status, word);

/// Returns the name of the code.
fn word(status: &Status) -> Option<Cow<'_, str>> {
    name(i32::from(status.code())).map(Cow::Borrowed)
}
