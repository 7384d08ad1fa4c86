//! Parts at their limits: one line at the start of a strain, one at its end, and no flood between.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use ::tracing::Level;
use futures_util::future::join_all;
use resile::cooldown::Hold;
use resile::fleet::State;
use resile::observe::{Event, EventKind, HeldBy};
use resile::quota::{Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::upstream::{Resource, Shared};
use resile::{
    Backoff, Budget, Bulkhead, Cooldown, Jitter, Never, Quota, RetryPolicy, Throttle, Upstream,
    Verdict, retry,
};

use super::script::{Down, drive};
use super::tracing::{capture, messages};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const REQUESTS: Resource = Resource::Quota(Dimension::Requests);

const POLICY: RetryPolicy =
    RetryPolicy::new().with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

/// Returns the lines above DEBUG, without those of retries.
pub(super) fn lines() -> Vec<String> {
    let loud = messages().into_iter().filter(|(level, _)| *level <= Level::INFO);
    let lines = loud.map(|(level, message)| format!("{level} {message}"));
    lines.filter(|line| !line.contains("retrying")).collect()
}

/// Returns an upstream with ten requests a second.
pub(super) fn feed(timer: &ManualTimer) -> Upstream<ManualTimer> {
    let quota = Quota::new().with_requests(Rate::per_second(10));
    Upstream::new("feed").with_quota(quota).with_timer(timer.clone())
}

/// Shares the quota of the upstream with a fleet for three seconds, in this state.
pub(super) fn joined<'a>(
    feed: &'a Upstream<ManualTimer>,
    timer: &ManualTimer,
    state: State,
    members: u32,
) -> Shared<'a, ManualTimer> {
    let shared = feed.share().unwrap();
    shared.report(state, members);
    shared.extend(REQUESTS, SECOND * 90);
    timer.advance(SECOND * 3);
    shared
}

#[test]
fn a_spent_budget_is_two_lines_for_a_thousand_calls() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_budget(Budget::new()).with_timer(&timer);
    let down = AtomicU32::new(1_000);
    let call = || {
        let op = |_| {
            let fails =
                down.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            async move { fails.map_or(Ok(()), |left| Err(Down(left))) }
        };
        let _ = drive(retry(op, POLICY, Never).on(&feed), &timer);
    };
    while down.load(Ordering::Relaxed) > 0 {
        call();
    }
    let loud = messages();
    let warnings = loud.iter().filter(|(level, _)| *level == Level::WARN).count();
    // Four calls are retried twice and give up. One line says that the budget is spent.
    assert_eq!(warnings, 8 + 4 + 1);
    let spent = "retry budget spent: 0 of 8 tokens left, \
                 retries and hedges are not made until tokens come back: down, ";
    let is_spent = |(level, line): &(Level, String)| {
        *level == Level::WARN && line.starts_with(&format!("feed: {spent}"))
    };
    assert!(loud.iter().any(is_spent), "{loud:#?}");
    // A full token is there after ten successes, and the strain is over after ten quiet seconds.
    (0..10).for_each(|_| call());
    assert_eq!(lines(), [""; 0]);
    timer.advance(SECOND * 10);
    call();
    let over = lines();
    assert_eq!(over.len(), 1, "{over:?}");
    assert!(over[0].starts_with("INFO feed: retry budget pays again: "), "{over:?}");
    assert!(over[0].contains(" retries not made"), "{over:?}");
}

#[test]
fn a_cooldown_is_two_lines_for_all_calls_that_wait() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_cooldown(Cooldown::new()).with_timer(&timer).with_seed(1);
    let classify = |_: &Down| Verdict::throttled().after(SECOND * 20);
    let once = AtomicU32::new(0);
    let call = || {
        let first = once.fetch_add(1, Ordering::Relaxed) == 0;
        let op = move |attempt: resile::Attempt| async move {
            if first && attempt.is_first() { Err(Down(1)) } else { Ok(()) }
        };
        retry(op, POLICY.with_classifier(classify), Never).on(&feed)
    };
    drive(join_all((0..40).map(|_| call())), &timer);
    let waits = messages();
    let held = waits.iter().filter(|(_, line)| line.contains("for the cooldown")).count();
    // The retry of the throttled call comes during the release, which has no lines.
    assert_eq!(held, 39, "a line for each wait for the hold");
    let starts = "feed: cooldown: all calls wait 20.0s, those with less time left end at once, \
                  the upstream throttled an attempt";
    let loud: Vec<_> = waits.iter().filter(|(level, _)| *level <= Level::INFO).collect();
    assert!(loud.len() == 2 && loud.contains(&&(Level::WARN, starts.into())), "{loud:?}");
    timer.advance(SECOND * 30);
    drive(call(), &timer).unwrap();
    let over = lines();
    // Each of the 40 calls waited once.
    let over_in = "INFO feed: cooldown over: 40 waits within 2";
    assert!(over.len() == 1 && over[0].starts_with(over_in), "{over:?}");
}

