//! Attempts that are cut before they have sent their request.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use resile::classify::{ClassifyExt, Cut};
use resile::observe::{Event, EventKind};
use resile::{
    Attempt, Backoff, Classify, Drain, GaveUp, Health, HedgePolicy, Jitter, Never, ResilienceExt,
    RetryPolicy, StopReason, Upstream, Verdict, hedge, retry,
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

type Lost = &'static str;

/// An order: it must not be sent again if nobody knows what became of it.
fn order(_: &Lost) -> Verdict {
    Verdict::transient().not_again()
}

fn policy() -> RetryPolicy<fn(&Lost) -> Verdict> {
    RetryPolicy::new()
        .with_attempts(3)
        .with_attempt_timeout(SECOND * 2)
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None))
        .with_classifier(order)
}

/// Waits for a connection that never comes.
async fn no_connection() {
    pending::<()>().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_connection_is_made_again_and_is_not_in_doubt() {
    let shop = Upstream::new("shop");
    let lines = RefCell::new(Vec::new());
    let note = |event: &Event<'_>| match event.kind {
        EventKind::Waiting { failure, .. } | EventKind::GaveUp { failure, .. } => {
            assert_eq!(failure.health(), Health::Unknown);
            lines.borrow_mut().push(event.to_string());
        }
        _ => {}
    };
    let op = async |_: Attempt| {
        no_connection().before_sending().await;
        Ok::<(), Lost>(())
    };
    let gave_up = retry(op, policy(), Never).on(shop.observed_by(&note)).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 3));
    assert!(!gave_up.is_in_doubt() && gave_up.verdict().unwrap().is_again());
    assert_eq!(
        gave_up.to_string(),
        "shop: gave up after 3 attempts in 8.0s (last failure: did not finish within 2s, without \
         effect)"
    );
    let failed = |n| {
        format!(
            "shop: attempt {n} of 3 failed, retrying in 1.0s: did not finish within 2s, without effect"
        )
    };
    let last = "shop: gave up after 3 of 3 attempts: did not finish within 2s, without effect";
    assert_eq!(lines.into_inner(), [failed(1), failed(2), last.to_owned()]);
}

/// The same without an upstream, at the deadline.
#[tokio::test(start_paused = true)]
async fn a_deadline_before_sending_is_not_in_doubt() {
    let total = policy().with_total_timeout(SECOND);
    for sends in [false, true] {
        let op = async |_: Attempt| {
            if sends {
                async {}.before_sending().await;
                pending::<()>().await;
            }
            no_connection().before_sending().await;
            Ok::<(), Lost>(())
        };
        let gave_up = retry(op, &total, Never).await.unwrap_err();
        let doubt = (gave_up.reason(), gave_up.cut(), gave_up.is_in_doubt());
        assert_eq!(doubt, (StopReason::Deadline, Some(Cut::Deadline), sends));
        assert_eq!(gave_up.verdict().unwrap().is_not_sent(), !sends);
        assert_eq!(gave_up.to_string().contains("without effect"), !sends, "{gave_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_before_sending_leaves_no_doubt() {
    for sends in [false, true] {
        let token = CancellationToken::new();
        let op = async |_: Attempt| {
            if sends {
                pending::<()>().await;
            }
            no_connection().before_sending().await;
            Ok::<(), Lost>(())
        };
        let stop = async {
            tokio::time::sleep(SECOND).await;
            token.cancel();
        };
        let (gave_up, ()) = tokio::join!(retry(op, policy(), &token), stop);
        let gave_up = gave_up.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Cancelled, sends));
    }
}

/// An order with a key.
#[derive(Clone, Copy)]
struct Keyed;

impl Classify<Lost> for Keyed {
    fn classify(&self, _: &Lost) -> Option<Verdict> {
        Some(Verdict::transient().keyed())
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient().keyed())
    }
}

/// An order with its place.
struct Order;

impl Classify<Lost> for Order {
    fn classify(&self, lost: &Lost) -> Option<Verdict> {
        Some(order(lost))
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        Some("POST /orders".into())
    }
}

/// The words of a call that its token ended tell whether the attempt in flight had an effect.
#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_says_whether_it_had_an_effect() {
    for sends in [false, true] {
        let (token, line) = (CancellationToken::new(), RefCell::new(String::new()));
        let shop = Upstream::new("shop");
        let note = |event: &Event<'_>| *line.borrow_mut() = event.to_string();
        let op = async |_: Attempt| {
            token.cancel();
            if sends {
                pending::<()>().await;
            }
            no_connection().before_sending().await;
            Ok::<(), Lost>(())
        };
        let call = retry(op, policy().with_classifier(Order), &token);
        let gave_up = call.on(shop.observed_by(&note)).await.unwrap_err();
        for words in [gave_up.to_string(), line.into_inner()] {
            assert!(words.contains("POST /orders was dropped in flight"), "{words}");
            assert_eq!(words.contains("in flight, without effect"), !sends, "{words}");
        }
    }
}

