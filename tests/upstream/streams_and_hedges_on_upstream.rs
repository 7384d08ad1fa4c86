//! Streams, hedges and fallbacks on an upstream: their reports to its breaker, cooldown, bulkhead
//! and adaptive timeout, and the effects of these parts.

use std::cell::{Cell, RefCell};
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use resile::breaker::State;
use resile::classify::{ClassifyExt, Cut};
use resile::fallback::Alternative;
use resile::observe::{Event, EventKind, HeldBy};
use resile::stream::{Part, Resumption};
use resile::{
    AdaptiveTimeout, Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp,
    Health, HedgePolicy, Jitter, Never, RetryPolicy, StopReason, Upstream, Verdict, fallback,
    hedge, retry, retry_stream,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const ONCE: RetryPolicy = RetryPolicy::none();
const AFTER_50: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(50));

type Step = Result<u32, &'static str>;
type Steps = BoxStream<'static, Step>;

/// Creates a breaker that opens for a minute after this many failures in a row.
const fn breaker(failures: u32) -> Breaker {
    let open = Backoff::fixed(Duration::from_secs(60)).with_jitter(Jitter::None);
    Breaker::new().with_consecutive(failures).with_open_time(open)
}

fn guarded(failures: u32) -> Upstream {
    Upstream::new("host").with_breaker(breaker(failures))
}

/// Creates an upstream with a cooldown that releases all calls at once.
fn cooled() -> Upstream {
    Upstream::new("host").with_cooldown(Cooldown::new().with_jitter(0.0))
}

/// Returns the numbers of calls and of failures in the breaker.
fn counted(upstream: &Upstream) -> (u64, u64) {
    let snapshot = upstream.snapshot().unwrap();
    (snapshot.calls, snapshot.failures)
}

fn of(items: impl IntoIterator<Item = Step, IntoIter: Send + 'static>) -> Steps {
    stream::iter(items).boxed()
}

/// Opens the stream that `open` makes for each attempt.
fn opens(
    open: impl Fn(u32) -> Steps,
) -> impl FnMut(Attempt) -> std::future::Ready<Result<Steps, &'static str>> {
    move |attempt| ready(Ok(open(attempt.number())))
}

#[tokio::test(start_paused = true)]
async fn an_error_during_a_stream_counts_at_the_breaker_like_a_failure_to_open() {
    let host = guarded(2);
    let breaks = || retry_stream(opens(|_| of([Ok(1), Err("reset")])), ONCE, Never).on(&host);
    let gave_up = breaks().try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.upstream()), (StopReason::Partial, Some("host")));
    let refused = |_| ready(Err::<Steps, _>("refused"));
    retry_stream(refused, ONCE, Never).on(&host).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(host.breaker().unwrap().state(), State::Open);
    // The breaker is open now, so no stream is opened.
    let never = |_| -> std::future::Ready<Result<Steps, &'static str>> { unreachable!() };
    let gave_up =
        retry_stream(never, ONCE, Never).on(&host).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.retry_after()),
        (StopReason::Open, 0, Some(60 * SECOND))
    );
}

