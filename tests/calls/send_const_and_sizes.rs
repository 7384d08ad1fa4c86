//! Public types: their traits, `const` constructors, `Send` futures and sizes.
//!
//! The test named `trap_17_…` stands for point 17 of the section "The behaviour" in `COMPARE.md`.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::hint::black_box;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use resile::breaker::TripReason;
use resile::call::Admission;
use resile::classify::{Always, Cut};
use resile::observe::{Event, Log};
use resile::policy::Decision;
use resile::quota::Cost;
use resile::time::{ManualTimer, Seeded, TokioTimer};
use resile::timeout::Elapsed;
use resile::upstream::{AtCost, Displayed, Observed};
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, Drain, GaveUp, Health,
    HedgePolicy, Jitter, Keyed, Never, ResilienceExt, RetryPolicy, Run, StopReason, Throttle,
    Upstream, Verdict, hedge, retry,
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
assert_impl_all!(StopReason: Copy, Debug, Eq, Hash);
assert_impl_all!(Health: Copy, Debug, Eq, Hash);
assert_impl_all!(Cut: Copy, Debug, Eq, Hash);
assert_impl_all!(TripReason: Copy, Debug, Eq);
assert_impl_all!(Elapsed: Copy, Error, Eq, Hash, Send, Sync);
assert_impl_all!(GaveUp<io::Error>: Error, Send, Sync, Unpin);
assert_impl_all!(GaveUp<Elapsed>: Clone, Eq);
assert_impl_all!(Cost<'static>: Copy, Debug, Eq);
assert_impl_all!(resile::backoff::Schedule: Clone, PartialEq);
assert_impl_all!(ManualTimer: Clone, Debug, Default, Send, Sync);
assert_impl_all!(Run<io::Error, RetryPolicy, CancellationToken>: Debug, Send, Sync);
assert_impl_all!(Run<io::Error, Arc<RetryPolicy>, Drain<CancellationToken>, Arc<Upstream>>: Debug, Send, Sync);
assert_impl_all!(Upstream: Debug, Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
assert_impl_all!(Upstream<ManualTimer>: Debug, Send, Sync);
assert_impl_all!(Seeded<TokioTimer>: Debug, Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
assert_not_impl_any!(Upstream: Clone); // a copy would share nothing
assert_impl_all!(Admission<Arc<Upstream>>: Debug, Send, Sync);
assert_impl_all!(Event<'static>: Copy, Debug);
assert_impl_all!(resile::call::BeforeSending<std::future::Ready<()>>: Debug, Send, Sync, Unpin);

/// All configuration and all shared state can be built in a `const` or a `static`.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100))
    .with_factor(1.5)
    .with_cap(Duration::from_secs(1))
    .with_jitter(Jitter::Proportional(0.5));
static STEPS: Backoff = Backoff::steps(&[Duration::ZERO, Duration::from_secs(1)]);
static CUSTOM: Backoff = Backoff::custom(|retry| Duration::from_secs(retry.into()));
const CONST: RetryPolicy =
    RetryPolicy::patient().with_attempts(9).with_backoff(BACKOFF).without_total_timeout();
static POLICY: RetryPolicy = RetryPolicy::new()
    .with_total_timeout(Duration::from_secs(10))
    .with_hint_cap(Duration::from_secs(1))
    .with_attempts(2);
static CLASSIFIED: RetryPolicy<fn(&io::Error) -> bool> = POLICY.with_classifier(is_timeout);
static BUDGET: Budget = Budget::new().with_capacity(10).with_deposit(0.5);
const ATTEMPT: Attempt =
    Attempt::new(2).with_elapsed(Duration::from_secs(1)).with_delay(Duration::ZERO);

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// Every part of an upstream may be set in any order, together with an observer.
static UPSTREAM: Upstream = Upstream::new("static")
    .with_adaptive_timeout(AdaptiveTimeout::new())
    .with_cooldown(Cooldown::new())
    .with_throttle(Throttle::new())
    .with_observer(&(Log, observe as fn(&Event<'_>)))
    .with_breaker(Breaker::new().with_consecutive(3))
    .with_bulkhead(Bulkhead::new(7))
    .with_budget(Budget::new());
static HOSTS: Keyed<String, Upstream> =
    Keyed::new(|host| Upstream::named(host.as_str()).with_budget(Budget::new()));

fn observe(_: &Event<'_>) {}

#[test]
fn consts_and_statics_have_their_settings() {
    assert_eq!((CONST.attempts(), CONST.total_timeout(), CONST.backoff()), (9, None, BACKOFF));
    assert_eq!((POLICY.attempts(), POLICY.total_timeout()), (2, Some(Duration::from_secs(10))));
    assert_eq!((CLASSIFIED.attempts(), CLASSIFIED.hint_cap()), (2, Duration::from_secs(1)));
    assert!((CLASSIFIED.classifier())(&io::ErrorKind::TimedOut.into()));
    assert_eq!((BUDGET.capacity(), ATTEMPT.number()), (10, 2));
    assert_ne!(STEPS, CUSTOM);
    assert_eq!(STEPS.schedule().nth(7), Some(Duration::from_secs(1)));
    assert_eq!((UPSTREAM.name(), UPSTREAM.bulkhead().unwrap().limit()), ("static", 7));
    assert!(
        UPSTREAM.adaptive_timeout().is_some()
            && UPSTREAM.cooldown().is_some()
            && UPSTREAM.throttle().is_some()
            && UPSTREAM.budget().is_some()
    );
    assert!(UPSTREAM.breaker().is_some() && HOSTS.get("a").breaker().is_none());
    assert_eq!((HOSTS.get("a").name(), HOSTS.get("b").name()), ("a", "b"));
}

async fn ask(prompt: &str, attempt: Attempt) -> io::Result<usize> {
    tokio::task::yield_now().await;
    if attempt.is_first() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(prompt.len()) }
}

fn instant() -> RetryPolicy {
    RetryPolicy::new().with_backoff(Backoff::none())
}

/// The most common call: a closure that borrows, in a task on a runtime with several threads. An
/// `AsyncFnMut` would not be `Send`. The compile-fail example of `retry` shows this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_borrowing_closure_can_be_spawned() {
    let token = CancellationToken::new();
    let borrowed = token.clone();
    let with_borrowed_token = tokio::spawn(async move {
        let (prompt, policy) = (String::from("hello"), instant());
        let upstream = Upstream::new("borrowed").with_budget(Budget::new());
        let policy =
            policy.with_classifier(|error: &io::Error| is_timeout(error) || prompt.is_empty());
        retry(|attempt| ask(&prompt, attempt), &policy, &borrowed).on(&upstream).await
    });
    let with_owned_token = tokio::spawn(async move {
        let (prompt, events) = (String::from("hello"), std::sync::Mutex::new(Vec::new()));
        let observer = |event: &Event<'_>| events.lock().unwrap().push(event.kind.as_str());
        let mut calls = 0;
        let op = |attempt| {
            calls += 1;
            ask(&prompt, attempt)
        };
        let outcome = retry(op, &instant(), token).on(UPSTREAM.observed_by(&observer)).await;
        (outcome, calls, events.into_inner().unwrap())
    });
    assert_eq!(with_borrowed_token.await.unwrap().unwrap(), 5);
    let (outcome, calls, events) = with_owned_token.await.unwrap();
    assert_eq!((outcome.unwrap(), calls), (5, 2));
    assert_eq!(events, ["started", "failed", "waiting", "started", "succeeded"]);
}

/// With only statics and owned values the call is `'static` and can be spawned directly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_statics_can_be_spawned_directly() {
    static INSTANT: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());
    static PLENTY: Upstream = Upstream::new("plenty").with_budget(Budget::new());
    let (by_arc, upstream) =
        (Arc::new(INSTANT), Arc::new(Upstream::named("shared").with_breaker(Breaker::new())));
    let token = CancellationToken::new();
    let by_reference = retry(|attempt| ask("hello", attempt), &INSTANT, token.clone()).on(&PLENTY);
    assert_eq!(tokio::spawn(by_reference).await.unwrap().unwrap(), 5);
    let by_value = retry(
        |attempt| ask("hello", attempt),
        INSTANT.with_classifier(is_timeout),
        Drain(token.clone()),
    );
    assert_eq!(tokio::spawn(by_value.on(Arc::clone(&upstream))).await.unwrap().unwrap(), 5);
    let shared = retry(|attempt| ask("hello", attempt), Arc::clone(&by_arc), Some(token.clone()));
    assert_eq!(tokio::spawn(shared.on("a name alone")).await.unwrap().unwrap(), 5);
    let hedged = hedge(|_| ask("hello", ATTEMPT), HedgePolicy::new(), token.clone())
        .on(Arc::clone(&upstream));
    assert_eq!(tokio::spawn(hedged).await.unwrap().unwrap(), 5);
    let limited = retry(
        |attempt| {
            async move { ask("hello", attempt).await.map_err(anyhow::Error::from) }
                .timeout(Duration::from_secs(9))
        },
        &INSTANT,
        Never,
    );
    assert_eq!(tokio::spawn(limited).await.unwrap().unwrap(), 5);
    // The other forms of a target own the upstream too.
    let deaf = Arc::new(|_: &Event<'_>| ());
    let observed = Observed::new(Arc::clone(&upstream), deaf);
    let call = retry(|attempt| ask("hello", attempt), &INSTANT, Never).on(observed);
    assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), 5);
    let displayed = Displayed::new(Arc::clone(&upstream));
    let call = retry(|attempt| ask("hello", attempt), &INSTANT, Never).on(displayed);
    assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), 5);
    let admission = AtCost::new(Arc::clone(&upstream), Cost::new()).admit(token).await.unwrap();
    tokio::spawn(async move { admission.succeeded() }).await.unwrap();
}

/// A call may be made in one statement and awaited in another, because it needs no temporary.
#[tokio::test(start_paused = true)]
async fn a_call_can_be_made_and_awaited_in_two_statements() {
    let token = CancellationToken::new();
    let call = retry(|attempt| ask("hello", attempt), POLICY.with_classifier(is_timeout), &token);
    assert_eq!(call.await.unwrap(), 5);
    let call = retry(|attempt| ask("hello", attempt), POLICY.with_classifier(is_timeout), &token)
        .on(&UPSTREAM);
    assert_eq!(call.await.unwrap(), 5);
    let mut run = Run::new(POLICY.with_classifier(is_timeout), &token).on(&UPSTREAM);
    assert_eq!(run.attempt(ask("hello", Attempt::new(1))).await.unwrap(), None);
    assert_eq!(run.attempt(ask("hello", ATTEMPT)).await.unwrap(), Some(5));
    let call = UPSTREAM.call(ask("hello", ATTEMPT), is_timeout);
    assert_eq!(call.await.unwrap(), 5);
}

/// A `Run` with an operation that borrows `&mut` state can be spawned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_mutable_state_can_be_spawned() {
    async fn turn(state: &mut String) -> io::Result<usize> {
        state.push('x');
        tokio::task::yield_now().await;
        if state.len() < 3 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(state.len()) }
    }
    let (token, mut state) = (CancellationToken::new(), String::new());
    let outcome = tokio::spawn(async move {
        let policy = instant();
        let mut run = Run::new(&policy, &token);
        if run.attempt(turn(&mut state)).await?.is_some() {
            return Ok(0);
        }
        loop {
            run.next().await?;
            match turn(&mut state).await {
                Ok(value) => break Ok::<_, GaveUp<io::Error>>(run.succeeded(value)),
                Err(error) => run.failed(error)?,
            }
        }
    });
    assert_eq!(outcome.await.unwrap().unwrap(), 3);
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn futures_are_send_if_their_parts_are() {
    let (token, policy) = (CancellationToken::new(), instant());
    drop(assert_send(retry(|attempt| ask("", attempt), &policy, &token)));
    drop(assert_send(retry(|attempt| ask("", attempt), &policy, &token).on(&UPSTREAM)));
    drop(assert_send(ask("", ATTEMPT).timeout(Duration::ZERO)));
    drop(assert_send(UPSTREAM.call(ask("", ATTEMPT), Always)));
    drop(assert_send(UPSTREAM.admit(&token)));
    let mut run = Run::new(policy, token).on(&UPSTREAM);
    drop(assert_send(run.attempt(ask("", ATTEMPT))));
    drop(assert_send(run.next()));
}

