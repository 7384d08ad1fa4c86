//! What a call that ended tells an outer call: its verdict, by the reason for its end.

use std::future::{pending, ready};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join;
use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use resile::classify::{Always, ClassifyExt, Cut};
use resile::fallback::Alternative;
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Rate};
use resile::stream::{Part, Resumption};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Classify, Cooldown, FallbackPolicy, GaveUp,
    Health, Jitter, Never, Quota, ResilienceExt, RetryPolicy, Run, StopReason, Throttle, Upstream,
    Verdict, fallback, retry, retry_stream,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::script::poll;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// May be sent again, and the health is unknown: the upstream was not asked.
const UNASKED: Verdict = Verdict::transient().with_health(Health::Unknown);

type Answer = Result<u32, &'static str>;

fn fixed(delay: Duration) -> Backoff {
    Backoff::fixed(delay).with_jitter(Jitter::None)
}

/// Creates an upstream whose breaker opens for a minute after one failure.
fn fragile() -> Upstream {
    let breaker = Breaker::new().with_consecutive(1).with_open_time(fixed(MINUTE));
    Upstream::new("inner").with_breaker(breaker)
}

fn open() -> Upstream {
    let upstream = fragile();
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    upstream
}

fn policy<E>(verdict: Option<Verdict>) -> RetryPolicy<impl Classify<E> + Copy> {
    let policy = RetryPolicy::new().with_backoff(fixed(SECOND)).with_attempts(2);
    policy.with_hint_cap(SECOND * 9).with_classifier(move |_: &E| verdict)
}

async fn fails(verdict: impl Into<Option<Verdict>>, upstream: &Upstream) -> GaveUp<&'static str> {
    let op = |_| ready(Answer::Err("down"));
    retry(op, policy(verdict.into()), Never).on(upstream).await.unwrap_err()
}

/// A call whose only attempt the caller drops, and the refusal of the next one.
async fn dropped(
    upstream: &Upstream,
    classifier: impl Classify<&'static str>,
) -> GaveUp<&'static str> {
    let policy = RetryPolicy::new().with_classifier(classifier);
    let mut run = Run::new(&policy, Never).on(upstream);
    let mut attempt = Box::pin(run.attempt(pending::<Answer>()));
    assert!(poll(attempt.as_mut()).is_pending());
    drop(attempt);
    run.next().await.unwrap_err()
}