/// A stream counts as a success at its end only. A stream without its last item counts as a
/// failure.
#[tokio::test(start_paused = true)]
async fn a_stream_counts_once_at_its_end() {
    let host = guarded(5);
    let mut call = Box::pin(retry_stream(opens(|_| of([Ok(1), Ok(2)])), ONCE, Never).on(&host));
    for item in 1..=2 {
        assert_eq!(call.next().await.unwrap().unwrap(), item);
        assert_eq!(counted(&host), (0, 0));
    }
    assert!(call.next().await.is_none());
    assert_eq!(counted(&host), (1, 0));

    let end = |item: &u32| if *item == 9 { Part::End } else { Part::Content };
    let call = retry_stream(opens(|_| of([Ok(1)])), ONCE, Never)
        .with_parts(end)
        .with_required_end()
        .on(&host);
    assert_eq!(call.try_collect::<Vec<_>>().await.unwrap_err().cut(), Some(Cut::Stream));
    assert_eq!(counted(&host), (2, 1));
    // A stream that is dropped or cancelled before its end does not count.
    let flows = || opens(|_| stream::iter([Ok(1)]).chain(stream::pending()).boxed());
    let mut call = Box::pin(retry_stream(flows(), ONCE, Never).on(&host));
    assert_eq!(call.next().await.unwrap().unwrap(), 1);
    drop(call);
    let token = CancellationToken::new();
    let mut call = Box::pin(retry_stream(flows(), ONCE, &token).on(&host));
    assert_eq!(call.next().await.unwrap().unwrap(), 1);
    token.cancel();
    assert_eq!(call.next().await.unwrap().unwrap_err().reason(), StopReason::Cancelled);
    assert_eq!(counted(&host), (2, 1));
}

/// The stream does not wait for a retry that the breaker would refuse.
#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_ends_a_stream_between_its_attempts() {
    let (host, began) = (guarded(3), Instant::now());
    let policy = RetryPolicy::new()
        .with_attempts(9)
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));
    let call = retry_stream(opens(|_| of([Ok(7), Err("reset")])), policy, Never)
        .with_resumption(|_| Resumption::Resume)
        .on(&host);
    let gave_up = call.try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Open, 3, Some(&"reset"))
    );
    assert_eq!(began.elapsed(), 2 * SECOND);
}

/// An open stream is in flight. It holds its permit until it ends or is dropped.
#[tokio::test(start_paused = true)]
async fn a_stream_holds_its_permit_until_it_ends() {
    let host = Upstream::new("host").with_bulkhead(Bulkhead::new(1));
    let bulkhead = host.bulkhead().unwrap();
    let open = || Box::pin(retry_stream(opens(|_| of([Ok(1), Ok(2)])), ONCE, Never).on(&host));
    let (mut first, mut second) = (open(), open());
    assert_eq!(first.next().await.unwrap().unwrap(), 1);
    assert!(second.next().now_or_never().is_none());
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (1, 1));
    drop(first);
    assert_eq!(second.next().await.unwrap().unwrap(), 1);
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (1, 0));
    assert_eq!(second.count().await, 1);
    assert_eq!(bulkhead.in_flight(), 0);
}

/// A throttled stream holds every call on the upstream and its own retry.
#[tokio::test(start_paused = true)]
async fn a_throttled_stream_holds_all_calls() {
    let host = cooled();
    let throttled = |_: &&str| Verdict::throttled().after(20 * SECOND);
    let policy = RetryPolicy::new().with_attempts(2).with_classifier(throttled);
    let policy = policy.with_backoff(Backoff::none().with_jitter(Jitter::None));
    let began = Instant::now();
    let open = opens(|number| if number == 1 { of([Ok(1), Err("429")]) } else { of([Ok(2)]) });
    let stream = retry_stream(open, policy, Never)
        .with_resumption(|_| Resumption::Restart(0))
        .on(&host)
        .try_collect::<Vec<_>>();
    let other = async {
        sleep(SECOND).await;
        assert_eq!(host.held(), Some(19 * SECOND));
        retry(|_| ready(Ok::<_, &str>(())), ONCE, Never).on(&host).await.unwrap();
        began.elapsed()
    };
    let (items, other) = tokio::join!(stream, other);
    assert_eq!((items.unwrap(), began.elapsed(), other), (vec![1, 0, 2], 20 * SECOND, 20 * SECOND));

    // A new stream is held before it is opened.
    host.hold(5 * SECOND);
    let held = RefCell::new(vec![]);
    let observer = |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            held.borrow_mut().push((attempt, by, delay));
        }
    };
    let began = Instant::now();
    let call = retry_stream(opens(|_| of([Ok(1)])), ONCE, Never).on(host.observed_by(&observer));
    assert_eq!(call.try_collect::<Vec<_>>().await.unwrap(), [1]);
    assert_eq!(began.elapsed(), 5 * SECOND);
    assert_eq!(held.into_inner(), [(1, HeldBy::Cooldown, Some(5 * SECOND))]);
}

