//! The end of a stream: `Part::Complete`, and attempts that count again from the start.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use proptest::prelude::*;
use resile::stream::{Part, Resumption};
use resile::timeout::Error;
use resile::{
    Attempt, Backoff, Budget, GaveUp, Jitter, Never, RetryPolicy, StopReason, StreamResilienceExt,
    Upstream, Verdict, retry_stream,
};
use tokio::time::Instant;

use crate::stream::{RESET, Step, all};
use crate::tracing::{capture, messages};

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Items below 10 are preamble, 90 completes the answer, 99 is the end, and the others are content.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn parts(item: &u32) -> Part {
    match item {
        0..10 => Part::Preamble,
        90 => Part::Complete,
        99 => Part::End,
        _ => Part::Content,
    }
}

/// Attempt n yields the n-th row, and the last row repeats.
fn rows<const N: usize>(
    rows: [&'static [Step]; N],
) -> impl FnMut(Attempt) -> std::future::Ready<Result<BoxStream<'static, Step>, Error<&'static str>>>
{
    move |attempt| {
        let row = rows[(attempt.number() as usize - 1).min(N - 1)];
        ready(match row.first() {
            Some(Err(error)) => Err(*error),
            _ => Ok(stream::iter(row.iter().copied()).boxed()),
        })
    }
}

/// Items after `Part::Complete` are yielded. The stream has succeeded, for any end.
#[tokio::test(start_paused = true)]
async fn a_complete_stream_succeeds_for_any_end() {
    let rows_and_items: [(&'static [Step], &[u32]); 6] = [
        (&[Ok(50), Ok(90)], &[50, 90]),
        (&[Ok(50), Ok(90), Ok(60), RESET], &[50, 90, 60]),
        (&[Ok(1), Ok(90), RESET], &[1, 90]),
        (&[Ok(90), Ok(1), Ok(60)], &[90, 1, 60]),
        (&[Ok(90), Ok(99), Ok(60)], &[90, 99]),
        (&[Ok(90), Ok(90), RESET], &[90, 90]),
    ];
    for (row, items) in rows_and_items {
        let never = |_: Option<&Error<&str>>| -> Resumption<u32> {
            panic!("a complete stream needs no resumption")
        };
        let upstream =
            Upstream::new("feed").with_budget(Budget::new().with_capacity(2).with_deposit(1.0));
        assert!(upstream.budget().unwrap().withdraw());
        let call = retry_stream(rows([row]), &AT_ONCE, Never).with_parts(parts).with_required_end();
        assert_eq!(
            all(call.with_resumption(never).on(&upstream)).await,
            (items.to_vec(), None),
            "{row:?}"
        );
        assert_eq!(
            upstream.budget().unwrap().available(),
            2,
            "{row:?}: the stream counts as a success"
        );
    }
    // Before `Part::Complete` every failure counts as usual.
    let open = rows([&[Ok(1), RESET], &[Ok(50), RESET, Ok(90)]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![50], Some((StopReason::Partial, 2))));
}

/// The last event may never come. The timeout on silence then ends the stream as a success.
#[tokio::test(start_paused = true)]
async fn silence_after_a_complete_answer_ends_the_stream() {
    let began = Instant::now();
    let open = |_| {
        let items = stream::iter([Ok(50), Ok(90)]).chain(stream::pending::<Step>());
        ready(Ok::<_, Error<&str>>(items.idle_timeout(20 * SECOND)))
    };
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![50, 90], None));
    assert_eq!(began.elapsed(), 20 * SECOND);
}

