//! The quota of a member while its store is silent, and after that.

use std::convert::Infallible;
use std::task::{Context, Waker};
use std::time::Duration;

use resile::fleet::State;
use resile::quota::{Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::{Never, Quota, RetryPolicy, Upstream, retry};

use super::strains::{REQUESTS, SECOND, feed, joined, lines};
use super::tracing::capture;

/// A store that is silent has not said that the quota is used up, and one that is back does not know all
/// members yet.
#[test]
fn a_silent_store_does_not_use_up_the_quota() {
    capture();
    let timer = ManualTimer::new();
    let (feed, requests) = (feed(&timer), REQUESTS);
    let shared = joined(&feed, &timer, State::Shared, 4);
    shared.answered();
    lines();
    let mut context = Context::from_waker(Waker::noop());
    let ms = SECOND / 1_000;
    // Returns the lines of a call that waits for so long while `then` happens after 100 ms.
    let mut waits = |time: Duration, then: &dyn Fn()| {
        let op = |_| async { Ok::<_, Infallible>(()) };
        let call = retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default()));
        let mut call = Box::pin(call);
        assert!(call.as_mut().poll(&mut context).is_pending());
        timer.advance(ms * 100);
        then();
        timer.advance(time.saturating_sub(ms * 100));
        assert!(call.as_mut().poll(&mut context).is_pending());
        let lines = lines();
        shared.adjust(requests, 1);
        assert!(call.as_mut().poll(&mut context).is_ready());
        lines.into_iter().filter(|line| line.contains("quota")).collect::<Vec<_>>()
    };
    timer.advance(ms * 20);
    assert_eq!(waits(ms * 450, &|| ()), [""; 0], "before the state has lasted");
    assert_eq!(waits(ms * 450, &|| shared.report(State::Coasting, 4)), [""; 0]);
    shared.report(State::Safe, 4);
    assert_eq!(waits(SECOND, &|| ()), [""; 0], "its share comes one by one");
    shared.report(State::Learning, 4);
    assert_eq!(
        waits(SECOND, &|| shared.answered()),
        [""; 0],
        "the store does not know all members"
    );
    shared.report(State::Shared, 4);
    let used_up = "WARN feed: quota used up: 4 processes share the limit of requests (10 per 1s), 1 \
        queued, further calls wait or are refused";
    assert_eq!(waits(ms * 250, &|| shared.answered()), [used_up], "it has no units");
    timer.advance(SECOND * 20);
    shared.adjust(requests, 1);
    feed.try_admit().unwrap().succeeded();
    assert_eq!(lines().len(), 1, "the end of the strain");
    // In safe mode the share is what there is.
    shared.report(State::Safe, 4);
    let used_up = "WARN feed: quota used up: exchanges with the store of the fleet fail, so this process uses \
        its part of the whole limit of requests (10 per 1s), 1 queued, further calls wait or are refused";
    assert_eq!(waits(ms * 250, &|| shared.adjust(requests, 0)), [used_up]);
    // The limit in the code is not what the process has learned of it.
    timer.advance(SECOND * 20);
    shared.adjust(requests, 1);
    feed.try_admit().unwrap().succeeded();
    assert_eq!(lines().len(), 1, "the end of the strain");
    shared.use_share(Dimension::Requests, 0.9, 1.0);
    let used_up = "WARN feed: quota used up: exchanges with the store of the fleet fail, so this process uses \
        its part of the whole limit of requests (10 per 1s, now 9), 1 queued, further calls wait or are refused";
    assert_eq!(waits(ms * 250, &|| shared.adjust(requests, 0)), [used_up]);
}

/// A process that has never had an answer knows its part only. A call that waits for it says nothing of the limit.
#[test]
fn a_store_that_has_never_answered_does_not_use_up_the_quota() {
    capture();
    let timer = ManualTimer::new();
    let feed = feed(&timer);
    let shared = joined(&feed, &timer, State::Safe, 1);
    lines();
    let mut context = Context::from_waker(Waker::noop());
    let op = |_| async { Ok::<_, Infallible>(()) };
    let call = retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default()));
    let mut call = Box::pin(call);
    for _ in 0..4 {
        assert!(call.as_mut().poll(&mut context).is_pending());
        timer.advance(SECOND / 4);
    }
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(lines(), [""; 0]);
    shared.adjust(REQUESTS, 0); // it has waited for a second
    assert!(call.as_mut().poll(&mut context).is_pending());
    let used_up = "WARN feed: quota used up: exchanges with the store of the fleet fail, so this process uses \
        its part of the whole limit of requests (10 per 1s), 1 queued, further calls wait or are refused";
    assert_eq!(lines(), [used_up]);
}

/// The cause of a strain may change while it lasts, so each of its lines has the cause of now.
#[test]
fn a_strain_that_goes_on_names_its_present_cause() {
    capture();
    let timer = ManualTimer::new();
    let quota = Quota::new().with_requests(Rate::per_second(10)).with_queue(2);
    let feed = Upstream::new("feed").with_quota(quota).with_timer(timer.clone());
    let shared = joined(&feed, &timer, State::Safe, 4);
    lines();
    let mut context = Context::from_waker(Waker::noop());
    let op = |_| async { Ok::<_, Infallible>(()) };
    let call = || Box::pin(retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default())));
    let (mut first, mut second) = (call(), call());
    assert!(first.as_mut().poll(&mut context).is_pending());
    timer.advance(SECOND);
    shared.adjust(REQUESTS, 0);
    assert!(first.as_mut().poll(&mut context).is_pending());
    let used_up = "WARN feed: quota used up: exchanges with the store of the fleet fail, so this process uses \
        its part of the whole limit of requests (10 per 1s), 1 queued, further calls wait or are refused";
    assert_eq!(lines(), [used_up]);

    // The store is back, and the processes learn a lower limit.
    shared.report(State::Shared, 4);
    shared.answered();
    shared.use_share(Dimension::Requests, 0.5, 1.0);
    lines();
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(call().as_mut().poll(&mut context).is_ready());
    let cause = "4 processes share the limit of requests (10 per 1s, now 5)";
    let full = format!("WARN feed: quota: its queue of 2 is full, {cause}, calls are refused");
    assert_eq!(lines(), [full]);
    // Four processes write this line every four minutes.
    timer.advance(SECOND * 240);
    assert!(call().as_mut().poll(&mut context).is_ready());
    let still =
        format!("INFO feed: quota still used up: {cause}, 2 waits, 2 refused within 241.0s");
    assert_eq!(lines(), [still]);
}