/// Opens after `half`, yields content after `half` again, and the last item an hour later.
fn slow(half: Duration) -> impl Future<Output = Result<Steps, &'static str>> {
    with_rest(half, 3600 * SECOND)
}

fn with_rest(half: Duration, rest: Duration) -> impl Future<Output = Result<Steps, &'static str>> {
    let first = stream::once(async move {
        sleep(half).await;
        Ok(1)
    });
    let rest = stream::once(async move {
        sleep(rest).await;
        Ok(2)
    });
    async move {
        sleep(half).await;
        Ok(first.chain(rest).boxed())
    }
}

/// The attempt timeout ends with the first content. A stream that is cut before counts as a
/// failure.
#[tokio::test(start_paused = true)]
async fn the_attempt_timeout_ends_with_the_first_content() {
    let host = Upstream::new("host").with_breaker(breaker(5).with_window(24 * 3600 * SECOND));
    let policy =
        ONCE.with_attempts(2).with_backoff(Backoff::none()).with_attempt_timeout(10 * SECOND);
    let began = Instant::now();
    let open = |attempt: Attempt| slow(if attempt.is_first() { 6 * SECOND } else { 4 * SECOND });
    let items = retry_stream(open, policy, Never).on(&host).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!((items, began.elapsed()), (vec![1, 2], (10 + 8 + 3600) * SECOND));
    assert_eq!(counted(&host), (2, 1));
    let gave_up = retry_stream(|_| slow(6 * SECOND), policy, Never)
        .on(&host)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.cut()),
        (StopReason::Attempts, 2, Some(Cut::AttemptTimeout(10 * SECOND)))
    );
    assert_eq!(counted(&host), (4, 3));
}

/// The learned latency of a stream is the time to its first content.
#[tokio::test(start_paused = true)]
async fn the_learned_latency_of_a_stream_is_the_time_to_content() {
    let host = Upstream::new("host").with_adaptive_timeout(AdaptiveTimeout::new());
    let policy = ONCE.with_learned_attempt_timeout();
    let calls = (0..30).map(|_| async {
        let call = retry_stream(|_| with_rest(SECOND, SECOND), policy, Never).on(&host);
        assert_eq!(call.try_collect::<Vec<_>>().await.unwrap(), [1, 2]);
    });
    futures_util::future::join_all(calls).await;
    let learned = host.adaptive_timeout().unwrap();
    let usual = learned.latency().unwrap();
    assert!(usual >= 2 * SECOND && usual < 3 * SECOND, "{usual:?}");
    let limit = learned.limit();
    let gave_up = retry_stream(|_| slow(60 * SECOND), policy, Never)
        .on(&host)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(limit)));
}

/// Yields content after `first`, and then flows for a minute.
fn flowing(
    first: Duration,
) -> impl FnMut(Attempt) -> std::future::Ready<Result<Steps, &'static str>> {
    move |_| {
        let items = stream::unfold(0, move |n| async move {
            sleep(if n == 0 { first } else { 6 * SECOND }).await;
            (n <= 10).then_some((Ok(n), n + 1))
        });
        ready(Ok(items.boxed()))
    }
}

