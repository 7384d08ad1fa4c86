//! The circuit breaker under calls: what it counts, when it counts, and which probes return.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::breaker::{State, TripReason};
use resile::classify::{Always, ClassifyExt, Cut};
use resile::time::{ManualTimer, Timer, TokioTimer};
use resile::{
    Backoff, Breaker, Cooldown, GaveUp, Health, HedgePolicy, Jitter, Never, RetryPolicy, Run,
    StopReason, Upstream, Verdict, hedge, retry,
};

use crate::guard::guard;
use crate::script::{drive, poll};

const SECOND: Duration = Duration::from_secs(1);

fn opening_for(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

/// Creates an upstream on tokio's clock.
fn upstream(breaker: Breaker) -> Upstream {
    Upstream::new("guarded").with_breaker(breaker)
}

fn state(upstream: &Upstream) -> State {
    upstream.state().unwrap()
}

fn fail(upstream: &Upstream) {
    upstream.try_admit().unwrap().settle(&Verdict::transient());
}

#[tokio::test(start_paused = true)]
async fn a_retry_gives_its_verdicts_to_the_breaker() {
    let upstream =
        upstream(Breaker::new().with_consecutive(2).with_open_time(opening_for(60 * SECOND)));
    let policy = RetryPolicy::new().with_attempts(9).with_classifier(|e: &u32| *e != 400);
    let permanent = || retry(|_| async { Err::<(), _>(400) }, &policy, Never).on(&upstream);
    for _ in 0..5 {
        assert_eq!(permanent().await.unwrap_err().reason(), StopReason::Fatal);
    }
    assert_eq!(state(&upstream), State::Closed, "permanent errors are neutral");
    let error =
        retry(|_| async { Err::<(), _>(503) }, &policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.last()), (StopReason::Open, 2, Some(&503)));
    assert!(error.retry_after().is_some_and(|after| after > 55 * SECOND), "{error}");
    let error = permanent().await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.last()), (StopReason::Open, 0, None));
    assert!(error.retry_after().is_some_and(|after| after > 55 * SECOND), "{error}");
}

/// Creates an upstream with a half-open breaker and one probe.
async fn probing() -> Upstream {
    let breaker =
        Breaker::new().with_consecutive(1).with_probes(1.0, 1).with_open_time(opening_for(SECOND));
    let upstream = upstream(breaker).with_cooldown(Cooldown::new().with_jitter(0.0));
    fail(&upstream);
    tokio::time::sleep(SECOND).await;
    upstream
}

type Hung = Result<u32, &'static str>;

