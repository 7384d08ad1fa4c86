use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ::tonic::metadata::MetadataMap;
use ::tonic::{Code, Status};
use resile::{GaveUp, StopReason, Verdict};

use super::failure::TRANSPORT;
use super::{Failure, Pushback, status};
use crate::Idempotency;
use crate::chain::links;

/// Returns the status of a call that ended without an answer, for a caller that knows only statuses.
///
/// | end of the call: the first row that applies | code |
/// |---|---|
/// | the token | `CANCELLED` |
/// | the last attempt ended with a status of the server | that of the server, with its message, details and metadata |
/// | the breaker is open, the bulkhead is full, the throttle refuses | `UNAVAILABLE` |
/// | a timeout or the deadline cut the last attempt, or no attempt began before the deadline | `DEADLINE_EXCEEDED` |
/// | any other | what `tonic` makes of the last error |
/// | any of these, if its code denies an effect that an earlier attempt may have had | `UNKNOWN` |
///
/// So a service whose caller retries too passes on the `RetryInfo` or the pushback of a refusal, also if its
/// own deadline comes before that wait is over.
///
/// # After an earlier attempt
///
/// The status of the server tells of the last attempt alone. If an earlier one timed out, an order with a
/// [key](crate::Classifier::keyed) may have been executed, and the last attempt may still end with
/// `INVALID_ARGUMENT` or with `RESOURCE_EXHAUSTED` and a `RetryInfo`. The caller would read "without effect" from
/// that. So the code is then `UNKNOWN`, which a caller reads as not known, and the message has the words of the
/// call. The metadata of the server stay, but its details do not, and their wait becomes a pushback. The status of
/// the server is still the [last error](GaveUp::last) of the source. A read keeps the status of the server. So does
/// a write under [`idempotent`](crate::Classifier::idempotent), because to send it again does no harm: if its caller
/// must know whether it was executed, it is [`keyed`](crate::Classifier::keyed).
///
/// # The wait and the words
///
/// If the status is not that of the server, `grpc-retry-pushback-ms` tells the caller
/// [when the call may come again](GaveUp::retry_after), in whole milliseconds and rounded up. So a read waits until
/// the breaker of this service lets calls through. An order stays in doubt for the caller, because the status does
/// not tell what the handler did before this call.
///
/// The message of such a status has the words of the call with the chain of causes:
/// `store: gave up after 3 attempts in 1.2s: /store.Store/Stock: UNAVAILABLE: tcp connect error: Connection refused`.
/// The path is that of [`with_place`](crate::Classifier::with_place), and around a layer that of the request.
///
/// # The source
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
/// A handler that does nothing but its call makes its status by
/// [`to_status_of_only_call`](super::to_status_of_only_call), which tells the caller more.
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
    let gave_up = Arc::new(gave_up);
    let mut status = of(&gave_up);
    status.set_source(gave_up);
    status
}

/// Returns the status of a call without its source.
pub(super) fn of<E>(gave_up: &Arc<GaveUp<E>>) -> Status
where
    GaveUp<E>: Error + Send + Sync + 'static,
{
    let last = last_status(&**gave_up);
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
    let (words, wait) = (whole(gave_up), wait(gave_up));
    let made = |code| own(code, words.clone(), MetadataMap::new(), wait);
    let status = if let Some(code) = code {
        made(code)
    } else {
        let last = last.cloned();
        let last = last.unwrap_or_else(|| Status::from_error(Box::new(Arc::clone(gave_up))));
        if is_answer { last } else { made(last.code()) }
    };
    if gave_up.conclusion_if_first().may_matter() && denies_effect(&status) {
        return own(Code::Unknown, words, status.metadata().clone(), wait);
    }
    status
}

/// Returns whether the next caller reads in a status without a source that its order had no effect.
fn denies_effect(answer: &Status) -> bool {
    let verdict = status(answer, Idempotency::NotIdempotent);
    verdict.is_some_and(|verdict| verdict.is_without_effect() || verdict.is_again())
}

/// Returns the wait until the call may come again.
fn wait<E>(gave_up: &GaveUp<E>) -> Option<Duration> {
    gave_up.verdict().filter(Verdict::is_again).and(gave_up.retry_after())
}

/// Makes a status that is not that of the server.
fn own(code: Code, words: String, mut metadata: MetadataMap, wait: Option<Duration>) -> Status {
    if let Some(wait) = wait {
        let millis = wait.as_nanos().div_ceil(1_000_000);
        // A larger number would be read as a refusal of any retry.
        let millis = i32::try_from(millis).unwrap_or(i32::MAX);
        metadata.insert(Pushback::NAME, millis.into());
    }
    Status::with_metadata(code, words, metadata)
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
pub(super) fn whole<E>(gave_up: &GaveUp<E>) -> String
where
    GaveUp<E>: Error + 'static,
{
    let (words, line) = (gave_up.to_string(), format!("{gave_up:#}"));
    // From here on the words are those of `tonic`.
    let bare = links(gave_up).find_map(|link| Some(code_of(link.downcast_ref()?)));
    // The last error is that of an earlier attempt, and stands before the end of a bracket.
    let is_earlier = gave_up.cut().is_some() && gave_up.last().is_some();
    let mut words = match bare.and_then(|bare| line.split_once(&bare)) {
        Some((before, _)) => before.trim_end_matches(": ").to_owned(),
        None if line != words => return line,
        None if is_earlier => words.trim_end_matches(')').to_owned(),
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
    if is_earlier {
        words.push(')');
    }
    words
}

/// Returns the first words of a status in the form of `tonic`, which tell its code.
fn code_of(status: &Status) -> String {
    let mut words = status.to_string();
    words.truncate(words.find(", ").unwrap_or(words.len()));
    words
}
