use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ::tonic::{Code, Status};
use resile::{GaveUp, StopReason};

use super::Pushback;
use super::end::{of, whole};
use super::retry_info::written;

/// The wait for the next request if nobody knows a better one.
const WAIT: Duration = Duration::from_secs(1);

/// Returns the status of a handler that does nothing but this call, such as one that passes a request on.
///
/// [`to_status`](super::to_status) cannot know what the handler did before its call. This function relies on it that
/// the handler did nothing, so the caller of the handler learns two things more:
///
/// | end of the call: the first row that applies | status |
/// |---|---|
/// | its attempts are spent, or the budget refused the next one, and it is a read or may have had an effect | that of `to_status` with the pushback `-1`, so the caller does not repeat what the handler has repeated |
/// | surely [without effect](GaveUp::is_without_effect), and `to_status` makes it `UNAVAILABLE` or `DEADLINE_EXCEEDED` | `RESOURCE_EXHAUSTED` with `RetryInfo`, which a caller reads as "without effect". The wait is [that of the call](GaveUp::retry_after), or 1 s if nobody knows it |
/// | any other | that of `to_status` |
///
/// So an order that a breaker refused, or for which no connection was made, is not in doubt for the caller. It may
/// send the order again after the wait, also if the handler has spent its attempts. An order that may have been
/// executed stays in doubt.
///
/// A call whose policy allows one attempt, such as [`none`](resile::RetryPolicy::none), has not spent its attempts:
/// it leaves the retries to the caller. A read is a call whose classifier says that the request is
/// [idempotent](resile::Verdict::idempotent) and names no [key](resile::Verdict::keyed).
///
/// The message and the source of the status are those of `to_status`, and a status with `RetryInfo` has all words of
/// the call.
///
/// # Examples
///
/// ```
/// use resile_clients::resile::{Breaker, Never, RetryPolicy, Upstream, retry};
/// use resile_clients::{Classifier, grpc};
/// use std::time::Duration;
/// use tonic::{Code, Status};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use resile_clients::resile::time::ManualTimer;
/// let store = Upstream::new("store").with_breaker(Breaker::new());
/// # let store = store.with_timer(ManualTimer::new());
/// let _away = store.isolate();
/// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
/// let call = retry(async |_| Ok::<_, Status>("sold"), policy, Never).on(&store);
/// let status = call.await.map_err(grpc::to_status_of_only_call).unwrap_err();
/// assert_eq!(status.code(), Code::ResourceExhausted);
/// assert_eq!(grpc::retry_info(status.details()), Some(Duration::from_secs(1)));
/// # }
/// ```
#[must_use]
pub fn to_status_of_only_call<E>(gave_up: GaveUp<E>) -> Status
where
    GaveUp<E>: Error + Send + Sync + 'static,
{
    let gave_up = Arc::new(gave_up);
    let mut status = of(&gave_up);
    let is_spent = is_spent(&gave_up);
    // Any other code is the word of the server, which the caller can read by itself.
    let is_silent = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
    if is_spent && (is_read(&gave_up) || !gave_up.is_without_effect()) {
        status.metadata_mut().insert(Pushback::NAME, (-1).into());
    } else if gave_up.is_without_effect() && is_silent {
        status = refused(&status, whole(&gave_up), gave_up.retry_after().unwrap_or(WAIT));
    }
    status.set_source(gave_up);
    status
}

/// Returns whether the handler has repeated its request, so that its caller should not.
fn is_spent<E>(gave_up: &GaveUp<E>) -> bool {
    match gave_up.reason() {
        StopReason::Attempts => gave_up.attempts() > 1,
        StopReason::Budget => true,
        _ => false,
    }
}

/// Returns whether nobody asks for the effect of the request.
fn is_read<E>(gave_up: &GaveUp<E>) -> bool {
    gave_up.verdict().is_some_and(|verdict| verdict.is_idempotent() && !verdict.is_keyed())
}

/// Makes the status of a request that had no effect and may come after a wait. A pushback would count before the
/// `RetryInfo`, and with it no code denies an effect.
fn refused(status: &Status, words: String, wait: Duration) -> Status {
    let code = Code::ResourceExhausted;
    let details = written(code.into(), &words, wait);
    let mut metadata = status.metadata().clone();
    metadata.remove(Pushback::NAME);
    Status::with_details_and_metadata(code, words, details.into(), metadata)
}
