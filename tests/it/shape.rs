//! What spawns, what is `const`, what it all weighs.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use resile::{
    Always, Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Decision, Elapsed, Event, GaveUp, HedgePolicy,
    Jitter, ManualTimer, Never, ResilienceExt, RetryPolicy, Run, Stop, Verdict, hedge, retry,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use tokio_util::sync::CancellationToken;

assert_impl_all!(RetryPolicy: Copy, Debug, Default, PartialEq, Send, Sync, Unpin);
assert_impl_all!(RetryPolicy<fn(&io::Error) -> bool>: Copy, Debug, Send, Sync);
assert_impl_all!(Backoff: Copy, Debug, PartialEq, Send, Sync);
assert_impl_all!(Jitter: Copy, Debug, Default, PartialEq);
assert_impl_all!(Budget: Debug, Default, Send, Sync, Unpin);
assert_not_impl_any!(Budget: Clone); // a copy would be a second budget
assert_impl_all!(Attempt: Copy, Debug, Send, Sync);
assert_impl_all!(Verdict: Copy, Debug, Eq, Hash);
assert_impl_all!(Decision: Copy, Debug, Eq);
assert_impl_all!(Stop: Copy, Debug, Eq, Hash);
assert_impl_all!(Elapsed: Copy, Error, Eq, Hash, Send, Sync);
assert_impl_all!(GaveUp<io::Error>: Error, Send, Sync, Unpin);
assert_impl_all!(ManualTimer: Clone, Debug, Default, Send, Sync);
assert_impl_all!(Run<'static, io::Error, Always, CancellationToken>: Debug, Send, Sync);
assert_impl_all!(Event<'static, io::Error>: Debug, Send, Sync);

/// All that is configuration or shared is built before `main`.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100))
    .with_factor(1.5)
    .with_cap(Duration::from_secs(1))
    .with_jitter(Jitter::Proportional(0.5));
static STEPS: Backoff = Backoff::steps(&[Duration::ZERO, Duration::from_secs(1)]);
static CUSTOM: Backoff = Backoff::custom(|retry| Duration::from_secs(retry.into()));
const CONST: RetryPolicy = RetryPolicy::patient().with_attempts(9).with_backoff(BACKOFF).without_deadline();
static POLICY: RetryPolicy =
    RetryPolicy::new().with_deadline(Duration::from_secs(10)).with_hint_cap(Duration::from_secs(1)).with_attempts(2);
static JUDGED: RetryPolicy<fn(&io::Error) -> bool> = POLICY.with_classify(is_timeout);
static BUDGET: Budget = Budget::new().with_capacity(10).with_deposit(0.5);
const ATTEMPT: Attempt = Attempt::new(2).with_elapsed(Duration::from_secs(1)).with_delay(Duration::ZERO);

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[test]
fn consts_are_what_they_say() {
    assert_eq!((CONST.attempts(), CONST.deadline(), CONST.backoff()), (9, None, BACKOFF));
    assert_eq!((POLICY.attempts(), POLICY.deadline()), (2, Some(Duration::from_secs(10))));
    assert_eq!((JUDGED.attempts(), JUDGED.hint_cap()), (2, Duration::from_secs(1)));
    assert!((JUDGED.classify())(&io::ErrorKind::TimedOut.into()));
    assert_eq!((BUDGET.capacity(), ATTEMPT.number()), (10, 2));
    assert_ne!(STEPS, CUSTOM);
    assert_eq!(STEPS.schedule().nth(7), Some(Duration::from_secs(1)));
}

async fn ask(prompt: &str, attempt: Attempt) -> io::Result<usize> {
    tokio::task::yield_now().await;
    if attempt.is_first() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(prompt.len()) }
}

fn instant() -> RetryPolicy {
    RetryPolicy::new().with_backoff(Backoff::none())
}

/// The main door: a closure that borrows, inside a block that is spawned on many threads. (`AsyncFnMut` in its place
/// would not spawn; the compile-fail example beside `retry` holds that.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closure_that_borrows_spawns() {
    let token = CancellationToken::new();
    let borrowed = token.clone();
    let with_borrowed_token = tokio::spawn(async move {
        let (prompt, policy, budget) = (String::from("hello"), instant(), Arc::new(Budget::new()));
        let judged = policy.with_classify(|error: &io::Error| is_timeout(error) || prompt.is_empty());
        retry(|attempt| ask(&prompt, attempt), &judged, &borrowed).with_budget(&budget).await
    });
    let with_owned_token = tokio::spawn(async move {
        let (prompt, told) = (String::from("hello"), std::sync::Mutex::new(0));
        let observer = |_: &Event<'_, io::Error>| *told.lock().unwrap() += 1;
        let mut calls = 0;
        let op = |attempt| {
            calls += 1;
            ask(&prompt, attempt)
        };
        let outcome = retry(op, &instant(), token).with_observer(observer).await;
        (outcome, calls, told.into_inner().unwrap())
    });
    assert_eq!(with_borrowed_token.await.unwrap().unwrap(), 5);
    let (outcome, calls, told) = with_owned_token.await.unwrap();
    assert_eq!((outcome.unwrap(), calls, told), (5, 2, 3));
}