fn hangs() -> std::future::Pending<Hung> {
    std::future::pending()
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_or_cut_too_early_returns() {
    let upstream = probing().await;
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    for _ in 0..3 {
        // The hold takes more than half of the total timeout, so too little time is left for the
        // attempt to count.
        upstream.hold(Duration::from_millis(600));
        let cut = retry(|_| hangs(), &policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(
            (cut.reason(), cut.attempts(), cut.cut()),
            (StopReason::Deadline, 1, Some(Cut::Deadline))
        );
        assert_eq!(state(&upstream), State::HalfOpen);
        let mut dropped = Box::pin(retry(|_| hangs(), &policy, Never).on(&upstream));
        assert!(poll(dropped.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is in use");
        drop(dropped);
        let mut run = Run::<&str, _, _>::new(&policy, Never).on(&upstream);
        let mut attempt = Box::pin(run.attempt(hangs()));
        assert!(poll(attempt.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is in use");
        drop(attempt);
        drop(upstream.try_admit().expect("the probe returns before the run ends"));
        run.next().await.unwrap();
        assert!(upstream.try_admit().is_err(), "the only probe is in use");
        drop(run);
        let mut single = Box::pin(upstream.call(hangs(), Always));
        assert!(poll(single.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is in use");
        drop(single);
    }
    let works = retry(|_| async { Ok::<_, &str>(1) }, &policy, Never).on(&upstream);
    assert_eq!(works.await.unwrap(), 1);
    assert_eq!(state(&upstream), State::Closed);
}

/// The attempt timeout cuts the probe, or the total timeout does after enough time.
#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cut_has_failed() {
    let once = RetryPolicy::new().with_attempts(1);
    let total = once.with_total_timeout(SECOND);
    for policy in [once.with_attempt_timeout(SECOND), total, total.with_attempt_timeout(2 * SECOND)]
    {
        let upstream = probing().await;
        retry(|_| hangs(), policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(state(&upstream), State::Open, "{policy:?}");
        assert_eq!(upstream.snapshot().unwrap().reason, Some(TripReason::Probes), "{policy:?}");
    }
    // Half of the shorter of the two timeouts is enough. A nanosecond less is not enough.
    let least = Duration::from_nanos(1);
    for (held, expected) in [(SECOND / 2, State::Open), (SECOND / 2 + least, State::HalfOpen)] {
        let timer = ManualTimer::new();
        let breaker = Breaker::new()
            .with_consecutive(1)
            .with_probes(1.0, 1)
            .with_open_time(opening_for(SECOND));
        let cooldown = Cooldown::new().with_jitter(0.0);
        let upstream = Upstream::new("guarded")
            .with_breaker(breaker)
            .with_cooldown(cooldown)
            .with_timer(&timer);
        upstream.try_admit().unwrap().settle(&Verdict::transient());
        timer.advance(SECOND);
        upstream.hold(held);
        let cut = drive(retry(|_| hangs(), total, Never).on(&upstream), &timer).unwrap_err();
        assert_eq!((cut.reason(), cut.elapsed()), (StopReason::Deadline, SECOND));
        assert_eq!(upstream.breaker().unwrap().state(), expected, "held for {held:?}");
    }
}

/// The classifier gives this cut a verdict of unknown health, so the breaker counts nothing.
#[tokio::test(start_paused = true)]
async fn a_cut_counts_by_the_verdict_of_the_classifier() {
    let upstream = probing().await;
    let neutral = (|_: &&str| true).cut_is(Verdict::transient().with_health(Health::Unknown));
    let policy = RetryPolicy::new().with_attempts(1).with_classifier(neutral);
    for policy in [policy.with_attempt_timeout(SECOND), policy.with_total_timeout(SECOND)] {
        retry(|_| hangs(), policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(state(&upstream), State::HalfOpen);
    }
    let works = retry(|_| async { Ok::<_, &str>(1) }, policy, Never).on(&upstream);
    assert_eq!(works.await.unwrap(), 1);
    assert_eq!(state(&upstream), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_before_its_attempt_returns_its_probe() {
    let upstream = probing().await;
    let (policy, mut calls) = (RetryPolicy::new(), 0);
    let op = |_| {
        calls += 1;
        assert!(calls > 1, "panics before the attempt is made");
        std::future::ready(Ok::<_, &str>(()))
    };
    let mut call = Box::pin(retry(op, &policy, Never).on(&upstream));
    let panics = std::panic::AssertUnwindSafe(|| poll(call.as_mut()));
    assert!(std::panic::catch_unwind(panics).is_err());
    call.await.unwrap();
    assert_eq!(state(&upstream), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_refused_future_is_not_polled() {
    let upstream = upstream(Breaker::new().with_consecutive(1));
    let polls = AtomicU32::new(0);
    let call = || async {
        polls.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>("down")
    };
    let failed = upstream.call(call(), Always).await.unwrap_err();
    assert_eq!(
        (failed.reason(), failed.attempts(), failed.last()),
        (StopReason::Attempts, 1, Some(&"down"))
    );
    let refused = upstream.call(call(), Always).await.unwrap_err();
    assert_eq!((refused.reason(), refused.attempts(), refused.last()), (StopReason::Open, 0, None));
    assert!(refused.retry_after().is_some());
    assert_eq!(polls.load(Ordering::Relaxed), 1);
}

// ---- failures that must not be sent again

/// Failing `POST`s are never sent again, but they open the breaker.
#[tokio::test(start_paused = true)]
async fn failures_that_are_not_sent_again_open_the_breaker() {
    static BY_RETRY: Upstream = Upstream::new("posts").with_breaker(Breaker::new());
    static BY_CALL: Upstream = Upstream::new("posts").with_breaker(Breaker::new());
    static BY_RATE: Upstream =
        Upstream::new("posts").with_breaker(Breaker::new().without_consecutive());

    let not_again = |_: &&str| Verdict::transient().not_again();
    let policy = RetryPolicy::new().with_classifier(not_again);
    let calls = |upstream: &'static Upstream, by_retry: bool| async move {
        let mut sent = 0;
        for _ in 0..200 {
            let op = async { Err::<(), _>("500") };
            let outcome = if by_retry {
                retry(|_| async { Err::<(), _>("500") }, policy, Never).on(upstream).await
            } else {
                upstream.call(op, not_again).await
            };
            let gave_up = outcome.unwrap_err();
            sent += gave_up.attempts();
            let reason = if gave_up.attempts() == 0 { StopReason::Open } else { StopReason::Fatal };
            assert_eq!(gave_up.reason(), reason);
        }
        sent
    };
    for (upstream, by_retry, expected) in
        [(&BY_RETRY, true, 10), (&BY_CALL, false, 10), (&BY_RATE, true, 20)]
    {
        assert_eq!(
            calls(upstream, by_retry).await,
            expected,
            "attempts until the breaker opened, by retry: {by_retry}"
        );
        assert_eq!(state(upstream), State::Open);
    }
    let timer = ManualTimer::new();
    let by_hand = guard(&timer, |b| b);
    let sent = (0..200)
        .filter_map(|_| by_hand.permit().ok())
        .map(|it| it.settle(&Verdict::transient().not_again()));
    assert_eq!((sent.count(), by_hand.state()), (10, State::Open));
}

/// A 404 shows a healthy upstream. It ends a streak of failures, counts as a success, and passes as
/// a probe.
#[tokio::test(start_paused = true)]
async fn errors_of_a_healthy_upstream_count_as_successes() {
    let healthy = Verdict::fatal().with_health(Health::Healthy);
    let classify = |e: &u32| if *e == 404 { healthy } else { Verdict::transient() };
    let upstream = upstream(Breaker::new().with_consecutive(3).with_open_time(opening_for(SECOND)));
    let policy = RetryPolicy::new().with_attempts(1).with_classifier(classify);
    let call = |status: u32| {
        retry(move |_| async move { Err::<(), _>(status) }, policy, Never).on(&upstream)
    };
    for status in [500, 500, 404, 500, 500] {
        call(status).await.unwrap_err();
    }
    let seen = upstream.snapshot().unwrap();
    assert_eq!((seen.state, seen.streak, seen.calls, seen.failures), (State::Closed, 2, 5, 4));
    call(500).await.unwrap_err();
    assert_eq!(state(&upstream), State::Open);
    tokio::time::sleep(SECOND).await;
    for _ in 0..3 {
        assert_ne!(state(&upstream), State::Closed);
        let gave_up: GaveUp<u32> = call(404).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
    }
    assert_eq!(state(&upstream), State::Closed, "three of five probes passed");
}

// ---- the clock of the upstream

/// Creates a breaker that never trips and whose window slots are seconds.
fn counting() -> Breaker {
    Breaker::new().without_consecutive().with_failure_rate(1.0, u32::MAX).with_window(16 * SECOND)
}

/// A call gives its clock readings to its breaker. The readings do not change the counts or their
/// times.
#[tokio::test(start_paused = true)]
async fn a_breaker_counts_every_kind_of_call_alike() {
    let [retried, hedged, called, by_hand] = [(); 4].map(|()| upstream(counting()));
    let once = RetryPolicy::new().with_attempts(1);
    for policy in
        [once, once.with_total_timeout(60 * SECOND), once.with_attempt_timeout(60 * SECOND)]
    {
        for step in 0_u64..300 {
            let (waits, works) = (step % 3 == 0, step % 5 != 0);
            let call = || async move {
                if waits {
                    tokio::time::sleep(Duration::from_millis(step * 37 % 2000)).await;
                }
                if works { Ok(()) } else { Err("down") }
            };
            let of_retry = retry(|_| call(), &policy, Never).on(&retried);
            let hedge_policy = HedgePolicy::new().with_delay(30 * SECOND);
            let of_hedge = hedge(|_| call(), hedge_policy, Never).on(&hedged);
            let of_call = called.call(call(), Always);
            let of_hand = async {
                let admission = by_hand.try_admit().unwrap();
                let outcome = call().await;
                if outcome.is_ok() {
                    admission.succeeded();
                } else {
                    admission.settle(&Verdict::transient());
                }
                outcome
            };
            let (retry, hedge, call, hand) = tokio::join!(of_retry, of_hedge, of_call, of_hand);
            assert_eq!([retry.is_ok(), hedge.is_ok(), call.is_ok(), hand.is_ok()], [works; 4]);
            assert_eq!(retried.snapshot(), by_hand.snapshot(), "step {step}, {policy:?}");
            assert_eq!(hedged.snapshot(), by_hand.snapshot(), "step {step}");
            assert_eq!(called.snapshot(), by_hand.snapshot(), "step {step}");
            tokio::time::advance(Duration::from_millis(step * 91 % 1500)).await;
        }
    }
    assert!(by_hand.snapshot().unwrap().calls > 0);
}

/// A held call counts at the end of its attempt, not at the start of the call.
#[test]
fn a_held_call_counts_at_the_end_of_its_attempt() {
    let policy = RetryPolicy::new().with_total_timeout(60 * SECOND);
    for policy in [policy, policy.without_total_timeout()] {
        let timer = ManualTimer::new();
        let cooldown = Cooldown::new().with_jitter(0.0);
        let upstream = Upstream::new("held")
            .with_breaker(counting())
            .with_cooldown(cooldown)
            .with_timer(&timer);
        upstream.try_admit().unwrap().succeeded();
        upstream.hold(5 * SECOND);
        let call = retry(|_| std::future::ready(Ok::<_, &str>(())), policy, Never).on(&upstream);
        drive(call, &timer).unwrap();
        let calls_after = |more| {
            timer.advance(more);
            upstream.snapshot().unwrap().calls
        };
        assert_eq!(
            [Duration::ZERO, 12 * SECOND, 5 * SECOND].map(calls_after),
            [2, 1, 0],
            "{policy:?}"
        );
    }
}

/// Readings of two clocks cannot be compared, so each upstream uses only its own clock.
#[tokio::test(start_paused = true)]
async fn a_breaker_uses_the_clock_of_its_upstream() {
    let policy = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(Backoff::none())
        .with_total_timeout(60 * SECOND);
    let timer = ManualTimer::new();
    let far = Upstream::new("far").with_breaker(counting()).with_timer(&timer);
    let near = upstream(counting());
    // The readings are far from their origin, so the two clocks do not agree by chance.
    let _ = TokioTimer::new().now();
    tokio::time::advance(1000 * SECOND).await;
    for works in [true, false] {
        let call = || async move { if works { Ok(()) } else { Err("down") } };
        let _ = retry(|_| call(), &policy, Never).on(&far).await;
        let _ = retry(|_| call(), &policy, Never).on(&near).await;
    }
    let seen =
        |now: Option<resile::breaker::Snapshot>| now.map(|now| (now.calls, now.failures)).unwrap();
    assert_eq!((seen(far.snapshot()), seen(near.snapshot())), ((3, 2), (3, 2)));
    timer.advance(17 * SECOND);
    assert_eq!((seen(far.snapshot()), seen(near.snapshot())), ((0, 0), (3, 2)));
    tokio::time::advance(17 * SECOND).await;
    assert_eq!(seen(near.snapshot()), (0, 0));
}

/// A single poll takes as long as the window, and its end reads the clock again. The calls counted
/// during the poll stay.
#[tokio::test(start_paused = true)]
async fn a_long_poll_erases_no_counts_made_during_it() {
    let once = RetryPolicy::new().with_attempts(1);
    for policy in [once, once.with_total_timeout(60 * SECOND)] {
        for windows in 1..4 {
            let upstream = upstream(counting());
            upstream.try_admit().unwrap().succeeded();
            let op = |_| {
                let mut jump = Box::pin(tokio::time::advance(16 * windows * SECOND));
                assert!(
                    poll(jump.as_mut()).is_pending(),
                    "the clock advanced and no other task ran"
                );
                drop(jump);
                for _ in 0..7 {
                    fail(&upstream);
                }
                std::future::ready(Ok::<_, &str>(()))
            };
            retry(op, &policy, Never).on(&upstream).await.unwrap();
            let seen = upstream.snapshot().unwrap();
            assert_eq!((seen.calls, seen.failures), (8, 7), "{windows} windows, {policy:?}");
        }
    }
}
