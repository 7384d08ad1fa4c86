//! Calls at the edges of their settings: endless limits, sleeps that end early, quiet observers.

use std::future::{Ready, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::classify::{ClassifyExt, Cut};
use resile::observe::{Event, EventKind, Observe};
use resile::quota::{Cost, Rate};
use resile::time::{ManualTimer, Timer};
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Breaker, Bulkhead, Classify, Cooldown, GaveUp, Health,
    Never, Quota, RetryPolicy, Run, StopReason, Upstream, Verdict, retry,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_endless_total_timeout_is_still_a_limit() {
    for (policy, has_limit) in [
        (RetryPolicy::new(), false),
        (RetryPolicy::new().with_total_timeout(Duration::MAX), true),
        (RetryPolicy::new().with_total_timeout(SECOND), true),
    ] {
        let timer = ManualTimer::new();
        let upstream = Upstream::new("any").with_timer(timer);
        let op = |attempt: Attempt| ready(Ok::<_, &str>(attempt.remaining()));
        let call = pin!(retry(op, policy, Never).on(&upstream));
        let Poll::Ready(remaining) = call.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the call is pending")
        };
        assert_eq!(remaining.unwrap().is_some(), has_limit, "{policy:?}");
    }
}

/// A timer whose sleeps are over at once, while its clock stands still.
#[derive(Clone, Debug)]
struct Hasty;

impl Timer for Hasty {
    type Sleep = Ready<()>;

    fn now(&self) -> Duration {
        SECOND
    }

    fn sleep(&self, _: Duration) -> Ready<()> {
        ready(())
    }
}

/// Returns the end of a call that waits behind another one, and the number of its polls.
fn end_behind(
    upstream: &Upstream<Hasty>,
    policy: RetryPolicy,
) -> (Option<GaveUp<&'static str>>, u32) {
    let cost = Cost::input(1).with_max_output(1);
    let _first = upstream.at_cost(cost).try_admit().unwrap();
    let op = |_: Attempt| ready(Ok::<(), _>(()));
    let mut call = pin!(retry(op, policy, Never).on(upstream.at_cost(cost)));
    for polls in 1..20 {
        if let Poll::Ready(end) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return (end.err(), polls);
        }
    }
    (None, 20)
}

/// A sleep that ends early ends the wait that it limits. The call does not sleep in a loop.
#[test]
fn a_wait_ends_with_its_sleep() {
    let total = RetryPolicy::new().with_total_timeout(SECOND);
    let bulkhead = || Upstream::new("any").with_timer(Hasty).with_bulkhead(Bulkhead::new(1));
    let (end, _) = end_behind(&bulkhead(), total);
    assert_eq!(end.unwrap().reason(), StopReason::Deadline);
    let short = Bulkhead::new(1).with_max_wait(SECOND / 2);
    let upstream = Upstream::new("any").with_timer(Hasty).with_bulkhead(short);
    let (end, _) = end_behind(&upstream, total);
    assert_eq!(end.unwrap().reason(), StopReason::Full);
    let short = Bulkhead::new(1).with_max_wait(SECOND / 2);
    let upstream = Upstream::new("any").with_timer(Hasty).with_bulkhead(short);
    let (end, _) = end_behind(&upstream, RetryPolicy::new());
    assert_eq!(end.unwrap().reason(), StopReason::Full);
    // A wait for a quota asks again, and yields each time.
    let quota = Quota::new().with_requests(Rate::per_minute(60).with_burst(1));
    let upstream = Upstream::new("any").with_timer(Hasty).with_quota(quota);
    let (end, polls) = end_behind(&upstream, RetryPolicy::new().with_total_timeout(SECOND * 9));
    assert!(end.is_none() && polls == 20);
}

/// An observer that wants trouble only.
struct Quiet(AtomicU32);

impl Observe for Quiet {
    fn wants_all(&self) -> bool {
        false
    }