/// Creates an upstream whose breaker opens if half of four attempts take more than ten seconds.
fn timed() -> Upstream {
    let breaker = Breaker::new().without_consecutive().without_failure_rate();
    let breaker = breaker.with_window(SECOND * 3_600);
    Upstream::new("host").with_breaker(breaker.with_slow_rate(10 * SECOND, 0.5, 4))
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_as_slow_as_its_first_content() {
    for (first, is_open) in [(1_100 * MS, false), (11 * SECOND, true)] {
        let host = timed();
        for _ in 0..6 {
            let call = retry_stream(flowing(first), ONCE, Never).on(&host);
            let _outcome = call.try_collect::<Vec<_>>().await;
        }
        assert_eq!(host.breaker().unwrap().state() == State::Open, is_open, "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_is_no_slower_than_its_first_content() {
    let host = timed();
    for _ in 0..6 {
        let open = |_| {
            let items = stream::unfold(0, |n| async move {
                sleep(SECOND * if n == 0 { 1 } else { 60 }).await;
                Some((if n == 0 { Ok(1) } else { Err("reset") }, n + 1))
            });
            ready(Ok(items.boxed()))
        };
        let classify = |_: &&str| Verdict::fatal().with_health(Health::Healthy);
        let policy = ONCE.with_classifier(classify);
        let call = retry_stream(open, policy, Never).on(&host);
        assert!(call.try_collect::<Vec<u32>>().await.is_err());
    }
    assert_eq!(host.breaker().unwrap().state(), State::Closed);
}

/// Attempt n takes the n-th latency and returns the n-th outcome.
fn scripted<const N: usize>(
    scripted: [(u64, Step); N],
) -> impl FnMut(Attempt) -> futures_util::future::BoxFuture<'static, Step> {
    move |attempt| {
        let (latency, outcome) = scripted[attempt.number() as usize - 1];
        async move {
            sleep(Duration::from_millis(latency)).await;
            outcome
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_hedge_reports_its_outcome_and_a_loser_reports_none() {
    let host = guarded(5);
    assert_eq!(
        hedge(scripted([(60, Err("reset")), (100, Ok(2))]), AFTER_50, Never)
            .on(&host)
            .await
            .unwrap(),
        2
    );
    assert_eq!(counted(&host), (2, 1));
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (10, Ok(2))]), AFTER_50, Never).on(&host).await.unwrap(),
        2
    );
    assert_eq!(counted(&host), (3, 1), "the loser does not count");
    hedge(scripted([(60, Err("reset")), (20, Err("reset"))]), AFTER_50, Never)
        .on(&host)
        .await
        .unwrap_err();
    assert_eq!(counted(&host), (5, 3));
    // Attempts dropped in flight do not count.
    let dropped = hedge(scripted([(500, Ok(1)), (500, Ok(2))]), AFTER_50, Never).on(&host);
    assert!(tokio::time::timeout(100 * MS, dropped).await.is_err());
    assert_eq!(counted(&host), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_a_hedged_call_and_denies_a_hedge() {
    let host =
        guarded(5).with_budget(Budget::new().with_capacity(3)).with_bulkhead(Bulkhead::new(9));
    let denied = Cell::new(0);
    let observer = |event: &Event<'_>| {
        if let EventKind::Denied { attempts, .. } = event.kind {
            denied.set(denied.get() + attempts);
        }
    };
    // The breaker is isolated when the hedge is due, and the first attempt goes on.
    let call = hedge(scripted([(100, Ok(1)), (10, Ok(2))]), AFTER_50, Never)
        .on(host.observed_by(&observer));
    let isolation = async {
        sleep(20 * MS).await;
        let isolation = host.isolate();
        sleep(60 * MS).await;
        drop(isolation);
    };
    let (won, ()) = tokio::join!(call, isolation);
    assert_eq!((won.unwrap(), denied.get()), (1, 1));
    assert_eq!(
        (host.budget().unwrap().available(), host.bulkhead().unwrap().in_flight()),
        (3, 0),
        "token and permit returned"
    );

    let _isolation = host.isolate();
    let never = |_| -> std::future::Ready<Step> { unreachable!() };
    let gave_up = hedge(never, AFTER_50, Never).on(&host).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.upstream()),
        (StopReason::Open, 0, Some("host"))
    );
}

