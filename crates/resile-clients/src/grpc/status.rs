use std::borrow::Cow;
use std::error::Error;
use std::iter;
use std::sync::Arc;

use ::tonic::{Code, ConnectError, Status, TimeoutExpired};
use resile::error::Boxed;
use resile::io::{Classifier, never_sent};
use resile::{GaveUp, StopReason, Verdict};

use super::failure::TRANSPORT;
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
/// 3. the timeout of an `Endpoint`: it has the code `CANCELLED`, and its request may be executed. A
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
            return Some(verdict.map_or_else(|| unsent(idempotency), Verdict::not_sent));
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
/// `store: gave up after 3 attempts in 1.2s: /store.Store/Stock: UNAVAILABLE: tcp connect error: Connection refused`.
/// The path is that of [`with_place`](crate::Classifier::with_place), and around a layer that of the request.
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
    let last = last_status(&gave_up);
    // One that `tonic` made itself has a source.
    let is_answer = gave_up.cut().is_none() && last.is_some_and(|it| it.source().is_none());
    let code = match gave_up.reason() {
        StopReason::Cancelled => Some(Code::Cancelled),
        _ if is_answer => None,
        StopReason::Open | StopReason::Full | StopReason::Throttled => Some(Code::Unavailable),
        _ if gave_up.cut().is_some() => Some(Code::DeadlineExceeded),
        StopReason::Deadline if gave_up.last().is_none() => Some(Code::DeadlineExceeded),
        _ => None,
    };
    let words = whole(&gave_up);
    let last = last.cloned();
    let gave_up = Arc::new(gave_up);
    let mut status = if let Some(code) = code {
        Status::new(code, words)
    } else {
        let status = last.unwrap_or_else(|| Status::from_error(Box::new(Arc::clone(&gave_up))));
        if is_answer { status } else { Status::new(status.code(), words) }
    };
    status.set_source(gave_up);
    status
}

/// Returns the first status in the chain of a call.
fn last_status<'e>(gave_up: &'e (dyn Error + 'static)) -> Option<&'e Status> {
    links(gave_up).find_map(as_status)
}

fn as_status<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Status> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Failure>().map(|failure| &**failure))
}

/// Returns the words of a call with those of each cause, and each of them once. They are those of the log, as if the
/// error of the call was a [`Failure`].
fn whole<E>(gave_up: &GaveUp<E>) -> String
where
    GaveUp<E>: Error + 'static,
{
    let words = gave_up.to_string();
    // The last error is that of an earlier attempt.
    if gave_up.cut().is_some() {
        return words;
    }
    let line = format!("{gave_up:#}");
    // From here on the words are those of `tonic`.
    let bare = links(gave_up).find_map(|link| Some(code_of(link.downcast_ref()?)));
    let mut words = match bare.and_then(|bare| line.split_once(&bare)) {
        Some((before, _)) => before.trim_end_matches(": ").to_owned(),
        None if line != words => return line,
        None => words,
    };
    for link in links(gave_up).skip(1) {
        let cause = match as_status(link) {
            Some(status) => format!("{:#}", Failure::from(status.clone())),
            None => link.to_string(),
        };
        let is_bare = cause == TRANSPORT && link.source().is_some();
        if !is_bare && !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

/// Returns the first words of a status in the form of `tonic`, which tell its code.
fn code_of(status: &Status) -> String {
    let mut words = status.to_string();
    words.truncate(words.find(", ").unwrap_or(words.len()));
    words
}

classifies!(Status => status, word);

/// Returns the name of the code.
pub(super) fn word(status: &Status) -> Option<Cow<'_, str>> {
    name(i32::from(status.code())).map(Cow::Borrowed)
}
