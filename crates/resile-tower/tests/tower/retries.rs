//! `RetryLayer`: attempts, errors, and what the caller gets.

use std::time::Duration;

use resile_tower::RetryLayer;
use resile_tower::resile::classify::Cut;
use resile_tower::resile::time::ManualTimer;
use resile_tower::resile::{Backoff, Breaker, Budget, RetryPolicy, StopReason, Upstream, Verdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service, ServiceExt};

use super::script::{Down, Script, Step};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) const AT_ONCE: RetryPolicy =
    RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());

/// Judges an answer as HTTP would.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a judge gets a reference")]
fn judge(answer: &u16) -> Option<Verdict> {
    match answer {
        429 => Some(Verdict::throttled().after(SECOND)),
        500 => Some(Verdict::transient().not_again()),
        503 => Some(Verdict::transient()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_repeats_its_request_until_it_succeeds() {
    let script = Script::new(&[Step::Fail, Step::Answer(503), Step::Answer(200)]);
    let mut service = RetryLayer::new(AT_ONCE).judging(judge).layer(script.watch());
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 200);
    assert_eq!(script.seen().requests, [7, 7, 7]);
    assert_eq!(script.seen().alive, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_comes_back_as_ok() {
    for (steps, answer, requests) in [
        (&[Step::Answer(503)][..], 503, 4),         // no attempt is left
        (&[Step::Answer(500)], 500, 1),             // must not be sent again
        (&[Step::Fail, Step::Answer(404)], 404, 2), // no failure
    ] {
        let script = Script::new(steps);
        let service = RetryLayer::new(AT_ONCE).judging(judge).layer(script.watch());
        assert_eq!(service.oneshot(7).await.unwrap(), answer);
        assert_eq!(script.seen().requests.len(), requests, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_error_is_the_source_of_what_the_caller_gets() {
    let script = Script::new(&[Step::Answer(503), Step::Fail]);
    let service = RetryLayer::new(AT_ONCE).judging(judge).on("store").layer(script.watch());
    let gave_up = service.oneshot(7).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 4));
    assert_eq!(gave_up.upstream(), Some("store"));
    let source = std::error::Error::source(&gave_up).unwrap();
    assert_eq!(source.downcast_ref(), Some(&Down::Call));
}

/// An answer of an earlier attempt is no answer to a call whose last attempt was cut.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_does_not_end_with_an_earlier_answer() {
    let script = Script::new(&[Step::Answer(503), Step::Hang]);
    let policy = AT_ONCE.with_total_timeout(SECOND);
    let service = RetryLayer::new(policy).judging(judge).layer(script.watch());
    let began = Instant::now();
    let gave_up = service.oneshot(7).await.unwrap_err();
    assert_eq!(began.elapsed(), SECOND);
    assert_eq!((gave_up.reason(), gave_up.cut()), (StopReason::Deadline, Some(Cut::Deadline)));
    assert_eq!(script.seen().alive, 0);
}

/// The same holds if the token ends the wait.
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_does_not_end_with_an_earlier_answer() {
    let script = Script::new(&[Step::Answer(429)]);
    let token = CancellationToken::new();
    let service =
        RetryLayer::new(AT_ONCE).judging(judge).with_token(token.clone()).layer(script.watch());
    let cancel = async {
        tokio::time::sleep(SECOND / 2).await;
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(service.oneshot(7), cancel);
    assert_eq!(outcome.unwrap_err().reason(), StopReason::Cancelled);
    assert_eq!(script.seen().requests.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_an_answer_delays_the_next_attempt() {
    let script = Script::new(&[Step::Answer(429), Step::Answer(200)]);
    let service = RetryLayer::new(AT_ONCE).judging(judge).layer(script.watch());
    let began = Instant::now();
    assert_eq!(service.oneshot(7).await.unwrap(), 200);
    assert!(began.elapsed() >= SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_fails_counts_for_the_breaker_and_a_good_one_does_not() {
    static STORE: Upstream =
        Upstream::new("store").with_breaker(Breaker::new().with_consecutive(2));
    let script = Script::new(&[Step::Answer(500), Step::Answer(404), Step::Answer(500)]);
    let mut service = RetryLayer::new(AT_ONCE).judging(judge).on(&STORE).layer(script.watch());
    for answer in [500, 404, 500, 500] {
        assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), answer);
    }
    let refused = service.ready().await.unwrap().call(7).await.unwrap_err();
    assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
    assert_eq!(script.seen().requests.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn all_clones_share_the_budget() {
    static STORE: Upstream = Upstream::new("store").with_budget(Budget::new().with_capacity(2));
    let script = Script::new(&[Step::Fail]);
    let service = RetryLayer::new(AT_ONCE).on(&STORE).layer(script.watch());
    let first = service.clone().oneshot(1).await.unwrap_err();
    let second = service.oneshot(2).await.unwrap_err();
    assert_eq!((first.reason(), second.reason()), (StopReason::Budget, StopReason::Budget));
    assert_eq!(script.seen().requests, [1, 1, 1, 2]);
}

/// The order is not `Clone`, and the function sees which attempt it is for.
#[tokio::test(start_paused = true)]
async fn a_function_makes_each_request() {
    struct Order(u32);
    let script = Script::new(&[Step::Fail, Step::Fail, Step::Answer(200)]);
    let layer = RetryLayer::new(AT_ONCE)
        .replaying(|order: &Order, attempt| order.0 * 10 + attempt.number());
    assert_eq!(layer.layer(script.watch()).oneshot(Order(4)).await.unwrap(), 200);
    assert_eq!(script.seen().requests, [41, 42, 43]);
}

/// A classifier sees the error of the service by its own type.
#[tokio::test(start_paused = true)]
async fn the_classifier_of_the_policy_judges_errors() {
    let script = Script::new(&[Step::Fail]);
    let policy = AT_ONCE.with_classifier(|error: &Down| *error != Down::Call);
    let gave_up = RetryLayer::new(policy).layer(script.watch()).oneshot(7).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
}

#[tokio::test]
async fn an_upstream_may_have_its_own_clock() {
    let timer = ManualTimer::new();
    let upstream = std::sync::Arc::new(Upstream::named("store").with_timer(timer.clone()));
    let script = Script::new(&[Step::Answer(429), Step::Answer(200)]);
    let service = RetryLayer::new(AT_ONCE).judging(judge).on(upstream).layer(script.watch());
    let mut call = std::pin::pin!(service.oneshot(7));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    timer.advance(SECOND * 2);
    assert!(call.as_mut().poll(&mut cx).is_ready());
}

/// The next attempt does not find the last one alive.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_dropped_before_the_next_one() {
    let script = Script::new(&[Step::Hang, Step::After(SECOND)]);
    let policy = AT_ONCE.with_attempt_timeout(SECOND * 2);
    let mut call = Box::pin(RetryLayer::new(policy).layer(script.watch()).oneshot(7));
    let most = std::future::poll_fn(|cx| {
        let polled = call.as_mut().poll(cx);
        assert!(script.seen().alive <= 1);
        polled
    });
    assert_eq!(most.await.unwrap(), 200);
}

fn is_send<T: Send>(value: T) -> T {
    value
}

/// The future has no box, and it may be spawned if the service's future may.
#[tokio::test(start_paused = true)]
async fn a_call_can_be_spawned() {
    let script = Script::new(&[Step::Fail, Step::Answer(200)]);
    let mut service = RetryLayer::new(AT_ONCE).layer(script.watch());
    let call = is_send(service.ready().await.unwrap().call(7));
    assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), 200);
}