/// With everything `static` the future is too: it spawns by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_statics_spawns_by_itself() {
    static INSTANT: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());
    static PLENTY: Budget = Budget::new();
    let call = retry(|attempt| ask("hello", attempt), &INSTANT, CancellationToken::new()).with_budget(&PLENTY);
    assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), 5);
    let limited = retry(
        |attempt| {
            async move { ask("hello", attempt).await.map_err(anyhow::Error::from) }.timeout(Duration::from_secs(9))
        },
        &INSTANT,
        Never,
    );
    assert_eq!(tokio::spawn(limited).await.unwrap().unwrap(), 5);
}

/// `Run` spawns with an operation that borrows `&mut` state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_mutable_state_spawns() {
    async fn turn(state: &mut String) -> io::Result<usize> {
        state.push('x');
        tokio::task::yield_now().await;
        if state.len() < 3 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(state.len()) }
    }
    let (token, mut state) = (CancellationToken::new(), String::new());
    let outcome = tokio::spawn(async move {
        let policy = instant();
        let mut run = policy.start(&token);
        if run.attempt(turn(&mut state)).await?.is_some() {
            return Ok(0);
        }
        loop {
            match turn(&mut state).await {
                Ok(value) => break Ok::<_, GaveUp<io::Error>>(run.success(value)),
                Err(error) => run.again(error).await?,
            }
        }
    });
    assert_eq!(outcome.await.unwrap().unwrap(), 3);
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn futures_are_send_when_their_parts_are() {
    let (token, policy) = (CancellationToken::new(), instant());
    drop(assert_send(retry(|attempt| ask("", attempt), &policy, &token)));
    drop(assert_send(ask("", ATTEMPT).timeout(Duration::ZERO)));
    let mut run = policy.start(token);
    drop(assert_send(run.attempt(ask("", ATTEMPT))));
    drop(assert_send(run.again(io::ErrorKind::TimedOut.into())));
}

/// A future of that many bytes and a little.
async fn heavy<const N: usize>() -> io::Result<()> {
    let ballast = black_box([0_u8; N]);
    tokio::task::yield_now().await;
    black_box(&ballast);
    Ok(())
}

