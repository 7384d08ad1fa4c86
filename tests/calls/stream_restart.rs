//! `Resumption::Restart`: the consumer keeps its part of an answer until the new answer begins.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, FusedStream};
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use resile::fallback::Alternative;
use resile::quota::Rate;
use resile::stream::{Part, Resumption};
use resile::{
    Attempt, Backoff, FallbackPolicy, GaveUp, Jitter, Never, Quota, RetryPolicy, StopReason,
    Upstream, Verdict, fallback, retry_stream,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Preamble,
    /// A word of this attempt.
    Word(u32),
    /// The last word of this attempt.
    Last(u32),
    End,
    /// Not from a stream: the consumer clears its display.
    Marker,
}
use Item::{End, Last, Marker, Preamble, Word};

#[expect(clippy::trivially_copy_pass_by_ref)]
fn part(item: &Item) -> Part {
    match item {
        Preamble => Part::Preamble,
        Word(_) => Part::Content,
        Last(_) => Part::Complete,
        End => Part::End,
        Marker => panic!("the marker has no part"),
    }
}

fn restart(_: Option<&&'static str>) -> Resumption<Item> {
    Resumption::Restart(Marker)
}

type Step = Result<Item, &'static str>;
type Row = &'static [Step];
const PART: Row = &[Ok(Preamble), Ok(Word(1)), Err("reset")];

/// Attempt n yields the n-th row. A row that begins with an error does not open.
fn rows<const N: usize>(
    rows: [Row; N],
) -> impl FnMut(Attempt) -> std::future::Ready<Result<BoxStream<'static, Step>, &'static str>> {
    move |attempt| {
        let row = rows[attempt.number() as usize - 1];
        ready(match row.first() {
            Some(Err(error)) => Err(*error),
            _ => Ok(stream::iter(row.iter().copied()).boxed()),
        })
    }
}

/// Takes all items of a stream and its error.
async fn all(
    call: impl futures_util::Stream<Item = Result<Item, GaveUp<&'static str>>>,
) -> (Vec<Item>, Option<GaveUp<&'static str>>) {
    let mut call = std::pin::pin!(call);
    let mut items = vec![];
    while let Some(next) = call.next().await {
        match next {
            Ok(item) => items.push(item),
            Err(gave_up) => return (items, Some(gave_up)),
        }
    }
    (items, None)
}

/// Checks that the call has told its consumer nothing behind the first part.
async fn keeps_its_part(
    call: impl futures_util::Stream<Item = Result<Item, GaveUp<&'static str>>>,
    reason: StopReason,
    attempts: u32,
) {
    let (items, gave_up) = all(call).await;
    let gave_up = gave_up.unwrap();
    assert_eq!(items, [Preamble, Word(1)], "{gave_up}");
    assert_eq!((gave_up.reason(), gave_up.attempts()), (reason, attempts), "{gave_up}");
    assert!(gave_up.is_partial() && !gave_up.verdict().unwrap().is_again(), "{gave_up:?}");
    assert!(gave_up.to_string().contains("part of the answer was already delivered"), "{gave_up}");
}

