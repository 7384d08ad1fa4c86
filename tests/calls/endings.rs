//! What the error and the event of a call that gave up say of its end.

use std::cell::RefCell;
use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use resile::classify::{Always, ClassifyExt, Cut};
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Rate};
use resile::time::ManualTimer;
use resile::{
    Backoff, Cooldown, GaveUp, Health, HedgePolicy, Jitter, Never, Quota, RetryPolicy, StopReason,
    Upstream, Verdict, hedge, retry,
};
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

/// Returns the error of a call, and the lines of its upstream that begin with `start`.
fn ends(
    upstream: &Upstream<ManualTimer>,
    timer: &ManualTimer,
    script: &Script,
    policy: RetryPolicy<impl resile::Classify<Down>>,
    start: &str,
) -> (GaveUp<Down>, Vec<String>) {
    let lines = RefCell::new(Vec::new());
    let note = |event: &Event<'_>| lines.borrow_mut().push(event.to_string());
    let call = retry(|_| script.play(), policy, Never).on(upstream.observed_by(&note));
    let gave_up = drive(call, timer).unwrap_err();
    let lines = lines.into_inner().into_iter();
    (gave_up, lines.filter(|line| line.starts_with(start)).collect())
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
        "feed: gave up after 2 attempts in 3.0s, cancelled (last failure: did not finish within 2s; \
         an earlier attempt failed)"
    );
    let whole = format!("{gave_up:#}");
    assert!(whole.ends_with("within 2s; an earlier attempt failed: down, 1)"), "{whole}");
    let line = "feed: gave up after 2 of 9 attempts, cancelled: did not finish within 2s; an \
                earlier attempt failed: down, 1";
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