/// Each reason has one row without a failure and one after a failure, as far as it can occur.
#[tokio::test(start_paused = true)]
async fn the_reason_decides_the_verdict() {
    let plain = || Upstream::new("inner");
    let busy = Verdict::throttled().after(SECOND * 3);
    let mut rows = Vec::new();

    let broken = Verdict::transient().not_again();
    rows.push((fails(broken, &plain()).await, StopReason::Fatal, Some(broken)));
    rows.push((fails(None, &plain()).await, StopReason::Unclassified, None));
    rows.push((fails(busy, &plain()).await, StopReason::Attempts, Some(busy)));
    let late = busy.after(SECOND * 10);
    rows.push((fails(late, &plain()).await, StopReason::HintTooLong, Some(late)));
    let floor = Verdict::transient().at_least(SECOND * 10);
    rows.push((fails(floor, &plain()).await, StopReason::HintTooLong, Some(floor)));

    let op = |_: Alternative<'_, u32>| ready(Answer::Err("down"));
    let rules = FallbackPolicy::new().with_classifier(move |_: &&str| busy);
    let ended = fallback(&[1, 2], op, rules, Never).await.unwrap_err();
    rows.push((ended, StopReason::Alternatives, Some(busy)));

    let held = plain().with_cooldown(Cooldown::new());
    held.hold(MINUTE);
    let limited = held.call(ready(Answer::Ok(1)), Always).with_total_timeout(SECOND);
    let ended = limited.await.unwrap_err();
    let after = ended.retry_after().unwrap();
    assert!(after >= MINUTE);
    rows.push((ended, StopReason::Deadline, Some(UNASKED.not_sent().at_least(after))));
    let hangs = plain();
    let limited = hangs.call(pending::<Answer>(), Always).with_total_timeout(SECOND);
    rows.push((limited.await.unwrap_err(), StopReason::Deadline, Some(Verdict::transient())));
    let short = policy(Some(busy)).with_total_timeout(SECOND * 2);
    let ended = retry(|_| ready(Answer::Err("down")), short, Never).await.unwrap_err();
    rows.push((ended, StopReason::Deadline, Some(busy)));

    let spent = || plain().with_budget(Budget::new().with_capacity(0));
    rows.push((dropped(&spent(), Always).await, StopReason::Budget, Some(UNASKED)));
    rows.push((fails(busy, &spent()).await, StopReason::Budget, Some(busy)));

    let minute = Verdict::transient().at_least(MINUTE);
    let refused = open().call(ready(Answer::Ok(1)), Always).await.unwrap_err();
    rows.push((refused, StopReason::Open, Some(minute.with_health(Health::Unknown).not_sent())));
    // A failure opens the breaker. The error has its own health, and a shorter wait.
    let told = Verdict::transient().after(SECOND * 3);
    rows.push((fails(told, &fragile()).await, StopReason::Open, Some(minute)));

    let throttled = plain().with_throttle(Throttle::new()).with_seed(0);
    for _ in 0..100 {
        if let Ok(sent) = throttled.try_admit() {
            sent.settle(&busy);
        }
    }
    let refusal = loop {
        match throttled.call(ready(Answer::Err("busy")), |_: &&str| Some(busy)).await {
            Err(gave_up) if gave_up.attempts() == 0 => break gave_up,
            _ => {}
        }
    };
    assert_eq!(refusal.retry_after(), None);
    rows.push((refusal, StopReason::Throttled, Some(UNASKED.not_sent())));

    let full = plain().with_bulkhead(Bulkhead::new(1).with_queue(0));
    let place = full.try_admit().unwrap();
    let refused = full.call(ready(Answer::Ok(1)), Always).await.unwrap_err();
    rows.push((refused, StopReason::Full, Some(UNASKED.not_sent())));
    drop(place);

    let small = plain().with_quota(Quota::new().with_tokens(Rate::per_minute(10)));
    let large = ready(Answer::Ok(1)).through(small.at_cost(Cost::input(1_000)), Always);
    rows.push((
        large.await.unwrap_err(),
        StopReason::TooLarge,
        Some(UNASKED.not_sent().not_again()),
    ));

    let items = |_| ready(Ok(stream::iter([Ok(1), Answer::Err("cut")])));
    let opened = retry_stream(items, policy(Some(busy)), Never)
        .with_parts(|_: &u32| Part::Content)
        .with_resumption(|_: Option<&&str>| Resumption::Fail);
    let broken_off = opened.filter_map(|item| ready(item.err())).boxed().next().await.unwrap();
    rows.push((broken_off, StopReason::Partial, Some(busy.not_again())));

    let token = CancellationToken::new();
    token.cancel();
    let stopped = plain();
    let cancelled = stopped.call(ready(Answer::Ok(1)), Always).with_token(&token);
    rows.push((
        cancelled.await.unwrap_err(),
        StopReason::Cancelled,
        Some(UNASKED.not_sent().not_again()),
    ));
    let token = CancellationToken::new();
    let op = |_| {
        token.cancel();
        ready(Answer::Err("down"))
    };
    let ended = retry(op, policy(Some(busy)), &token).await.unwrap_err();
    rows.push((ended, StopReason::Cancelled, Some(busy.not_again())));

    for (gave_up, reason, verdict) in rows {
        assert_eq!((gave_up.reason(), gave_up.verdict()), (reason, verdict), "{gave_up}");
    }
}

/// Whether a dropped attempt was executed is unknown. So the classifier decides as for a cut.
#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_counts_as_a_cut() {
    let spent = Upstream::new("inner").with_budget(Budget::new().with_capacity(0));
    let careful = (|_: &&str| Verdict::transient()).cut_is(Verdict::transient().not_again());
    let gave_up = dropped(&spent, careful).await;
    assert_eq!(
        (gave_up.reason(), gave_up.verdict()),
        (StopReason::Budget, Some(UNASKED.not_again()))
    );
}

/// An outer call waits as long as the inner breaker refuses, and no longer.
#[tokio::test(start_paused = true)]
async fn an_outer_call_waits_for_the_breaker_of_an_inner_call() {
    let (inner, began) = (open(), Instant::now());
    let outer = Upstream::new("outer").with_breaker(Breaker::new().with_consecutive(1));
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Waiting { .. }) {
            seen.lock().unwrap().push(event.to_string());
        }
    };
    let rules = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(fixed(SECOND))
        .without_total_timeout()
        .with_classifier(|gave_up: &GaveUp<&str>| gave_up.verdict());
    let op = |attempt: Attempt| inner.call(ready(Answer::Ok(attempt.number())), Always);
    let call = retry(op, rules, Never).on(outer.observed_by(&observer));
    assert_eq!(call.await, Ok(2));
    let waited = began.elapsed();
    assert!(waited >= MINUTE && waited <= MINUTE + SECOND * 6, "{waited:?}");
    // The upstream was not called, so its refusal is no failure of the outer upstream.
    assert_eq!((outer.snapshot().unwrap().calls, outer.snapshot().unwrap().failures), (1, 0));
    let seen = seen.into_inner().unwrap().concat();
    assert!(seen.contains(", retrying in 60.0s, as set for this error: inner: "), "{seen}");
    assert!(seen.ends_with(", try again in 60.0s"), "{seen}");
}