/// The first hold of a strain says nothing of one that is much longer.
#[test]
fn a_hold_of_more_than_twice_the_time_has_its_own_line() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_cooldown(Cooldown::new()).with_timer(&timer).with_seed(1);
    let mut sent: Vec<_> = (0..6).map(|_| feed.try_admit().unwrap()).collect();
    let mut throttled = |seconds: f64| {
        let wait = SECOND.mul_f64(seconds);
        sent.pop().unwrap().settle(&Verdict::throttled().after(wait));
        timer.advance(wait);
        lines()
    };
    let starts = |time: &str| {
        let words = "those with less time left end at once, the upstream throttled an attempt";
        format!("WARN feed: cooldown: all calls wait {time}, {words}")
    };
    assert_eq!(throttled(0.4), [starts("400.0ms")]);
    assert_eq!(throttled(1.3), [""; 0], "less than a second longer");
    assert_eq!(throttled(10.0), [starts("10.0s")]);
    assert_eq!(throttled(20.0), [""; 0], "not more than twice");
    assert_eq!(throttled(30.0), [starts("30.0s")]);
    timer.advance(SECOND * 20);
    feed.try_admit().unwrap().succeeded();
    let over = lines();
    assert!(over.len() == 1 && over[0].contains("cooldown over: 5 holds"), "{over:?}");
    assert_eq!(throttled(1.5), [starts("1.5s")], "another strain");
}

#[test]
fn a_throttle_is_few_lines_for_all_attempts_that_it_refuses() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_throttle(Throttle::new()).with_timer(&timer).with_seed(1);
    let is_refused = |is_overloaded: bool| {
        timer.advance(SECOND / 10);
        match feed.try_admit() {
            Ok(sent) if is_overloaded => sent.settle(&Verdict::throttled()),
            Ok(sent) => sent.succeeded(),
            Err(_) => return true,
        }
        false
    };
    let refused = (0..100).filter(|_| is_refused(true)).count();
    let mut all = refused;
    while feed.throttled() > Some(0.0) {
        all += usize::from(is_refused(false));
    }
    for _ in 0..110 {
        assert!(!is_refused(false));
    }
    let lines: Vec<_> = lines().into_iter().filter(|line| line.contains("throttle")).collect();
    let [start, still @ .., end] = &lines[..] else { panic!("{lines:?}") };
    let goes_on = "WARN feed: throttle still refuses attempts: ";
    assert!(still.iter().all(|line| line.starts_with(goes_on)), "{lines:?}");
    assert!((1..5).contains(&still.len()) && refused > 70, "one a minute: {lines:?}");
    let words = " % of the attempts are refused, the upstream refuses more than half";
    assert!(start.starts_with("WARN feed: throttle: ") && start.ends_with(words), "{lines:?}");
    let over = format!("INFO feed: throttle admits all again: {all} refusals within ");
    assert!(end.starts_with(&over), "{lines:?} for {all}");
}

