//! A fallback over streams: whether its consumer has a part of an answer, for each end.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use resile::classify::{ClassifyExt, Cut};
use resile::fallback::Alternative;
use resile::observe::Event;
use resile::stream::Part;
use resile::{
    Backoff, FallbackPolicy, GaveUp, Never, RetryPolicy, StopReason, Upstream, Verdict, fallback,
    retry_stream,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Ends a fallback after its first alternative.
fn forbids(_: &GaveUp<&'static str>) -> Verdict {
    Verdict::fatal()
}

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
    let ask = |it: Alternative<'_, u8>| ticks(SECOND, Some(it.remaining()));
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
         for the next attempt, part of the answer was already delivered (last failure: the \
         stream did not end before the limit on the whole (`with_whole_timeout`) after 5s)"
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

/// Without a classifier nobody wants another answer behind a part. A classifier of the program decides by
/// itself.
#[tokio::test(start_paused = true)]
async fn no_alternative_follows_a_part_unless_the_program_wants_it() {
    for is_cut in [false, true] {
        let tried = std::cell::Cell::new(0);
        let ask = |it: Alternative<'_, u8>| {
            tried.set(tried.get() + 1);
            let first = *it.value() == 1;
            async move {
                let open = async |_| {
                    let end = if is_cut { None } else { Some(Err("reset")) };
                    let rest = stream::iter(end).chain(stream::pending());
                    Ok(Box::pin(stream::iter([Ok::<_, &str>(1)]).chain(rest)))
                };
                let call = retry_stream(open, &AT_ONCE, Never);
                if first { call.try_for_each(|_| std::future::ready(Ok(()))).await } else { Ok(()) }
            }
        };
        let plain = FallbackPolicy::new().with_attempt_timeout(SECOND);
        let outer = fallback(&[1, 2], ask, plain, Never).on("chat").await.unwrap_err();
        assert_eq!((outer.reason(), outer.attempts(), tried.take()), (StopReason::Fatal, 1, 1));
        assert!(!outer.verdict().unwrap().is_again() && !outer.is_in_doubt(), "{outer:?}");
        let words = "chat: gave up after 1 alternative";
        let end = "no other alternative is tried after a part of the answer";
        assert!(outer.to_string().starts_with(words), "{outer}");
        assert!(outer.to_string().contains(&format!(", {end}")), "{outer}");
        assert!(!outer.to_string().contains("because"), "{outer}");
        assert!(!outer.to_string().contains("already delivered"), "{outer}");
        // A classifier that forbids it has the same cause.
        let forbids = plain.with_classifier(forbids.cut_is(Verdict::transient().not_again()));
        let line = RefCell::new(String::new());
        let note = |event: &Event<'_>| *line.borrow_mut() = event.to_string();
        let chat = Upstream::new("chat");
        let other = fallback(&[1, 2], ask, forbids, Never).on(chat.observed_by(&note));
        let other = other.await.unwrap_err();
        assert_eq!((other.to_string(), tried.take()), (outer.to_string(), 1));
        let words = format!("chat: gave up after 1 of 2 alternatives, {end}: ");
        assert!(line.take().starts_with(&words));
        assert!(outer.flatten().is_partial(), "is cut: {is_cut}");

        let wants = plain.with_classifier(any.cut_is(Verdict::transient()));
        fallback(&[1, 2], ask, wants, Never).await.unwrap();
        assert_eq!(tried.take(), 2);
    }
    // A stream without content has shown nothing.
    let ask = async |it: Alternative<'_, u8>| {
        let first = *it.value() == 1;
        let open =
            async |_| Ok::<_, &str>(stream::iter([if first { Err("reset") } else { Ok(1) }]));
        retry_stream(open, &AT_ONCE, Never).try_for_each(|_| std::future::ready(Ok(()))).await
    };
    fallback(&[1, 2], ask, FallbackPolicy::new(), Never).await.unwrap();
}

/// A fallback within a fallback: the outer one sees the part too.
#[tokio::test(start_paused = true)]
async fn an_outer_fallback_sees_the_part_of_an_inner_one() {
    let outer_tried = std::cell::Cell::new(0);
    let outer = async |_: Alternative<'_, u8>| {
        outer_tried.set(outer_tried.get() + 1);
        let open = async |_| Ok::<_, &str>(stream::iter([Ok(1), Err("reset")]));
        let inner = async |_: Alternative<'_, u8>| {
            retry_stream(open, &AT_ONCE, Never).try_for_each(|_| std::future::ready(Ok(()))).await
        };
        fallback(&[1, 2], inner, FallbackPolicy::new(), Never).await
    };
    fallback(&[1, 2], outer, FallbackPolicy::new(), Never).await.unwrap_err();
    assert_eq!(outer_tried.get(), 1);
}