/// A future of `N` bytes and a little more.
async fn heavy<const N: usize>() -> io::Result<()> {
    let ballast = black_box([0_u8; N]);
    tokio::task::yield_now().await;
    black_box(&ballast);
    Ok(())
}

#[test]
fn trap_17_a_future_holds_its_operation_once() {
    let (policy, token) = (POLICY, CancellationToken::new());
    let grown = size_of_val(&heavy::<1032>()) - size_of_val(&heavy::<8>());
    assert!(grown >= 1024, "`heavy` does not grow with `N`: {grown}");

    let light = size_of_val(&retry(|_| heavy::<8>(), &policy, &token));
    assert_eq!(
        size_of_val(&retry(|_| heavy::<1032>(), &policy, &token)) - light,
        grown,
        "the future of an attempt"
    );
    let captured = [1_u8; 1024];
    let op = move |_| {
        black_box(&captured);
        heavy::<8>()
    };
    assert_eq!(size_of_val(&retry(op, &policy, &token)) - light, size_of_val(&op), "the closure");

    let light = size_of_val(&heavy::<8>().timeout(Duration::ZERO));
    assert_eq!(
        size_of_val(&heavy::<1032>().timeout(Duration::ZERO)) - light,
        grown,
        "under a timeout"
    );

    let hedges = HedgePolicy::new();
    macro_rules! sizes {
        ($op:expr) => {
            [
                size_of_val(&retry(|_| $op, &policy, &token).on(&UPSTREAM)),
                size_of_val(&UPSTREAM.call($op, Always)),
                size_of_val(&$op.through(&UPSTREAM, Always)),
                size_of_val(&hedge(|_| $op, &hedges, &token)),
                size_of_val(&hedge(|_| $op, &hedges, &token).on(&UPSTREAM)),
            ]
        };
    }
    let light = sizes!(heavy::<8>());
    assert_eq!(
        sizes!(heavy::<1032>()),
        light.map(|light| light + grown),
        "retried, called, called in postfix form, hedged"
    );

    let mut run = Run::new(&policy, &token);
    let light = size_of_val(&run.attempt(heavy::<8>()));
    assert_eq!(size_of_val(&run.attempt(heavy::<1032>())) - light, grown, "under a run");
}