#[test]
fn a_used_up_quota_is_two_lines_and_a_full_queue_is_one_more() {
    capture();
    let timer = ManualTimer::new();
    let bulkhead = Bulkhead::new(1).with_queue(2);
    let feed = Upstream::new("feed").with_bulkhead(bulkhead).with_timer(&timer);
    let slow = || {
        let op = |_| {
            let sleep = resile::time::Timer::sleep(&timer, SECOND);
            async move {
                sleep.await;
                Ok::<_, Infallible>(())
            }
        };
        retry(op, RetryPolicy::none(), Never).on(&feed)
    };
    for _ in 0..3 {
        drive(join_all((0..10).map(|_| slow())), &timer);
    }
    let full = "feed: bulkhead full: 1 in flight, 1 queued, further calls wait or are refused";
    let no_queue = "feed: bulkhead: its queue of 2 is full, calls are refused";
    assert_eq!(lines(), [format!("WARN {full}"), format!("WARN {no_queue}")]);
    timer.advance(SECOND * 10);
    drive(slow(), &timer).unwrap();
    let over =
        "INFO feed: bulkhead has room again: 6 waits, 21 refused within 8.0s, until 12.0s ago";
    assert_eq!(lines(), [over]);

    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let feed = Upstream::new("feed").with_quota(quota).with_timer(&timer);
    let quick = || {
        let op = |_| async { Ok::<_, Infallible>(()) };
        retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default()))
    };
    drive(join_all((0..5).map(|_| quick())), &timer);
    let used_up = "WARN feed: quota used up: it holds this attempt for 1.0s, the limit is 1 request per 1s, 1 queued, further calls \
                   wait or are refused";
    assert_eq!(lines(), [used_up]);
    timer.advance(SECOND * 20);
    drive(quick(), &timer).unwrap();
    let over = "INFO feed: quota was used up: 4 waits within 4.0s, until 20.0s ago";
    assert_eq!(lines(), [over]);

    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1)).with_queue(2);
    let feed = Upstream::new("feed").with_quota(quota).with_timer(&timer);
    let quick = || {
        let op = |_| async { Ok::<_, Infallible>(()) };
        retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default()))
    };
    for _ in 0..2 {
        drive(join_all((0..5).map(|_| quick())), &timer);
    }
    let no_queue = "WARN feed: quota: its queue of 2 is full, the limit is 1 request per 1s, calls are refused";
    assert_eq!(lines(), [used_up, no_queue], "once in a strain");
    timer.advance(SECOND * 20);
    drive(quick(), &timer).unwrap();
    let over = "INFO feed: quota was used up: 4 waits, 5 refused within 4.0s, until 20.0s ago";
    assert_eq!(lines(), [over]);
}

/// A quota without a lease is not used up: the store has not said yet what this process may use.
#[test]
fn a_member_that_joins_or_wakes_does_not_warn_of_its_quota() {
    capture();
    let timer = ManualTimer::new();
    let (feed, requests) = (feed(&timer), REQUESTS);
    let shared = feed.share().unwrap();
    let warns = || {
        feed.try_admit().unwrap_err();
        let lines = lines();
        assert!(lines.iter().all(|line| line.contains("used up")), "{lines:?}");
        lines.len()
    };
    shared.report(State::Joining, 1);
    shared.extend(requests, SECOND * 10);
    timer.advance(SECOND * 5);
    assert_eq!(warns(), 0, "while it joins");
    shared.report(State::Shared, 4);
    lines();
    timer.advance(SECOND);
    assert_eq!(warns(), 0, "in the first two seconds, while the others give units back");
    shared.report(State::Coasting, 4);
    shared.report(State::Shared, 4);
    lines();
    timer.advance(SECOND);
    assert_eq!(warns(), 0, "before the store says that it has no units");
    shared.adjust(requests, 0);
    assert_eq!((warns(), warns()), (1, 0), "once, and no later change of the state delays it");

    // A member without calls gives its lease back, and the first call waits for an exchange.
    timer.advance(SECOND * 20);
    shared.extend(requests, SECOND);
    shared.adjust(requests, 1);
    feed.try_admit().unwrap().succeeded();
    assert_eq!(lines(), ["INFO feed: quota was used up: 2 refused, 20.0s ago"]);
    timer.advance(SECOND * 20);
    assert_eq!(warns(), 0, "after a rest");
    shared.extend(requests, SECOND);
    shared.adjust(requests, 0);
    assert_eq!(warns(), 1);

    // The next membership begins anew, and one process alone has no doubt.
    drop(shared);
    timer.advance(SECOND * 20);
    feed.try_admit().unwrap().succeeded();
    lines();
    let again = feed.share().unwrap();
    again.extend(requests, SECOND);
    assert_eq!(warns(), 0, "while it joins again");
    drop(again);
    assert_eq!(warns(), 1);
}

