//! Every kind of call obeys the laws of a quota: each attempt reserves once, waits while its cost
//! does not fit, settles its usage, and returns its reservation if it was not sent.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use resile::classify::Always;
use resile::quota::{self, Cost, Dimension, Rate, Usage};
use resile::time::ManualTimer;
use resile::upstream::AtCost;
use resile::{
    Attempt, FallbackPolicy, GaveUp, HedgePolicy, Never, Quota, ResilienceExt, RetryPolicy, Run,
    StopReason, Upstream, fallback, hedge, retry, retry_stream,
};

use super::NOT_REFUNDED;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shell {
    Retry,
    RunAttempt,
    RunByHand,
    Stream,
    Hedge,
    Fallback,
    Call,
    Admit,
}

use Shell::{Admit, Call, Fallback, Hedge, RunAttempt, RunByHand, Stream};

const ALL: [Shell; 8] = [Shell::Retry, RunAttempt, RunByHand, Stream, Hedge, Fallback, Call, Admit];

type Host = Upstream<ManualTimer>;
type Outcome = Result<u32, GaveUp<&'static str>>;

#[derive(Clone, Copy, PartialEq)]
enum Does {
    Succeed,
    Hang,
    Panic,
}

const USAGE: Usage = Usage::new().with_input(30).with_output(10);

async fn attempt(does: Does) -> Result<u32, &'static str> {
    match does {
        Does::Succeed => {
            quota::record(USAGE);
            Ok(1)
        }
        Does::Hang => pending().await,
        Does::Panic => panic!("the operation"),
    }
}

/// Makes a call whose cost is 20 tokens of input and at most 30 of output.
async fn call(shell: Shell, host: &Host, does: Does) -> Outcome {
    let policy = RetryPolicy::new();
    let target = host.at_cost(Cost::input(20).with_max_output(30));
    match shell {
        Shell::Retry => retry(|_| attempt(does), policy, Never).on(target).await,
        RunAttempt => {
            let mut run = Run::new(policy, Never).on(target);
            loop {
                if let Some(value) = run.attempt(attempt(does)).await? {
                    return Ok(value);
                }
            }
        }
        RunByHand => {
            let mut run = Run::new(policy, Never).on(target);
            run.next().await?;
            let value = attempt(does).await.unwrap();
            run.record(USAGE);
            Ok(run.succeeded(value))
        }
        Stream => {
            let open = |_: Attempt| async move { Ok(stream::once(Box::pin(attempt(does)))) };
            let mut stream = Box::pin(retry_stream(open, policy, Never).on(target));
            let first = stream.next().await.expect("an item or an error");
            while stream.next().await.is_some() {}
            first
        }
        Hedge => hedge(|_| attempt(does), HedgePolicy::new(), Never).on(target).await,
        Fallback => {
            fallback(&[()], |_| attempt(does), FallbackPolicy::new(), Never).on(target).await
        }
        Call => attempt(does).through(target, Always).await,
        Admit => {
            let mut admission =
                target.admit(Never).await.map_err(|e| e.map(|never| match never {}))?;
            let value = attempt(does).await.unwrap();
            admission.record(USAGE);
            admission.succeeded();
            Ok(value)
        }
    }
}

/// 100 tokens at once and one a second. Two attempts at once.
fn host() -> (Host, ManualTimer) {
    let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(100)).with_concurrency(2);
    let timer = ManualTimer::new();
    (Upstream::new("host").with_quota(quota).with_timer(timer.clone()), timer)
}

fn tokens(host: &Host) -> i64 {
    host.quota_level(Dimension::Tokens).unwrap()
}

