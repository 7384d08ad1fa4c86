use std::borrow::Cow;
use std::error::Error;
use std::iter;

use ::tonic::{Code, ConnectError, Status, TimeoutExpired};
use resile::error::Boxed;
use resile::io::{Classifier, never_sent};
use resile::timeout::Elapsed;
use resile::{GaveUp, Verdict};

use super::{Failure, Pushback, by_code, by_retry_info, code, name, retry_info, with_retry_info};
use crate::chain::links;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy};
use crate::rule::{always, if_idempotent, never};
use crate::{Idempotency, http2, hyper};

/// Returns the verdict on a status of `tonic`.
///
/// The evidence counts in this order:
///
/// 1. the pushback in the metadata, and then `google.rpc.RetryInfo` in the details: the server says
///    what it wants
/// 2. the source chain: no connection was made, the peer reset the stream, or it closed the
///    connection and did not process the stream
/// 3. the timeout of an `Endpoint`: it has the code `CANCELLED`, and its request may be executed. So may that of a
///    [`Failure`] which a missed limit of the program became. A
///    connection that closed before the request began has this code too, and any request is sent again
/// 4. the words of `tonic` for an unknown compression. It may be that of the answer, so a request that is not
///    idempotent is in [doubt](resile::GaveUp::is_in_doubt)
/// 5. the code
///
/// A request is [without effect](Verdict::without_effect) if it was never sent or the server refused it. The
/// code says so only in a status without a source, as the server sent it.
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
///
/// This server executes nothing that it refuses by `RESOURCE_EXHAUSTED`, so an order is as good as a read
/// there, and comes again after the wait that the server names:
///
/// ```
/// use resile_clients::resile::{Classify, Verdict};
/// use resile_clients::{Classifier, Idempotency, grpc};
/// # use std::time::Duration;
/// use tonic::{Code, Status};
///
/// fn refused(status: &Status) -> Option<Verdict> {
///     let is_refused = status.code() == Code::ResourceExhausted;
///     is_refused.then(|| grpc::status(status, Idempotency::Idempotent)).flatten()
/// }
///
/// let orders = (refused, Classifier::non_idempotent());
/// # let mut status = Status::resource_exhausted("too many orders");
/// # status.metadata_mut().insert(grpc::Pushback::NAME, 700.into());
/// # let verdict = orders.classify(&status).unwrap();
/// # assert_eq!((verdict.is_again(), verdict.hint()), (true, Some(Duration::from_millis(700))));
/// # assert!(!Classifier::non_idempotent().verdict(&status).unwrap().is_again());
/// # assert!(!orders.classify(&Status::unavailable("")).unwrap().is_again());
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
    // One with a source is not only the word of the server: a call below makes it of its last attempt, and an
    // earlier attempt may have had an effect.
    let is_answer = status.source().is_none();
    if let Some(delay) = retry_info(status.details()) {
        let judge = if is_answer { with_retry_info } else { by_retry_info };
        return judge(number, delay, idempotency);
    }
    let verdict = match by_sources(status, idempotency) {
        Some(verdict) if verdict.is_without_effect() && is_of_several(status) => {
            Some(of_several(verdict, idempotency))
        }
        verdict => verdict.or_else(|| by_words(status, idempotency)),
    };
    let judge = if is_answer { code } else { by_code };
    verdict.or_else(|| judge(number, pushback, idempotency))
}

/// Returns whether a call below has made this status, and one of its attempts may have had an effect.
fn is_of_several(status: &Status) -> bool {
    let is_known = |error: &(dyn Error + 'static)| {
        let typed = error.downcast_ref().map(GaveUp::<Status>::is_without_effect);
        let typed =
            typed.or_else(|| error.downcast_ref().map(GaveUp::<Failure>::is_without_effect));
        typed.or_else(|| error.downcast_ref().map(GaveUp::<Boxed>::is_without_effect))
    };
    links(status).filter_map(is_known).any(|is_without_effect| !is_without_effect)
}

/// Returns the verdict on a call whose last attempt has this one, and that may have had an effect before.
const fn of_several(last: Verdict, idempotency: Idempotency) -> Verdict {
    let rule = if last.is_again() { if_idempotent(Failing) } else { never(Failing) };
    rule.in_doubt().verdict(idempotency).with_health(last.health())
}

/// Returns the verdict on a message that `tonic` calls compressed in an unknown way. The client says it of an
/// answer, and the server of a request, in the same words.
fn by_words(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    let is_unreadable = status.code() == Code::Unimplemented
        && status.message().starts_with("Content is compressed with ");
    is_unreadable.then(|| never(Healthy).in_doubt().verdict(idempotency))
}

fn by_sources(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    for error in iter::successors(status.source(), |error| below(*error)) {
        if error.is::<ConnectError>() {
            // Nothing was sent, so any request may come again, if a repetition can help at all.
            let verdict = Classifier::idempotent().verdict(error);
            return Some(verdict.map_or_else(|| unsent(idempotency), |it| unmade(it, idempotency)));
        }
        let is_expired = error.is::<TimeoutExpired>() && status.code() == Code::Cancelled;
        // A limit of the program on the call or on a silence of the stream.
        if is_expired || error.is::<Elapsed>() {
            return Some(if_idempotent(Failing).verdict(idempotency).on_cut());
        }
        if status.code() == Code::Cancelled && is_canceled(error) {
            return hyper::kind("canceled", idempotency);
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return http2::frame(error, idempotency);
        }
    }
    let is_passing = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal);
    (is_passing && never_sent(status)).then(|| unsent(idempotency))
}

/// Returns the verdict on a request for which no connection was made.
const fn unsent(idempotency: Idempotency) -> Verdict {
    always(Failing).verdict(idempotency).not_sent()
}

/// Returns the verdict on a request whose connection ended with this one, which is that on a read.
const fn unmade(read: Verdict, idempotency: Idempotency) -> Verdict {
    match idempotency {
        Idempotency::Idempotent => read.not_sent(),
        Idempotency::NotIdempotent => {
            let rule = if read.is_again() { always(Failing) } else { never(Failing) };
            rule.verdict(idempotency).with_health(read.health()).not_sent()
        }
    }
}

/// Returns whether an error of `hyper` says that the connection closed before the request began. This feature
/// has no `hyper`, so its `Debug` tells the type and the kind.
fn is_canceled(error: &(dyn Error + 'static)) -> bool {
    format!("{error:?}").starts_with("hyper::Error(Canceled")
}

fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    error.source()
}

classifies!(Status => status, word);

/// Returns the name of the code.
pub(super) fn word(status: &Status) -> Option<Cow<'_, str>> {
    name(i32::from(status.code())).map(Cow::Borrowed)
}