/// A member below the limit of its fleet waits for one exchange now and then. That is no strain.
#[test]
fn a_member_that_waits_for_an_exchange_does_not_warn_of_its_quota() {
    capture();
    let timer = ManualTimer::new();
    let (feed, requests) = (feed(&timer).with_cooldown(Cooldown::new().with_jitter(0.0)), REQUESTS);
    let shared = joined(&feed, &timer, State::Shared, 4);
    lines();
    let quick = || {
        let op = |_| async { Ok::<_, Infallible>(()) };
        Box::pin(retry(op, RetryPolicy::none(), Never).on(feed.at_cost(Cost::default())))
    };
    let mut context = Context::from_waker(Waker::noop());
    let ms = SECOND / 1_000;

    for _ in 0..100 {
        let mut calls = [quick(), quick()];
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_pending()));
        timer.advance(ms * 200);
        shared.adjust(requests, 2);
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_ready()));
    }
    assert_eq!(lines(), [""; 0], "each exchange has brought what was wanted");

    // A hold of all calls keeps those in the queue too.
    let mut call = quick();
    assert!(call.as_mut().poll(&mut context).is_pending());
    shared.hold_as(Hold { remaining: SECOND, ..Hold::default() });
    timer.advance(SECOND);
    assert!(call.as_mut().poll(&mut context).is_pending());
    timer.advance(ms * 3);
    shared.adjust(requests, 1);
    assert!(call.as_mut().poll(&mut context).is_ready());
    timer.advance(SECOND * 3);
    assert_eq!(lines(), [""; 0], "it has waited for 3 ms after the hold");

    // Nobody says that the store has no units, but they do not come.
    let mut calls = [quick(), quick(), quick()];
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_pending()));
    timer.advance(ms * 249);
    assert!(calls[0].as_mut().poll(&mut context).is_pending());
    assert_eq!(lines(), [""; 0]);
    timer.advance(ms);
    assert!(calls[0].as_mut().poll(&mut context).is_pending());
    let used_up = "WARN feed: quota used up: 4 processes share the limit of requests (10 per 1s), 3 \
        queued, further calls wait or are refused";
    assert_eq!(lines(), [used_up]);
    timer.advance(ms * 50);
    shared.adjust(requests, 4);
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_ready()));
    timer.advance(SECOND * 10);
    assert!(quick().as_mut().poll(&mut context).is_ready());
    let over = "INFO feed: quota was used up: 3 waits within 300.0ms, until 10.0s ago";
    assert_eq!(lines(), [over], "it began with the first wait");

    // The line at the end counts each wait since then, also one that was over before the warning.
    let mut calls = [quick(), quick(), quick()];
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_pending()));
    timer.advance(ms * 200);
    shared.adjust(requests, 2);
    assert!(calls[..2].iter_mut().all(|call| call.as_mut().poll(&mut context).is_ready()));
    let mut late = quick();
    assert!(late.as_mut().poll(&mut context).is_pending());
    timer.advance(ms * 50);
    assert!(calls[2].as_mut().poll(&mut context).is_pending());
    assert_eq!(lines().len(), 1);
    shared.adjust(requests, 2);
    assert!(calls[2].as_mut().poll(&mut context).is_ready());
    assert!(late.as_mut().poll(&mut context).is_ready());
    timer.advance(SECOND * 10);
    shared.adjust(requests, 1);
    assert!(quick().as_mut().poll(&mut context).is_ready());
    assert_eq!(lines(), ["INFO feed: quota was used up: 4 waits within 250.0ms, until 10.0s ago"]);

    // The store says that it has none: the first wait is a strain, when it asks again at the latest.
    let mut call = quick();
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(lines(), [""; 0]);
    shared.adjust(requests, 0);
    assert!(call.as_mut().poll(&mut context).is_pending());
    let used_up = "WARN feed: quota used up: 4 processes share the limit of requests (10 per 1s), 1 \
        queued, further calls wait or are refused";
    assert_eq!(lines(), [used_up]);
    shared.adjust(requests, 1);
    assert!(call.as_mut().poll(&mut context).is_ready());
}