/// A hedge starts only if a permit is free. Only the first attempt waits in the queue.
#[tokio::test(start_paused = true)]
async fn a_hedge_does_not_wait_for_a_permit() {
    let host = Upstream::new("host")
        .with_bulkhead(Bulkhead::new(1))
        .with_budget(Budget::new().with_capacity(3));
    let bulkhead = host.bulkhead().unwrap();
    let began = Instant::now();
    let call = || hedge(scripted([(100, Ok(1)), (10, Ok(2))]), AFTER_50, Never).on(&host);
    let numbers = async {
        sleep(75 * MS).await;
        (bulkhead.in_flight(), bulkhead.waiting())
    };
    let (first, second, seen) = tokio::join!(call(), call(), numbers);
    assert_eq!((first.unwrap(), second.unwrap(), seen), (1, 1, (1, 1)));
    assert_eq!(began.elapsed(), 200 * MS, "one call begins when the other has ended");
    assert_eq!((bulkhead.in_flight(), host.budget().unwrap().available()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_cooldown_holds_the_first_attempt_and_denies_hedges() {
    let host = cooled();
    host.hold(2 * SECOND);
    let began = Instant::now();
    // The delay of a hedge counts from the start of the first attempt.
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (10, Ok(2))]), AFTER_50, Never).on(&host).await.unwrap(),
        2
    );
    assert_eq!(began.elapsed(), 2 * SECOND + 60 * MS);

    // The attempt timeout also counts from the start of the attempt.
    host.hold(2 * SECOND);
    let limited = AFTER_50.with_hedges(0).with_attempt_timeout(100 * MS);
    assert_eq!(hedge(scripted([(90, Ok(1))]), limited, Never).on(&host).await.unwrap(), 1);

    // Another call holds the cooldown in between, so no hedge starts.
    let call = hedge(scripted([(500, Ok(1)), (10, Ok(2))]), AFTER_50, Never).on(&host);
    let hold = async {
        sleep(20 * MS).await;
        host.hold(SECOND);
    };
    assert_eq!(tokio::join!(call, hold).0.unwrap(), 1);
    // A throttled attempt holds the next call.
    sleep(2 * SECOND).await;
    let throttled = AFTER_50.with_classifier(|_: &&str| Verdict::throttled().after(3 * SECOND));
    hedge(scripted([(10, Err("429"))]), throttled, Never).on(&host).await.unwrap_err();
    assert_eq!(host.held(), Some(3 * SECOND));
    // A hold that does not fit the total timeout ends the call at once, with the time of the next
    // possible start.
    let began = Instant::now();
    let hurried = AFTER_50.with_total_timeout(SECOND);
    let gave_up = hedge(scripted([(10, Ok(1))]), hurried, Never).on(&host).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.retry_after(), began.elapsed()),
        (StopReason::Deadline, Some(3 * SECOND), Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_hedge_has_its_own_timeout() {
    let host = guarded(9);
    let limited = AFTER_50.with_attempt_timeout(100 * MS);
    let began = Instant::now();
    // The first attempt is cut at 100 ms. Its hedge began at 50 ms and succeeds within its own
    // timeout.
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (90, Ok(2))]), limited, Never).on(&host).await.unwrap(),
        2
    );
    assert_eq!((began.elapsed(), counted(&host)), (140 * MS, (2, 1)));

    let began = Instant::now();
    let gave_up =
        hedge(scripted([(500, Ok(1)), (500, Ok(2))]), limited, Never).on(&host).await.unwrap_err();
    let cut = Some(Cut::AttemptTimeout(100 * MS));
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.cut()),
        (StopReason::Attempts, 2, cut)
    );
    assert_eq!((began.elapsed(), counted(&host), gave_up.last()), (150 * MS, (4, 3), None));
    assert!(
        gave_up.to_string().ends_with("(last failure: did not finish within 100ms)"),
        "{gave_up}"
    );

    // The first attempt fails and the second is cut, so the last error is that of the first.
    let gave_up = hedge(scripted([(60, Err("reset")), (500, Ok(2))]), limited, Never)
        .on(&host)
        .await
        .unwrap_err();
    assert_eq!((gave_up.cut(), gave_up.last()), (cut, Some(&"reset")));

    // A request that must not be sent again ends with the first cut, because the other attempts
    // repeat it.
    let began = Instant::now();
    let not_again =
        limited.with_classifier((|_: &&str| true).cut_is(Verdict::transient().not_again()));
    let gave_up =
        hedge(scripted([(500, Ok(1)), (90, Ok(2))]), not_again, Never).on(&host).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.cut(), began.elapsed()),
        (StopReason::Fatal, cut, 100 * MS)
    );

    // The timeout also works without an upstream, and zero gives each attempt one poll.
    let began = Instant::now();
    let gave_up = hedge(scripted([(500, Ok(1))]), limited.with_hedges(0), Never).await.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.cut(), began.elapsed()), (1, cut, 100 * MS));
    let gave_up =
        hedge(scripted([(500, Ok(1))]), AFTER_50.with_attempt_timeout(Duration::ZERO), Never)
            .await
            .unwrap_err();
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(Duration::ZERO)));
}

