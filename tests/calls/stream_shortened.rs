//! The time that the caller of a stream has left: `RetryStream::shortened_to`.

use std::future::{Ready, ready};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use resile::stream::Resumption;
use resile::{
    Attempt, Backoff, Breaker, GaveUp, Never, RetryPolicy, StopReason, Upstream, breaker,
    retry_stream,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Opens at once, and then yields an item each `every`.
fn ticks(
    every: Duration,
) -> Ready<Result<impl Stream<Item = Result<u32, &'static str>>, &'static str>> {
    ready(Ok(stream::iter(0..).then(move |n| async move {
        sleep(every).await;
        Ok(n)
    })))
}

/// Returns the error of a stream and the time of its end.
async fn end<S>(call: S) -> (GaveUp<&'static str>, Duration)
where
    S: Stream<Item = Result<u32, GaveUp<&'static str>>>,
{
    let began = Instant::now();
    let ends = call.filter_map(async |item| item.err());
    let gave_up = std::pin::pin!(ends).next().await.expect("an end");
    (gave_up, began.elapsed())
}

/// No setting has the number of such a deadline, so the words say whose it is.
#[tokio::test(start_paused = true)]
async fn a_stream_that_the_deadline_of_its_caller_ends_names_the_caller() {
    let left = Duration::from_micros(111_040);
    let policy = AT_ONCE.with_total_timeout(SECOND * 5);
    let flows = "did not end before";
    let caller = "the deadline of its caller after 111.0ms";
    let whole_of_two = "the limit on the whole (`with_whole_timeout`) after 2s";
    let none = "no content before the deadline of the call after";
    for (every, whole, left, later, words, took) in [
        (50, None, left, None, format!("{flows} {caller}"), left),
        (50, Some(2), left, None, format!("{flows} {caller}"), left),
        (50, Some(2), SECOND * 3, None, format!("{flows} {whole_of_two}"), SECOND * 2),
        // A setting that comes later replaces the time of the caller.
        (50, None, left, Some(2), format!("{flows} {whole_of_two}"), SECOND * 2),
        (500, None, left, None, format!("no content before {caller}"), left),
        (9_000, None, SECOND * 6, None, format!("{none} 5s"), SECOND * 5),
        (9_000, Some(2), SECOND * 6, None, format!("{none} 2s"), SECOND * 2),
    ] {
        let open = |_: Attempt| ticks(Duration::from_millis(every));
        let mut call = retry_stream(open, &policy, Never);
        if let Some(whole) = whole {
            call = call.with_whole_timeout(SECOND * whole);
        }
        call = call.shortened_to(left);
        if let Some(later) = later {
            call = call.with_whole_timeout(SECOND * later);
        }
        let (gave_up, ended) = end(call.on("feed")).await;
        let has_content = words.contains(flows);
        let reason = if has_content { StopReason::Partial } else { StopReason::Deadline };
        assert_eq!(
            (gave_up.reason(), ended.as_millis()),
            (reason, took.as_millis() + u128::from(took == left)),
            "{words}"
        );
        assert!(gave_up.to_string().ends_with(&format!("{words})")), "{gave_up}");
    }
}

/// The total timeout of the policy begins anew with the stream, and the time of its caller does not.
#[tokio::test(start_paused = true)]
async fn nothing_restarts_the_time_that_the_caller_has_left() {
    let told = std::cell::RefCell::new(Vec::new());
    let open = |attempt: Attempt| {
        told.borrow_mut().push(attempt.time_left().unwrap());
        let items = stream::iter([Ok(1), Ok(2), Err("reset")]);
        let items = items.then(|item| async move {
            sleep(SECOND).await;
            item
        });
        ready(Ok::<_, &str>(items))
    };
    let policy = AT_ONCE.with_attempts(u32::MAX).with_total_timeout(SECOND * 5);
    let [left, second, third] = [6_500, 3_500, 500].map(Duration::from_millis);
    let call = retry_stream(open, &policy, Never)
        .with_resumption(|_| Resumption::Resume)
        .shortened_to(left);
    let (gave_up, took) = end(call).await;
    assert_eq!((gave_up.reason(), took), (StopReason::Deadline, left));
    assert_eq!(told.into_inner(), [left, second, third]);
}

/// A caller in a hurry says nothing about the upstream. Half of the time that the policy allows says something.
#[tokio::test(start_paused = true)]
async fn an_upstream_is_not_blamed_for_a_caller_in_a_hurry() {
    let model = AT_ONCE.with_attempt_timeout(SECOND * 20);
    for (policy, left, is_blamed) in [
        (model, 1, false),
        (model, 9, false),
        (model, 10, true),
        (AT_ONCE.with_total_timeout(SECOND * 8), 3, false),
        (AT_ONCE.with_total_timeout(SECOND * 8), 4, true),
        (AT_ONCE, 3_600, false),
        // A stream whose policy is shortened too.
        (model.shortened_to(SECOND), 1, false),
    ] {
        let breaker = Breaker::new().without_failure_rate().with_consecutive(1);
        let upstream = Upstream::new("model").with_breaker(breaker);
        let open = |_: Attempt| ticks(SECOND * 10_000);
        let call = retry_stream(open, policy, Never).on(&upstream).shortened_to(SECOND * left);
        let (gave_up, took) = end(call).await;
        assert_eq!((gave_up.reason(), took), (StopReason::Deadline, SECOND * left));
        let state = if is_blamed { breaker::State::Open } else { breaker::State::Closed };
        assert_eq!(upstream.breaker().unwrap().state(), state, "{left} s left");
    }
}