#[test]
fn trap_17_the_operation_is_held_once() {
    let (policy, token) = (POLICY, CancellationToken::new());
    let grown = size_of_val(&heavy::<1032>()) - size_of_val(&heavy::<8>());
    assert!(grown >= 1024, "the yardstick is off: {grown}");

    let light = size_of_val(&retry(|_| heavy::<8>(), &policy, &token));
    assert_eq!(size_of_val(&retry(|_| heavy::<1032>(), &policy, &token)) - light, grown, "the future of an attempt");
    let captured = [1_u8; 1024];
    let op = move |_| {
        black_box(&captured);
        heavy::<8>()
    };
    assert_eq!(size_of_val(&retry(op, &policy, &token)) - light, size_of_val(&op), "the closure");

    let light = size_of_val(&heavy::<8>().timeout(Duration::ZERO));
    assert_eq!(size_of_val(&heavy::<1032>().timeout(Duration::ZERO)) - light, grown, "under a timeout");

    let (breaker, bulkhead, cooldown, hedges) = (Breaker::new(), Bulkhead::new(1), Cooldown::new(), HedgePolicy::new());
    let adapted = |heavy: bool| {
        macro_rules! sizes {
            ($op:expr) => {
                [
                    size_of_val(&$op.guarded_by(&breaker)),
                    size_of_val(&$op.limited_by(&bulkhead)),
                    size_of_val(&$op.paced_by(&cooldown)),
                    size_of_val(&hedge(|_| $op, &hedges, &token)),
                ]
            };
        }
        if heavy { sizes!(self::heavy::<1032>()) } else { sizes!(self::heavy::<8>()) }
    };
    assert_eq!(adapted(true), adapted(false).map(|light| light + grown), "guarded, limited, paced, hedged");

    let mut run = policy.start(&token);
    let light = size_of_val(&run.attempt(heavy::<8>()));
    assert_eq!(size_of_val(&run.attempt(heavy::<1032>())) - light, grown, "under a run");
}

#[test]
fn sizes() {
    let (policy, token) = (POLICY, CancellationToken::new());
    let call = retry(|_| async { Ok::<(), io::Error>(()) }, &policy, &token).with_budget(&BUDGET);
    assert!(size_of_val(&call) <= 256, "a call with a token and a deadline: {} bytes", size_of_val(&call));
    let mut run = policy.start::<io::Error, _>(&token).with_budget(&BUDGET);
    assert!(size_of_val(&run) <= 72, "a run: {} bytes", size_of_val(&run));
    let attempt = size_of_val(&run.attempt(async { Ok(()) }));
    assert!(attempt <= 256, "its attempt: {attempt} bytes");
    assert!(size_of::<GaveUp<io::Error>>() <= 64, "{}", size_of::<GaveUp<io::Error>>());
    assert_eq!(size_of::<Elapsed>(), 24); // the limit, and what did not come within it
    assert_eq!(size_of::<Never>(), 0);
    assert!(size_of::<Budget>() <= 24);
}

/// What each adapter adds to what it stands on, and what it costs a run to be linked.
#[test]
fn sizes_of_what_is_shared() {
    let (policy, token, hedges) = (POLICY, CancellationToken::new(), HedgePolicy::new());
    let (breaker, bulkhead, cooldown) = (Breaker::new(), Bulkhead::new(1), Cooldown::new());
    let one = || std::future::ready(Ok::<u64, anyhow::Error>(1));
    let added = |adapted: usize| adapted - size_of_val(&one());
    let sizes = [
        ("guarded", added(size_of_val(&one().guarded_by(&breaker))), 48),
        ("limited", added(size_of_val(&one().limited_by(&bulkhead))), 40),
        ("paced, with room for a sleep", added(size_of_val(&one().paced_by(&cooldown))), 168),
        ("a hedge", size_of_val(&hedge(|_| one(), &hedges, &token).with_budget(&BUDGET)), 352),
    ];
    for (what, size, most) in sizes {
        assert!(size <= most, "{what}: {size} bytes");
    }
    let call = retry(|_| one(), &policy, &token).with_budget(&BUDGET);
    let alone = size_of_val(&call);
    let linked = size_of_val(&call.with_breaker(&breaker).with_cooldown(&cooldown));
    assert!(linked - alone <= 48 && linked <= 336, "a linked call: {linked} bytes, alone {alone}");
    let run = policy.start::<anyhow::Error, _>(&token).with_budget(&BUDGET);
    let mut run = run.with_breaker(&breaker).with_cooldown(&cooldown);
    let sizes = [size_of_val(&run), size_of_val(&run.attempt(one()))];
    assert!(sizes[0] <= 128 && sizes[1] <= 256, "a linked run and its attempt: {sizes:?} bytes");
}