/// A hold begins in the delay after a cut. The verdict on the cut is that of the call.
#[test]
fn the_verdict_on_a_remembered_cut_is_told_to_an_outer_call() {
    let timer = ManualTimer::new();
    let upstream = feed(&timer).with_cooldown(Cooldown::new());
    let script = Script::new(&[Step::Hang]);
    let policy = CUT.with_total_timeout(SECOND * 15);
    let mut call = pin!(retry(|_| script.play(), policy, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND * 2);
    assert!(poll(call.as_mut()).is_pending());
    upstream.hold(SECOND * 60);
    timer.advance(SECOND);
    let std::task::Poll::Ready(Err(gave_up)) = poll(call.as_mut()) else { panic!("it has ended") };
    let cut = Some(Cut::AttemptTimeout(SECOND * 2));
    assert_eq!((gave_up.reason(), gave_up.cut()), (StopReason::Deadline, cut));
    assert_eq!(gave_up.verdict().map(|verdict| verdict.health()), Some(resile::Health::Failing));
    let words = gave_up.to_string();
    let start = "feed: gave up after 1 attempt in 3.0s, the cooldown holds the next attempt for ";
    assert!(words.starts_with(start), "{words}");
    let end = ", but 12.0s of 15s are left (last failure: did not finish within 2s)";
    assert!(words.ends_with(end), "{words}");
}

/// Times that look alike are told apart, and a delay up to the deadline is named as such.
#[test]
fn the_words_of_a_delay_that_is_too_long_do_not_contradict_themselves() {
    let end = |delay: u64, total: u64| {
        let timer = ManualTimer::new();
        let script = Script::new(&[Step::Fail]);
        let steps = Backoff::fixed(Duration::from_millis(delay)).with_jitter(Jitter::None);
        let policy =
            RetryPolicy::new().with_backoff(steps).with_total_timeout(Duration::from_millis(total));
        ends(&feed(&timer), &timer, &script, policy, "feed: gave up").0.to_string()
    };
    let (start, words) = ("feed: gave up after 1 attempt", "the next attempt would start in");
    assert_eq!(end(1_640, 1_620), format!("{start}, {words} 1.64s, but only 1.62s are left"));
    assert_eq!(
        end(2_000, 2_000),
        format!("{start}, {words} 2.0s, just when the 2.0s left of 2s end")
    );
}

/// The wait belongs to the reason, so it stands before the last failure.
#[test]
fn the_wait_for_a_breaker_stands_before_the_last_failure() {
    let (timer, script) = (ManualTimer::new(), Script::new(&[Step::Hang]));
    let breaker = resile::Breaker::new().with_open_time(Backoff::fixed(SECOND * 30));
    let upstream = feed(&timer).with_breaker(breaker.with_consecutive(1));
    let (gave_up, _) = ends(&upstream, &timer, &script, CUT, "feed: gave up");
    assert_eq!(
        gave_up.to_string(),
        "feed: gave up after 1 attempt in 2.0s, the circuit breaker is open, try again in 30.0s \
         (last failure: did not finish within 2s)"
    );
}

/// While the probes of a half-open breaker are in flight, nobody knows when it admits calls. An isolation
/// has other words.
#[test]
fn a_call_that_a_half_open_breaker_refuses_names_its_probes() {
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND * 30).with_jitter(Jitter::None);
    let breaker = resile::Breaker::new().with_open_time(open).with_consecutive(1);
    let upstream = feed(&timer).with_breaker(breaker.with_probes(1.0, 1));
    let down = Script::new(&[Step::Fail]);
    let once = CUT.with_attempts(1);
    let refused = || ends(&upstream, &timer, &down, once, "feed: gave up");
    let (gave_up, _) = refused();
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    timer.advance(SECOND * 30);

    let (hangs, denied) = (Script::new(&[Step::Hang]), RefCell::new(Vec::new()));
    let note = |event: &Event<'_>| {
        if let EventKind::Denied { .. } = event.kind {
            denied.borrow_mut().push(event.to_string());
        }
    };
    let probe = hedge(|_| hangs.play(), HedgePolicy::new(), Never).on(upstream.observed_by(&note));
    let mut probe = Box::pin(probe);
    assert!(poll(probe.as_mut()).is_pending());
    timer.advance(SECOND);
    assert!(poll(probe.as_mut()).is_pending());
    let (gave_up, lines) = refused();
    assert_eq!((gave_up.reason(), gave_up.retry_after()), (StopReason::Open, None));
    let words = "the circuit breaker is half-open and its probes have not ended";
    assert_eq!(denied.take(), [format!("feed: hedge not started after attempt 1 of 2: {words}")]);
    assert_eq!(gave_up.to_string(), format!("feed: gave up after 0 attempts, {words}"));
    assert_eq!(lines, [format!("feed: gave up after 0 of 1 attempts, {words}")]);

    let isolation = upstream.isolate();
    let (gave_up, lines) = refused();
    assert_eq!((gave_up.reason(), gave_up.retry_after()), (StopReason::Open, None));
    let words = "the circuit breaker is open";
    assert_eq!(gave_up.to_string(), format!("feed: gave up after 0 attempts, {words}"));
    assert_eq!(lines, [format!("feed: gave up after 0 of 1 attempts, {words}")]);
    drop((isolation, probe));
    assert_eq!(down.starts(), 1, "the refused calls sent nothing");
}

/// A time is rounded before its unit is chosen, so one number has one form.
#[test]
fn a_second_less_a_little_is_a_second() {
    let (timer, script) = (ManualTimer::new(), Script::new(&[Step::Fail]));
    let almost = Backoff::fixed(Duration::from_micros(999_970)).with_jitter(Jitter::None);
    let policy = CUT.with_attempts(2).with_backoff(almost);
    let (gave_up, lines) =
        ends(&feed(&timer), &timer, &script, policy, "feed: attempt 1 of 2 failed,");
    assert_eq!(lines, ["feed: attempt 1 of 2 failed, retrying in 1.0s: down, 1"]);
    assert_eq!(gave_up.to_string(), "feed: gave up after 2 attempts in 1.0s");
}

/// A policy without a limit on attempts has no number to print.
#[test]
fn attempts_without_a_limit_are_not_counted_against_one() {
    let timer = ManualTimer::new();
    let script = Script::new(&[Step::Fail]);
    let steps = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    let policy = RetryPolicy::new()
        .with_attempts(u32::MAX)
        .with_backoff(steps)
        .with_total_timeout(SECOND * 2);
    let (_, lines) =
        ends(&feed(&timer), &timer, &script, policy, "feed: attempt 1 failed, retrying");
    assert!(!lines.is_empty(), "{lines:?}");
}

