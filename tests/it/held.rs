//! Runs that a cooldown holds.

use std::sync::Mutex;
use std::time::Duration;

use resile::{
    Attempt, Backoff, Budget, Cooldown, Event, Jitter, ManualTimer, Never, RetryPolicy, Stop, Verdict, retry,
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
        .with_classify(|e| Verdict::throttled(Some(SECOND * u32::try_from(*e).unwrap())))
}

fn exact() -> Cooldown {
    Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_to_wait_holds_all_that_share_the_cooldown() {
    let (cooldown, policy) = (exact(), policy());
    let began = Instant::now();
    let told = async |attempt: Attempt| if attempt.is_first() { Err(20) } else { Ok(began.elapsed()) };
    let first = retry(told, &policy, Never).with_cooldown(&cooldown);
    let second = async {
        tokio::time::sleep(SECOND).await;
        let seen = Mutex::new(vec![]);
        let note = |event: &Event<'_, _>| {
            if let Event::Held { attempt, delay, .. } = event {
                seen.lock().unwrap().push((*attempt, *delay));
            }
        };
        let run = retry(|attempt| async move { Ok::<_, Told>(attempt) }, &policy, Never);
        let attempt = run.with_cooldown(&cooldown).with_observer(note).await.unwrap();
        assert_eq!((attempt.number(), attempt.elapsed(), attempt.delay()), (1, 19 * SECOND, Duration::ZERO));
        assert_eq!(seen.into_inner().unwrap(), [(1, 19 * SECOND)]);
        began.elapsed()
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.unwrap() >= 20 * SECOND);
    assert!(second >= 20 * SECOND && second < 21 * SECOND, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn other_errors_hold_nobody() {
    let cooldown = exact();
    let policy = RetryPolicy::new().with_classify(|_: &Told| Verdict::retry_after(20 * SECOND));
    let told = async |attempt: Attempt| if attempt.is_first() { Err::<(), Told>(1) } else { Ok(()) };
    retry(told, &policy, Never).with_cooldown(&cooldown).await.unwrap();
    assert_eq!(cooldown.remaining(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_does_not_fit_the_deadline_ends_the_call_at_once() {
    let (cooldown, policy) = (exact(), policy().with_deadline(10 * SECOND));
    cooldown.hold(20 * SECOND);
    let began = Instant::now();
    let never = |_| async { unreachable!("it is held") as Result<(), Told> };
    let error = retry(never, &policy, Never).with_cooldown(&cooldown).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.retry_after()), (Stop::Deadline, 0, Some(20 * SECOND)));
    let mut run = policy.start(Never).with_cooldown(&cooldown);
    let error = run.attempt(never(Attempt::new(1))).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.retry_after()), (Stop::Deadline, 0, Some(20 * SECOND)));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_the_hold() {
    let (cooldown, policy) = (exact(), policy().with_deadline(10 * SECOND));
    cooldown.hold(4 * SECOND);
    let left = retry(|attempt| async move { Ok::<_, Told>(attempt.remaining()) }, &policy, Never);
    assert_eq!(left.with_cooldown(&cooldown).await.unwrap(), Some(6 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_a_hold() {
    let (cooldown, policy, token) = (exact(), policy(), CancellationToken::new());
    cooldown.hold(20 * SECOND);
    let never = |_| async { unreachable!("it is held") as Result<(), Told> };
    let stop = async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    };
    let mut run = policy.start(&token).with_cooldown(&cooldown);
    let call = retry(never, &policy, &token).with_cooldown(&cooldown);
    let ((), called, ran) = tokio::join!(stop, call, run.attempt(never(Attempt::new(1))));
    for error in [called.unwrap_err(), ran.unwrap_err()] {
        assert_eq!((error.stop(), error.attempts()), (Stop::Cancelled, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_extended_goes_on() {
    let (cooldown, policy) = (exact(), policy());
    cooldown.hold(5 * SECOND);
    let began = Instant::now();
    let extend = async {
        tokio::time::sleep(4 * SECOND).await;
        cooldown.hold(10 * SECOND);
    };
    let call = retry(|_| async { Ok::<_, Told>(()) }, &policy, Never).with_cooldown(&cooldown);
    let mut run = policy.start::<Told, _>(Never).with_cooldown(&cooldown);
    let ((), called, ran) = tokio::join!(extend, call, run.attempt(async { Ok(()) }));
    assert!(called.is_ok() && ran == Ok(Some(())));
    assert!(began.elapsed() >= 14 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_is_held_before_each_retry() {
    let (cooldown, policy) = (exact(), policy());
    let began = Instant::now();
    let mut run = policy.start(Never).with_cooldown(&cooldown);
    let other = async {
        tokio::time::sleep(SECOND).await;
        cooldown.hold(9 * SECOND);
    };
    let (held, ()) = tokio::join!(run.again(2), other);
    held.unwrap();
    assert!(began.elapsed() >= 10 * SECOND, "{:?}", began.elapsed());
    assert_eq!(run.attempts(), 2);
}

#[test]
fn the_blocking_twin_is_held_as_well() {
    let timer = ManualTimer::new();
    let cooldown = exact().with_timer(timer.clone());
    let policy = policy();
    let mut run = policy.start(Never).with_cooldown(&cooldown).with_timer(timer.clone());
    cooldown.hold(30 * SECOND);
    run.blocking_again(1).unwrap();
    assert_eq!(cooldown.remaining(), None);
    assert_eq!((run.success(7), timer.sleepers()), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_while_held_it_gives_its_token_back() {
    let (cooldown, policy, budget) = (exact(), policy(), Budget::new().with_capacity(3));
    let told = async |attempt: Attempt| if attempt.is_first() { Err::<(), Told>(1) } else { Ok(()) };
    let mut call = Box::pin(retry(told, &policy, Never).with_budget(&budget).with_cooldown(&cooldown));
    let cut = async {
        tokio::time::sleep(SECOND / 2).await;
        cooldown.hold(60 * SECOND);
        tokio::time::sleep(5 * SECOND).await;
    };
    tokio::select! { biased; _ = &mut call => unreachable!("it is held"), () = cut => () }
    assert_eq!(budget.available(), 2);
    drop(call);
    assert_eq!(budget.available(), 3);
}