fn is_released(host: &Host) -> bool {
    let quota = host.quota().unwrap();
    (quota.reserved(), quota.in_flight(), quota.waiting()) == (0, Some(0), 0)
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_attempt_reserves_its_cost_and_settles_its_usage() {
    for shell in ALL {
        let (host, _) = host();
        let mut hangs = Box::pin(call(shell, &host, Does::Hang));
        assert!(poll(&mut hangs).is_pending());
        assert_eq!((tokens(&host), host.quota().unwrap().reserved()), (50, 30), "{shell:?}");
        let Poll::Ready(Ok(1)) = poll(&mut Box::pin(call(shell, &host, Does::Succeed))) else {
            panic!("{shell:?} does not succeed at once")
        };
        // 40 tokens were used. The request that hangs was sent, so its reservation stands.
        assert_eq!(tokens(&host), 10, "{shell:?}");
        drop(hangs);
        assert_eq!(tokens(&host), 10, "{shell:?}");
        assert!(is_released(&host), "{shell:?}");
    }
}

#[test]
fn an_attempt_waits_until_its_cost_fits() {
    for shell in ALL {
        let (host, timer) = host();
        let both = [(); 2].map(|()| poll(&mut Box::pin(call(shell, &host, Does::Succeed))));
        assert!(both.iter().all(Poll::is_ready), "{shell:?}");
        assert_eq!(tokens(&host), 20);
        let mut waits = Box::pin(call(shell, &host, Does::Succeed));
        assert!(poll(&mut waits).is_pending(), "{shell:?}");
        timer.advance(SECOND * 29);
        assert!(poll(&mut waits).is_pending(), "{shell:?}");
        timer.advance(SECOND);
        let mut polled = poll(&mut waits);
        for _ in 0..3 {
            if polled.is_pending() {
                polled = poll(&mut waits);
            }
        }
        let Poll::Ready(Ok(1)) = polled else { panic!("{shell:?} still waits") };
        assert_eq!(tokens(&host), 10, "{shell:?}");
        assert!(is_released(&host), "{shell:?}");
    }
}

#[test]
fn a_drop_at_any_poll_releases_everything_but_what_was_sent() {
    for shell in ALL {
        for taken in [0, 60, 100] {
            for polls in 0..8 {
                let (host, timer) = host();
                if taken > 0 {
                    let cost = Cost::input(taken);
                    host.at_cost(cost).try_admit().unwrap().succeeded();
                }
                let before = tokens(&host);
                let mut hangs = Box::pin(call(shell, &host, Does::Hang));
                for _ in 0..polls {
                    assert!(poll(&mut hangs).is_pending());
                    timer.advance(SECOND * 10);
                }
                let now = tokens(&host);
                drop(hangs);
                assert!(is_released(&host), "{shell:?} after {polls} polls");
                let refilled = i64::from(polls) * 10;
                let sent = if now < (before + refilled).min(100) { 50 } else { 0 };
                assert_eq!(tokens(&host), now, "{shell:?}, {sent} sent, after {polls} polls");
            }
        }
    }
}

#[test]
fn a_panic_in_the_operation_releases_everything() {
    for shell in ALL {
        let (host, _) = host();
        let mut panics = Box::pin(call(shell, &host, Does::Panic));
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut panics))).is_err());
        drop(panics);
        assert!(is_released(&host), "{shell:?}");
        assert!(!quota::record(USAGE), "nothing collects any more");
    }
}

#[test]
fn a_cost_above_the_burst_ends_every_call_at_once() {
    for shell in ALL {
        let quota = Quota::new().with_tokens(Rate::per_second(49)).with_charge(NOT_REFUNDED);
        let host = Upstream::new("small").with_quota(quota).with_timer(ManualTimer::new());
        let Poll::Ready(Err(gave_up)) = poll(&mut Box::pin(call(shell, &host, Does::Succeed)))
        else {
            panic!("{shell:?} waits")
        };
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::TooLarge, 0), "{shell:?}");
        assert_eq!(gave_up.too_large().map(|it| (it.cost, it.limit)), Some((50, 49)));
    }
}

#[test]
fn a_hedge_pays_like_the_first_attempt_and_is_denied_if_it_does_not_fit() {
    let (host, timer) = host();
    let policy = HedgePolicy::new().with_delay(SECOND).with_hedges(2);
    let cost = Cost::input(20).with_max_output(30);
    let race = hedge(|_| attempt(Does::Hang), policy, Never).on(host.at_cost(cost));
    let mut race = Box::pin(race);
    assert!(poll(&mut race).is_pending());
    for (second, in_flight) in [(1, 2), (2, 2), (3, 2)] {
        timer.advance(SECOND);
        assert!(poll(&mut race).is_pending());
        assert_eq!(host.quota().unwrap().in_flight(), Some(in_flight), "after {second} s");
    }
    drop(race);
    assert!(is_released(&host));
    assert_eq!(tokens(&host), 3, "both requests stand, and 3 tokens refilled");
}

#[test]
fn a_usage_goes_to_the_innermost_call_with_a_quota() {
    let ((outer, _), (inner, _)) = (host(), host());
    let nested = |_: Attempt| {
        let ask = |_: Attempt| attempt(Does::Succeed);
        retry(ask, RetryPolicy::new(), Never).on(inner.at_cost(Cost::input(20)))
    };
    let mut call = Box::pin(retry(nested, RetryPolicy::new(), Never).on(&outer));
    assert!(poll(&mut call).is_ready());
    assert_eq!((tokens(&outer), tokens(&inner)), (100, 60));
}

#[test]
fn an_owned_admission_may_be_withdrawn() {
    let host = Arc::new(host().0);
    let mut admit = Box::pin(AtCost::new(Arc::clone(&host), Cost::new()).admit(Never));
    let Poll::Ready(Ok(admission)) = poll(&mut admit) else { panic!("it waits") };
    assert_eq!(host.quota().unwrap().in_flight(), Some(1));
    admission.withdraw();
    assert!(is_released(&host));
    let admission = host.at_cost(Cost::input(20)).try_admit().unwrap();
    admission.withdraw();
    assert_eq!(tokens(&host), 100);
}

#[test]
fn a_blocked_thread_waits_for_the_quota() {
    let quota = Quota::new().with_requests(Rate::per_second(1));
    let host = Upstream::new("host").with_quota(quota).with_timer(ManualTimer::new());
    let mut run = Run::<&str, _, _>::new(RetryPolicy::new(), Never).on(&host);
    run.blocking_next().unwrap();
    run.failed("down").unwrap();
    let second = run.blocking_next().unwrap();
    assert_eq!(second.number(), 2);
    assert!(second.elapsed() >= SECOND, "the second request refills in a second");
}
