//! Calls and runs that a cooldown or a full bulkhead holds.

use std::sync::Mutex;
use std::time::Duration;

use resile::observe::{Event, EventKind, HeldBy, TooLong};
use resile::quota::Rate;
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Jitter, Never, Quota, RetryPolicy, Run,
    StopReason, Upstream, Verdict, retry,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// The error: the upstream asks for a wait of that many seconds.
type HintSeconds = u64;

fn policy() -> RetryPolicy<fn(&HintSeconds) -> Verdict> {
    let backoff = Backoff::fixed(Duration::from_millis(1)).with_jitter(Jitter::None);
    RetryPolicy::new()
        .with_backoff(backoff)
        .with_classifier(|e| Verdict::throttled().after(SECOND * u32::try_from(*e).unwrap()))
}

fn exact() -> Upstream {
    let cooldown = Cooldown::new().with_jitter(0.0);
    Upstream::new("held").with_cooldown(cooldown)
}

#[tokio::test(start_paused = true)]
async fn a_throttled_attempt_holds_every_call_on_the_upstream() {
    let (upstream, policy) = (exact(), policy());
    let began = Instant::now();
    let throttled_once =
        async |attempt: Attempt| if attempt.is_first() { Err(20) } else { Ok(began.elapsed()) };
    let first = retry(throttled_once, &policy, Never).on(&upstream);
    let second = async {
        tokio::time::sleep(SECOND).await;
        let seen = Mutex::new(vec![]);
        let note = |event: &Event<'_>| {
            if let EventKind::Held { attempt, by, delay, .. } = event.kind {
                seen.lock().unwrap().push((attempt, by, delay.unwrap()));
            }
        };
        let run = retry(|attempt| async move { Ok::<_, HintSeconds>(attempt) }, &policy, Never);
        let attempt = run.on(upstream.observed_by(&note)).await.unwrap();
        assert_eq!(
            (attempt.number(), attempt.elapsed(), attempt.delay()),
            (1, 19 * SECOND, Duration::ZERO)
        );
        assert_eq!(seen.into_inner().unwrap(), [(1, HeldBy::Cooldown, 19 * SECOND)]);
        began.elapsed()
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.unwrap() >= 20 * SECOND);
    assert!(second >= 20 * SECOND && second < 21 * SECOND, "{second:?}");
}

