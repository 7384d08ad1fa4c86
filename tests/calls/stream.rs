//! `resile::retry_stream` and the timeouts on a stream's silence.
//!
//! The test named `trap_12_…` stands for point 12 of the section "The behaviour" in `COMPARE.md`.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, FusedStream};
use futures_util::{FutureExt, Stream, StreamExt};
use proptest::prelude::*;
use resile::classify::Cut;
use resile::observe::Event;
use resile::stream::{Part, Resumption};
use resile::time::ManualTimer;
use resile::timeout::{Elapsed, Error};
use resile::{
    Attempt, Backoff, Budget, GaveUp, Never, RetryPolicy, StopReason, StreamResilienceExt,
    Upstream, Verdict, retry_stream,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

pub(crate) type Step = Result<u32, Error<&'static str>>;

/// Items below 10 are preamble, 99 is the end, and the others are content.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn parts(item: &u32) -> Part {
    match item {
        0..10 => Part::Preamble,
        99 => Part::End,
        _ => Part::Content,
    }
}

pub(crate) const RESET: Step = Err(Error::Operation("reset"));

/// Attempt n yields the n-th row. A row that begins with an error does not open.
fn rows<const N: usize>(
    rows: [&'static [Step]; N],
) -> impl FnMut(Attempt) -> std::future::Ready<Result<BoxStream<'static, Step>, Error<&'static str>>>
{
    move |attempt| {
        let row = rows[attempt.number() as usize - 1];
        ready(match row.first() {
            Some(Err(error)) => Err(*error),
            _ => Ok(stream::iter(row.iter().copied()).boxed()),
        })
    }
}

/// Collects the items of a stream and the reason for its end.
pub(crate) async fn all<S: Stream<Item = Result<u32, GaveUp<Error<&'static str>>>>>(
    stream: S,
) -> (Vec<u32>, Option<(StopReason, u32)>) {
    let mut stream = std::pin::pin!(stream);
    let (mut items, mut end) = (vec![], None);
    while let Some(next) = stream.next().await {
        assert_eq!(end, None, "nothing comes after an error");
        match next {
            Ok(item) => items.push(item),
            Err(gave_up) => end = Some((gave_up.reason(), gave_up.attempts())),
        }
    }
    assert!(stream.next().await.is_none());
    (items, end)
}

