//! The status of a handler that does nothing before its call, as its caller reads it.

use std::cell::Cell;
use std::time::Duration;

use resile::{Backoff, Breaker, GaveUp, Never, RetryPolicy, StopReason, Upstream, retry};
use resile_clients::Classifier;
use resile_clients::grpc::{self, to_status_of_only_call};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const ORDER: Classifier = Classifier::non_idempotent();

/// Makes an order whose server answers so.
async fn order(place: &'static str, upstream: &Upstream, answer: &Status) -> GaveUp<grpc::Failure> {
    let policy = RetryPolicy::new()
        .with_total_timeout(Duration::from_secs(1))
        .with_classifier(ORDER.with_place(place));
    let call = async |_| Err::<(), grpc::Failure>(answer.clone().into());
    retry(call, policy, Never).on(upstream).await.unwrap_err()
}

/// Sends a status to the next process.
fn sent(status: Status) -> Status {
    let answer = status.into_http::<()>();
    Status::from_header_map(answer.headers()).unwrap()
}

#[tokio::test]
async fn the_caller_of_a_refused_order_knows_that_nothing_was_done() {
    let breaker = || Breaker::new().with_consecutive(1);
    let (store, front) = (Upstream::new("store").with_breaker(breaker()), Upstream::new("front"));
    let down = Status::unavailable("down");
    // The store may have executed the first order.
    let first = sent(to_status_of_only_call(order("/store.Store/Buy", &store, &down).await));
    assert_eq!(first.code(), Code::Unavailable);
    assert!(order("/front.Front/Buy", &front, &first).await.is_in_doubt());
    // The breaker refuses the second one.
    let second = sent(to_status_of_only_call(order("/store.Store/Buy", &store, &down).await));
    let end = order("/front.Front/Buy", &front, &second).await;
    assert!(end.is_without_effect() && !end.is_in_doubt() && end.retry_after().is_some());
    let words = format!("{end:#}");
    assert!(words.contains(
        ", without effect: /front.Front/Buy: RESOURCE_EXHAUSTED: store: gave up after 0 attempts"
    ));
    assert!(!words.contains("must not be sent again"), "{words}");
}

/// Nobody knows a wait, so the function states one. The crate of Google's types reads it too.
#[tokio::test]
async fn the_caller_of_an_order_without_a_connection_knows_that_nothing_was_done() {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let unmade = Status::from_error(tonic::ConnectError(refused.into()).into());
    let end = order("/store.Store/Buy", &Upstream::new("store"), &unmade).await;
    assert!(end.is_without_effect() && end.retry_after().is_none());
    let status = sent(to_status_of_only_call(end));
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details = status.check_error_details().unwrap();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
    let end = order("/front.Front/Buy", &Upstream::new("front"), &status).await;
    assert!(end.is_without_effect() && !end.is_in_doubt());
    // The word of a server stays.
    let invalid = Status::invalid_argument("no such city");
    let end = order("/store.Store/Buy", &Upstream::new("store"), &invalid).await;
    assert!(end.is_without_effect());
    assert_eq!(sent(to_status_of_only_call(end)).code(), Code::InvalidArgument);
}

/// Reads through a front whose handler makes three attempts. Returns the attempts of the reader and of the handler.
async fn chain(to_status: fn(GaveUp<grpc::Failure>) -> Status, answer: &Status) -> (u32, u32) {
    let read = |place| {
        let classifier = Classifier::idempotent().with_place(place);
        RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier)
    };
    let made = Cell::new(0);
    let front = async |_| {
        let store = async |_| Err::<(), grpc::Failure>(answer.clone().into());
        let end = retry(store, read("/store.Store/Stock"), Never).on("store").await.unwrap_err();
        made.set(made.get() + end.attempts());
        Err::<(), grpc::Failure>(sent(to_status(end)).into())
    };
    let end = retry(front, read("/front.Front/Stock"), Never).on("front").await.unwrap_err();
    let is_word = matches!(end.reason(), StopReason::Attempts | StopReason::Fatal);
    assert!(is_word && !end.is_in_doubt(), "{end:#}");
    (end.attempts(), made.get())
}

#[tokio::test]
async fn a_read_that_a_handler_has_repeated_is_not_repeated_by_its_caller() {
    let down = Status::unavailable("down");
    assert_eq!(chain(grpc::to_status, &down).await, (3, 9));
    assert_eq!(chain(to_status_of_only_call, &down).await, (1, 3));
    // The word of a server stays.
    let missing = Status::not_found("no such item");
    assert_eq!(chain(to_status_of_only_call, &missing).await, (1, 1));
}