/// The second attempt never begins, is refused or yields no content.
#[tokio::test(start_paused = true)]
async fn a_restart_without_a_new_answer_leaves_the_part() {
    // The quota holds the second attempt for longer than the call has time.
    let quota = Quota::new().with_requests(Rate::per_minute(2).with_burst(1));
    let upstream = Upstream::new("model").with_quota(quota);
    let policy = AT_ONCE.with_total_timeout(SECOND * 10);
    let call = retry_stream(rows([PART]), policy, Never).with_parts(part).with_resumption(restart);
    keeps_its_part(call.on(&upstream), StopReason::Deadline, 1).await;

    let is_final =
        |error: &&str| (*error == "401").then(Verdict::fatal).unwrap_or(Verdict::transient());
    let policy = AT_ONCE.with_classifier(is_final);
    let open = rows([PART, &[Err("401")]]);
    let call = retry_stream(open, policy, Never).with_parts(part).with_resumption(restart);
    keeps_its_part(call, StopReason::Fatal, 2).await;

    let open = rows([PART, &[Err("529")], &[Ok(Preamble), Err("reset")]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(part).with_resumption(restart);
    keeps_its_part(call, StopReason::Attempts, 3).await;

    // The limits before content apply again, and so does the token.
    let token = CancellationToken::new();
    let silent = |attempt: Attempt| {
        let row = if attempt.is_first() { PART } else { &[Ok(Preamble)] };
        ready(Ok(stream::iter(row.iter().copied()).chain(stream::pending())))
    };
    let policy = AT_ONCE.with_total_timeout(SECOND * 10);
    let call = || retry_stream(silent, policy, &token).with_parts(part).with_resumption(restart);
    keeps_its_part(call(), StopReason::Deadline, 2).await;
    keeps_its_part(call().with_whole_timeout(SECOND * 5), StopReason::Deadline, 2).await;
    let stops = async {
        sleep(SECOND).await;
        token.cancel();
    };
    tokio::join!(keeps_its_part(call(), StopReason::Cancelled, 2), stops);
}

/// Neither the delay nor the silence of the new stream clears the display.
#[tokio::test(start_paused = true)]
async fn the_marker_comes_with_the_new_answer() {
    let policy =
        RetryPolicy::new().with_backoff(Backoff::fixed(SECOND * 5).with_jitter(Jitter::None));
    let open = async |attempt: Attempt| {
        sleep(SECOND).await;
        let row = if attempt.is_first() { PART } else { &[Ok(Preamble), Ok(Word(2)), Ok(End)] };
        Ok(stream::iter(row)
            .then(async |step| {
                sleep(SECOND).await;
                *step
            })
            .boxed_local())
    };
    let call = retry_stream(open, policy, Never).with_parts(part).with_resumption(restart);
    let mut call = std::pin::pin!(call);
    assert_eq!(call.next().await, Some(Ok(Preamble)));
    assert_eq!(call.next().await, Some(Ok(Word(1))));
    let held = tokio::time::Instant::now();
    assert_eq!(call.next().await, Some(Ok(Marker)));
    // The rest of the first stream, the delay, the opening and two items.
    assert_eq!(held.elapsed(), SECOND * (1 + 5 + 1 + 2));
    // All that was held back comes at once.
    assert_eq!(call.next().now_or_never(), Some(Some(Ok(Preamble))));
    assert_eq!(call.next().now_or_never(), Some(Some(Ok(Word(2)))));
    assert_eq!(call.next().await, Some(Ok(End)));
    assert_eq!(call.next().await, None);
}

/// There is one marker for each answer that begins, and none for an attempt without content.
#[tokio::test(start_paused = true)]
async fn each_new_answer_has_one_marker() {
    let silent: Row = &[Ok(Preamble), Err("reset")];
    let open =
        rows([PART, silent, &[Err("529")], &[Ok(Word(4)), Err("reset")], silent, &[Ok(Last(6))]]);
    let policy = AT_ONCE.with_attempts(6);
    let call = retry_stream(open, policy, Never).with_parts(part).with_resumption(restart);
    let (items, gave_up) = all(call).await;
    assert_eq!(items, [Preamble, Word(1), Marker, Word(4), Marker, Last(6)]);
    assert!(gave_up.is_none(), "{gave_up:?}");
}

/// A new answer may be whole and empty. The part of the earlier one is no part of it.
#[tokio::test(start_paused = true)]
async fn an_empty_answer_clears_the_part() {
    let endings: [(Row, &[Item]); 3] =
        [(&[], &[]), (&[Ok(Preamble)], &[Preamble]), (&[Ok(Preamble), Ok(End)], &[Preamble, End])];
    for (row, rest) in endings {
        let call = retry_stream(rows([PART, row]), &AT_ONCE, Never);
        let (items, gave_up) = all(call.with_parts(part).with_resumption(restart)).await;
        assert_eq!(items, [&[Preamble, Word(1), Marker], rest].concat());
        assert!(gave_up.is_none(), "{gave_up:?}");
    }
}

/// A fallback may drop the stream at any time: in its answer, in the delay, while it opens, and while
/// the consumer clears its display.
#[tokio::test(start_paused = true)]
async fn a_stream_dropped_at_any_time_tells_what_the_display_has() {
    let policy =
        RetryPolicy::new().with_backoff(Backoff::fixed(SECOND * 2).with_jitter(Jitter::None));
    let mut seen = vec![];
    for seconds in 0..29 {
        let display = RefCell::new(vec![]);
        let ask = async |_: Alternative<'_, u8>| {
            let open = async |attempt: Attempt| {
                sleep(SECOND).await;
                let number = attempt.number();
                let last = if number == 3 { Ok(Last(3)) } else { Err("reset") };
                let row = if number == 2 {
                    vec![Ok(Preamble), last]
                } else {
                    vec![Ok(Preamble), Ok(Word(number)), last]
                };
                Ok(stream::iter(row)
                    .then(async |step| {
                        sleep(SECOND).await;
                        step
                    })
                    .boxed_local())
            };
            let call = retry_stream(open, policy, Never).with_parts(part).with_resumption(restart);
            let mut call = std::pin::pin!(call);
            while let Some(item) = call.next().await {
                match item? {
                    Marker => display.borrow_mut().clear(),
                    Preamble | End => {}
                    word => display.borrow_mut().push(word),
                }
                sleep(SECOND).await;
            }
            Ok(())
        };
        let limit = SECOND * seconds + SECOND / 2;
        let next = FallbackPolicy::new().with_total_timeout(limit);
        let outcome: Result<(), GaveUp<GaveUp<&str>>> = fallback(&[1], ask, next, Never).await;
        let is_partial = outcome.as_ref().is_err_and(GaveUp::is_partial);
        let shown = display.into_inner();
        let is_whole = shown.last() == Some(&Last(3));
        assert_eq!(is_partial, !shown.is_empty() && !is_whole, "after {limit:?}: {shown:?}");
        seen.push(shown);
    }
    // Nothing, the first part, nothing after the marker, the new part and the whole.
    seen.dedup();
    assert_eq!(seen, [vec![], vec![Word(1)], vec![], vec![Word(3)], vec![Word(3), Last(3)]]);
}

/// The steps of a stream: 0 is preamble, 1 a word, 2 the last word, 3 the end, 4 a failure, 5 a final
/// failure and 6 a silence.
fn play(row: &[u8], number: u32) -> BoxStream<'static, Step> {
    let steps = row.iter().filter(|step| **step != 6).map(move |step| match step {
        0 => Ok(Preamble),
        1 => Ok(Word(number)),
        2 => Ok(Last(number)),
        3 => Ok(End),
        4 => Err("reset"),
        _ => Err("401"),
    });
    let steps: Vec<_> = steps.collect();
    if row.contains(&6) {
        stream::iter(steps).chain(stream::pending()).boxed()
    } else {
        stream::iter(steps).boxed()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The display is always a part of one answer or the whole, and its consumer is told which.
    #[test]
    fn the_display_has_one_answer(
        rows in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u8..7, 0..6)), 6),
        attempts in 1_u32..=6, required: bool, renews: bool, cap in 0_usize..4,
        held in prop::option::of(1_u64..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        let is_final =
        |error: &&str| if *error == "401" { Verdict::fatal() } else { Verdict::transient() };
        let classifier = resile::classify::ClassifyExt::cut_is(is_final, Verdict::transient());
        let policy = AT_ONCE
            .with_attempts(attempts)
            .with_total_timeout(SECOND * 20)
            .with_attempt_timeout(SECOND * 5)
            .with_classifier(classifier);
        let quota = Quota::new().with_requests(Rate::per_hour(1).with_burst(held.unwrap_or(100)));
        let upstream = Upstream::new("model").with_quota(quota);
        // The words that each attempt has yielded.
        let (opened, words) = (Cell::new(0), RefCell::new(vec![vec![]; 20]));
        let open = |attempt: Attempt| {
            let number = attempt.number();
            opened.set(number);
            let (opens, row) = rows.get(number as usize - 1).cloned().unwrap_or((true, vec![2]));
            ready(if opens || row.is_empty() { Ok(play(&row, number)) } else { Err("reset") })
        };
        let parts = |item: &Item| {
            if let Word(number) | Last(number) = item {
                words.borrow_mut()[*number as usize].push(*item);
            }
            part(item)
        };
        let mut call = retry_stream(open, policy, Never)
            .with_parts(parts).with_resumption(restart)
            .with_preamble_cap(cap).with_whole_timeout(SECOND * 60);
        if required { call = call.with_required_end(); }
        if renews { call = call.with_attempts_renewed(); }
        let mut call = Box::pin(call.on(&upstream));
        let (mut display, mut shows_any, mut last, mut end) = (vec![], false, None, None);
        while let Some(next) = runtime.block_on(call.next()) {
            let item = match next {
                Ok(item) => item,
                Err(gave_up) => { end = Some(gave_up); break }
            };
            match item {
                Marker => {
                    prop_assert!(shows_any, "nothing is cleared twice");
                    display.clear();
                    shows_any = false;
                }
                Word(number) | Last(number) => {
                    display.push(item);
                    shows_any = true;
                    let words = words.borrow();
                    prop_assert_eq!(&display, &words[number as usize], "one answer from its start");
                }
                // Above the cap a preamble is content.
                Preamble | End => shows_any = true,
            }
            last = Some(item);
        }
        prop_assert!(call.is_terminated() && runtime.block_on(call.next()).is_none());
        drop(call);
        let words = words.borrow();
        match end {
            None => prop_assert_eq!(&display, &words[opened.get() as usize], "the whole answer"),
            Some(gave_up) => {
                prop_assert_ne!(last, Some(Marker), "a new answer follows its marker");
                prop_assert_eq!(gave_up.is_partial(), shows_any);
                prop_assert!(!shows_any || !gave_up.verdict().unwrap().is_again());
            }
        }
    }
}