/// The first attempt had no connection. The second one has sent its request.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_attempt_did_not_send_says_nothing_of_the_next_one() {
    for way in ["attempt timeout", "token", "run"] {
        let token = CancellationToken::new();
        let op = async |attempt: Attempt| {
            if attempt.is_first() {
                no_connection().before_sending().await;
            }
            pending::<Result<(), Lost>>().await
        };
        let stop = async {
            tokio::time::sleep(SECOND * 4).await;
            if way != "attempt timeout" {
                token.cancel();
            }
        };
        let call = async {
            if way == "run" {
                let mut run = resile::Run::new(policy(), &token);
                run.attempt(async { op(Attempt::new(1)).await }).await.unwrap();
                run.next().await.unwrap();
                tokio::time::sleep(SECOND * 2).await; // in the middle of the second one
                return run.next().await.unwrap_err();
            }
            retry(op, policy(), &token).await.unwrap_err()
        };
        let (gave_up, ()) = tokio::join!(call, stop);
        assert_eq!((gave_up.attempts(), gave_up.is_in_doubt()), (2, true), "{way}: {gave_up}");
    }
}

/// An inner call has sent its request with its first attempt. Its second one has no connection.
#[tokio::test(start_paused = true)]
async fn an_inner_call_that_has_sent_once_is_in_doubt() {
    let upstream = Upstream::new("inner");
    for (first_sends, on_upstream) in [(true, true), (true, false), (false, true), (false, false)] {
        let inner = async |attempt: Attempt| {
            if attempt.is_first() && first_sends {
                return Err("reset");
            }
            no_connection().before_sending().await;
            Ok(())
        };
        let again = RetryPolicy::new()
            .with_attempts(2)
            .with_backoff(Backoff::none())
            .with_classifier(|_: &Lost| Verdict::transient());
        let outer = async |_: Attempt| {
            let call = retry(inner, &again, Never);
            let ended = if on_upstream { call.on(&upstream).await } else { call.await };
            ended.map_err(|gave_up| gave_up.into_last().unwrap_or("cut"))
        };
        let once = policy().with_attempts(1);
        let gave_up = retry(outer, &once, Never).await.unwrap_err();
        assert_eq!(gave_up.is_in_doubt(), first_sends, "{gave_up}");
    }
}

/// One of two hedges that has sent the request is enough for a doubt.
#[tokio::test(start_paused = true)]
async fn hedges_are_in_doubt_unless_none_of_them_has_sent() {
    let hedges = HedgePolicy::new()
        .with_delay(SECOND)
        .with_hedges(1)
        .with_total_timeout(SECOND * 5)
        .with_classifier(order as fn(&Lost) -> Verdict);
    for senders in 0..=3 {
        let op = async |attempt: Attempt| {
            if senders & attempt.number() == 0 {
                no_connection().before_sending().await;
            }
            pending::<Result<(), Lost>>().await
        };
        let gave_up = hedge(op, &hedges, Never).await.unwrap_err();
        assert_eq!((gave_up.attempts(), gave_up.is_in_doubt()), (2, senders > 0), "{senders}");
    }
}

/// A future that was never polled, or that the caller drops, says nothing.
#[tokio::test(start_paused = true)]
async fn only_a_future_at_work_says_that_nothing_was_sent() {
    let dropped = Cell::new(0);
    let op = async |_: Attempt| {
        let later = no_connection().before_sending();
        {
            let polled = std::pin::pin!(no_connection().before_sending());
            let _ = tokio::time::timeout(SECOND / 2, polled).await;
            dropped.set(dropped.get() + 1);
        }
        pending::<()>().await; // sent
        later.await;
        Ok::<(), Lost>(())
    };
    let gave_up: GaveUp<Lost> = retry(op, policy(), Never).await.unwrap_err();
    assert_eq!((dropped.get(), gave_up.attempts(), gave_up.is_in_doubt()), (1, 1, true));
}

/// The classifier's own wait stays, and the total timeout is respected.
#[tokio::test(start_paused = true)]
async fn the_wait_of_the_classifier_stays() {
    let waits = (order as fn(&Lost) -> Verdict)
        .cut_is(Verdict::transient().not_again().at_least(SECOND * 5));
    let starts = RefCell::new(Vec::new());
    let began = tokio::time::Instant::now();
    let op = async |_: Attempt| {
        starts.borrow_mut().push(began.elapsed());
        no_connection().before_sending().await;
        Ok::<(), Lost>(())
    };
    let calm = policy().with_attempts(2).with_classifier(waits);
    let token = CancellationToken::new();
    retry(op, calm, Drain(&token)).await.unwrap_err();
    let starts = starts.into_inner();
    assert!(starts.len() == 2 && starts[1] >= starts[0] + SECOND * 7, "{starts:?}");
}

/// Sends the order by an attempt that keeps the part before it.
async fn sends(_: Attempt) -> Result<(), Lost> {
    let mut before = pin!(async {}.before_sending());
    before.as_mut().await;
    pending().await
}