/// A consumer may stop reading after the complete answer. The dropped stream does not count, and
/// returns its permit.
#[tokio::test(start_paused = true)]
async fn a_stream_dropped_after_a_complete_answer_does_not_count() {
    let upstream = Upstream::new("feed")
        .with_breaker(resile::Breaker::new())
        .with_bulkhead(resile::Bulkhead::new(1));
    let call = retry_stream(rows([&[Ok(50), Ok(90), Ok(60)]]), &AT_ONCE, Never)
        .with_parts(parts)
        .on(&upstream);
    assert_eq!(call.take(2).count().await, 2);
    let snapshot = upstream.snapshot().unwrap();
    assert_eq!((snapshot.calls, upstream.bulkhead().unwrap().in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn renewed_attempts_count_from_the_start_after_content() {
    const FLOWS: &[Step] = &[Ok(50), RESET];
    let policy = RetryPolicy::new().with_attempts(3);
    let policy = policy.with_backoff(Backoff::exponential(SECOND).with_jitter(Jitter::None));
    let table = [FLOWS, FLOWS, FLOWS, FLOWS, FLOWS, &[RESET], &[RESET]];
    let delays = RefCell::new(vec![]);
    let mut open = rows(table);
    let open = |attempt: Attempt| {
        delays.borrow_mut().push(attempt.delay().as_secs());
        open(attempt)
    };
    let call = retry_stream(open, &policy, Never)
        .with_resumption(|_| Resumption::Resume)
        .with_attempts_renewed();
    assert_eq!(all(call).await, (vec![50; 5], Some((StopReason::Attempts, 7))));
    // Each break after content is a first failure. The delays grow only without content in between.
    assert_eq!(delays.into_inner(), [0, 1, 1, 1, 1, 1, 2]);
    // Without this setting attempts count over the whole life of the stream.
    let call = retry_stream(rows(table), &policy, Never).with_resumption(|_| Resumption::Resume);
    assert_eq!(all(call).await, (vec![50; 3], Some((StopReason::Attempts, 3))));
    // A preamble is not content.
    let call = retry_stream(rows([&[Ok(1), RESET]]), &policy, Never).with_parts(parts);
    let call = call.with_resumption(|_| Resumption::Resume).with_attempts_renewed();
    assert_eq!(all(call).await, (vec![], Some((StopReason::Attempts, 3))));
}

/// Each retry still spends a token, so a stream that breaks again and again ends.
#[tokio::test(start_paused = true)]
async fn renewed_attempts_spend_tokens() {
    let upstream =
        Upstream::new("feed").with_budget(Budget::new().with_capacity(4).with_deposit(1.0));
    let call = retry_stream(rows([&[Ok(50), RESET]]), &AT_ONCE, Never)
        .with_resumption(|_| Resumption::Resume);
    let call = call.with_attempts_renewed().on(&upstream);
    assert_eq!(all(call).await, (vec![50; 5], Some((StopReason::Budget, 5))));
}

/// The resumption function gets the error, or `None` if the stream was cut.
#[tokio::test(start_paused = true)]
async fn the_resumption_function_gets_the_error_or_none() {
    let seen = RefCell::new(vec![]);
    let resume = |error: Option<&Error<&'static str>>| {
        seen.borrow_mut().push(error.copied());
        Resumption::Resume
    };
    let open = rows([&[Ok(50), RESET], &[Ok(60)], &[Ok(70), Ok(99)]]);
    let call = retry_stream(open, &AT_ONCE, Never)
        .with_parts(parts)
        .with_required_end()
        .with_resumption(resume);
    assert_eq!(all(call).await, (vec![50, 60, 70, 99], None));
    assert_eq!(seen.into_inner(), [Some(Error::Operation("reset")), None]);
}

/// Collects the items of a stream and its error.
async fn items_and_error<E>(
    stream: impl Stream<Item = Result<u32, GaveUp<E>>>,
) -> (Vec<u32>, Option<GaveUp<E>>) {
    let mut stream = std::pin::pin!(stream);
    let mut items = vec![];
    while let Some(next) = stream.next().await {
        match next {
            Ok(item) => items.push(item),
            Err(error) => return (items, Some(error)),
        }
    }
    (items, None)
}

/// A stream that ends after content has shown a part, whatever the reason for its end.
#[tokio::test(start_paused = true)]
async fn a_part_that_the_consumer_keeps_is_told() {
    const FLOWS: &[Step] = &[Ok(50), RESET];
    let twice = AT_ONCE.with_attempts(2);
    let anew = |_: Option<&Error<&'static str>>| Resumption::Restart(1000);
    // The second attempt has shown a part, and no third one replaces it.
    let call = retry_stream(rows([FLOWS]), twice, Never).with_resumption(anew);
    let (items, error) = items_and_error(call).await;
    let error = error.unwrap();
    assert_eq!((items, error.reason()), (vec![50, 1000, 50], StopReason::Attempts));
    assert!(error.is_partial() && !error.verdict().unwrap().is_again());
    // No new answer begins, so the consumer keeps the part of the first one.
    let call = retry_stream(rows([FLOWS, &[RESET]]), twice, Never).with_resumption(anew);
    let (items, error) = items_and_error(call).await;
    let error = error.unwrap();
    assert_eq!((items, error.reason()), (vec![50], StopReason::Attempts));
    assert!(error.is_partial() && !error.verdict().unwrap().is_again());
    // An error that is final ends the stream as such, and the part stays.
    let policy = twice.with_classifier(|_: &Error<&str>| false);
    let (_, error) = items_and_error(retry_stream(rows([FLOWS]), policy, Never)).await;
    let error = error.unwrap();
    assert_eq!((error.reason(), error.is_partial()), (StopReason::Fatal, true));
}

proptest! {
    /// Random rows of items give the items of a simple model.
    #[test]
    fn a_stream_yields_the_items_of_the_model(
        rows in prop::collection::vec(prop::collection::vec(0_u8..5, 0..6), 6),
        attempts in 1_u32..=4, resumption in 0_u8..3, required: bool, renews: bool,
    ) {
        // 0: preamble, 1: content, 2: an error, 3: the last item, 4: the last of content.
        let last_row = vec![3];
        let row_of = |n: u32| rows.get(n as usize - 1).unwrap_or(&last_row);
        let (mut wanted, mut ended, mut spent, mut marker) = (vec![], None, 0, vec![]);
        for n in 1.. {
            let (mut held, mut flowing, mut complete, mut failed) = (vec![], false, false, required);
            for kind in row_of(n) {
                match kind {
                    2 => { failed = true; break }
                    0 if !flowing => held.push(0),
                    kind => {
                        flowing = true;
                        wanted.append(&mut marker);
                        wanted.append(&mut held);
                        wanted.push(u32::from(*kind));
                    }
                }
                complete |= matches!(kind, 3 | 4);
                if *kind == 3 { break }
            }
            if complete || !failed { wanted.append(&mut marker); wanted.append(&mut held); break }
            if flowing && resumption == 0 { ended = Some((StopReason::Partial, n)); break }
            if flowing && renews { spent = n - 1 }
            if n - spent == attempts { ended = Some((StopReason::Attempts, n)); break }
            if flowing && resumption == 1 { marker.push(1000) }
        }
        let policy = AT_ONCE.with_attempts(attempts);
        let opened = Cell::new(0);
        let open = |attempt: Attempt| {
            opened.set(attempt.number());
            let row = row_of(attempt.number()).clone();
            ready(Ok(stream::iter(row.into_iter().map(|kind| if kind == 2 { RESET } else { Ok(u32::from(kind)) }))))
        };
        let mut call = retry_stream(open, &policy, Never)
            .with_parts(|item| {
                [Part::Preamble, Part::Content, Part::Content, Part::End, Part::Complete][*item as usize]
            })
            .with_resumption(|_| match resumption { 0 => Resumption::Fail, 1 => Resumption::Restart(1000), _ => Resumption::Resume });
        if required { call = call.with_required_end(); }
        if renews { call = call.with_attempts_renewed(); }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (items, error) = runtime.block_on(items_and_error(call));
        let end = error.as_ref().map(|error| (error.reason(), error.attempts()));
        prop_assert_eq!((&items, &end), (&wanted, &ended));
        prop_assert!(end.is_none_or(|(_, attempts)| attempts == opened.get()));
        // The consumer keeps what came after the last item that told it to start again.
        let kept = items.iter().rev().take_while(|item| **item != 1000).count();
        if let Some(error) = error {
            prop_assert_eq!(error.is_partial(), kept > 0);
            prop_assert_eq!(error.verdict().unwrap().is_again(), kept == 0);
        }
    }
}

/// Nobody repeats a call whose consumer has a part of the answer. Without that part the caller has a plain error.
#[tokio::test(start_paused = true)]
async fn a_final_error_has_a_line_at_warn_behind_content_only() {
    capture();
    let ends: [(&'static [Step], &str); 2] =
        [(&[Ok(50), RESET], "WARN"), (&[Ok(1), RESET], "DEBUG")];
    for (row, first) in ends {
        for attempts in [1, 3] {
            let policy = RetryPolicy::new().with_attempts(attempts);
            let policy = policy.with_classifier(|_: &Error<&str>| Verdict::fatal());
            let call = retry_stream(rows([row]), policy, Never).with_parts(parts);
            let call = call.with_resumption(|_| Resumption::<u32>::Resume);
            assert!(all(call.on(&Upstream::new("feed"))).await.1.is_some());
            let lines: Vec<_> =
                messages().iter().map(|(level, line)| format!("{level} {line}")).collect();
            let part = lines[0].contains("part of the answer was already delivered");
            assert!(lines.len() == 1 && lines[0].starts_with(first), "{lines:?}");
            assert_eq!(part, first == "WARN", "{lines:?}");
        }
    }
}