/// The next delay is longer than the time left. The line has both, and the error too.
#[test]
fn a_delay_that_is_too_long_is_named_with_the_time_left() {
    let timer = ManualTimer::new();
    let script = Script::new(&[Step::Fail]);
    let steps = Backoff::fixed(SECOND * 5).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_backoff(steps).with_total_timeout(SECOND * 8);
    let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
    let words = "the next attempt would start in 5.0s, but 3.0s of 8s are left";
    assert_eq!(gave_up.reason(), StopReason::Deadline);
    assert_eq!(gave_up.to_string(), format!("feed: gave up after 2 attempts in 5.0s, {words}"));
    assert_eq!(lines, [format!("feed: gave up after 2 of 3 attempts, {words}: down, 2")]);
}

/// The wait is the hint of the upstream, or the delay of the backoff if that is longer.
#[test]
fn a_wait_that_the_upstream_asks_for_is_not_called_a_delay() {
    let end = |hint: u64, backoff: u64, used: u64| {
        let timer = ManualTimer::new();
        let script = Script::new(&[Step::Fail]);
        let policy = RetryPolicy::new()
            .with_backoff(Backoff::fixed(Duration::from_secs(backoff)).with_jitter(Jitter::None))
            .with_total_timeout(SECOND * 3)
            .with_classifier(move |down: &Down| {
                let hint = if u64::from(down.0) > used { hint } else { 0 };
                Verdict::throttled().after(Duration::from_secs(hint))
            });
        let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
        assert_eq!(gave_up.reason(), StopReason::Deadline);
        let (words, line) = (gave_up.to_string(), lines.concat());
        let (_, told) = words.split_once(", ").unwrap();
        assert!(line.contains(&format!(", {told}: down")), "{line}: {told}");
        told.to_owned()
    };
    assert_eq!(end(8, 1, 0), "the upstream asks for a wait of 8.0s, but only 3s are left");
    assert_eq!(end(8, 1, 1), "the upstream asks for a wait of 8.0s, but 2.0s of 3s are left");
    let backoff = "the next attempt would start in 9.0s, but only 3s are left, try again in 8.0s";
    assert_eq!(end(8, 9, 0), backoff);
}

/// The classifier forbids a retry of this call, and a later call may succeed. An error that says nothing against the
/// upstream is final.
#[test]
fn an_error_of_an_upstream_in_trouble_is_not_called_final() {
    let (forbidden, is_final) = ("the classifier forbids a retry", "the error is final");
    let timed_out = Verdict::transient().not_again().idempotent();
    for (verdict, words) in [
        (timed_out, forbidden),
        (Verdict::overloaded().not_again().idempotent(), forbidden),
        (Verdict::fatal(), is_final),
        (Verdict::transient().with_health(Health::Healthy).not_again(), is_final),
    ] {
        let timer = ManualTimer::new();
        let script = Script::new(&[Step::Fail]);
        let policy = CUT.with_classifier(move |_: &Down| verdict);
        let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
        assert_eq!(lines, [format!("feed: gave up after 1 of 9 attempts, {words}: down, 1")]);
        assert_eq!(gave_up.to_string(), format!("feed: gave up after 1 attempt, {words}"));
    }
    // The same words after a cut.
    let timer = ManualTimer::new();
    let script = Script::new(&[Step::Hang]);
    let policy = CUT.with_classifier((|_: &Down| true).cut_is(timed_out));
    let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
    assert!(lines[0].contains(&format!(", {forbidden}: did not finish within 2s")), "{lines:?}");
    assert!(gave_up.to_string().contains(&format!(", {forbidden} (last failure: ")));
    assert_eq!(StopReason::Fatal.to_string(), forbidden);
}

