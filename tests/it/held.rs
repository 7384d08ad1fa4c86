//! Runs that a cooldown holds.

use std::sync::Mutex;
use std::time::Duration;

use resile::observe::{Event, EventKind, HeldBy};
use resile::{
    Attempt, Backoff, Budget, Bulkhead, Cooldown, Jitter, ManualTimer, Never, RetryPolicy, Run,
    StopReason, Timer, Upstream, Verdict, retry,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Every error is the peer's "come back in that many seconds".
type Told = u64;

fn policy() -> RetryPolicy<fn(&Told) -> Verdict> {
    let backoff = Backoff::fixed(Duration::from_millis(1)).with_jitter(Jitter::None);
    RetryPolicy::new()
        .with_backoff(backoff)
        .with_classifier(|e| Verdict::throttled().after(SECOND * u32::try_from(*e).unwrap()))
}

fn exact() -> Upstream {
    let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
    Upstream::new("held").with_cooldown(cooldown)
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_to_wait_holds_all_that_share_the_cooldown() {
    let (upstream, policy) = (exact(), policy());
    let began = Instant::now();
    let told =
        async |attempt: Attempt| if attempt.is_first() { Err(20) } else { Ok(began.elapsed()) };
    let first = retry(told, &policy, Never).on(&upstream);
    let second = async {
        tokio::time::sleep(SECOND).await;
        let seen = Mutex::new(vec![]);
        let note = |event: &Event<'_>| {
            if let EventKind::Held { attempt, by, delay, .. } = event.kind {
                seen.lock().unwrap().push((attempt, by, delay.unwrap()));
            }
        };
        let run = retry(|attempt| async move { Ok::<_, Told>(attempt) }, &policy, Never);
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

#[tokio::test(start_paused = true)]
async fn other_errors_hold_nobody() {
    let upstream = exact();
    let policy =
        RetryPolicy::new().with_classifier(|_: &Told| Verdict::transient().after(20 * SECOND));
    let told =
        async |attempt: Attempt| if attempt.is_first() { Err::<(), Told>(1) } else { Ok(()) };
    retry(told, &policy, Never).on(&upstream).await.unwrap();
    assert_eq!(upstream.held(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_does_not_fit_the_deadline_ends_the_call_at_once() {
    let (upstream, policy) = (exact(), policy().with_total_timeout(10 * SECOND));
    upstream.hold(20 * SECOND);
    let began = Instant::now();
    let never = |_| async { unreachable!("it is held") as Result<(), Told> };
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

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_the_hold() {
    let (upstream, policy) = (exact(), policy().with_total_timeout(10 * SECOND));
    upstream.hold(4 * SECOND);
    let left = retry(|attempt| async move { Ok::<_, Told>(attempt.remaining()) }, &policy, Never);
    assert_eq!(left.on(&upstream).await.unwrap(), Some(6 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_a_hold() {
    let (upstream, policy, token) = (exact(), policy(), CancellationToken::new());
    upstream.hold(20 * SECOND);
    let never = |_| async { unreachable!("it is held") as Result<(), Told> };
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
async fn a_hold_that_is_extended_goes_on() {
    let (upstream, policy) = (exact(), policy());
    upstream.hold(5 * SECOND);
    let began = Instant::now();
    let extend = async {
        tokio::time::sleep(4 * SECOND).await;
        upstream.hold(10 * SECOND);
    };
    let call = retry(|_| async { Ok::<_, Told>(()) }, &policy, Never).on(&upstream);
    let mut run = Run::<Told, _, _>::new(&policy, Never).on(&upstream);
    let ((), called, ran) = tokio::join!(extend, call, run.attempt(async { Ok(()) }));
    assert!(called.is_ok() && matches!(ran, Ok(Some(()))));
    assert!(began.elapsed() >= 14 * SECOND);
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
        "the failure waits for nothing"
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
fn the_blocking_twin_is_held_as_well() {
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

#[tokio::test(start_paused = true)]
async fn dropped_while_held_it_gives_its_token_back() {
    let (upstream, policy) = (exact().with_budget(Budget::new().with_capacity(3)), policy());
    let budget = upstream.budget().unwrap();
    let told =
        async |attempt: Attempt| if attempt.is_first() { Err::<(), Told>(1) } else { Ok(()) };
    let mut call = Box::pin(retry(told, &policy, Never).on(&upstream));
    let cut = async {
        tokio::time::sleep(SECOND / 2).await;
        upstream.hold(60 * SECOND);
        tokio::time::sleep(5 * SECOND).await;
    };
    tokio::select! { biased; _ = &mut call => unreachable!("it is held"), () = cut => () }
    assert_eq!(budget.available(), 2);
    drop(call);
    assert_eq!(budget.available(), 3);
}

/// A line before the bulkhead holds as well: bounded, and within the deadline.
#[tokio::test(start_paused = true)]
async fn a_line_holds_up_to_its_limit_and_the_deadline() {
    let bulkhead = Bulkhead::new(1).with_queue(2).with_max_wait(5 * SECOND);
    let upstream = Upstream::new("narrow").with_bulkhead(bulkhead);
    let occupant = upstream.bulkhead().unwrap().try_acquire().unwrap();
    let seen = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            seen.lock().unwrap().push((attempt, by, delay));
        }
    };
    let call = |limit: Option<Duration>| {
        let policy = policy();
        let policy = limit.map_or(policy, |limit| policy.with_total_timeout(limit));
        retry(|_| async { Ok::<_, Told>(()) }, policy, Never).on(upstream.observed_by(&note))
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