/// The total timeout counts as a failure only for attempts that ran long enough.
#[tokio::test(start_paused = true)]
async fn the_total_timeout_of_a_hedge_counts_attempts_that_ran_long_enough() {
    let host = guarded(9);
    let hangs = |_| pending::<Step>();
    let late = HedgePolicy::new().with_delay(900 * MS).with_total_timeout(SECOND);
    let gave_up = hedge(hangs, late, Never).on(&host).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.cut()),
        (StopReason::Deadline, 2, Some(Cut::Deadline))
    );
    assert_eq!(counted(&host), (1, 1), "the hedge ran for a tenth of a second only");
    let early = late.with_delay(100 * MS);
    hedge(hangs, early, Never).on(&host).await.unwrap_err();
    assert_eq!(counted(&host), (3, 3));
}

/// The flat error has the reason of the inner call with the attempts and the time of the outer
/// call.
#[tokio::test(start_paused = true)]
async fn a_flattened_fallback_has_the_reason_of_the_last_inner_call() {
    static LARGE: Upstream = Upstream::new("large");
    static SMALL: Upstream = Upstream::new("small");
    let two = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));
    let two = two.with_classifier(|error: &&str| *error != "malformed");
    let ask = |it: Alternative<'_, &'static Upstream>| {
        let upstream = *it.value();
        async move { retry(|_| ready(Err::<(), _>(upstream.name())), two, Never).on(upstream).await }
    };
    let gave_up = fallback(&[&LARGE, &SMALL], ask, FallbackPolicy::new(), Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.upstream()),
        (StopReason::Alternatives, 2, None)
    );
    let flat: GaveUp<&str> = gave_up.flatten();
    assert_eq!(
        (flat.reason(), flat.last(), flat.upstream()),
        (StopReason::Attempts, Some(&"small"), None),
        "two upstreams were asked, so the name of one would be wrong",
    );
    assert_eq!((flat.attempts(), flat.elapsed()), (2, 2 * SECOND));
    assert_eq!(flat.verdict(), Some(Verdict::transient()));
    assert_eq!(flat.to_string(), "gave up after 2 alternatives in 2.0s (the last one: small)");
    let named = fallback(&[&LARGE, &SMALL], ask, FallbackPolicy::new(), Never).on("models").await;
    let flat = named.unwrap_err().flatten();
    assert_eq!(
        format!("{flat:#}"),
        "models: gave up after 2 alternatives in 2.0s (the last one: small): small"
    );

    // No inner call ended, so the reason is the outer one.
    let hangs = |_: Alternative<'_, &'static Upstream>| pending::<Result<(), GaveUp<&str>>>();
    let hurried = FallbackPolicy::new().with_total_timeout(SECOND);
    let flat = fallback(&[&LARGE, &SMALL], hangs, hurried, Never)
        .on("models")
        .await
        .unwrap_err()
        .flatten();
    assert_eq!((flat.reason(), flat.attempts(), flat.last()), (StopReason::Deadline, 1, None));
    assert_eq!(
        (flat.cut(), flat.upstream(), flat.elapsed()),
        (Some(Cut::Deadline), Some("models"), SECOND)
    );
    // The outer call ended for its own reason. The error is the last error of an inner call.
    let then_hangs = |it: Alternative<'_, &'static Upstream>| {
        let (asked, is_last) = (ask(it), it.is_last());
        async move { if is_last { pending().await } else { asked.await } }
    };
    let hurried = hurried.with_total_timeout(9 * SECOND);
    let flat = fallback(&[&LARGE, &SMALL], then_hangs, hurried, Never).await.unwrap_err().flatten();
    assert_eq!(
        (flat.reason(), flat.attempts(), flat.last()),
        (StopReason::Deadline, 2, Some(&"large"))
    );
    assert_eq!((flat.cut(), flat.elapsed()), (Some(Cut::Deadline), 9 * SECOND));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let flat =
        fallback(&[&LARGE], ask, FallbackPolicy::new(), &cancelled).await.unwrap_err().flatten();
    assert_eq!((flat.reason(), flat.attempts(), flat.last()), (StopReason::Cancelled, 0, None));
}