#[tokio::test(start_paused = true)]
async fn before_content_every_failure_is_retried_and_hidden() {
    let open = rows([&[RESET], &[Ok(1), RESET], &[Ok(2), Ok(3), Ok(50), Ok(99)]]);
    assert_eq!(
        all(retry_stream(open, &AT_ONCE, Never).with_parts(parts)).await,
        (vec![2, 3, 50, 99], None)
    );
    let open = rows([&[], &[Ok(1)], &[Ok(2), Ok(99), Ok(98)]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts).with_required_end();
    assert_eq!(all(call).await, (vec![2, 99], None), "no item is read after the end");
}

#[tokio::test(start_paused = true)]
async fn trap_12_after_content_nothing_is_retried_silently() {
    let opened = Cell::new(0);
    let mut open = rows([&[Ok(1), Ok(50), RESET], &[Ok(60), Ok(99)]]);
    let open = |attempt| {
        opened.set(opened.get() + 1);
        open(attempt)
    };
    assert_eq!(
        all(retry_stream(open, &AT_ONCE, Never).with_parts(parts)).await,
        (vec![1, 50], Some((StopReason::Partial, 1)))
    );
    assert_eq!(opened.get(), 1);
    // Without a function for the parts, each item is content.
    let open = rows([&[Ok(1), RESET], &[Ok(60)]]);
    assert_eq!(
        all(retry_stream(open, &AT_ONCE, Never)).await,
        (vec![1], Some((StopReason::Partial, 1)))
    );
    // A stream that ends without its last item has failed if the end is required.
    let open = rows([&[Ok(50)], &[Ok(99)]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts).with_required_end();
    let ended: Vec<_> = call.collect().await;
    let gave_up = ended.last().unwrap().as_ref().unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.cut(), gave_up.last()),
        (StopReason::Partial, Some(Cut::Stream), None),
        "a cut stream has no error of its own"
    );
    assert!(
        gave_up.to_string().ends_with("(last failure: the stream ended before its last item)"),
        "{gave_up}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_ends_the_stream_as_fatal() {
    let policy = AT_ONCE.with_classifier(|_: &Error<&str>| Verdict::fatal());
    let open = rows([&[Ok(50), RESET]]);
    assert_eq!(
        all(retry_stream(open, &policy, Never)).await,
        (vec![50], Some((StopReason::Fatal, 1)))
    );
    let open = rows([&[Ok(1), RESET]]);
    assert_eq!(
        all(retry_stream(open, &policy, Never).with_parts(parts)).await,
        (vec![], Some((StopReason::Fatal, 1)))
    );
}

#[tokio::test(start_paused = true)]
async fn restart_yields_a_marker_first_and_once() {
    let open = rows([&[Ok(1), Ok(50), RESET], &[Ok(2), RESET], &[Ok(3), Ok(60), Ok(99)]]);
    let call = retry_stream(open, &AT_ONCE, Never)
        .with_parts(parts)
        .with_resumption(|_| Resumption::Restart(1000));
    assert_eq!(all(call).await, (vec![1, 50, 1000, 3, 60, 99], None));
    // There is no marker if there is no other attempt.
    let open = rows([&[Ok(50), RESET]]);
    let policy = AT_ONCE.with_attempts(1);
    let call = retry_stream(open, &policy, Never).with_resumption(|_| Resumption::Restart(1000));
    assert_eq!(all(call).await, (vec![50], Some((StopReason::Attempts, 1))));
}

#[tokio::test(start_paused = true)]
async fn resume_continues_the_stream() {
    let next = Cell::new(50);
    let open = |_| {
        let from = next.get();
        ready(Ok::<_, Error<&str>>(stream::iter((from..from + 2).map(Ok).chain([RESET]))))
    };
    let parts = |item: &u32| {
        next.set(item + 1);
        if *item == 55 { Part::End } else { Part::Content }
    };
    let call = retry_stream(open, &AT_ONCE, Never)
        .with_parts(parts)
        .with_resumption(|_| Resumption::Resume);
    assert_eq!(all(call).await, (vec![50, 51, 52, 53, 54, 55], None));
}

#[tokio::test(start_paused = true)]
async fn the_preamble_is_bounded() {
    let open = rows([&[Ok(1), Ok(2), Ok(3), RESET], &[Ok(60)]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts).with_preamble_cap(2);
    assert_eq!(all(call).await, (vec![1, 2, 3], Some((StopReason::Partial, 1))));
    let endless = |_| ready(Ok::<_, Error<&str>>(stream::repeat(Ok::<u32, _>(1))));
    let mut call = std::pin::pin!(retry_stream(endless, &AT_ONCE, Never).with_parts(parts));
    assert!(matches!(call.next().now_or_never(), Some(Some(Ok(1)))));
    // A stream that has only a preamble and ends well yields its preamble.
    let open = rows([&[Ok(1), Ok(2)]]);
    assert_eq!(
        all(retry_stream(open, &AT_ONCE, Never).with_parts(parts)).await,
        (vec![1, 2], None)
    );
}

/// Yields content, then the end after this many seconds of silence.
fn slow(silence: u32) -> BoxStream<'static, Step> {
    let end = async move {
        tokio::time::sleep(SECOND * silence).await;
        Ok(99)
    };
    stream::iter([Ok(1), Ok(50)]).chain(stream::once(end)).boxed()
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_with_the_first_content() {
    let policy = AT_ONCE.with_total_timeout(10 * SECOND);
    let began = Instant::now();
    let call = retry_stream(|_| ready(Ok(slow(1000))), &policy, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![1, 50, 99], None));
    assert_eq!(began.elapsed(), 1000 * SECOND);

    let silent = |_| ready(Ok(stream::iter([Ok(1)]).chain(stream::pending::<Step>())));
    let began = Instant::now();
    let call = retry_stream(silent, &policy, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![], Some((StopReason::Deadline, 1))));
    assert_eq!(began.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_reopened_stream_has_the_whole_total_timeout_again() {
    let policy = AT_ONCE.with_total_timeout(10 * SECOND);
    let (began, left) = (Instant::now(), RefCell::new(vec![]));
    let open = |attempt: Attempt| {
        left.borrow_mut().push((attempt.remaining().unwrap(), attempt.elapsed()));
        ready(Ok(match attempt.number() {
            1 => slow(1000)
                .filter(|item| ready(*item != Ok(99)))
                .chain(stream::iter([RESET]))
                .boxed(),
            _ => stream::pending::<Step>().boxed(),
        }))
    };
    let call = retry_stream(open, &policy, Never)
        .with_parts(parts)
        .with_resumption(|_| Resumption::Restart(1000));
    assert_eq!(all(call).await, (vec![1, 50], Some((StopReason::Deadline, 2))));
    assert_eq!(began.elapsed(), 1010 * SECOND);
    assert_eq!(left.into_inner(), [(10 * SECOND, Duration::ZERO), (10 * SECOND, 1000 * SECOND)]);
}

#[tokio::test(start_paused = true)]
async fn the_policy_sets_hints_and_attempts() {
    let policy = RetryPolicy::new()
        .with_attempts(2)
        .with_classifier(|_: &Error<&str>| Verdict::throttled().after(20 * SECOND));
    let began = Instant::now();
    let open = rows([&[Ok(1), RESET], &[RESET]]);
    let mut call = std::pin::pin!(retry_stream(open, &policy, Never).with_parts(parts));
    let gave_up = call.next().await.unwrap().unwrap_err();
    assert!(began.elapsed() >= 20 * SECOND && began.elapsed() < 25 * SECOND);
    assert_eq!(
        (gave_up.reason(), gave_up.retry_after()),
        (StopReason::Attempts, Some(20 * SECOND))
    );
    assert!(call.is_terminated());
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_opening_waiting_silence_and_a_flood() {
    let token = CancellationToken::new();
    let stop_soon = || {
        let token = CancellationToken::new();
        let stop = token.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            stop.cancel();
        });
        token
    };
    let hangs = |_| std::future::pending::<Result<BoxStream<'static, Step>, Error<&str>>>();
    assert_eq!(
        all(retry_stream(hangs, &AT_ONCE, stop_soon())).await,
        (vec![], Some((StopReason::Cancelled, 1)))
    );
    let waits = RetryPolicy::new()
        .with_classifier(|_: &Error<&str>| Verdict::transient().after(60 * SECOND));
    assert_eq!(
        all(retry_stream(rows([&[RESET]]), &waits, stop_soon())).await,
        (vec![], Some((StopReason::Cancelled, 1)))
    );
    let silent = retry_stream(|_| ready(Ok(slow(1000))), &AT_ONCE, stop_soon());
    assert_eq!(all(silent).await, (vec![1, 50], Some((StopReason::Cancelled, 1))));
    let flood = |_| ready(Ok::<_, Error<&str>>(stream::repeat(Ok::<u32, _>(50))));
    let seen = Cell::new(0);
    let flood = retry_stream(flood, &AT_ONCE, &token).inspect(|_| {
        seen.set(seen.get() + 1);
        if seen.get() == 7 {
            token.cancel();
        }
    });
    assert_eq!(all(flood.take(100)).await.1, Some((StopReason::Cancelled, 1)));
    assert_eq!(seen.get(), 8);
    // A cancelled token opens no stream.
    let never =
        |_| -> std::future::Ready<Result<BoxStream<'static, Step>, Error<&str>>> { unreachable!() };
    assert_eq!(
        all(retry_stream(never, &AT_ONCE, &token)).await,
        (vec![], Some((StopReason::Cancelled, 0)))
    );
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_stream_spend_tokens_and_only_its_end_deposits() {
    let upstream =
        Upstream::new("feed").with_budget(Budget::new().with_capacity(1).with_deposit(1.0));
    let available = || upstream.budget().unwrap().available();
    let events = RefCell::new(vec![]);
    let observer = |event: &Event<'_>| events.borrow_mut().push(event.to_string());
    let open = rows([&[RESET], &[Ok(50), Ok(51)]]);
    let mut call =
        Box::pin(retry_stream(open, &AT_ONCE, Never).on(upstream.observed_by(&observer)));
    assert_eq!(call.next().await.unwrap().unwrap(), 50);
    assert_eq!(available(), 0);
    assert_eq!(call.next().await.unwrap().unwrap(), 51);
    assert_eq!(available(), 0);
    assert!(call.next().await.is_none());
    assert_eq!(available(), 1);
    drop(call);
    assert_eq!(
        events.into_inner(),
        [
            "feed: attempt 1 of 3 starts",
            "feed: attempt 1 of 3 failed: reset",
            "feed: attempt 1 of 3 failed, retrying at once: reset",
            "feed: attempt 2 of 3 starts",
            "feed: attempt 2 of 3 succeeded",
        ]
    );

    let empty = Upstream::new("feed").with_budget(Budget::new().with_capacity(0));
    let call = retry_stream(rows([&[RESET]]), &AT_ONCE, Never).on(&empty);
    assert_eq!(all(call).await, (vec![], Some((StopReason::Budget, 1))));
}

/// Point 13 of "The behaviour" in `COMPARE.md`.
#[tokio::test]
async fn instant_failures_of_a_stream_yield() {
    let policy = AT_ONCE.with_attempts(u32::MAX);
    let token = CancellationToken::new();
    let stop = token.clone();
    let fails = |_| ready(Ok::<_, Error<&str>>(stream::iter([RESET])));
    let call = all(retry_stream(fails, &policy, &token));
    let (ended, ()) = tokio::join!(call, async move { stop.cancel() });
    assert_eq!(ended.1.unwrap().0, StopReason::Cancelled);
}

/// A stream may be dropped after any number of polls. Nothing is left open, and only attempts that
/// began have spent tokens.
#[test]
fn a_stream_dropped_at_any_await_leaves_nothing_behind() {
    static OPEN: AtomicU32 = AtomicU32::new(0);
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let mut last = 0;
    for polls in 0..20 {
        let timer = ManualTimer::new();
        let budget = Budget::new().with_capacity(10).with_deposit(0.0);
        let upstream = Upstream::new("feed").with_budget(budget).with_timer(timer.clone());
        let policy =
            RetryPolicy::new().with_backoff(Backoff::fixed(SECOND)).with_total_timeout(60 * SECOND);
        let begun = Cell::new(0);
        let open = |attempt: Attempt| {
            begun.set(attempt.number());
            OPEN.fetch_add(1, Ordering::Relaxed);
            let held = Held;
            async move {
                tokio::task::yield_now().await;
                let items = if attempt.number() < 3 {
                    vec![Ok(1), RESET]
                } else {
                    vec![Ok(2), Ok(50), Ok(99)]
                };
                let one_by_one = stream::iter(items).then(|item| async move {
                    tokio::task::yield_now().await;
                    item
                });
                Ok::<_, Error<&str>>(one_by_one.map(move |item: Step| {
                    let _ = &held;
                    item
                }))
            }
        };
        let mut call = Box::pin(retry_stream(open, &policy, Never).with_parts(parts).on(&upstream));
        let mut ended = false;
        for _ in 0..polls {
            match call.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(None) => ended = true,
                Poll::Ready(Some(item)) => assert!(item.is_ok()),
                Poll::Pending => timer.advance(SECOND),
            }
        }
        drop(call);
        assert_eq!((OPEN.load(Ordering::Relaxed), timer.sleepers()), (0, 0));
        assert_eq!(upstream.budget().unwrap().available(), 10 - begun.get().max(1) + 1);
        last = if ended { polls } else { last };
    }
    assert!(last > 0, "some streams must reach their end");
}

#[test]
fn a_stream_is_send_if_its_parts_are() {
    fn is_send<T: Send>(_: &T) {}
    let name = String::from("borrowed");
    is_send(&retry_stream(
        |_| async { Ok(stream::iter([Ok::<_, ()>(name.len())])) },
        &AT_ONCE,
        Never,
    ));
}

/// Yields an item at each of these seconds, then nothing.
fn pings(at: &'static [u64]) -> impl Stream<Item = Result<u64, Elapsed>> {
    let began = Instant::now();
    stream::iter(at)
        .then(move |&at| async move {
            tokio::time::sleep_until(began + Duration::from_secs(at)).await;
            Ok(at)
        })
        .chain(stream::pending())
}

async fn until_cut<S: Stream<Item = Result<u64, Elapsed>>>(stream: S) -> (usize, String, u64) {
    let began = Instant::now();
    let mut stream = std::pin::pin!(stream);
    let mut items = 0;
    loop {
        match stream.next().await.expect("no end before the error") {
            Ok(_) => items += 1,
            Err(elapsed) => {
                assert!(stream.next().await.is_none());
                return (items, elapsed.to_string(), began.elapsed().as_secs());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_timeout_on_silence_ends_the_stream() {
    const AT: &[u64] = &[1, 5, 12, 18, 30];
    let limit = 10 * SECOND;
    assert_eq!(
        until_cut(pings(AT).idle_timeout(limit)).await,
        (4, "no item within 10s (`idle_timeout`)".into(), 28)
    );
    assert_eq!(
        until_cut(pings(&[11]).first_item_timeout(limit)).await,
        (0, "no first item within 10s (`first_item_timeout`)".into(), 10)
    );
    let first = pings(AT).first_item_timeout(SECOND * 2).take(5).collect::<Vec<_>>().await;
    assert!(first.iter().all(Result::is_ok));
    // Only even seconds are progress: 12, 18 and 30.
    let progress = pings(AT).progress_timeout(SECOND * 13, |at| at % 2 == 0);
    assert_eq!(
        until_cut(progress).await,
        (5, "no progress within 13s (`progress_timeout`)".into(), 43)
    );
    let progress = pings(AT).progress_timeout(limit, |at| at % 2 == 0);
    assert_eq!(
        until_cut(progress).await,
        (2, "no progress within 10s (`progress_timeout`)".into(), 10)
    );
}

/// Yields each item after this many seconds.
fn delayed<const N: usize>(after: [(u64, Step); N]) -> impl Stream<Item = Step> {
    stream::iter(after).then(|(seconds, item)| async move {
        tokio::time::sleep(SECOND * u32::try_from(seconds).unwrap()).await;
        item
    })
}

/// An error is an item, so it restarts the timeouts.
#[tokio::test(start_paused = true)]
async fn an_error_item_restarts_the_timeouts() {
    let limit = SECOND * 10;
    let even = |item: &u32| item % 2 == 0;
    let all = [RESET, Ok(2), Ok(4)];
    let steps = || delayed([(9, all[0]), (5, all[1]), (9, all[2])]);
    assert_eq!(steps().idle_timeout(limit).collect::<Vec<_>>().await, all);
    assert_eq!(steps().first_item_timeout(limit).collect::<Vec<_>>().await, all);
    assert_eq!(steps().progress_timeout(limit, even).collect::<Vec<_>>().await, all);
    // The timeouts still apply, counted from the error.
    let words = |items: Vec<Step>| {
        items.into_iter().map(|item| item.err().map(|e| e.to_string())).collect::<Vec<_>>()
    };
    let silent = || delayed([(9, RESET), (11, Ok(2))]);
    let cut = |cut: &str| vec![Some("reset".to_owned()), Some(cut.to_owned())];
    assert_eq!(
        words(silent().idle_timeout(limit).collect().await),
        cut("no item within 10s (`idle_timeout`)")
    );
    assert_eq!(
        words(silent().progress_timeout(limit, even).collect().await),
        cut("no progress within 10s (`progress_timeout`)")
    );
    assert_eq!(
        words(silent().first_item_timeout(limit).collect().await),
        [Some("reset".to_owned()), None]
    );
}

/// A stream may never be silent and never make progress. No poll is pending, but the stream is
/// still cut.
#[tokio::test(start_paused = true)]
async fn a_flood_without_progress_is_cut() {
    let began = Instant::now();
    let flood = stream::repeat(Ok::<u64, Elapsed>(0)).progress_timeout(SECOND, |_| false).take(100);
    let mut flood = std::pin::pin!(flood);
    while flood.next().await.unwrap().is_ok() {
        tokio::time::advance(Duration::from_millis(100)).await; // the time of the consumer
    }
    assert!(began.elapsed() >= SECOND && began.elapsed() < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_slow_consumer_does_not_count() {
    let mut items =
        std::pin::pin!(stream::iter([Ok::<u64, Elapsed>(1), Ok(2)]).idle_timeout(SECOND));
    while let Some(item) = items.next().await {
        item.unwrap();
        tokio::time::advance(100 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_item_takes_precedence_over_a_timeout_of_zero() {
    let zero = Duration::ZERO;
    let items = stream::iter([Ok::<u64, Elapsed>(1)]).chain(stream::pending());
    assert_eq!(until_cut(items.idle_timeout(zero)).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn silence_before_content_is_retried() {
    let open = |attempt: Attempt| {
        let silence = if attempt.is_first() { stream::pending::<Step>().boxed() } else { slow(5) };
        ready(Ok(stream::iter([Ok(1)]).chain(silence).idle_timeout(20 * SECOND)))
    };
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts).with_required_end();
    assert_eq!(all(call).await, (vec![1, 1, 50, 99], None));
}

proptest! {
    /// Random rows of items give the items of a simple model.
    #[test]
    fn a_stream_yields_the_items_of_the_model(
        rows in prop::collection::vec(prop::collection::vec(0_u8..4, 0..6), 4),
        attempts in 1_u32..=4, resumption in 0_u8..3, cap in 0_usize..4, required: bool,
    ) {
        // 0: preamble, 1: content, 2: an error, 3: the last item.
        let (mut wanted, mut ended, mut marker) = (vec![], None, vec![]);
        'attempts: for (n, row) in (1..=attempts).zip(&rows) {
            let (mut held, mut flowing) = (vec![], false);
            let mut failed = required;
            for kind in row {
                match kind {
                    2 => { failed = true; break }
                    0 if !flowing && held.len() < cap => held.push(0),
                    kind => {
                        flowing = true;
                        wanted.append(&mut marker);
                        wanted.append(&mut held);
                        wanted.push(u32::from(*kind));
                    }
                }
                if *kind == 3 { break 'attempts }
            }
            if !failed { wanted.append(&mut marker); wanted.append(&mut held); break }
            if flowing && resumption == 0 { ended = Some((StopReason::Partial, n)); break }
            if n == attempts { ended = Some((StopReason::Attempts, n)); break }
            if flowing && resumption == 1 { marker.push(1000) }
        }
        let policy = AT_ONCE.with_attempts(attempts);
        let open = |attempt: Attempt| {
            let row = rows[attempt.number() as usize - 1].clone();
            ready(Ok(stream::iter(row.into_iter().map(|kind| if kind == 2 { RESET } else { Ok(u32::from(kind)) }))))
        };
        let mut call = retry_stream(open, &policy, Never)
            .with_parts(|item| [Part::Preamble, Part::Content, Part::Content, Part::End][*item as usize])
            .with_resumption(|_| match resumption { 0 => Resumption::Fail, 1 => Resumption::Restart(1000), _ => Resumption::Resume })
            .with_preamble_cap(cap);
        if required { call = call.with_required_end(); }
        let got = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(all(call));
        prop_assert_eq!(got, (wanted, ended));
    }
}
