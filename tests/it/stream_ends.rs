//! How a stream ends: `Part::Complete`, and attempts that count anew.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use proptest::prelude::*;
use resile::stream::{Part, Resumption};
use resile::{
    Attempt, Backoff, Budget, Error, Jitter, Never, RetryPolicy, StopReason, StreamResilienceExt,
    Upstream, retry_stream,
};
use tokio::time::Instant;

use crate::stream::{RESET, Step, all};

const SECOND: Duration = Duration::from_secs(1);
static AT_ONCE: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Items below 10 are preamble, 90 completes the answer, 99 is the end, the others are content.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn parts(item: &u32) -> Part {
    match item {
        0..10 => Part::Preamble,
        90 => Part::Complete,
        99 => Part::End,
        _ => Part::Content,
    }
}

/// Attempt n yields the nth row; the last repeats.
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

/// What comes after it is handed over, and however the stream then ends, it is whole.
#[tokio::test(start_paused = true)]
async fn a_stream_is_whole_once_it_is_complete() {
    let rows_and_items: [(&'static [Step], &[u32]); 6] = [
        (&[Ok(50), Ok(90)], &[50, 90]),
        (&[Ok(50), Ok(90), Ok(60), RESET], &[50, 90, 60]),
        (&[Ok(1), Ok(90), RESET], &[1, 90]),
        (&[Ok(90), Ok(1), Ok(60)], &[90, 1, 60]),
        (&[Ok(90), Ok(99), Ok(60)], &[90, 99]),
        (&[Ok(90), Ok(90), RESET], &[90, 90]),
    ];
    for (row, items) in rows_and_items {
        let never =
            |_: Option<&Error<&str>>| -> Resumption<u32> { panic!("nothing is to be mended") };
        let upstream =
            Upstream::new("feed").with_budget(Budget::new().with_capacity(2).with_deposit(1.0));
        upstream.budget().unwrap().withdraw().unwrap().spend();
        let call = retry_stream(rows([row]), &AT_ONCE, Never).with_parts(parts).with_required_end();
        assert_eq!(
            all(call.with_resumption(never).on(&upstream)).await,
            (items.to_vec(), None),
            "{row:?}"
        );
        assert_eq!(upstream.budget().unwrap().available(), 2, "{row:?}: it counts as a success");
    }
    // Before it, all is as without.
    let open = rows([&[Ok(1), RESET], &[Ok(50), RESET, Ok(90)]]);
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![50], Some((StopReason::Partial, 2))));
}

/// A closing event that never comes does not spoil the answer: what limits the silence ends the stream.
#[tokio::test(start_paused = true)]
async fn silence_after_it_is_an_end() {
    let began = Instant::now();
    let open = |_| {
        let items = stream::iter([Ok(50), Ok(90)]).chain(stream::pending::<Step>());
        ready(Ok::<_, Error<&str>>(items.idle_timeout(20 * SECOND)))
    };
    let call = retry_stream(open, &AT_ONCE, Never).with_parts(parts);
    assert_eq!(all(call).await, (vec![50, 90], None));
    assert_eq!(began.elapsed(), 20 * SECOND);
}

/// A consumer that stops reading there drops a stream in flight: that says nothing, and gives everything back.
#[tokio::test(start_paused = true)]
async fn dropped_after_it_the_stream_is_neither_good_nor_bad() {
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
async fn attempts_count_anew_after_content() {
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
    // Each break after content is a first failure; the growth goes on only where there was none.
    assert_eq!(delays.into_inner(), [0, 1, 1, 1, 1, 1, 2]);
    // Without, attempts count over the whole life of the stream.
    let call = retry_stream(rows(table), &policy, Never).with_resumption(|_| Resumption::Resume);
    assert_eq!(all(call).await, (vec![50; 3], Some((StopReason::Attempts, 3))));
    // A preamble is no content.
    let call = retry_stream(rows([&[Ok(1), RESET]]), &policy, Never).with_parts(parts);
    let call = call.with_resumption(|_| Resumption::Resume).with_attempts_renewed();
    assert_eq!(all(call).await, (vec![], Some((StopReason::Attempts, 3))));
}

/// A budget still pays for each retry: a feed that breaks all the time is no reason to hammer.
#[tokio::test(start_paused = true)]
async fn attempts_that_count_anew_are_paid_for() {
    let upstream =
        Upstream::new("feed").with_budget(Budget::new().with_capacity(4).with_deposit(1.0));
    let call = retry_stream(rows([&[Ok(50), RESET]]), &AT_ONCE, Never)
        .with_resumption(|_| Resumption::Resume);
    let call = call.with_attempts_renewed().on(&upstream);
    assert_eq!(all(call).await, (vec![50; 5], Some((StopReason::Budget, 5))));
}

/// `mend` gets the error; nothing where the stream was cut.
#[tokio::test(start_paused = true)]
async fn mend_gets_the_error_or_nothing() {
    let seen = RefCell::new(vec![]);
    let mend = |error: Option<&Error<&'static str>>| {
        seen.borrow_mut().push(error.copied());
        Resumption::Resume
    };
    let open = rows([&[Ok(50), RESET], &[Ok(60)], &[Ok(70), Ok(99)]]);
    let call = retry_stream(open, &AT_ONCE, Never)
        .with_parts(parts)
        .with_required_end()
        .with_resumption(mend);
    assert_eq!(all(call).await, (vec![50, 60, 70, 99], None));
    assert_eq!(seen.into_inner(), [Some(Error::Operation("reset")), None]);
}

proptest! {
    /// A model over random rows of items: what is handed over is what a plain reading of the rules says.
    #[test]
    fn what_is_handed_over_follows_the_rules(
        rows in prop::collection::vec(prop::collection::vec(0_u8..5, 0..6), 6),
        attempts in 1_u32..=4, mends in 0_u8..3, required: bool, renews: bool,
    ) {
        // 0: preamble, 1: content, 2: an error, 3: the last item, 4: the last of content.
        let last_row = vec![3];
        let row_of = |n: u32| rows.get(n as usize - 1).unwrap_or(&last_row);
        let (mut wanted, mut ended, mut spent) = (vec![], None, 0);
        for n in 1.. {
            let (mut held, mut flowing, mut complete, mut failed) = (vec![], false, false, required);
            for kind in row_of(n) {
                match kind {
                    2 => { failed = true; break }
                    0 if !flowing => held.push(0),
                    kind => { flowing = true; wanted.append(&mut held); wanted.push(u32::from(*kind)); }
                }
                complete |= matches!(kind, 3 | 4);
                if *kind == 3 { break }
            }
            if complete || !failed { wanted.append(&mut held); break }
            if flowing && mends == 0 { ended = Some((StopReason::Partial, n)); break }
            if flowing && renews { spent = n - 1 }
            if n - spent == attempts { ended = Some((StopReason::Attempts, n)); break }
            if flowing && mends == 1 { wanted.push(1000) }
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
            .with_resumption(|_| match mends { 0 => Resumption::Fail, 1 => Resumption::Restart(1000), _ => Resumption::Resume });
        if required { call = call.with_required_end(); }
        if renews { call = call.with_attempts_renewed(); }
        let got = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(all(call));
        prop_assert_eq!(&got, &(wanted, ended));
        prop_assert!(got.1.is_none_or(|(_, attempts)| attempts == opened.get()));
    }
}