/// The events have the part and its numbers.
#[test]
fn a_strain_has_two_events() {
    let (timer, seen) = (ManualTimer::new(), RefCell::new(Vec::new()));
    let observer = |event: &Event<'_>| match event.kind {
        EventKind::Limiting { by, limit, hold, full, .. } => {
            let (full, alone) = (full.is_some(), event.call.is_none());
            seen.borrow_mut().push(format!("{by:?} {limit:?} {hold:?} {full} {alone}"));
        }
        EventKind::Relieved { by, lasted, ago, times, refused, holds, leaves, .. } => {
            let counts = format!("{times} {refused} {holds} {leaves}");
            seen.borrow_mut().push(format!("{by:?} {lasted:?} {ago:?} {counts}"));
        }
        _ => {}
    };
    let feed = Upstream::new("feed").with_budget(Budget::new().with_capacity(1)).with_timer(&timer);
    let target = || feed.observed_by(&observer);
    let fails = || retry(|_| async { Err::<(), _>("down") }, POLICY, Never).on(target());
    drive(fails(), &timer).unwrap_err();
    timer.advance(SECOND * 3);
    drive(fails(), &timer).unwrap_err();
    for _ in 0..20 {
        timer.advance(SECOND);
        drive(retry(|_| async { Ok::<_, &str>(()) }, POLICY, Never).on(target()), &timer).unwrap();
    }
    assert_eq!(seen.into_inner(), ["Budget Some(1) None false true", "Budget 3s 10s 2 2 0 false"]);
    assert_eq!(HeldBy::Breaker.as_str(), "breaker");
}

#[test]
fn a_strain_ends_on_an_upstream_that_only_fails() {
    capture();
    let timer = ManualTimer::new();
    let bulkhead = Bulkhead::new(1).with_queue(2);
    let feed = Upstream::new("feed").with_bulkhead(bulkhead).with_timer(&timer);
    let fails = || {
        let op = |_| {
            let sleep = resile::time::Timer::sleep(&timer, SECOND);
            async move {
                sleep.await;
                Err::<(), _>(Down(1))
            }
        };
        retry(op, RetryPolicy::none(), Never).on(&feed)
    };
    drive(join_all((0..3).map(|_| fails())), &timer);
    let loud = || lines().into_iter().filter(|line| line.contains("bulkhead")).collect::<Vec<_>>();
    assert_eq!(loud().len(), 1);
    timer.advance(SECOND * 10);
    drive(fails(), &timer).unwrap_err();
    assert_eq!(loud().len(), 1);
}

/// A member of a fleet holds the tokens of its next retries. Without them only its lease is used up, and
/// each retry that is not made counts.
#[test]
fn a_member_says_whether_the_fleet_or_only_its_lease_has_no_tokens() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_budget(Budget::new()).with_timer(&timer);
    let shared = feed.share().unwrap();
    let token = 1_000_000;
    let fails = || {
        let call = retry(|_| async { Err::<(), _>(Down(0)) }, POLICY, Never).on(&feed);
        drive(call, &timer).unwrap_err()
    };
    let relieved = || {
        shared.adjust(Resource::Budget, token);
        timer.advance(SECOND * 11);
        drive(retry(|_| async { Ok::<_, Down>(()) }, POLICY, Never).on(&feed), &timer).unwrap();
        shared.adjust(Resource::Budget, -2 * token);
    };
    shared.adjust(Resource::Budget, -8 * token);
    shared.report(State::Shared, 4);
    let own = "retry budget: this process holds too few tokens of the fleet's budget (capacity 8), \
               retries and hedges are not made until it gets more: down, 0";
    let end = fails();
    assert_eq!(end.reason(), resile::StopReason::Budget);
    let words = "this process holds too few tokens of the fleet's budget";
    assert!(end.to_string().contains(words), "{end}");
    fails();
    shared.adjust(Resource::Budget, 0);
    let end = fails();
    assert!(end.to_string().contains("the retry budget is spent"), "the store has no more: {end}");
    shared.adjust(Resource::Budget, token / 2);
    let end = fails();
    assert!(end.to_string().contains(words), "a part of a token is no word on the store: {end}");
    shared.adjust(Resource::Budget, -token);
    shared.adjust(Resource::Budget, 0);
    relieved();
    let over = "INFO feed: retry budget pays again: 4 retries not made, 11.0s ago".to_owned();
    assert_eq!(lines(), [format!("WARN feed: {own}"), over], "one strain");

    shared.adjust(Resource::Budget, 0);
    fails();
    let spent = "WARN feed: retry budget spent: 0 of 8 tokens left, \
                 retries and hedges are not made until tokens come back: down, 0";
    assert_eq!(lines(), [spent]);
}

