//! A fallback over streams: whether its consumer has a part of an answer, for each end.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use resile::classify::Cut;
use resile::fallback::Alternative;
use resile::stream::Part;
use resile::{
    Backoff, FallbackPolicy, GaveUp, Never, RetryPolicy, StopReason, Upstream, fallback,
    retry_stream,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Goes on to the next alternative after each end, also after a part of an answer.
fn any(_: &GaveUp<&'static str>) -> bool {
    true
}

/// Waits for `silence` and then yields an item each second. The items 3, 4 and 5 are content and 6
/// completes the answer.
async fn ticks(silence: Duration, whole: Option<Duration>) -> Result<(), GaveUp<&'static str>> {
    let open = async |_| {
        let ticks = stream::iter(0_u32..).then(move |n| async move {
            sleep(if n == 0 { silence } else { SECOND }).await;
            Ok::<_, &str>(n)
        });
        Ok(Box::pin(ticks))
    };
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(|item: &u32| match item {
        0..3 => Part::Preamble,
        3..6 => Part::Content,
        _ => Part::Complete,
    });
    let call = match whole {
        Some(whole) => call.with_whole_timeout(whole),
        None => call,
    };
    call.on("large").try_for_each(|_| std::future::ready(Ok(()))).await
}

/// The stream of an alternative ends as partial, and the fallback has no time for the next one.
#[tokio::test(start_paused = true)]
async fn a_part_is_told_whatever_ends_the_fallback() {
    let policy = FallbackPolicy::new().with_total_timeout(SECOND * 5).with_classifier(any);
    let ask = |it: Alternative<'_, u8>| ticks(SECOND, it.remaining());
    let outer = fallback(&[1, 2], ask, policy, Never).on("chat").await.unwrap_err();
    let inner = outer.last().unwrap();
    assert_eq!((inner.reason(), inner.is_partial()), (StopReason::Partial, true));
    let flat = outer.flatten();
    assert_eq!((flat.reason(), flat.attempts()), (StopReason::Deadline, 1));
    assert!(flat.is_partial() && !flat.verdict().unwrap().is_again(), "{flat:?}");
    assert_eq!(flat.cut(), Some(Cut::Deadline));
    assert_eq!(
        flat.to_string(),
        "chat: gave up after 1 alternative in 5.0s (the last one: large), no time of 5s is left \
         for the next attempt, part of the answer was already delivered (last failure: did not \
         finish before the deadline of the call after 5s)"
    );

    // The token ends the fallback between two alternatives.
    let token = CancellationToken::new();
    let ask = async |_: Alternative<'_, u8>| {
        let outcome = ticks(SECOND, Some(SECOND * 5)).await;
        token.cancel();
        outcome
    };
    let policy = FallbackPolicy::new().with_classifier(any);
    let flat = fallback(&[1, 2], ask, policy, &token).on("chat").await.unwrap_err().flatten();
    assert_eq!((flat.reason(), flat.is_partial()), (StopReason::Cancelled, true));
    assert!(flat.to_string().contains("(the last one: large), cancelled, part of"), "{flat}");
}

/// The fallback drops the stream of an alternative in flight.
#[tokio::test(start_paused = true)]
async fn a_part_is_told_if_the_fallback_drops_the_stream() {
    let total = |seconds| FallbackPolicy::new().with_total_timeout(SECOND * seconds);
    let ask = |_: Alternative<'_, u8>| ticks(SECOND, None);
    // Content comes after 4 s, and the answer is complete after 7 s.
    for (seconds, is_partial) in [(3, false), (5, true), (8, false)] {
        let policy = total(seconds).with_classifier(any);
        let outer = fallback(&[1], ask, policy, Never).on("chat").await.unwrap_err();
        assert_eq!((outer.cut(), outer.is_partial()), (Some(Cut::Deadline), is_partial));
        let flat = outer.flatten();
        assert_eq!((flat.reason(), flat.is_partial()), (StopReason::Deadline, is_partial));
        assert_eq!(flat.to_string().contains("part of the answer"), is_partial, "{flat}");
        if is_partial {
            assert!(!flat.verdict().unwrap().is_again(), "{flat:?}");
        }
    }
    // The same by the timeout of an alternative, and without a name.
    let policy = FallbackPolicy::new().with_attempt_timeout(SECOND * 5).with_classifier(any);
    let outer = fallback(&[1], ask, policy, Never).await.unwrap_err();
    assert_eq!((outer.cut(), outer.is_partial()), (Some(Cut::AttemptTimeout(SECOND * 5)), true));
    // The same by the token.
    let token = CancellationToken::new();
    let stops = async {
        sleep(SECOND * 5).await;
        token.cancel();
        std::future::pending::<()>().await;
    };
    let call = fallback(&[1], ask, FallbackPolicy::new(), &token).on("chat");
    let outer = tokio::select! { outcome = call => outcome.unwrap_err(), () = stops => return };
    assert_eq!((outer.reason(), outer.is_partial()), (StopReason::Cancelled, true));
}

/// The error of a flat fallback is an earlier one if the last alternative was dropped.
#[tokio::test(start_paused = true)]
async fn an_earlier_part_is_not_that_of_the_last_alternative() {
    let upstreams = [Upstream::new("large"), Upstream::new("small")];
    let token = CancellationToken::new();
    let ask = async |it: Alternative<'_, Upstream>| {
        if it.is_last() {
            token.cancel();
            std::future::pending::<()>().await;
        }
        ticks(SECOND, Some(SECOND * 5)).await
    };
    let policy = FallbackPolicy::new().with_classifier(any);
    let flat = fallback(&upstreams, ask, policy, &token).on("chat").await.unwrap_err().flatten();
    assert_eq!((flat.reason(), flat.attempts()), (StopReason::Cancelled, 2));
    assert!(!flat.is_partial() && !flat.to_string().contains("the last one"), "{flat}");
}
