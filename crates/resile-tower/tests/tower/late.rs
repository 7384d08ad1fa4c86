//! A server with a [`DeadlineLayer`] answers `DEADLINE_EXCEEDED` shortly before the attempt of its caller ends. Such
//! an answer is what a cut by the attempt timeout is, as long as the call has more time than the attempt had.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use resile_tower::deadline::DeadlineLayer;
use resile_tower::resile::observe::{Event, EventKind};
use resile_tower::resile::{
    Attempt, Backoff, GaveUp, Never, RetryPolicy, StopReason, Upstream, retry,
};
use resile_tower::resile_clients::{Classifier, Idempotency, grpc};
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

const AT_ONCE: RetryPolicy = RetryPolicy::new()
    .with_backoff(Backoff::none())
    .with_attempt_timeout(SECOND)
    .with_total_timeout(Duration::from_secs(5));

/// A server whose handler hangs `hangs` times.
macro_rules! server {
    ($hangs:expr) => {{
        let left = Arc::new(AtomicU32::new($hangs));
        let handler = service_fn(move |_: Request<Body>| {
            let left = Arc::clone(&left);
            async move {
                if left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Body::empty()))
            }
        });
        DeadlineLayer::new(30 * SECOND).layer(handler)
    }};
}

fn request() -> Request<Body> {
    Request::post("/shop.Shop/Stock")
        .header("content-type", "application/grpc")
        .body(Body::empty())
        .unwrap()
}

/// Calls the server by `retry` around a client, with `grpc::request` for the metadata. Returns the outcome with its
/// attempts and its time, and the events.
async fn by_retry(
    policy: RetryPolicy,
    classifier: Classifier,
    hangs: u32,
) -> (Result<(), GaveUp<Status>>, Vec<String>, Duration) {
    let server = server!(hangs);
    let op = async |attempt: Attempt| {
        let mut sent = request();
        let metadata = grpc::request((), attempt).into_parts().0;
        sent.headers_mut().extend(metadata.into_headers());
        let answer = server.clone().oneshot(sent).await.unwrap();
        let status = Status::from_header_map(answer.headers());
        status.filter(|status| status.code() != Code::Ok).map_or(Ok(()), Err)
    };
    let events = Mutex::new(Vec::new());
    let note = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waiting { .. } | EventKind::GaveUp { .. }) {
            events.lock().unwrap().push(event.to_string());
        }
    };
    let (shop, began) = (Upstream::new("shop"), Instant::now());
    let policy = policy.with_classifier(classifier);
    let outcome = retry(op, policy, Never).on(shop.observed_by(&note)).await;
    (outcome, events.into_inner().unwrap(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_one_attempt_is_a_cut_of_that_attempt() {
    for classifier in [Classifier::idempotent(), Classifier::keyed()] {
        let (outcome, events, took) = by_retry(AT_ONCE, classifier, 1).await;
        outcome.unwrap();
        assert_eq!(took, Duration::from_millis(950));
        let line = "shop: attempt 1 of 3 failed, retrying at once: ";
        assert!(events.len() == 1 && events[0].starts_with(line), "{events:?}");
    }
    let (outcome, ..) = by_retry(AT_ONCE, Classifier::non_idempotent(), 1).await;
    let end = outcome.unwrap_err();
    assert_eq!((end.reason(), end.attempts()), (StopReason::Fatal, 1));
    assert!(end.is_in_doubt());
}

#[tokio::test(start_paused = true)]
async fn a_channel_sends_a_read_again_after_a_late_answer() {
    for (idempotency, attempts) in [(Idempotency::Idempotent, 2), (Idempotency::NotIdempotent, 1)] {
        let channel = RetryChannel::new(server!(1), AT_ONCE, idempotency).on("shop");
        let outcome = channel.oneshot(request()).await;
        match outcome {
            Ok(_) => assert_eq!(attempts, 2),
            Err(status) => {
                let end = gave_up(&status).unwrap();
                assert_eq!((end.attempts(), end.is_in_doubt()), (attempts, true));
            }
        }
    }
}

/// The server had all the time of the call, so another attempt would have none.
#[tokio::test(start_paused = true)]
async fn a_late_answer_at_the_end_of_the_call_ends_it_at_its_deadline() {
    let millis = Duration::from_millis;
    for (limit, total, attempts) in [
        (None, SECOND, 1),
        (Some(SECOND), SECOND, 1),
        (Some(5 * SECOND), SECOND, 1),
        (Some(SECOND), millis(1020), 1),
        (Some(SECOND), millis(1500), 2),
        (Some(SECOND), millis(2500), 3),
        (Some(millis(200)), millis(210), 1),
    ] {
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_attempts(9);
        let policy = policy.with_total_timeout(total);
        let policy = limit.map_or(policy, |limit| policy.with_attempt_timeout(limit));
        let (outcome, events, took) = by_retry(policy, Classifier::idempotent(), 99).await;
        let end = outcome.unwrap_err();
        assert_eq!((end.attempts(), end.reason()), (attempts, StopReason::Deadline), "{events:?}");
        assert!(format!("{end:#}").contains(" is left for the next attempt: "), "{end:#}");
        assert_eq!(end.last().unwrap().code(), Code::DeadlineExceeded);
        assert!(!end.is_in_doubt() && !end.is_without_effect() && took < total, "{took:?}");
    }
}

/// After the last attempt the reason is that none is left, as after a cut.
#[tokio::test(start_paused = true)]
async fn late_answers_to_all_attempts_end_the_call_as_cuts_do() {
    let (outcome, events, took) = by_retry(AT_ONCE, Classifier::idempotent(), 99).await;
    let end = outcome.unwrap_err();
    assert_eq!((end.attempts(), end.reason()), (3, StopReason::Attempts), "{events:?}");
    assert_eq!(took, 3 * Duration::from_millis(950));
    assert!(end.verdict().unwrap().is_again());
}

/// The server had less time than it was told, so another limit has ended the request.
#[tokio::test(start_paused = true)]
async fn a_late_answer_long_before_the_end_of_the_call_is_final() {
    for total in [Some(5 * SECOND), None] {
        let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
        let policy = total.map_or(policy, |total| policy.with_total_timeout(total));
        let op = async |_| Err::<(), _>(Status::deadline_exceeded("a limit of the server"));
        let end = retry(op, policy, Never).on("shop").await.unwrap_err();
        assert_eq!((end.attempts(), end.reason()), (1, StopReason::Fatal), "{end:#}");
    }
}