/// The same for a cooldown, a quota and a bulkhead that refuse an inner call.
#[tokio::test(start_paused = true)]
async fn an_outer_call_waits_for_the_other_parts_of_an_inner_call() {
    let cooled = Upstream::new("inner").with_cooldown(Cooldown::new());
    cooled.hold(SECOND * 20);
    let used_up = Upstream::new("inner").with_quota(Quota::new().with_tokens(Rate::per_minute(60)));
    let sixty = || used_up.at_cost(Cost::input(60).with_max_output(0));
    sixty().try_admit().unwrap().succeeded();
    let full = Upstream::new("inner").with_bulkhead(Bulkhead::new(1));
    let place = full.try_admit().unwrap();
    let rules = || {
        RetryPolicy::new()
            .with_attempts(9)
            .with_backoff(fixed(SECOND * 4))
            .without_total_timeout()
            .with_classifier(|gave_up: &GaveUp<&str>| gave_up.verdict())
    };
    let (asks, began) = (Mutex::new(0), Instant::now());
    let one = || {
        *asks.lock().unwrap() += 1;
        ready(Answer::Ok(1))
    };
    let short = |_| cooled.call(one(), Always).with_total_timeout(SECOND);
    assert_eq!(retry(short, rules(), Never).await, Ok(1));
    assert!(began.elapsed() >= SECOND * 20, "{:?}", began.elapsed());
    let began = Instant::now();
    let short = |_| one().through(sixty(), Always).with_total_timeout(SECOND);
    assert_eq!(retry(short, rules(), Never).await, Ok(1));
    let waited = began.elapsed();
    assert!(waited > SECOND * 9 && waited <= MINUTE + SECOND * 6, "{waited:?}");
    let short = |_| full.call(one(), Always).with_total_timeout(SECOND);
    let leaves = async {
        sleep(SECOND * 20).await;
        drop(place);
    };
    assert_eq!(join(retry(short, rules(), Never), leaves).await.0, Ok(1));
}

/// Observers get the classifier's verdict. The wait of the breaker is no part of it.
#[tokio::test(start_paused = true)]
async fn events_have_the_verdict_of_the_classifier() {
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::GaveUp { failure, .. } = event.kind {
            seen.lock().unwrap().push((failure.verdict, event.to_string()));
        }
    };
    let told = Verdict::transient().after(SECOND * 3);
    let (shut, fragile) = (open(), fragile());
    let op = |_| ready(Answer::Err("down"));
    for upstream in [&shut, &fragile] {
        retry(op, policy(Some(told)), Never).on(upstream.observed_by(&observer)).await.unwrap_err();
    }
    let seen = seen.into_inner().unwrap();
    assert_eq!((seen[0].0, seen[1].0), (None, Some(told)));
    assert_eq!(
        seen[1].1,
        "inner: gave up after 1 of 2 attempts, the circuit breaker is open, \
         try again in 60.0s, the upstream asked for a wait of 3.0s: down"
    );
}

proptest! {
    /// The verdict of an end keeps the classifier's verdict, except for the wait, and for the
    /// permission to send the request again. It never grants this permission.
    #[test]
    fn an_end_never_allows_what_the_classifier_forbids(
        health in prop_oneof![
            Just(Health::Healthy), Just(Health::Throttling), Just(Health::Failing), Just(Health::Unknown)
        ],
        is_again in any::<bool>(),
        hint in prop::option::of(0..20_u64),
        is_own in any::<bool>(),
        opens in any::<bool>(),
    ) {
        let verdict = Verdict::transient().with_health(health);
        let verdict = if is_again { verdict } else { verdict.not_again() };
        let verdict = match hint {
            None => verdict,
            Some(hint) if is_own => verdict.at_least(SECOND * u32::try_from(hint).unwrap()),
            Some(hint) => verdict.after(SECOND * u32::try_from(hint).unwrap()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let upstream = if opens { fragile() } else { Upstream::new("plain") };
        let gave_up = runtime.block_on(fails(verdict, &upstream));
        let seen = gave_up.verdict().unwrap();
        prop_assert_eq!(seen.health(), health);
        prop_assert!(!seen.is_again() || is_again);
        prop_assert!(seen.wait() >= verdict.wait());
        prop_assert!(seen.wait() >= gave_up.retry_after());
        prop_assert!(seen.hint().is_none() || seen.hint() == verdict.hint());
    }
}

/// A cut keeps the cut's verdict.
#[tokio::test(start_paused = true)]
async fn a_cut_at_the_deadline_forbids_what_its_classifier_forbids() {
    let booking = Verdict::transient().not_again();
    let careful = (|_: &&str| Verdict::transient()).cut_is(booking);
    let upstream = Upstream::new("inner");
    let call = upstream.call(pending::<Answer>(), careful).with_total_timeout(SECOND);
    let gave_up = call.await.unwrap_err();
    assert_eq!((gave_up.cut(), gave_up.verdict()), (Some(Cut::Deadline), Some(booking)));
}
