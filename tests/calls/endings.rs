//! What the error and the event of a call that gave up say of its end.

use std::cell::RefCell;
use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use resile::classify::Cut;
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Rate};
use resile::time::ManualTimer;
use resile::{Backoff, Jitter, Never, Quota, RetryPolicy, StopReason, Upstream, retry};

use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);

/// Each attempt is cut after two seconds, and the next one starts a second later.
const CUT: RetryPolicy = RetryPolicy::new()
    .with_attempts(9)
    .with_attempt_timeout(Duration::from_secs(2))
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

fn feed(timer: &ManualTimer) -> Upstream<ManualTimer> {
    Upstream::new("feed").with_timer(timer.clone())
}

/// A token ends the wait after a cut. The cut is the last failure.
#[test]
fn a_call_that_ends_after_a_cut_names_the_cut() {
    let timer = ManualTimer::new();
    let (feed, token, script) =
        (feed(&timer), CancellationToken::new(), Script::new(&[Step::Fail, Step::Hang]));
    let seen = RefCell::new(Vec::new());
    let note = |event: &Event<'_>| {
        if let EventKind::GaveUp { failure, error_type, .. } = event.kind {
            seen.borrow_mut().push((event.to_string(), failure.cut, error_type.to_owned()));
        }
    };
    let call = retry(|_| script.play(), CUT, token.clone()).on(feed.observed_by(&note));
    let mut call = pin!(call);
    assert!(poll(call.as_mut()).is_pending());
    for _ in 0..3 {
        timer.advance(SECOND);
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!((script.starts(), script.drops()), (2, 2), "the second attempt is cut");
    token.cancel();
    let std::task::Poll::Ready(Err(gave_up)) = poll(call.as_mut()) else { panic!("it has ended") };
    let cut = Some(Cut::AttemptTimeout(SECOND * 2));
    assert_eq!((gave_up.reason(), gave_up.cut()), (StopReason::Cancelled, cut));
    assert_eq!(gave_up.last(), Some(&Down(1)), "the error of an earlier attempt");
    assert_eq!(
        gave_up.to_string(),
        "feed: gave up after 2 attempts in 3.0s, cancelled (last failure: did not finish within 2s)"
    );
    let line = "feed: gave up after 2 of 9 attempts, cancelled: did not finish within 2s";
    assert_eq!(seen.take(), [(line.to_owned(), cut, "cancelled".to_owned())]);
}

/// A cut is not the last failure of a call whose later attempt failed with an error.
#[test]
fn an_error_after_a_cut_is_the_last_failure() {
    let timer = ManualTimer::new();
    let (feed, token, script) =
        (feed(&timer), CancellationToken::new(), Script::new(&[Step::Hang, Step::Fail]));
    let call = retry(|_| script.play(), CUT, token.clone()).on(&feed);
    let mut call = pin!(call);
    assert!(poll(call.as_mut()).is_pending());
    for _ in 0..3 {
        timer.advance(SECOND);
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!(script.starts(), 2);
    token.cancel();
    let std::task::Poll::Ready(Err(gave_up)) = poll(call.as_mut()) else { panic!("it has ended") };
    assert_eq!((gave_up.cut(), gave_up.last()), (None, Some(&Down(2))));
    assert_eq!(gave_up.to_string(), "feed: gave up after 2 attempts in 3.0s, cancelled");
}

/// A call whose units come too late leaves at once. It is not counted as one in the queue.
#[test]
fn a_call_that_does_not_queue_is_not_counted_in_the_queue() {
    let timer = ManualTimer::new();
    let lines = RefCell::new(Vec::new());
    let note = |event: &Event<'_>| lines.borrow_mut().push(event.to_string());
    let quota = Quota::new().with_tokens(Rate::per_minute(60).with_burst(60));
    let upstream = feed(&timer).with_quota(quota);
    let call = |upstream| {
        let policy = RetryPolicy::new().with_total_timeout(SECOND * 8);
        drive(retry(|_| ready(Ok::<(), Down>(())), policy, Never).on(upstream), &timer)
    };
    call(upstream.at_cost(Cost::input(60)).observed_by(&note)).unwrap();
    lines.borrow_mut().clear();
    let gave_up = call(upstream.at_cost(Cost::input(30)).observed_by(&note)).unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Deadline);
    let lines = lines.into_inner();
    assert_eq!(lines[0], "feed: quota used up: 0 queued, further calls wait or are refused");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}
