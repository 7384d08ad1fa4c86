//! The limit on a whole stream: `RetryStream::with_whole_timeout`.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use proptest::prelude::*;
use resile::classify::Cut;
use resile::observe::{Event, EventKind};
use resile::stream::Resumption;
use resile::{
    Attempt, Backoff, Breaker, GaveUp, Health, Never, RetryPolicy, StopReason, Upstream, Verdict,
    retry_stream,
};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Opens after `opens`, and then yields an item each `every`.
async fn ticks(
    opens: Duration,
    every: Duration,
) -> Result<impl Stream<Item = Result<u32, &'static str>>, &'static str> {
    sleep(opens).await;
    Ok(stream::iter(0..).then(move |n| async move {
        sleep(every).await;
        Ok(n)
    }))
}

/// Returns the number of items, the error and the time of its end.
async fn end<S>(call: S) -> (usize, Option<GaveUp<&'static str>>, Duration)
where
    S: Stream<Item = Result<u32, GaveUp<&'static str>>>,
{
    let began = Instant::now();
    let mut call = std::pin::pin!(call);
    let mut items = 0;
    while let Some(next) = call.next().await {
        match next {
            Ok(_) => items += 1,
            Err(gave_up) => return (items, Some(gave_up), began.elapsed()),
        }
    }
    (items, None, began.elapsed())
}

/// An upstream that is told of a time ends the stream by it. The timeouts of the policy do not do that.
#[tokio::test(start_paused = true)]
async fn an_attempt_has_the_time_that_is_left_for_the_whole_stream() {
    let policy = AT_ONCE.with_attempt_timeout(SECOND).with_total_timeout(SECOND * 3);
    for (whole, left) in [(None, [None; 3]), (Some(10), [Some(10), Some(9), Some(8)])] {
        let seen = std::cell::RefCell::new(vec![]);
        let open = |attempt: Attempt| {
            seen.borrow_mut().push(attempt.time_left());
            assert_eq!(attempt.remaining(), Some(SECOND * (4 - attempt.number())));
            ticks(SECOND * 2, SECOND)
        };
        let mut call = retry_stream(open, &policy, Never);
        if let Some(whole) = whole {
            call = call.with_whole_timeout(SECOND * whole);
        }
        let gave_up = end(call).await.1.unwrap();
        assert_eq!(gave_up.attempts(), 3);
        assert_eq!(seen.into_inner(), left.map(|it| it.map(|it| SECOND * it)));
    }
}

/// The upstream was told of the limit and ends the stream shortly before it, such as by `DEADLINE_EXCEEDED`. That is the end
/// by the limit, and not a failure of the upstream. An earlier such end is a failure.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_ends_the_stream_at_the_limit_is_not_blamed() {
    for (millis, reason, state) in [
        (920, StopReason::Partial, resile::breaker::State::Closed),
        (800, StopReason::Fatal, resile::breaker::State::Open),
    ] {
        let feed = Upstream::new("feed").with_breaker(Breaker::new().with_consecutive(1));
        let open = async |_: Attempt| {
            let items = ticks(Duration::ZERO, Duration::from_millis(300)).await?.take(2);
            let late = stream::once(async move {
                sleep(Duration::from_millis(millis - 600)).await;
                Err("late")
            });
            Ok::<_, &str>(items.chain(late))
        };
        let late = |_: &&str| Verdict::fatal().with_health(Health::Failing).late();
        let policy = AT_ONCE.with_classifier(late);
        let call = retry_stream(open, policy, Never)
            .with_resumption(|_| Resumption::Resume)
            .with_whole_timeout(SECOND)
            .on(&feed);
        let (items, gave_up, took) = end(call).await;
        let gave_up = gave_up.unwrap();
        assert_eq!((items, took), (2, Duration::from_millis(millis)));
        assert_eq!((gave_up.reason(), gave_up.is_partial()), (reason, true), "{gave_up}");
        assert_eq!(feed.breaker().unwrap().state(), state);
        let is_limit =
            gave_up.to_string().contains("the limit on the whole (`with_whole_timeout`)");
        assert_eq!(is_limit, reason == StopReason::Partial, "{gave_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_flows_ends_at_the_limit_as_partial() {
    let open = |_: Attempt| ticks(SECOND, SECOND);
    let short = AT_ONCE.with_total_timeout(SECOND * 3); // until the first content
    let call = retry_stream(open, &short, Never).with_whole_timeout(SECOND * 10 + SECOND / 2);
    let health = std::cell::Cell::new(None);
    let note = |event: &Event<'_>| {
        if let EventKind::GaveUp { failure, .. } = event.kind {
            health.set(Some(failure.health()));
        }
    };
    let feed = Upstream::new("feed");
    let (items, gave_up, took) = end(call.on(feed.observed_by(&note))).await;
    assert_eq!(health.get(), Some(Health::Unknown), "the upstream is not blamed");
    let gave_up = gave_up.unwrap();
    assert_eq!((items, took), (9, SECOND * 10 + SECOND / 2));
    assert_eq!((gave_up.reason(), gave_up.cut()), (StopReason::Partial, Some(Cut::Deadline)));
    let words = "feed: gave up after 1 attempt in 10.5s, part of the answer was already delivered \
                 (last failure: the stream did not end before the limit on the whole \
                 (`with_whole_timeout`) after 10.5s)";
    assert_eq!(gave_up.to_string(), words);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_content_ends_at_the_limit_as_a_deadline() {
    for opens in [SECOND, SECOND * 100] {
        let open = |_: Attempt| ticks(opens, SECOND * 100);
        let call = retry_stream(open, &AT_ONCE, Never).with_whole_timeout(SECOND * 10);
        let (items, gave_up, took) = end(call).await;
        assert_eq!((items, took), (0, SECOND * 10));
        assert_eq!(gave_up.unwrap().reason(), StopReason::Deadline);
    }
}

/// The total timeout restarts when a stream is opened again, and the limit on the whole does not.
#[tokio::test(start_paused = true)]
async fn nothing_restarts_the_limit_on_the_whole() {
    let open = |_: Attempt| async {
        let items = stream::iter([Ok(1), Ok(2), Err("reset")]);
        Ok::<_, &str>(items.then(|item| async move {
            sleep(SECOND).await;
            item
        }))
    };
    let policy = AT_ONCE.with_attempts(u32::MAX).with_total_timeout(SECOND * 5);
    let call = retry_stream(open, &policy, Never)
        .with_resumption(|_| Resumption::Resume)
        .with_whole_timeout(SECOND * 20 + SECOND / 2);
    let (items, gave_up, took) = end(call).await;
    assert_eq!((items, took), (14, SECOND * 20 + SECOND / 2));
    assert_eq!(gave_up.unwrap().reason(), StopReason::Partial);
}

/// A sender that is never silent is never pending, so no sleep can cut it.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_ready_ends_at_the_limit() {
    let open = |_: Attempt| async {
        Ok::<_, &str>(stream::iter(0_u32..).map(|n| {
            std::thread::yield_now();
            Ok(n)
        }))
    };
    let call = retry_stream(open, &AT_ONCE, Never).with_whole_timeout(SECOND * 5);
    let mut call = std::pin::pin!(call);
    for wanted in 0..5 {
        assert_eq!(call.next().await, Some(Ok(wanted)));
        tokio::time::advance(SECOND).await;
    }
    let gave_up = call.next().await.unwrap().unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.elapsed()), (StopReason::Partial, SECOND * 5));
    assert_eq!(call.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_polls_once() {
    let open = |_: Attempt| async { Ok::<_, &str>(stream::iter([Ok(1_u32), Ok(2)])) };
    let call = retry_stream(open, &AT_ONCE, Never).with_whole_timeout(Duration::ZERO);
    let (items, gave_up, took) = end(call).await;
    assert_eq!((items, took), (1, Duration::ZERO));
    assert_eq!(gave_up.unwrap().reason(), StopReason::Partial);
    let call = retry_stream(|_| ticks(SECOND, SECOND), &AT_ONCE, Never);
    let (items, gave_up, took) = end(call.with_whole_timeout(Duration::ZERO)).await;
    assert_eq!((items, took), (0, Duration::ZERO));
    assert_eq!(gave_up.unwrap().reason(), StopReason::Deadline);
}

/// The longest limit is not an end: the stream ends by itself.
#[tokio::test(start_paused = true)]
async fn the_longest_limit_never_ends_a_stream() {
    let open = |_: Attempt| async { Ok::<_, &str>(ticks(SECOND, SECOND).await?.take(3)) };
    let call = retry_stream(open, &AT_ONCE, Never).with_whole_timeout(Duration::MAX);
    assert_eq!(end(call).await, (3, None, SECOND * 4));
}

/// A long answer is not a failure of its upstream. Without any content it is one.
#[tokio::test(start_paused = true)]
async fn an_upstream_is_not_blamed_for_a_long_answer() {
    for (every, is_blamed) in [(SECOND, false), (SECOND * 100, true)] {
        let breaker = Breaker::new().without_failure_rate().with_consecutive(1);
        let upstream = Upstream::new("model").with_breaker(breaker);
        let open = move |_: Attempt| ticks(SECOND, every);
        let call = retry_stream(open, &AT_ONCE, Never).on(&upstream);
        let (_, gave_up, took) = end(call.with_whole_timeout(SECOND * 10)).await;
        assert_eq!((gave_up.is_some(), took), (true, SECOND * 10));
        let refused = upstream.try_admit().is_err();
        assert_eq!(refused, is_blamed, "an item each {every:?}");
    }
}

proptest! {
    /// Whatever the sender does, the stream ends in the time given, and not earlier.
    #[test]
    fn every_stream_ends_in_the_time_given(
        opens in 0_u64..5_000,
        every in 1_u64..5_000,
        total in 1_u64..20_000,
        whole in 0_u64..20_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let millis = Duration::from_millis;
        let policy = AT_ONCE.with_attempts(1).with_total_timeout(millis(total));
        let (items, gave_up, took) = runtime.block_on(async {
            let open = |_: Attempt| ticks(millis(opens), millis(every));
            let call = retry_stream(open, &policy, Never).with_whole_timeout(millis(whole));
            end(call).await
        });
        let gave_up = gave_up.unwrap();
        let first = opens + every;
        // At the same millisecond both the item and the limit are ready: the item comes first.
        if first > whole.min(total) {
            prop_assert_eq!((items, took), (0, millis(whole.min(total))));
            prop_assert_eq!(gave_up.reason(), StopReason::Deadline);
        } else {
            prop_assert_eq!(took, millis(whole));
            prop_assert_eq!(gave_up.reason(), StopReason::Partial);
            prop_assert!(items >= 1 && items as u64 <= 1 + (whole - first) / every, "{}", items);
        }
    }
}

/// The timeouts of an attempt and of the call limit the wait for the first content, so the words of a cut say
/// so. An answer is not cut after them.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_before_its_first_content_says_so() {
    let lines = std::cell::RefCell::new(Vec::new());
    let note = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waiting { .. } | EventKind::GaveUp { .. }) {
            lines.borrow_mut().push(event.to_string());
        }
    };
    let feed = Upstream::new("feed");
    let open = |_: Attempt| ticks(SECOND * 60, SECOND);
    let twice = AT_ONCE.with_attempts(2).with_classifier(resile::classify::Always);
    let cut = twice.with_attempt_timeout(SECOND * 3);
    let (_, gave_up, _) = end(retry_stream(open, &cut, Never).on(feed.observed_by(&note))).await;
    assert_eq!(
        gave_up.unwrap().to_string(),
        "feed: gave up after 2 attempts in 6.0s (last failure: no content within 3s)"
    );
    let late = twice.with_total_timeout(SECOND * 8);
    let (_, gave_up, _) = end(retry_stream(open, &late, Never).on(feed.observed_by(&note))).await;
    let no_content = "no content before the deadline of the call after 8s";
    assert_eq!(
        gave_up.unwrap().to_string(),
        format!("feed: gave up after 1 attempt in 8.0s (last failure: {no_content})")
    );
    assert_eq!(
        lines.take(),
        [
            "feed: attempt 1 of 2 failed, retrying at once: no content within 3s",
            "feed: gave up after 2 of 2 attempts: no content within 3s",
            &format!("feed: gave up after 1 of 2 attempts: {no_content}"),
        ]
    );
    // The caller has less time than the policy allows, but more than the whole stream gets.
    for (whole, whose) in [(9, "its caller after 7s"), (6, "the call after 6s")] {
        let hurried = late.shortened_to(SECOND * 7);
        let stream = retry_stream(open, &hurried, Never).with_whole_timeout(SECOND * whole);
        let (_, gave_up, _) = end(stream.on(&feed)).await;
        let words = gave_up.unwrap().to_string();
        assert!(
            words.ends_with(&format!(" no content before the deadline of {whose})")),
            "{words}"
        );
    }
}