    fn observe(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_quiet_observer_hears_nothing_of_a_first_success() {
    let quiet = Arc::new(Quiet(AtomicU32::new(0)));
    let upstream = Upstream::new("any").with_shared_observer(Arc::clone(&quiet));
    let upstream = upstream.with_timer(ManualTimer::new());
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(quiet.0.load(Relaxed), 0);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    assert_eq!(quiet.0.load(Relaxed), 2, "failed and gave up");
}

#[test]
fn a_breaker_counts_its_openings() {
    let timer = ManualTimer::new();
    let breaker = Breaker::new().with_consecutive(1).with_open_time(Backoff::fixed(SECOND));
    let upstream = Upstream::new("any").with_breaker(breaker).with_timer(timer.clone());
    for trips in 1..5 {
        upstream.try_admit().unwrap().settle(&Verdict::transient());
        // A failed probe may leave the breaker half-open until its next one fails.
        while upstream.snapshot().unwrap().trips < trips {
            upstream.try_admit().unwrap().settle(&Verdict::transient());
        }
        assert_eq!(upstream.snapshot().unwrap().trips, trips);
        timer.advance(SECOND);
    }
    upstream.reset();
    assert_eq!(upstream.snapshot().unwrap().trips, 0);
}

#[test]
fn a_health_set_by_hand_is_an_own_limit_only_if_it_is_new() {
    for (verdict, is_own) in [
        (Verdict::throttled(), true),
        (Verdict::overloaded(), false),
        (Verdict::transient(), true),
        (Verdict::fatal(), true),
    ] {
        let throttling = verdict.with_health(Health::Throttling);
        assert_eq!(throttling.is_own_limit(), is_own, "{verdict:?}");
        assert!(!verdict.with_health(Health::Failing).is_own_limit(), "{verdict:?}");
        assert_eq!(verdict.with_health(Health::Healthy).health(), Health::Healthy);
    }
}

#[test]
fn a_store_sees_the_hold_of_a_cooldown() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("any").with_cooldown(Cooldown::new()).with_timer(timer);
    let shared = upstream.share().unwrap();
    assert_eq!(shared.hold(), None);
    upstream.hold(SECOND);
    assert!(shared.hold().is_some());
    let free = Upstream::new("free").with_timer(ManualTimer::new());
    assert_eq!(free.share().unwrap().hold(), None);
}

#[test]
fn a_cooldown_returns_its_settings() {
    let cooldown = Cooldown::new().with_jitter(0.5).with_cap(SECOND * 9);
    assert_eq!(cooldown.jitter().to_bits(), 0.5_f64.to_bits());
    assert_eq!(cooldown.cap(), SECOND * 9);
}

#[test]
fn a_boxed_error_keeps_its_words() {
    let upstream = Upstream::new("any").with_timer(ManualTimer::new());
    let op = |_: Attempt| ready(Err::<(), _>("down"));
    let policy = RetryPolicy::new().with_attempts(1);
    let call = pin!(retry(op, policy, Never).on(&upstream));
    let Poll::Ready(Err(gave_up)) = call.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the call goes on")
    };
    let boxed = gave_up.into_boxed();
    assert_eq!(boxed.last().map(ToString::to_string).as_deref(), Some("down"));
    assert_eq!(boxed.into_last().map(|last| last.into_inner().to_string()).unwrap(), "down");
}

#[test]
fn a_classifier_behind_a_reference_has_the_same_opinion() {
    let classifier = (|error: &&str| *error == "down").cut_is(Verdict::fatal());
    let erased: &(dyn Classify<&str> + Send + Sync) = &classifier;
    for error in ["down", "wrong"] {
        let opinion = Classify::<&str>::classify(&erased, &error);
        assert_eq!(opinion, classifier.classify(&error));
        assert_eq!(opinion.is_some_and(|verdict| verdict.is_again()), error == "down");
    }
    assert_eq!(erased.classify_cut(Cut::Stream), Some(Verdict::fatal()));
}

#[test]
fn no_call_queues_at_an_isolated_upstream() {
    let upstream = Upstream::new("any")
        .with_breaker(Breaker::new())
        .with_bulkhead(Bulkhead::new(1))
        .with_timer(ManualTimer::new());
    let _first = upstream.try_admit().unwrap();
    let _isolation = upstream.isolate();
    let mut call = pin!(upstream.admit(Never));
    let Poll::Ready(Err(refused)) = call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("the call waits for a certain refusal")
    };
    assert_eq!((refused.reason(), refused.retry_after()), (StopReason::Open, None));
    assert_eq!(upstream.bulkhead().unwrap().waiting(), 0);
}

#[test]
fn only_a_policy_that_asks_for_it_has_the_learned_limit() {
    for learns in [true, false] {
        let timer = ManualTimer::new();
        let adaptive = AdaptiveTimeout::new();
        let upstream =
            Upstream::new("any").with_adaptive_timeout(adaptive).with_timer(timer.clone());
        for _ in 0..100 {
            upstream.adaptive_timeout().unwrap().record(timer.now(), SECOND);
        }
        let limit = upstream.adaptive_timeout().unwrap().limit();
        assert!(limit < SECOND * 60, "{limit:?}");
        let policy = RetryPolicy::new().with_attempts(1).with_total_timeout(SECOND * 1_000);
        let policy = if learns { policy.with_learned_attempt_timeout() } else { policy };
        let op = |_: Attempt| pending::<Result<(), &str>>();
        let mut call = pin!(retry(op, policy, Never).on(&upstream));
        let mut poll = || call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        timer.advance(limit);
        assert_eq!(poll().is_ready(), learns);
    }
}

#[test]
fn a_loop_by_hand_within_an_attempt_is_reported_once() {
    let nested = Arc::new(AtomicU32::new(0));
    let note = Arc::clone(&nested);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            note.fetch_add(1, Relaxed);
        }
    };
    let timer = ManualTimer::new();
    let inner = Upstream::new("inner").with_shared_observer(observer).with_timer(timer.clone());
    let outer = Upstream::new("outer").with_timer(timer);
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let op = async |_: Attempt| {
        let mut run = Run::new(policy, Never).on(&inner);
        loop {
            let attempt = run.next().await.map_err(|_| "refused")?;
            if attempt.number() == 3 {
                return Ok::<_, &str>(run.succeeded(3));
            }
            run.failed("down").map_err(|_| "gave up")?;
        }
    };
    let call = pin!(retry(op, policy, Never).on(&outer));
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(nested.load(Relaxed), 1);
}