/// The backoff of a call may be shorter than the hold, which then decides. The log says so at once.
#[tokio::test(start_paused = true)]
async fn the_log_promises_no_retry_before_the_end_of_a_hold() {
    let began = Instant::now();
    let lines = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Waiting { held, .. } = event.kind {
            lines.lock().unwrap().push((event.to_string(), event.gauges.cooldown, held));
        }
    };
    let upstream = exact();
    let upstream = upstream.observed_by(&note);
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(SECOND / 2).with_jitter(Jitter::None))
        .with_classifier(|hint: &HintSeconds| match hint {
            0 => Verdict::transient(),
            hint => Verdict::throttled().after(SECOND * u32::try_from(*hint).unwrap()),
        });
    // Fails after `at`.
    let call = |at: Duration, hint| {
        let op = move |attempt: Attempt| async move {
            tokio::time::sleep(if attempt.is_first() { at } else { Duration::ZERO }).await;
            if attempt.is_first() { Err(hint) } else { Ok(began.elapsed()) }
        };
        retry(op, &policy, Never).on(&upstream)
    };
    let calls = (call(SECOND / 4, 0), call(SECOND, 4), call(2 * SECOND, 0));
    let (before, asked, during) = tokio::join!(calls.0, calls.1, calls.2);
    assert_eq!(before.unwrap(), 3 * SECOND / 4);
    assert!(asked.unwrap() >= 5 * SECOND && during.unwrap() >= 5 * SECOND);
    let lines = lines.lock().unwrap();
    // The event has the number of its line: a hold that is longer than the delay.
    for (line, (words, hold, held)) in lines.iter().zip([
        ("retrying in 500.0ms: 0", None, None),
        ("retrying in at least 4.", Some(4 * SECOND), None),
        ("retrying in at least 3.0s, held by the cooldown: 0", Some(3 * SECOND), Some(3 * SECOND)),
    ]) {
        assert!(line.0.contains(words), "{line:?}");
        assert_eq!((line.1, line.2), (hold, held));
    }
    assert_eq!(lines.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_throttled_errors_hold_calls() {
    let upstream = exact();
    let policy = RetryPolicy::new()
        .with_classifier(|_: &HintSeconds| Verdict::transient().after(20 * SECOND));
    let throttled_once = async |attempt: Attempt| {
        if attempt.is_first() { Err::<(), HintSeconds>(1) } else { Ok(()) }
    };
    retry(throttled_once, &policy, Never).on(&upstream).await.unwrap();
    assert_eq!(upstream.held(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_does_not_fit_the_deadline_ends_the_call_at_once() {
    let (upstream, policy) = (exact(), policy().with_total_timeout(10 * SECOND));
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let never = |_| async { unreachable!("the call is held") as Result<(), HintSeconds> };
    let error = retry(never, &policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.attempts(), error.retry_after()),
        (StopReason::Deadline, 0, Some(20 * SECOND))
    );
    let mut run = Run::new(&policy, Never).on(&upstream);
    let error = run.attempt(never(Attempt::new(1))).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.attempts(), error.retry_after()),
        (StopReason::Deadline, 0, Some(20 * SECOND))
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// The deadlines come within the release. As many calls leave before them as without deadlines, and the
/// others end when they first ask and not at their deadlines.
#[tokio::test(start_paused = true)]
async fn no_call_waits_in_a_release_for_its_deadline() {
    for arrives in [SECOND, 45 * SECOND] {
        let (mut left, mut ended) = (0, 0);
        for seed in 0..400 {
            let upstream = Upstream::new("held").with_cooldown(Cooldown::new()).with_seed(seed);
            upstream.hold(40 * SECOND); // and a release of 10 s
            let left_to_end = (46 * SECOND).saturating_sub(arrives);
            tokio::time::sleep(arrives).await;
            let began = Instant::now();
            let policy = policy().with_total_timeout(left_to_end);
            let call = retry(|_| async { Ok::<_, HintSeconds>(()) }, policy, Never);
            match call.on(&upstream).await {
                Ok(()) => left += 1,
                Err(gave_up) => {
                    assert_eq!(
                        (gave_up.reason(), began.elapsed()),
                        (StopReason::Deadline, Duration::ZERO)
                    );
                    assert!(gave_up.retry_after().unwrap() >= left_to_end);
                    ended += 1;
                }
            }
        }
        // Six tenths of the release are before the deadline, or one fifth of the rest of it.
        let share = if arrives == SECOND { 240 } else { 80 };
        assert!((share - 40..=share + 40).contains(&left), "{left} of 400");
        assert_eq!(left + ended, 400);
    }
}

/// The deadlines come within the hold or within its release, and the first attempt is throttled itself. The call
/// then knows its place at once, so it never waits out the hold and ends without a further attempt.
#[tokio::test(start_paused = true)]
async fn a_throttled_call_does_not_wait_for_a_place_behind_its_deadline() {
    for (total, share) in [(39, 0), (41, 40), (46, 240), (49, 360), (51, 400)] {
        let (mut left, mut ended) = (0, 0);
        for seed in 0..400 {
            let upstream = Upstream::new("held").with_cooldown(Cooldown::new()).with_seed(seed);
            let began = Instant::now();
            let op = async |attempt: Attempt| if attempt.is_first() { Err(40) } else { Ok(()) };
            let policy = policy().with_attempts(2).with_total_timeout(total * SECOND);
            match retry(op, policy, Never).on(&upstream).await {
                Ok(()) => left += 1,
                Err(gave_up) => {
                    let end = (gave_up.reason(), gave_up.attempts(), began.elapsed());
                    assert_eq!(end, (StopReason::Deadline, 1, Duration::ZERO), "{gave_up}");
                    assert!(gave_up.retry_after().unwrap() >= 40 * SECOND);
                    ended += 1;
                }
            }
        }
        assert!((share - 40..=share + 40).contains(&left), "{left} of 400 within {total} s");
        assert_eq!(left + ended, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_counts_against_the_deadline() {
    let (upstream, policy) = (exact(), policy().with_total_timeout(10 * SECOND));
    upstream.hold(4 * SECOND);
    let left =
        retry(|attempt| async move { Ok::<_, HintSeconds>(attempt.remaining()) }, &policy, Never);
    assert_eq!(left.on(&upstream).await.unwrap(), Some(6 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_a_hold() {
    let (upstream, policy, token) = (exact(), policy(), CancellationToken::new());
    upstream.hold(20 * SECOND);
    let never = |_| async { unreachable!("the call is held") as Result<(), HintSeconds> };
    let stop = async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    };
    let mut run = Run::new(&policy, &token).on(&upstream);
    let call = retry(never, &policy, &token).on(&upstream);
    let ((), called, ran) = tokio::join!(stop, call, run.attempt(never(Attempt::new(1))));
    for error in [called.unwrap_err(), ran.unwrap_err()] {
        assert_eq!((error.reason(), error.attempts()), (StopReason::Cancelled, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_extended_hold_extends_the_wait() {
    let (upstream, policy) = (exact(), policy());
    upstream.hold(5 * SECOND);
    let began = Instant::now();
    let extend = async {
        tokio::time::sleep(4 * SECOND).await;
        upstream.hold(10 * SECOND);
    };
    let call = retry(|_| async { Ok::<_, HintSeconds>(()) }, &policy, Never).on(&upstream);
    let mut run = Run::<HintSeconds, _, _>::new(&policy, Never).on(&upstream);
    let ((), called, ran) = tokio::join!(extend, call, run.attempt(async { Ok(()) }));
    assert!(called.is_ok() && matches!(ran, Ok(Some(()))));
    assert!(began.elapsed() >= 14 * SECOND);
}

/// A call asks the breaker when it begins to wait and at the end of its hold. An opening in between does not
/// wake it.
#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_in_a_hold_ends_only_the_calls_that_begin_to_wait() {
    let (upstream, policy) = (exact().with_breaker(Breaker::new()), policy());
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let end_of_call = async || {
        let never = |_| async { unreachable!("the call is held") as Result<(), HintSeconds> };
        let error = retry(never, &policy, Never).on(&upstream).await.unwrap_err();
        (error.reason(), error.attempts(), began.elapsed().as_secs())
    };
    let later = async {
        tokio::time::sleep(5 * SECOND).await;
        let isolation = upstream.isolate();
        (end_of_call().await, isolation)
    };
    let (waited, (new, _isolation)) = tokio::join!(end_of_call(), later);
    assert_eq!(new, (StopReason::Open, 0, 5));
    assert_eq!(waited, (StopReason::Open, 0, 20));
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_is_held_before_each_attempt() {
    let (upstream, policy) = (exact(), policy());
    let began = Instant::now();
    upstream.hold(3 * SECOND);
    let mut run = Run::new(&policy, Never).on(&upstream);
    assert_eq!(run.next().await.unwrap().number(), 1);
    assert_eq!(began.elapsed(), 3 * SECOND);
    run.failed(2).unwrap();
    assert_eq!(
        (began.elapsed(), upstream.held()),
        (3 * SECOND, Some(2 * SECOND)),
        "`failed` does not wait"
    );
    let other = async {
        tokio::time::sleep(SECOND).await;
        upstream.hold(9 * SECOND);
    };
    let (held, ()) = tokio::join!(run.next(), other);
    assert_eq!(held.unwrap().number(), 2);
    assert!(began.elapsed() >= 13 * SECOND, "{:?}", began.elapsed());
    assert_eq!(run.attempts(), 2);
}

#[test]
fn a_blocking_run_is_held_too() {
    let timer = ManualTimer::new();
    let (upstream, policy) = (exact().with_timer(timer.clone()), policy());
    let mut run = Run::new(&policy, Never).on(&upstream);
    run.blocking_next().unwrap();
    upstream.hold(30 * SECOND);
    run.failed(1).unwrap();
    assert_eq!((upstream.held(), timer.now()), (Some(30 * SECOND), Duration::ZERO));
    run.blocking_next().unwrap();
    assert_eq!((upstream.held(), timer.now() >= 30 * SECOND), (None, true));
    assert_eq!((run.succeeded(7), timer.sleepers()), (7, 0));
}

/// A call asks about sixteen times during a release whether it may go. It waits once, so an observer that
/// shows its waits to a person hears of them once.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_hold_and_its_release_is_one_event() {
    let upstream = Upstream::new("held").with_cooldown(Cooldown::new());
    let waits = async |began_after: Duration| {
        tokio::time::sleep(began_after).await;
        let seen = Mutex::new(vec![]);
        let note = |event: &Event<'_>| {
            if let EventKind::Held { delay, .. } = event.kind {
                seen.lock().unwrap().push((delay.unwrap(), event.gauges.cooldown.unwrap()));
            }
        };
        let run = retry(|_| async { Ok::<_, HintSeconds>(()) }, policy(), Never);
        run.on(upstream.observed_by(&note)).await.unwrap();
        seen.into_inner().unwrap()
    };
    upstream.hold(40 * SECOND); // and a release of 10 s
    for seen in futures_util::future::join_all((0..100).map(|_| waits(SECOND))).await {
        let [(delay, held)] = seen[..] else { panic!("{seen:?}") };
        assert!(delay >= 39 * SECOND && held == 39 * SECOND, "{delay:?} {held:?}");
    }
    // Those that come during the release wait once at most. Who waits when the hold goes on waits anew.
    upstream.hold(40 * SECOND);
    let first = futures_util::future::join_all((0..100).map(|_| waits(41 * SECOND)));
    let extend = async {
        tokio::time::sleep(42 * SECOND).await;
        upstream.hold(20 * SECOND);
    };
    let (first, ()) = tokio::join!(first, extend);
    for seen in &first {
        let holds = seen.iter().filter(|(_, held)| !held.is_zero()).count();
        assert!(holds <= 1 && seen.len() - holds <= 1, "{seen:?}");
        assert!(seen.iter().all(|(_, held)| held.is_zero() || *held >= 15 * SECOND), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_during_a_hold_returns_its_token() {
    let (upstream, policy) = (exact().with_budget(Budget::new().with_capacity(3)), policy());
    let budget = upstream.budget().unwrap();
    let throttled_once = async |attempt: Attempt| {
        if attempt.is_first() { Err::<(), HintSeconds>(1) } else { Ok(()) }
    };
    let mut call = Box::pin(retry(throttled_once, &policy, Never).on(&upstream));
    let cut = async {
        tokio::time::sleep(SECOND / 2).await;
        upstream.hold(60 * SECOND);
        tokio::time::sleep(5 * SECOND).await;
    };
    tokio::select! { biased; _ = &mut call => unreachable!("the call is held"), () = cut => () }
    assert_eq!(budget.available(), 2);
    drop(call);
    assert_eq!(budget.available(), 3);
}

/// A wait in the queue of a bulkhead also holds the call. The longest wait and the deadline limit
/// it.
#[tokio::test(start_paused = true)]
async fn a_wait_in_the_queue_is_limited_by_the_longest_wait_and_the_deadline() {
    let bulkhead = Bulkhead::new(1).with_queue(2).with_max_wait(5 * SECOND);
    let upstream = Upstream::new("narrow").with_bulkhead(bulkhead);
    let occupant = upstream.try_admit().unwrap();
    let seen = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            seen.lock().unwrap().push((attempt, by, delay));
        }
    };
    let call = |limit: Option<Duration>| {
        let policy = policy();
        let policy = limit.map_or(policy, |limit| policy.with_total_timeout(limit));
        retry(|_| async { Ok::<_, HintSeconds>(()) }, policy, Never).on(upstream.observed_by(&note))
    };
    let began = Instant::now();
    let short = async { (call(Some(3 * SECOND)).await.unwrap_err(), began.elapsed()) };
    let long = async { (call(None).await.unwrap_err(), began.elapsed()) };
    let refused = async { (call(None).await.unwrap_err(), began.elapsed()) };
    let ((short, at_short), (long, at_long), (refused, at_refused)) =
        tokio::join!(short, long, refused);
    assert_eq!((short.reason(), short.attempts(), at_short), (StopReason::Deadline, 0, 3 * SECOND));
    assert_eq!((long.reason(), long.attempts(), at_long), (StopReason::Full, 0, 5 * SECOND));
    assert_eq!(
        (refused.reason(), refused.attempts(), at_refused),
        (StopReason::Full, 0, Duration::ZERO)
    );
    assert_eq!(*seen.lock().unwrap(), [(1, HeldBy::Bulkhead, None); 2]);
    drop(occupant);
    call(None).await.unwrap();
}

/// The call stands in the queue of the quota when the upstream asks another one to wait. Then the cooldown
/// holds it beyond its deadline, and not the quota.
#[tokio::test(start_paused = true)]
async fn a_hold_that_begins_in_the_queue_of_a_quota_is_named() {
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let upstream = exact().with_quota(quota).with_budget(Budget::new().with_capacity(0));
    let throttled = async |_: Attempt| {
        tokio::time::sleep(SECOND / 2).await;
        Err::<(), HintSeconds>(3)
    };
    let first = retry(throttled, policy(), Never).on(&upstream);
    let seen = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::GaveUp { too_long, .. } = event.kind {
            seen.lock().unwrap().push(too_long.unwrap());
        }
    };
    let second = async {
        tokio::time::sleep(SECOND / 4).await;
        let policy = policy().with_total_timeout(3 * SECOND);
        let call = retry(|_| async { Ok::<_, HintSeconds>(()) }, policy, Never);
        call.on(upstream.observed_by(&note)).await.unwrap_err()
    };
    let (_, second) = tokio::join!(first, second);
    let words = "the cooldown holds the next attempt for 3.0s, but 2.8s of 3s are left";
    assert!(second.to_string().contains(words), "{second}");
    let too_long = seen.into_inner().unwrap();
    assert!(
        matches!(too_long[..], [TooLong::Delay { by: Some(HeldBy::Cooldown), .. }]),
        "{too_long:?}"
    );
    assert_eq!((second.attempts(), second.retry_after()), (0, Some(3 * SECOND)));
}
