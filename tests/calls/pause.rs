//! A call pauses before it ends because the budget is spent.

use std::sync::Mutex;
use std::time::Duration;

use resile::observe::{Event, EventKind, HeldBy};
use resile::{
    Attempt, Backoff, Budget, ClassifyExt, Cut, ManualTimer, Never, RetryPolicy, Run, StopReason,
    Upstream, Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use super::aws::{BUSY, DOWN, Refused, aws, on};

const SECOND: Duration = Duration::from_secs(1);

/// After the pause the call asks the budget once more. The token and the total timeout end the pause,
/// and a call without a delay does not pause.
#[tokio::test(start_paused = true)]
async fn a_pause_ends_like_any_other_wait() {
    let policy = aws().with_pause_when_spent();
    let upstream = on(Budget::aws().with_capacity(5));
    let budget = upstream.budget().unwrap();
    let fails_once = |attempt: Attempt| {
        std::future::ready(if attempt.is_first() {
            Err(Refused(BUSY))
        } else {
            Ok(attempt.number())
        })
    };
    let spend = || budget.withdraw_after(BUSY).unwrap().spend();
    spend();
    let refill = async {
        tokio::time::sleep(SECOND / 2).await;
        (0..5).for_each(|_| budget.deposit());
    };
    let (outcome, ()) = tokio::join!(retry(fails_once, policy, Never).on(&upstream), refill);
    assert_eq!(outcome.unwrap(), 2, "the budget was refilled during the pause");

    spend();
    let token = CancellationToken::new();
    let cancel = async {
        tokio::time::sleep(SECOND / 2).await;
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(retry(fails_once, policy, &token).on(&upstream), cancel);
    let gave_up = outcome.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.elapsed()), (StopReason::Cancelled, SECOND / 2));

    let short = policy.with_total_timeout(SECOND / 2);
    let gave_up = retry(fails_once, short, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.elapsed()), (StopReason::Deadline, Duration::ZERO));

    let at_once = policy.with_throttled_backoff(Backoff::none());
    let gave_up = retry(fails_once, at_once, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.elapsed()), (StopReason::Budget, Duration::ZERO));
    assert_eq!(budget.available(), 0, "nothing is given back that was not taken");

    drop(tokio::time::timeout(SECOND / 2, retry(fails_once, policy, Never).on(&upstream)).await);
    assert_eq!(budget.available(), 0, "a call dropped during its pause gives nothing back");
}

/// The error names the attempt before the pause, also if its timeout cut it.
#[tokio::test(start_paused = true)]
async fn the_error_names_the_attempt_before_the_pause() {
    let policy = aws()
        .with_classifier((|refused: &Refused| refused.0).cut_is(Verdict::transient()))
        .with_pause_when_spent()
        .with_attempt_timeout(SECOND * 3);
    let upstream = on(Budget::aws().with_capacity(14));
    // The first attempt fails, and the second one hangs.
    let hangs = |attempt: Attempt| async move {
        if attempt.is_first() { Err::<(), _>(Refused(BUSY)) } else { std::future::pending().await }
    };
    upstream.budget().unwrap().withdraw_after(BUSY).unwrap().spend();
    let gave_up = retry(hangs, policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Budget, 2));
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND * 3)));
    assert_eq!(gave_up.verdict(), Some(Verdict::transient()));
    // A throttling, its delay of 1 s, a timeout and its delay of 100 ms.
    assert_eq!(gave_up.elapsed(), Duration::from_millis(4_100));

    let long = |_| std::future::ready(Err::<(), _>(Refused(DOWN.after(SECOND * 60))));
    let gave_up = retry(long, policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!(gave_up.elapsed(), Duration::from_millis(5_050), "the hint is cut");
    assert_eq!(gave_up.retry_after(), Some(Duration::from_millis(54_950)), "the rest of the hint");
}

/// A pause is no wait for a retry: the attempt is held by the budget.
#[tokio::test(start_paused = true)]
async fn a_pause_is_reported_as_held_by_the_budget() {
    let seen = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        let held = match event.kind {
            EventKind::Held { by, delay, .. } => Some((by, delay)),
            _ => None,
        };
        seen.lock().unwrap().push((event.kind.as_str(), held));
    };
    let upstream = on(Budget::aws().with_capacity(0));
    let down = |_| std::future::ready(Err::<(), _>(Refused(BUSY)));
    let call = retry(down, aws().with_pause_when_spent(), Never);
    call.on(upstream.observed_by(&observer)).await.unwrap_err();
    let held = Some((HeldBy::Budget, Some(SECOND)));
    assert_eq!(HeldBy::Budget.as_str(), "budget");
    assert_eq!(
        seen.into_inner().unwrap(),
        [
            ("started", None),
            ("failed", None),
            ("limiting", None),
            ("held", held),
            ("gave_up", None)
        ]
    );
}

/// An attempt that the caller makes in a pause, without asking, is the last one.
#[test]
fn attempts_without_asking_do_not_escape_the_budget() {
    let budget = Budget::new().with_capacity(0);
    let upstream = Upstream::new("down").with_budget(budget).with_timer(ManualTimer::new());
    let policy = RetryPolicy::new().with_attempts(9).with_pause_when_spent();
    let mut run = Run::new(policy, Never).on(&upstream);
    assert!(run.failed("down").is_ok(), "a pause begins");
    let gave_up = run.failed("down").unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Budget, 2));
}

/// Nothing is known about an attempt that its caller dropped, so the next one has the full price.
#[tokio::test(start_paused = true)]
async fn a_retry_after_a_dropped_attempt_has_the_price_of_a_failure() {
    let budget = Budget::new().with_capacity(100).with_costs(14, 5);
    let upstream = Upstream::new("busy").with_budget(budget);
    let left = || upstream.budget().unwrap().available();
    let policy = aws().with_attempts(9).with_backoff(Backoff::none());
    let mut run = Run::new(policy.with_throttled_backoff(Backoff::none()), Never).on(&upstream);
    run.next().await.unwrap();
    run.failed(Refused(BUSY)).unwrap();
    run.next().await.unwrap();
    assert_eq!(left(), 95);
    // The caller drops the second attempt and asks for a third one.
    run.next().await.unwrap();
    assert_eq!(left(), 81);
}

/// A loop by hand pays and gives back like a call.
#[test]
fn a_budget_by_hand_gives_a_cost_back() {
    let budget = Budget::aws();
    budget.withdraw_after(DOWN).unwrap().spend();
    assert_eq!(budget.available(), 486);
    budget.deposit_after(DOWN);
    assert_eq!(budget.available(), 500);
    let plain = Budget::new().with_capacity(3).with_deposit(1.0).with_costs(2, 0);
    plain.withdraw().unwrap().spend();
    plain.deposit_after(DOWN);
    assert_eq!(plain.available(), 2, "without a refund it is the deposit");
    let free = Budget::new().with_capacity(3).with_deposit(1.0).with_costs(2, 0);
    let free = free.with_refund_on_success();
    free.withdraw().unwrap().spend();
    free.deposit_after(BUSY);
    assert_eq!(free.available(), 2, "at least the deposit");
}
