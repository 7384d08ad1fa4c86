//! The contract of `tower`: `poll_ready` before each `call`, on the service that is called.

use std::time::Duration;

use resile_tower::resile::classify::Always;
use resile_tower::resile::{Bulkhead, StopReason, Upstream};
use resile_tower::{RetryLayer, UpstreamLayer};
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimit;
use tower::load_shed::LoadShed;
use tower::{Layer, Service, ServiceExt};

use super::retries::AT_ONCE;
use super::script::{Down, Script, Step};

/// The script panics if it is called before it is ready.
#[tokio::test(start_paused = true)]
async fn each_attempt_awaits_the_readiness_of_its_own_clone() {
    let steps = [
        Step::ReadyLater,
        Step::Fail,
        Step::ReadyLater,
        Step::Fail,
        Step::ReadyLater,
        Step::Answer(200),
    ];
    let script = Script::new(&steps);
    let service = RetryLayer::new(AT_ONCE).layer(script.watch());
    assert_eq!(service.oneshot(7).await.unwrap(), 200);
    assert_eq!((script.seen().requests.len(), script.seen().polls_of_readiness), (3, 6));
}

/// The caller found the service ready, so the first attempt does not ask again.
#[tokio::test(start_paused = true)]
async fn the_first_attempt_goes_to_the_service_that_was_found_ready() {
    let script = Script::new(&[Step::Answer(200)]);
    let mut service = RetryLayer::new(AT_ONCE).layer(script.watch());
    service.ready().await.unwrap();
    assert_eq!(script.seen().alive, 1, "a claim");
    assert_eq!(service.call(7).await.unwrap(), 200);
    assert_eq!((script.seen().polls_of_readiness, script.seen().alive), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_to_become_ready_fails_the_attempt() {
    let is_call = |error: &Down| *error == Down::Call;
    for (steps, reason, attempts) in [
        // The first failure is that of the clone that the caller asked. Another clone takes its place.
        (&[Step::NotReady, Step::Answer(200)][..], None, 0),
        (&[Step::NotReady, Step::NotReady], Some(StopReason::Fatal), 1),
        (&[Step::Fail, Step::NotReady, Step::NotReady], Some(StopReason::Fatal), 2),
    ] {
        let script = Script::new(steps);
        let service = RetryLayer::new(AT_ONCE.with_classifier(is_call)).layer(script.watch());
        let outcome = service.oneshot(7).await;
        let ended = outcome.as_ref().err().map(|gave_up| (gave_up.reason(), gave_up.attempts()));
        assert_eq!(ended, reason.map(|reason| (reason, attempts)), "{steps:?}");
        if let Err(gave_up) = &outcome {
            let source = std::error::Error::source(gave_up).unwrap();
            assert_eq!(source.downcast_ref(), Some(&Down::Readiness));
        }
    }
}

/// A readiness that never comes is cut like an attempt that hangs.
#[tokio::test(start_paused = true)]
async fn the_wait_for_the_readiness_is_a_part_of_the_attempt() {
    let limited = ConcurrencyLimit::new(Script::new(&[Step::Fail, Step::Answer(200)]), 1);
    let holder = limited.clone().ready_oneshot().await.unwrap();
    let policy = AT_ONCE.with_attempt_timeout(Duration::from_secs(1)).with_attempts(2);
    let mut service = RetryLayer::new(policy).layer(limited);
    let mut ready = Box::pin(service.ready());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(ready.as_mut().poll(&mut cx).is_pending(), "backpressure");
    drop(holder);
    let call = ready.await.unwrap().call(7);
    assert_eq!(call.await.unwrap(), 200);
}

static STORE: Upstream = Upstream::new("store").with_bulkhead(Bulkhead::new(1));

/// These panic when they are called before they are ready.
#[tokio::test(start_paused = true)]
async fn the_services_of_tower_are_never_called_unready() {
    let steps = [Step::Fail, Step::Answer(200), Step::Fail, Step::Answer(200)];
    let limited = ConcurrencyLimit::new(Script::new(&steps), 1);
    let buffered = Buffer::new(limited, 4);
    let mut service = RetryLayer::new(AT_ONCE).layer(buffered);
    for _ in 0..2 {
        assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 200);
    }
    let limited = ConcurrencyLimit::new(Script::new(&steps), 1);
    let buffered = Buffer::new(limited, 4);
    let mut service = UpstreamLayer::new(&STORE, Always).layer(buffered);
    for is_good in [false, true, false, true] {
        assert_eq!(service.ready().await.unwrap().call(7).await.is_ok(), is_good);
    }
}

/// An overload of this process is an error of the attempt, and another attempt may find room.
#[tokio::test(start_paused = true)]
async fn a_shed_attempt_is_classified() {
    let limited = ConcurrencyLimit::new(Script::new(&[Step::Answer(200)]), 1);
    let holder = limited.clone().ready_oneshot().await.unwrap();
    let service = RetryLayer::new(AT_ONCE).layer(LoadShed::new(limited));
    let gave_up = service.clone().oneshot(7).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 4));
    drop(holder);
    assert_eq!(service.oneshot(7).await.unwrap(), 200);
}
