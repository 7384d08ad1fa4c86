//! `grpc::to_status_of_only_call`: what the next caller reads of a handler that does nothing but its call.

use std::error::Error;
use std::time::Duration;

use resile_clients::Classifier;
use resile_clients::grpc::{self, Failure, Pushback};
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{
    Backoff, Breaker, Budget, GaveUp, Never, RetryPolicy, StopReason, Upstream, retry,
};
use tonic::{Code, Status};

use super::grpc_end::{limited, on_the_wire, refused};
use super::tonic::details;

const READ: Classifier = Classifier::idempotent();
const ORDER: Classifier = Classifier::non_idempotent();
const KEYED: Classifier = Classifier::keyed();
const SECOND: Duration = Duration::from_secs(1);

fn policy(classifier: Classifier) -> RetryPolicy<Classifier> {
    RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier)
}

/// Makes a call of which each attempt ends so.
async fn call(
    policy: RetryPolicy<Classifier>,
    store: &Upstream<ManualTimer>,
    status: &Status,
) -> GaveUp<Failure> {
    let attempt = async |_| Err::<(), _>(Failure::from(status.clone()));
    retry(attempt, policy, Never).on(store).await.unwrap_err()
}

fn store() -> Upstream<ManualTimer> {
    Upstream::new("store").with_timer(ManualTimer::new())
}

/// Returns a refusal whose wait is zero.
fn soon() -> Status {
    Status::with_details(Code::ResourceExhausted, "slow down", details(0, None).into())
}

fn pushback(status: &Status) -> Option<&str> {
    status.metadata().get(Pushback::NAME).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn an_order_that_a_breaker_refused_is_without_effect_for_the_caller() {
    let store = store().with_breaker(Breaker::new().with_consecutive(1));
    let down = Status::unavailable("down");
    let first = call(policy(ORDER), &store, &down).await;
    let first = on_the_wire(grpc::to_status_of_only_call(first));
    assert_eq!((first.code(), first.message()), (Code::Unavailable, "down"));
    assert!(pushback(&first).is_none());
    let end = call(policy(ORDER), &store, &down).await;
    assert!(end.attempts() == 0 && end.is_without_effect());
    let (wait, words) = (end.retry_after().unwrap(), end.to_string());
    let status = grpc::to_status_of_only_call(end);
    let source = status.source().unwrap().downcast_ref::<GaveUp<Failure>>().unwrap();
    assert_eq!(source.reason(), StopReason::Open);
    let wire = on_the_wire(status);
    assert_eq!((wire.code(), wire.message()), (Code::ResourceExhausted, &*words));
    assert_eq!((grpc::retry_info(wire.details()), pushback(&wire)), (Some(wait), None));
    for classifier in [READ, ORDER, KEYED] {
        let verdict = classifier.verdict(&wire).unwrap();
        assert!(verdict.is_again() && verdict.is_without_effect());
        assert_eq!(verdict.hint(), Some(wait));
    }
}

#[tokio::test]
async fn an_order_without_a_connection_may_come_again_after_a_second() {
    for classifier in [ORDER, KEYED] {
        let end = call(policy(classifier), &store(), &refused()).await;
        assert!(end.attempts() == 3 && end.is_without_effect() && end.retry_after().is_none());
        let wire = on_the_wire(grpc::to_status_of_only_call(end));
        assert_eq!(wire.code(), Code::ResourceExhausted);
        assert_eq!((grpc::retry_info(wire.details()), pushback(&wire)), (Some(SECOND), None));
        assert!(wire.message().ends_with(": connection refused"), "{wire}");
    }
}

/// The details are those that clients of gRPC compare with the status: code, message and details.
#[tokio::test]
async fn the_details_have_the_code_and_the_words() {
    let place = policy(
        ORDER.with_place("/store.of.all.that.one.may.need.to.write.a.letter.by.hand.Store/Buy"),
    );
    let end = call(place, &store(), &refused()).await;
    let wire = on_the_wire(grpc::to_status_of_only_call(end));
    let words = wire.message().as_bytes();
    assert!((128..256).contains(&words.len()), "a length of two bytes: {wire}");
    let length = u8::try_from(words.len() - 128).unwrap();
    let name = b"type.googleapis.com/google.rpc.RetryInfo";
    let info = [&[0x0a, 40][..], name, &[0x12, 4, 0x0a, 2, 0x08, 1]].concat();
    let details = [&[0x08, 8, 0x12, length | 0x80, 1][..], words, &[0x1a, 48], &info].concat();
    assert_eq!(wire.details(), details);
}

#[tokio::test]
async fn the_word_of_a_server_stays() {
    let words = [Status::invalid_argument("no such city"), soon()];
    for status in words {
        let end = call(policy(ORDER), &store(), &status).await;
        assert!(end.is_without_effect());
        let wire = on_the_wire(grpc::to_status_of_only_call(end));
        assert_eq!((wire.code(), wire.message()), (status.code(), status.message()));
        assert_eq!((wire.details(), pushback(&wire)), (status.details(), None));
    }
}

#[tokio::test]
async fn a_caller_does_not_repeat_what_the_handler_has_repeated() {
    let down = Status::unavailable("down");
    for classifier in [READ, KEYED] {
        let end = call(policy(classifier), &store(), &down).await;
        assert_eq!((end.attempts(), end.reason()), (3, StopReason::Attempts));
        let wire = on_the_wire(grpc::to_status_of_only_call(end));
        assert_eq!((wire.code(), pushback(&wire)), (Code::Unavailable, Some("-1")));
        let verdict = classifier.verdict(&wire).unwrap();
        assert!(!verdict.is_again() && !verdict.is_without_effect());
    }
    // Also a read that had no connection, because nobody asks for its effect.
    for status in [refused(), soon()] {
        let end = call(policy(READ), &store(), &status).await;
        assert!(end.is_without_effect() && end.attempts() == 3);
        let wire = on_the_wire(grpc::to_status_of_only_call(end));
        assert_eq!((wire.code(), pushback(&wire)), (status.code(), Some("-1")));
    }
    // The budget refused the second attempt.
    let poor = store().with_budget(Budget::new().with_capacity(0));
    let end = call(policy(READ), &poor, &down).await;
    assert_eq!((end.attempts(), end.reason()), (1, StopReason::Budget));
    assert_eq!(pushback(&grpc::to_status_of_only_call(end)), Some("-1"));
}

#[tokio::test]
async fn a_handler_without_retries_leaves_them_to_its_caller() {
    let down = Status::unavailable("down");
    let once = RetryPolicy::none().with_classifier(READ);
    let end = call(once, &store(), &down).await;
    assert_eq!(end.attempts(), 1);
    let wire = on_the_wire(grpc::to_status_of_only_call(end));
    assert_eq!((wire.code(), pushback(&wire)), (Code::Unavailable, None));
    assert!(READ.verdict(&wire).unwrap().is_again());
    // The server said when.
    let end = call(once, &store(), &limited(Code::ResourceExhausted)).await;
    let wire = on_the_wire(grpc::to_status_of_only_call(end));
    assert_eq!(READ.verdict(&wire).unwrap().hint(), Some(7 * SECOND));
}
