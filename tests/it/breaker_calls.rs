//! The circuit breaker under calls: what of them it counts, when, and what they give back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::breaker::{State, TripReason};
use resile::{
    Always, Backoff, Breaker, Classify, Cooldown, Cut, GaveUp, Health, HedgePolicy, Jitter,
    ManualTimer, Never, RetryPolicy, Run, StopReason, Timer, TokioTimer, Upstream, Verdict, hedge,
    retry,
};

use super::guard::guard;
use super::script::{drive, poll};

const SECOND: Duration = Duration::from_secs(1);

fn opening_for(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

/// On tokio's clock.
fn upstream(breaker: Breaker) -> Upstream {
    Upstream::new("guarded").with_breaker(breaker)
}

fn state(upstream: &Upstream) -> State {
    upstream.breaker().unwrap().state()
}

fn fail(upstream: &Upstream) {
    upstream.try_admit().unwrap().settle(&Verdict::transient());
}

#[tokio::test(start_paused = true)]
async fn a_run_shares_its_verdict_with_its_breaker() {
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

/// Half-open, with one probe.
async fn probing() -> Upstream {
    let breaker =
        Breaker::new().with_consecutive(1).with_probes(1.0, 1).with_open_time(opening_for(SECOND));
    let upstream = upstream(breaker)
        .with_cooldown(Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO));
    fail(&upstream);
    tokio::time::sleep(SECOND).await;
    upstream
}

type Hung = Result<u32, &'static str>;

fn hangs() -> std::future::Pending<Hung> {
    std::future::pending()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_or_cut_too_soon_gives_its_probe_back() {
    let upstream = probing().await;
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    for _ in 0..3 {
        // Held for longer than half of its time, it has too little left to show anything.
        upstream.hold(Duration::from_millis(600));
        let cut = retry(|_| hangs(), &policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(
            (cut.reason(), cut.attempts(), cut.cut()),
            (StopReason::Deadline, 1, Some(Cut::Deadline))
        );
        assert_eq!(state(&upstream), State::HalfOpen);
        let mut dropped = Box::pin(retry(|_| hangs(), &policy, Never).on(&upstream));
        assert!(poll(dropped.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is out");
        drop(dropped);
        let mut run = Run::<&str, _, _>::new(&policy, Never).on(&upstream);
        let mut attempt = Box::pin(run.attempt(hangs()));
        assert!(poll(attempt.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is out");
        drop(attempt);
        drop(upstream.try_admit().expect("it is back ahead of the run's end"));
        run.next().await.unwrap();
        assert!(upstream.try_admit().is_err(), "the only probe is out");
        drop(run);
        let mut single = Box::pin(upstream.call(hangs(), Always));
        assert!(poll(single.as_mut()).is_pending());
        assert!(upstream.try_admit().is_err(), "the only probe is out");
        drop(single);
    }
    let works = retry(|_| async { Ok::<_, &str>(1) }, &policy, Never).on(&upstream);
    assert_eq!(works.await.unwrap(), 1);
    assert_eq!(state(&upstream), State::Closed);
}

/// By its own timeout, or by the call's where it had time enough.
#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_until_it_is_cut_has_failed() {
    let once = RetryPolicy::new().with_attempts(1);
    let total = once.with_total_timeout(SECOND);
    for policy in [once.with_attempt_timeout(SECOND), total, total.with_attempt_timeout(2 * SECOND)]
    {
        let upstream = probing().await;
        retry(|_| hangs(), policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(state(&upstream), State::Open, "{policy:?}");
        assert_eq!(upstream.snapshot().unwrap().reason, Some(TripReason::Probes), "{policy:?}");
    }
    // Half of the shorter of both timeouts is enough, and a nanosecond less is not.
    let least = Duration::from_nanos(1);
    for (held, expected) in [(SECOND / 2, State::Open), (SECOND / 2 + least, State::HalfOpen)] {
        let timer = ManualTimer::new();
        let breaker = Breaker::new()
            .with_consecutive(1)
            .with_probes(1.0, 1)
            .with_open_time(opening_for(SECOND));
        let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
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

/// The verdict on the cut says what it shows; here, nothing.
#[tokio::test(start_paused = true)]
async fn a_cut_counts_as_its_classifier_says() {
    let upstream = probing().await;
    let neutral = (|_: &&str| true).cut_is(Verdict::transient().with_health(Health::Unknown));
    let policy =
        RetryPolicy::new().with_attempts(1).with_attempt_timeout(SECOND).with_classifier(neutral);
    for policy in [policy, policy.without_attempt_timeout().with_total_timeout(SECOND)] {
        retry(|_| hangs(), policy, Never).on(&upstream).await.unwrap_err();
        assert_eq!(state(&upstream), State::HalfOpen);
    }
    let works = retry(|_| async { Ok::<_, &str>(1) }, policy, Never).on(&upstream);
    assert_eq!(works.await.unwrap(), 1);
    assert_eq!(state(&upstream), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_panics_ahead_of_its_attempt_gives_its_probe_back() {
    let upstream = probing().await;
    let (policy, mut calls) = (RetryPolicy::new(), 0);
    let op = |_| {
        calls += 1;
        assert!(calls > 1, "no attempt");
        std::future::ready(Ok::<_, &str>(()))
    };
    let mut call = Box::pin(retry(op, &policy, Never).on(&upstream));
    let panics = std::panic::AssertUnwindSafe(|| poll(call.as_mut()));
    assert!(std::panic::catch_unwind(panics).is_err());
    call.await.unwrap();
    assert_eq!(state(&upstream), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_refused_is_not_polled() {
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

// ---- what is not sent again counts all the same

/// `POST`s that fail: none is sent again, and the upstream is down.
#[tokio::test(start_paused = true)]
async fn failures_that_are_not_sent_again_open_it() {
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
            "the limit of failures, by retry: {by_retry}"
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

/// A 404 shows that the upstream is at work: it ends a streak, counts as good, and as a probe it passes.
#[tokio::test(start_paused = true)]
async fn errors_of_a_healthy_upstream_are_good_signs() {
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

// ---- on the upstream's clock

/// Never trips; its slots are seconds.
fn counting() -> Breaker {
    Breaker::new().without_consecutive().with_failure_rate(1.0, u32::MAX).with_window(16 * SECOND)
}

/// What a call read of its own clock it hands on to its breaker. That changes nothing of what is counted, and when.
#[tokio::test(start_paused = true)]
async fn a_breaker_counts_the_same_however_the_call_is_made() {
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

/// A call that was held counts when its attempt ended, and not when the call began.
#[test]
fn a_call_that_waited_for_its_admission_counts_when_it_ended() {
    let policy = RetryPolicy::new().with_total_timeout(60 * SECOND);
    for policy in [policy, policy.without_total_timeout()] {
        let timer = ManualTimer::new();
        let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
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

/// Readings of two clocks do not compare: an upstream goes by its own, and by no other.
#[tokio::test(start_paused = true)]
async fn a_breaker_goes_by_the_clock_of_its_upstream() {
    let policy = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(Backoff::none())
        .with_total_timeout(60 * SECOND);
    let timer = ManualTimer::new();
    let far = Upstream::new("far").with_breaker(counting()).with_timer(&timer);
    let near = upstream(counting());
    // Far from where readings begin, so that the two clocks' do not agree by chance.
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

/// A turn that takes as long as the window, on whose end the clock is read anew: what others counted meanwhile stays.
#[tokio::test(start_paused = true)]
async fn a_long_turn_erases_nothing_that_was_counted_meanwhile() {
    let once = RetryPolicy::new().with_attempts(1);
    for policy in [once, once.with_total_timeout(60 * SECOND)] {
        for windows in 1..4 {
            let upstream = upstream(counting());
            upstream.try_admit().unwrap().succeeded();
            let op = |_| {
                let mut jump = Box::pin(tokio::time::advance(16 * windows * SECOND));
                assert!(poll(jump.as_mut()).is_pending(), "the clock has moved on and nobody ran");
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