/// The deadline cuts an attempt that began late, which says nothing about the upstream.
#[test]
fn a_cut_by_the_deadline_names_the_time_that_the_attempt_had() {
    const LATE: &[Step] = &[Step::Fail, Step::Fail, Step::Hang];
    let steps = Backoff::fixed(Duration::from_millis(1_400)).with_jitter(Jitter::None);
    for (script, attempt_timeout, attempts, words, before) in [
        // The earlier error says why the attempt began late.
        (LATE, Some(SECOND), 3, "after 3s", "; an earlier attempt failed: down, 2"),
        (LATE, None, 3, "after 3s", "; an earlier attempt failed: down, 2"),
        (&[Step::Hang; 2], Some(SECOND), 2, "after 3s, in the 600.0ms left for it", ""),
        (&LATE[2..], Some(SECOND * 9), 1, "after 3s", ""),
    ] {
        let (timer, script) = (ManualTimer::new(), Script::new(script));
        let mut policy = RetryPolicy::new().with_backoff(steps).with_total_timeout(SECOND * 3);
        if let Some(limit) = attempt_timeout {
            policy = policy.with_attempt_timeout(limit);
        }
        let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
        let words = format!("did not finish before the deadline of the call {words}");
        let text = gave_up.to_string();
        assert!(text.contains(&format!(" in 3.0s (last failure: {words}")), "{text}");
        let line = format!("feed: gave up after {attempts} of 3 attempts: {words}{before}");
        assert_eq!(lines, [line]);
    }
}

/// No setting of the policy has the number of such a deadline, so the words say whose it is.
#[test]
fn a_cut_by_the_deadline_of_the_caller_names_the_caller() {
    let left = Duration::from_nanos(599_812_345);
    for (total, later, words) in [
        (SECOND * 3, None, "did not finish before the deadline of its caller after 599.8ms"),
        (SECOND / 2, None, "did not finish before the deadline of the call after 500ms"),
        // A setting that comes later replaces the time of the caller.
        (SECOND * 3, Some(SECOND), "did not finish before the deadline of the call after 1s"),
    ] {
        let (timer, script) = (ManualTimer::new(), Script::new(&[Step::Hang]));
        let policy = RetryPolicy::new().with_total_timeout(total).shortened_to(left);
        let policy = later.map_or(policy, |later| policy.with_total_timeout(later));
        let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
        assert!(gave_up.to_string().ends_with(&format!(" (last failure: {words})")), "{gave_up}");
        assert_eq!(lines, [format!("feed: gave up after 1 of 3 attempts: {words}")]);

        let script = Script::new(&[Step::Hang]);
        let feed = feed(&timer);
        let call = feed.call(script.play(), Always).with_total_timeout(total).shortened_to(left);
        let call = match later {
            Some(later) => call.with_total_timeout(later),
            None => call,
        };
        let gave_up = drive(call, &timer).unwrap_err();
        assert!(gave_up.to_string().ends_with(&format!(" (last failure: {words})")), "{gave_up}");
    }
}

/// Nobody has said that a cut request must not be sent again, so the words name the gap, as those of an attempt
/// timeout do. The request is in doubt all the same.
#[test]
fn a_cut_without_an_opinion_names_the_remedy_at_the_deadline_too() {
    let gap = "the classifier has no opinion on a cut attempt (add one with `cut_is`)";
    let doubt = "the request may have been executed and must not be sent again";
    let unstated = |_: &Down| Verdict::transient();
    for (is_stated, words) in [(false, gap), (true, doubt)] {
        let timer = ManualTimer::new();
        let script = Script::new(&[Step::Hang]);
        let policy = RetryPolicy::new().with_total_timeout(SECOND * 3);
        let (gave_up, lines) = if is_stated {
            let policy = policy.with_classifier(unstated.cut_is(Verdict::transient().not_again()));
            ends(&feed(&timer), &timer, &script, policy, "feed: gave up")
        } else {
            let policy = policy.with_classifier(unstated);
            ends(&feed(&timer), &timer, &script, policy, "feed: gave up")
        };
        assert!(gave_up.is_in_doubt());
        let cut = "did not finish before the deadline of the call after 3s";
        let text = format!("feed: gave up after 1 attempt in 3.0s, {words} (last failure: {cut})");
        assert_eq!(gave_up.to_string(), text);
        assert_eq!(lines, [format!("feed: gave up after 1 of 3 attempts, {words}: {cut}")]);
    }
}