/// With a name alone each alternative is the first attempt at an upstream of its own.
#[tokio::test(start_paused = true)]
async fn a_fallback_by_name_pays_for_no_alternative() {
    let budget = || Budget::new().with_capacity(1);
    let hosts = [1, 2, 3].map(|_| Arc::new(Upstream::new("model").with_budget(budget())));
    let ask = |it: Alternative<'_, Arc<Upstream>>| {
        let host = it.value().clone();
        async move { retry(|_| ready(Err::<(), _>("down")), ONCE, Never).on(host).await }
    };
    let gave_up = fallback(&hosts, ask, FallbackPolicy::new(), Never).on("ask").await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Alternatives, 3));
    assert!(hosts.iter().all(|host| host.budget().unwrap().available() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_on_an_upstream_pays_for_each_further_alternative() {
    let host = Upstream::new("provider").with_budget(Budget::new().with_capacity(1));
    let ask = |_: Alternative<'_, u32>| ready(Err::<(), _>("down"));
    let call = fallback(&[1, 2, 3], ask, FallbackPolicy::new(), Never).on(&host);
    let gave_up = call.await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Budget, 2));
}

/// Each alternative on a shared upstream is an attempt on that upstream.
#[tokio::test(start_paused = true)]
async fn alternatives_on_one_upstream_are_attempts_on_it() {
    let region = guarded(2);
    let fails = |it: Alternative<'_, u32>| ready(Err::<(), _>(*it.value()));
    let gave_up =
        fallback(&[1, 2, 3], fails, FallbackPolicy::new(), Never).on(&region).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Open, 2, Some(&2))
    );
    assert_eq!(
        (region.breaker().unwrap().state(), gave_up.retry_after()),
        (State::Open, Some(60 * SECOND))
    );

    // Each alternative has its own timeout if the policy has one.
    let began = Instant::now();
    let hangs_first = |it: Alternative<'_, u32>| {
        let (value, is_first) = (*it.value(), it.index() == 0);
        async move {
            if is_first {
                pending::<()>().await;
            }
            Ok::<_, u32>(value)
        }
    };
    let limited = FallbackPolicy::new().with_attempt_timeout(5 * SECOND);
    assert_eq!(fallback(&[1, 2], hangs_first, limited, Never).await.unwrap(), 2);
    assert_eq!(began.elapsed(), 5 * SECOND);
    let gave_up = fallback(&[1], hangs_first, limited, Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.cut()),
        (StopReason::Alternatives, Some(Cut::AttemptTimeout(5 * SECOND)))
    );
}