/// A hold that is longer than the time of a call ends the call. The line of its start says that such calls end,
/// and that of its end says how many, and how many holds there were: the second one has no line of its own.
#[test]
fn a_hold_that_ends_calls_says_so() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_cooldown(Cooldown::new()).with_timer(&timer);
    let short = POLICY.with_total_timeout(SECOND * 5);
    let ask =
        |policy| drive(retry(|_| async { Ok::<_, Down>(1) }, policy, Never).on(&feed), &timer);
    feed.hold(SECOND * 20);
    for _ in 0..3 {
        assert_eq!(ask(short).unwrap_err().attempts(), 0);
    }
    ask(POLICY).unwrap();
    feed.hold(SECOND * 20);
    assert_eq!(ask(short).unwrap_err().attempts(), 0);
    timer.advance(SECOND * 60);
    ask(short).unwrap();
    let held = "WARN feed: cooldown: all calls wait 20.0s, those with less time left end at once, \
                the program asked for it";
    let told = lines();
    let over = "INFO feed: cooldown over: 2 holds, 1 wait, 4 ended at once within ";
    assert!(told.len() == 2 && told[0] == held && told[1].starts_with(over), "{told:#?}");
}

/// A strain that goes on is told once a minute, with its numbers and that of the budget with the latest failure.
#[test]
fn a_strain_that_goes_on_has_one_line_a_minute() {
    capture();
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_budget(Budget::new().with_capacity(1)).with_timer(&timer);
    let later = |calls: u32| {
        for call in 0..calls {
            let op = move |_| async move { Err::<(), _>(Down(call)) };
            let policy = POLICY.with_attempts(2).with_backoff(Backoff::none());
            let _ = drive(retry(op, policy, Never).on(&feed), &timer);
            timer.advance(SECOND);
        }
        lines().into_iter().filter(|line| line.contains("budget")).collect::<Vec<_>>()
    };
    let spent = "WARN feed: retry budget spent: 0 of 1 tokens left, retries and hedges are not made \
                 until tokens come back: down, 1";
    assert_eq!(later(61), [spent]);
    let still = |count, time: &str, last| {
        format!(
            "WARN feed: retry budget still spent: {count} retries not made within {time}: down, {last}"
        )
    };
    assert_eq!(later(70), [still(61, "60.0s", 0), still(121, "120.0s", 60)]);

    let feed = Upstream::new("feed").with_bulkhead(Bulkhead::new(1)).with_timer(&timer);
    let _place = feed.try_admit().unwrap();
    for _ in 0..62 {
        feed.try_admit().unwrap_err();
        timer.advance(SECOND);
    }
    let told = lines();
    let still = "INFO feed: bulkhead still full: 61 refused within 60.0s";
    assert!(told.len() == 2 && told[1] == still, "{told:#?}");

    // A quota in shadow mode makes nobody wait.
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1)).with_shadow(true);
    let feed = Upstream::new("feed").with_quota(quota).with_timer(&timer);
    for _ in 0..400 {
        feed.try_admit().unwrap().succeeded();
        timer.advance(SECOND / 5);
    }
    assert_eq!(lines().len(), 1);
}

/// The rate limit of the upstream has emptied the quota of a fleet too. The process that met it knows.
#[test]
fn a_member_that_was_refused_says_why_its_quota_is_empty() {
    capture();
    let timer = ManualTimer::new();
    let (feed, requests) = (feed(&timer).with_cooldown(Cooldown::new().with_jitter(0.0)), REQUESTS);
    let shared = joined(&feed, &timer, State::Shared, 4);
    shared.adjust(requests, 1);
    feed.try_admit().unwrap().settle(&Verdict::throttled().after(SECOND * 2));
    timer.advance(SECOND * 3);
    lines();
    let lacks = || {
        shared.adjust(requests, 0);
        feed.try_admit().unwrap_err();
        lines().into_iter().filter(|line| line.contains("queued")).collect::<Vec<_>>()
    };
    let emptied = "WARN feed: quota emptied by a rate limit of the upstream: 4 processes share the \
                   limit of requests (10 per 1s";
    let told = lacks();
    assert!(told.len() == 1 && told[0].starts_with(emptied), "{told:#?}");
    timer.advance(SECOND * 60);
    shared.adjust(requests, 1);
    feed.try_admit().unwrap().succeeded();
    let told = lacks();
    assert!(told.len() == 1 && told[0].starts_with("WARN feed: quota used up: 4 "), "{told:#?}");
}