/// A part that is kept while the request is sent says that it was sent.
#[tokio::test(start_paused = true)]
async fn a_cut_after_the_part_before_sending_says_that_the_request_was_sent() {
    const LATE: &str = "did not finish within 2s, its request was sent";
    let shop = Upstream::new("shop");
    let line = RefCell::new(String::new());
    let note = |event: &Event<'_>| *line.borrow_mut() = event.to_string();
    let stated = policy().with_classifier(order.cut_is(Verdict::transient().not_again()));
    let call = retry(sends, stated, Never).on(shop.observed_by(&note));
    let gave_up = call.await.unwrap_err();
    let doubt = "the request may have been executed and must not be sent again";
    assert_eq!(
        gave_up.to_string(),
        format!("shop: gave up after 1 attempt in 2.0s, {doubt} (last failure: {LATE})")
    );
    assert_eq!(line.take(), format!("shop: gave up after 1 of 3 attempts, {doubt}: {LATE}"));
    // An attempt says it of itself alone.
    let keyed = policy().with_attempts(2).with_classifier(Keyed);
    for next in [true, false] {
        let op = async |attempt: Attempt| {
            if attempt.is_first() == next {
                return sends(attempt).await;
            }
            no_connection().before_sending().await;
            Ok(())
        };
        let lines = RefCell::new(Vec::new());
        let note = |event: &Event<'_>| match event.kind {
            EventKind::Waiting { .. } | EventKind::GaveUp { .. } => {
                lines.borrow_mut().push(event.to_string());
            }
            _ => {}
        };
        let gave_up = retry(op, keyed, Never).on(shop.observed_by(&note)).await.unwrap_err();
        assert_eq!(gave_up.to_string().contains("its request was sent"), !next, "{gave_up}");
        let says = lines.take().iter().map(|line| line.ends_with(LATE)).collect::<Vec<_>>();
        assert_eq!(says, [next, !next]);
    }
    // The deadline and the token.
    let total = policy().with_total_timeout(SECOND);
    let gave_up = retry(sends, total, Never).await.unwrap_err();
    assert!(gave_up.to_string().ends_with("after 1s, its request was sent)"), "{gave_up}");
    let (token, line) = (CancellationToken::new(), RefCell::new(String::new()));
    let note = |event: &Event<'_>| *line.borrow_mut() = event.to_string();
    let op = async |attempt| {
        token.cancel();
        sends(attempt).await
    };
    let call = retry(op, policy().with_classifier(Order), &token);
    let gave_up = call.on(shop.observed_by(&note)).await.unwrap_err();
    for words in [gave_up.to_string(), line.take()] {
        let dropped = "POST /orders was dropped in flight, its request was sent";
        assert!(words.contains(dropped), "{words}");
    }
}

/// The request of a transaction is its `COMMIT`, and a part that works is stronger.
#[tokio::test(start_paused = true)]
async fn a_cut_at_commit_names_it() {
    for is_busy in [false, true] {
        let op = async |_: Attempt| {
            let mut before = pin!(async {}.before_sending().of_commit());
            before.as_mut().await;
            if is_busy {
                no_connection().before_sending().await;
            }
            pending::<Result<(), Lost>>().await
        };
        let gave_up = retry(op, policy(), Never).await.unwrap_err();
        let end = if is_busy { "without effect" } else { "its COMMIT was sent" };
        assert!(gave_up.to_string().ends_with(&format!("2s, {end})")), "{gave_up}");
        assert_eq!(gave_up.is_without_effect(), is_busy);
    }
}

/// What an attempt says counts until the next one begins, and a kept part says nothing of one that works.
#[tokio::test(start_paused = true)]
async fn a_part_that_works_is_not_sent_beside_one_that_has_ended() {
    let op = async |_: Attempt| {
        let mut before = pin!(async {}.before_sending());
        before.as_mut().await;
        no_connection().before_sending().await;
        Ok::<(), Lost>(())
    };
    let gave_up = retry(op, policy(), Never).await.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.is_in_doubt()), (3, false));
    assert!(gave_up.to_string().ends_with("2s, without effect)"), "{gave_up}");
}

/// All hedges have sent their request, or one of them says nothing.
#[tokio::test(start_paused = true)]
async fn hedges_say_that_they_were_sent_if_all_were() {
    let hedges = HedgePolicy::new()
        .with_delay(SECOND)
        .with_hedges(1)
        .with_total_timeout(SECOND * 5)
        .with_classifier(order as fn(&Lost) -> Verdict);
    for silent in 0..=3 {
        let op = async |attempt: Attempt| {
            if silent & attempt.number() == 0 {
                return sends(attempt).await;
            }
            pending().await
        };
        let gave_up = hedge(op, &hedges, Never).await.unwrap_err();
        let words = gave_up.to_string();
        assert_eq!(words.contains("its request was sent"), silent == 0, "{silent}: {words}");
    }
}
