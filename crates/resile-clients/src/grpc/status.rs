use std::borrow::Cow;
use std::error::Error;
use std::iter;
use std::sync::Arc;

use ::tonic::{Code, ConnectError, Status, TimeoutExpired};
use resile::io::{Classifier, never_sent};
use resile::{GaveUp, StopReason, Verdict};

use super::{Pushback, code, name, retry_info, with_retry_info};
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
/// 3. the timeout of an `Endpoint`: it has the code `CANCELLED`, and its request may be executed. A
///    connection that closed before the request began has this code too, and any request is sent again
/// 4. the words of `tonic` for a message above a limit and for an unknown compression.
///    The message may be the answer, so a request that is not idempotent is in
///    [doubt](resile::GaveUp::is_in_doubt)
/// 5. the code
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
    if let Some(delay) = retry_info(status.details()) {
        return with_retry_info(number, delay, idempotency);
    }
    let verdict = by_sources(status, idempotency).or_else(|| by_words(status, idempotency));
    verdict.or_else(|| code(number, pushback, idempotency))
}

/// Returns the verdict on a message that `tonic` calls too large or compressed in an unknown way. The client
/// says it of an answer, and the server of a request or of its answer, in the same words.
fn by_words(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    let words = status.message();
    let is_unreadable = match status.code() {
        Code::OutOfRange => {
            let parts = words.strip_prefix("Error, ").and_then(|words| words.split_once(' '));
            parts.is_some_and(|(verb, words)| {
                matches!(verb, "decoded" | "encoded")
                    && words.starts_with("message length too large: ")
            })
        }
        Code::Unimplemented => words.starts_with("Content is compressed with "),
        _ => false,
    };
    is_unreadable.then(|| never(Healthy).in_doubt().verdict(idempotency))
}

fn by_sources(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    for error in iter::successors(status.source(), |error| below(*error)) {
        if error.is::<ConnectError>() {
            // Nothing was sent, so any request may come again, if a repetition can help at all.
            let verdict = Classifier::idempotent().verdict(error);
            return Some(verdict.unwrap_or_else(|| unsent(idempotency)));
        }
        if error.is::<TimeoutExpired>() && status.code() == Code::Cancelled {
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

/// Returns whether an error of `hyper` says that the connection closed before the request began. This feature
/// has no `hyper`, so its `Debug` tells the type and the kind.
fn is_canceled(error: &(dyn Error + 'static)) -> bool {
    format!("{error:?}").starts_with("hyper::Error(Canceled")
}

fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    error.source()
}

/// Returns the status of a call that ended without an answer, for a caller that knows only statuses.
///
/// | end of the call: the first row that applies | code |
/// |---|---|
/// | the token | `CANCELLED` |
/// | the last attempt ended with a status of the server | that of the server, with its message, details and metadata |
/// | the breaker is open, the bulkhead is full, the throttle refuses | `UNAVAILABLE` |
/// | a timeout or the deadline cut the last attempt, or no attempt began before the deadline | `DEADLINE_EXCEEDED` |
/// | any other | what `tonic` makes of the last error |
///
/// So a service whose caller retries too passes on the `RetryInfo` or the pushback of a refusal, also if its
/// own deadline comes before that wait is over.
///
/// If the status is not that of the server, its message has the words of the call with the chain of causes:
/// `store: gave up after 3 attempts in 1.2s: tcp connect error: Connection refused`. Around a layer the path of
/// the request is before the causes, as in the log.
///
/// The source of the status is the `GaveUp<E>`, and around a layer of `resile-tower` it is a
/// `GaveUp<Boxed>`. So a caller asks it whether the request may have been executed:
///
/// ```
/// use resile_clients::resile::GaveUp;
/// use resile_clients::resile::error::Boxed;
/// use std::error::Error;
///
/// fn is_in_doubt(status: &tonic::Status) -> bool {
///     let gave_up = status.source().and_then(|source| source.downcast_ref::<GaveUp<Boxed>>());
///     gave_up.is_some_and(GaveUp::is_in_doubt)
/// }
/// # assert!(!is_in_doubt(&tonic::Status::ok("")));
/// ```
///
/// Around such a layer it is `ServiceBuilder::new().map_err(grpc::to_status)`. The layer returns a status
/// of the server as an answer, and `.map_result(resile_tower::grpc::answer_to_error)` below it makes that
/// an error.
///
/// # Examples
///
/// ```
/// use resile_clients::Classifier;
/// use resile_clients::grpc::to_status;
/// use resile_clients::resile::{Breaker, Never, RetryPolicy, Upstream, retry};
/// use tonic::{Code, Status};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use resile_clients::resile::time::ManualTimer;
/// let store = Upstream::new("store").with_breaker(Breaker::new());
/// # let store = store.with_timer(ManualTimer::new());
/// let _away = store.isolate();
/// let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
/// let call = retry(async |_| Ok::<_, Status>("blue"), policy, Never).on(&store);
/// let status = call.await.map_err(to_status).unwrap_err();
/// assert_eq!(status.code(), Code::Unavailable);
/// # }
/// ```
#[must_use]
pub fn to_status<E>(gave_up: GaveUp<E>) -> Status
where
    GaveUp<E>: Error + Send + Sync + 'static,
{
    let is_answer = gave_up.cut().is_none() && is_answer(&gave_up);
    let code = match gave_up.reason() {
        StopReason::Cancelled => Some(Code::Cancelled),
        _ if is_answer => None,
        StopReason::Open | StopReason::Full | StopReason::Throttled => Some(Code::Unavailable),
        _ if gave_up.cut().is_some() => Some(Code::DeadlineExceeded),
        StopReason::Deadline if gave_up.last().is_none() => Some(Code::DeadlineExceeded),
        _ => None,
    };
    let words = whole(&gave_up);
    let gave_up = Arc::new(gave_up);
    let mut status = if let Some(code) = code {
        Status::new(code, words)
    } else {
        let status = Status::from_error(Box::new(Arc::clone(&gave_up)));
        if is_answer { status } else { Status::new(status.code(), words) }
    };
    status.set_source(gave_up);
    status
}

/// Returns whether the last error is a status of the server. One that `tonic` made itself has a source.
fn is_answer(gave_up: &(dyn Error + 'static)) -> bool {
    let status = links(gave_up).find_map(|error| error.downcast_ref::<Status>());
    status.is_some_and(|status| status.source().is_none())
}

/// Returns the words of a call with those of each cause, and each of them once. The words of a call whose last
/// error is no status are those of the log, with the place of the request.
fn whole<E>(gave_up: &GaveUp<E>) -> String
where
    GaveUp<E>: Error + 'static,
{
    let mut words = gave_up.to_string();
    // The last error is that of an earlier attempt.
    if gave_up.cut().is_some() {
        return words;
    }
    let line = format!("{gave_up:#}");
    if line != words && !links(gave_up).any(<dyn Error>::is::<Status>) {
        return line;
    }
    for cause in links(gave_up).skip(1) {
        let cause = match cause.downcast_ref::<Status>() {
            Some(status) if status.message().is_empty() => status.code().description().to_owned(),
            Some(status) => status.message().to_owned(),
            None => cause.to_string(),
        };
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

classifies!(Status => status, word);

/// Returns the name of the code.
fn word(status: &Status) -> Option<Cow<'_, str>> {
    name(i32::from(status.code())).map(Cow::Borrowed)
}