#[expect(clippy::unused_async, reason = "a future of one byte")]
async fn one() -> io::Result<()> {
    Ok(())
}

#[test]
fn futures_and_parts_keep_their_sizes() {
    let (policy, token) =
        (POLICY.with_attempt_timeout(Duration::from_secs(3)), CancellationToken::new());
    let mut run = Run::new(&policy, &token);
    let mut run_on = Run::new(&policy, &token).on(&UPSTREAM);
    let (attempt, attempt_on) =
        (size_of_val(&run.attempt(one())), size_of_val(&run_on.attempt(one())));
    let wait = size_of_val(&run.next());
    let sizes = [
        (
            "a call with a token and both timeouts",
            size_of_val(&retry(|_| one(), &policy, &token)),
            280,
        ),
        (
            "the same on an upstream",
            size_of_val(&retry(|_| one(), &policy, &token).on(&UPSTREAM)),
            312,
        ),
        (
            "what a call adds to its attempt",
            size_of_val(&retry(|_| heavy::<8>(), &policy, &token)) - size_of_val(&heavy::<8>()),
            280,
        ),
        (
            "what it adds on an upstream",
            size_of_val(&retry(|_| heavy::<8>(), &policy, &token).on(&UPSTREAM))
                - size_of_val(&heavy::<8>()),
            312,
        ),
        (
            "what it adds at a cost",
            size_of_val(
                &retry(|_| heavy::<8>(), &policy, &token).on(UPSTREAM.at_cost(Cost::input(1))),
            ) - size_of_val(&heavy::<8>()),
            352,
        ),
        ("a run", size_of_val(&run), 112),
        ("its attempt", attempt, 200),
        ("its wait", wait, 232),
        ("a run on an upstream", size_of_val(&run_on), 144),
        ("its attempt", attempt_on, 200),
        ("a call without a retry", size_of_val(&UPSTREAM.call(one(), Always)), 256),
        ("an admission", size_of_val(&UPSTREAM.try_admit().unwrap()), 96),
        ("a hedge", size_of_val(&hedge(|_| one(), HedgePolicy::new(), &token)), 400),
        (
            "a hedge on an upstream",
            size_of_val(&hedge(|_| one(), HedgePolicy::new(), &token).on(&UPSTREAM)),
            528,
        ),
        ("a timeout", size_of_val(&one().timeout(Duration::ZERO)) - size_of_val(&one()), 136),
        ("the error", size_of::<GaveUp<anyhow::Error>>(), size_of::<usize>()),
        ("a budget", size_of::<Budget>(), 112),
    ];
    let large: Vec<_> = sizes.iter().filter(|(_, size, most)| size > most).collect();
    assert!(large.is_empty(), "too large: {large:?} of {sizes:?}");
    assert_eq!(size_of::<Elapsed>(), 24); // the limit, and the kind of timeout
    assert_eq!(size_of::<Never>(), 0);
    assert_eq!(size_of::<Verdict>(), 16);
}