/// The attempts of a stack that is slow to poll: the delay is over only after the deadline.
#[test]
fn a_call_without_any_time_left_says_so() {
    let timer = ManualTimer::new();
    let upstream = feed(&timer);
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None))
        .with_total_timeout(SECOND * 8);
    let call = retry(|_| ready(Err::<(), _>(Down(1))), policy, Never).on(&upstream);
    let mut call = pin!(call);
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND * 9);
    let std::task::Poll::Ready(Err(gave_up)) = poll(call.as_mut()) else { panic!("it has ended") };
    assert_eq!(
        gave_up.to_string(),
        "feed: gave up after 1 attempt in 9.0s, no time of 8s is left for the next attempt"
    );
}

/// A call that waits in a queue until its deadline.
#[test]
fn a_call_whose_time_ends_in_a_queue_names_the_queue() {
    let timer = ManualTimer::new();
    let upstream = feed(&timer).with_bulkhead(resile::Bulkhead::new(1));
    let _place = upstream.try_admit().unwrap();
    let policy = RetryPolicy::new().with_total_timeout(SECOND * 8);
    let call = retry(|_| ready(Ok::<(), Down>(())), policy, Never).on(&upstream);
    let gave_up = drive(call, &timer).unwrap_err();
    let words = "the next attempt waited for the bulkhead until too little of 8s was left";
    assert_eq!(gave_up.to_string(), format!("feed: gave up after 0 attempts in 8.0s, {words}"));
}

/// An admission at once has no deadline.
#[test]
fn an_admission_that_may_not_wait_says_so() {
    let upstream = Upstream::new("feed").with_cooldown(Cooldown::new());
    upstream.hold(SECOND * 60);
    let gave_up = upstream.try_admit().unwrap_err().to_string();
    let start = "feed: gave up after 0 attempts, the cooldown holds the next attempt for ";
    assert!(gave_up.starts_with(start), "{gave_up}");
    assert!(gave_up.ends_with("s, and the call may not wait"), "{gave_up}");
}

/// A wait above the hint cap is named with the cap and its setting.
#[test]
fn a_wait_above_the_hint_cap_is_named_with_the_cap() {
    let hour = SECOND * 3600;
    let rows = [
        (Verdict::throttled().after(hour), "the upstream asks for a wait of 3600.0s"),
        (Verdict::throttled().at_least(hour), "a wait of at least 3600.0s is set for this error"),
    ];
    for (verdict, words) in rows {
        let (timer, script) = (ManualTimer::new(), Script::new(&[Step::Fail]));
        let policy = RetryPolicy::new()
            .with_hint_cap(SECOND * 60)
            .with_classifier(move |_: &Down| Some(verdict));
        let (gave_up, lines) = ends(&feed(&timer), &timer, &script, policy, "feed: gave up");
        let words = format!("{words}, more than the hint cap of 60s (`with_hint_cap`)");
        assert_eq!(gave_up.reason(), StopReason::HintTooLong);
        assert_eq!(gave_up.retry_after(), Some(hour));
        assert_eq!(gave_up.to_string(), format!("feed: gave up after 1 attempt, {words}"));
        assert_eq!(lines, [format!("feed: gave up after 1 of 3 attempts, {words}: down, 1")]);
    }
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
    assert_eq!(
        gave_up.to_string(),
        "feed: gave up after 0 attempts, the quota holds the next attempt for 30.0s, \
         but only 8s are left (it costs 30 tokens, the limit is 60 per 60s)"
    );
    let lines = lines.into_inner();
    assert_eq!(
        lines[0],
        "feed: quota used up: this attempt is refused, because it would wait 30.0s, \
         the limit is 60 tokens per 60s, 0 queued, further calls wait or are refused"
    );
    assert_eq!(lines.len(), 2, "{lines:#?}");
}
