//! `Budget`: tokens are conserved, and retries stop when no successes refill the budget.
//!
//! Tests named `trap_05_…` stand for point 5 of the section "The behaviour" in `COMPARE.md`.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, Budget, Never, RetryPolicy, StopReason, Upstream, Verdict, retry};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const INSTANT: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// Creates an upstream with this budget and this clock.
fn paid(budget: Budget, timer: &ManualTimer) -> Upstream<ManualTimer> {
    Upstream::new("down").with_budget(budget).with_timer(timer.clone())
}

fn available<M: Timer>(upstream: &Upstream<M>) -> u32 {
    upstream.budget().unwrap().available()
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Withdraw,
    /// Gives the token of a withdrawal back.
    Refund,
    /// Makes the retry of a withdrawal.
    Spend,
    Deposit,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![4 => Just(Act::Withdraw), 1 => Just(Act::Refund), 2 => Just(Act::Spend), 6 => Just(Act::Deposit)];
    prop::collection::vec(act, 0..200)
}

proptest! {
    /// The budget agrees with a model: one number between zero and the capacity.
    #[test]
    fn tokens_are_conserved(capacity in prop_oneof![0_u32..8, Just(u32::MAX)], part in 0_u32..3_000_000, acts in acts()) {
        const TOKEN: u64 = 1_000_000;
        let budget = Budget::new().with_capacity(capacity).with_deposit(f64::from(part) / 1e6);
        let full = u64::from(capacity) * TOKEN;
        let (mut left, mut held) = (full, 0_u32);
        for act in acts {
            match act {
                Act::Withdraw => {
                    let is_paid = budget.withdraw();
                    prop_assert_eq!(is_paid, left >= TOKEN);
                    left -= if is_paid { TOKEN } else { 0 };
                    held += u32::from(is_paid);
                }
                Act::Refund if held > 0 => {
                    budget.refund();
                    held -= 1;
                    left = full.min(left + TOKEN);
                }
                Act::Spend if held > 0 => held -= 1,
                Act::Refund | Act::Spend => {}
                Act::Deposit => {
                    budget.deposit();
                    left = full.min(left + u64::from(part));
                }
            }
            prop_assert_eq!(u64::from(budget.available()), left / TOKEN);
            prop_assert!(budget.available() <= budget.capacity());
        }
    }

    /// A withdrawal and its refund change nothing, for any settings.
    #[test]
    fn a_refund_returns_the_token_of_a_withdrawal(capacity in 0_u32..100, deposit in any::<f64>()) {
        let budget = Budget::new().with_capacity(capacity).with_deposit(deposit);
        let held = (0..1_000).take_while(|_| budget.withdraw()).count();
        prop_assert_eq!((held, budget.available()), (capacity as usize, 0));
        (0..held).for_each(|_| budget.refund());
        prop_assert_eq!(budget.available(), capacity);
    }
}

fn eight(work: impl Fn(u32) + Sync) {
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn eight_threads_conserve_tokens() {
    let budget = Budget::new().with_capacity(1000).with_deposit(0.5);
    let (spent, paid_in) = (AtomicU32::new(0), AtomicU32::new(0));
    // The budget stays below half of its capacity, so no deposit is lost at the limit.
    (0..900).for_each(|_| assert!(budget.withdraw()));
    eight(|thread| {
        for turn in 0..400 {
            if budget.withdraw() {
                if (turn + thread) % 3 == 0 {
                    spent.fetch_add(1, SeqCst);
                } else {
                    budget.refund();
                }
            }
            if turn % 4 == 0 {
                budget.deposit();
                paid_in.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!(budget.available(), 100 + paid_in.into_inner() / 2 - spent.into_inner());
}

#[test]
fn eight_threads_withdraw_no_more_tokens_than_the_capacity() {
    let (budget, got) = (Budget::new().with_capacity(777), AtomicU32::new(0));
    eight(|_| {
        for _ in 0..1000 {
            if budget.withdraw() {
                got.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!((got.into_inner(), budget.available()), (777, 0));
}

/// A thousand calls fail at once. The budget allows as many retries as it has tokens.
#[tokio::test(start_paused = true)]
async fn trap_05_capacity_is_the_number_of_retries() {
    for capacity in [0, 1, 37, 999, 1000] {
        for backoff in [Backoff::none(), Backoff::fixed(Duration::from_secs(1))] {
            let script = Script::new(&[Step::Fail]);
            let upstream = Upstream::new("down").with_budget(Budget::new().with_capacity(capacity));
            let policy = RetryPolicy::new().with_attempts(10).with_backoff(backoff);
            let calls = (0..1000).map(|_| retry(|_| script.play(), &policy, Never).on(&upstream));
            let mut calls: Vec<_> = calls.map(Box::pin).collect();
            let mut stops = Vec::new();
            std::future::poll_fn(|cx| {
                calls.retain_mut(|call| match call.as_mut().poll(cx) {
                    std::task::Poll::Ready(outcome) => {
                        stops.push(outcome.unwrap_err());
                        false
                    }
                    std::task::Poll::Pending => true,
                });
                if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            assert_eq!((script.starts(), available(&upstream)), (1000 + capacity, 0));
            assert!(
                stops.iter().filter(|gave_up| gave_up.reason() == StopReason::Budget).count()
                    >= 1000 - capacity as usize
            );
            assert!(
                stops.iter().all(|gave_up| gave_up.last().is_some()),
                "the last error is the operation's own"
            );
        }
    }
}

/// Attempts do not refill the budget. An outage of any length gets no more retries than the
/// capacity.
#[test]
fn trap_05_attempts_do_not_refill() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream = paid(Budget::new().with_capacity(10), &timer);
    for call in 1..=10_000 {
        let gave_up =
            drive(retry(|_| script.play(), &INSTANT, Never).on(&upstream), &timer).unwrap_err();
        assert_eq!(
            gave_up.reason(),
            if call > 5 { StopReason::Budget } else { StopReason::Attempts }
        );
    }
    assert_eq!(script.starts(), 10_010);
}

/// The call asks the budget before the sleep, and ends with the operation's own error.
#[test]
fn trap_05_a_call_without_a_token_does_not_sleep() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream = paid(Budget::new().with_capacity(0), &timer);
    let call = retry(|_| script.play(), RetryPolicy::patient(), Never).on(&upstream);
    let gave_up = drive(call, &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Budget, 1, Some(&Down(1)))
    );
    assert_eq!(timer.now(), Duration::ZERO);
}

/// A call that recovers spends a token for each retry and deposits once. The first attempt is free.
#[test]
fn success_refills_the_budget() {
    let timer = ManualTimer::new();
    let upstream = paid(Budget::new().with_capacity(10).with_deposit(1.0), &timer);
    for (steps, left) in
        [(&[Step::Fail, Step::Fail, Step::Succeed][..], 9), (&[Step::Succeed][..], 10)]
    {
        let script = Script::new(steps);
        drive(retry(|_| script.play(), &INSTANT, Never).on(&upstream), &timer).unwrap();
        assert_eq!(available(&upstream), left);
    }
}

/// The budget that was set last replaces the earlier ones.
#[test]
fn the_budget_set_last_is_used() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream =
        paid(Budget::new().with_capacity(0), &timer).with_budget(Budget::new().with_capacity(100));
    drive(retry(|_| script.play(), &INSTANT, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!((script.starts(), available(&upstream)), (3, 98));
}

/// Single calls and attempts by hand spend no tokens. Their successes still deposit.
#[test]
fn only_retries_spend_tokens() {
    let timer = ManualTimer::new();
    let upstream = paid(Budget::new().with_capacity(2).with_deposit(0.5), &timer);
    let budget = upstream.budget().unwrap();
    (0..2).for_each(|_| assert!(budget.withdraw()));
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    drop(upstream.try_admit().unwrap());
    drive(upstream.call(Script::new(&[Step::Fail]).play(), Always), &timer).unwrap_err();
    assert_eq!(budget.available(), 0);
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(budget.available(), 0);
    drive(upstream.call(Script::new(&[Step::Succeed]).play(), Always), &timer).unwrap();
    assert_eq!(budget.available(), 1);
}

/// A call that is dropped or cancelled during its delay returns the token of the retry.
#[test]
fn a_retry_that_does_not_begin_returns_its_token() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream = paid(Budget::new().with_capacity(1), &timer);
    let policy = RetryPolicy::new().with_backoff(Backoff::fixed(Duration::from_secs(1)));
    let mut call = Box::pin(retry(|_| script.play(), policy, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((script.starts(), available(&upstream)), (1, 0));
    drop(call);
    assert_eq!(available(&upstream), 1);
    let token = CancellationToken::new();
    let mut call = Box::pin(retry(|_| script.play(), policy, &token).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(available(&upstream), 0);
    token.cancel();
    assert!(
        matches!(poll(call.as_mut()), Poll::Ready(Err(gave_up)) if gave_up.reason() == StopReason::Cancelled)
    );
    assert_eq!((script.starts(), available(&upstream)), (2, 1));
    drop(call);
    assert_eq!(available(&upstream), 1);
}

/// `lab/storm` shows why the capacity is no larger: the upstream must survive a ramp of load.
#[test]
fn the_defaults_are_as_documented() {
    let budget = Budget::new();
    assert_eq!((budget.capacity(), budget.available(), Budget::default().capacity()), (8, 8, 8));
    (0..8).for_each(|_| assert!(budget.withdraw()));
    (0..79).for_each(|_| budget.deposit());
    assert_eq!(budget.available(), 7);
    budget.deposit();
    assert_eq!(budget.available(), 8);
}

/// Each attempt that fails takes a token, also one that is not repeated. A `fatal` error takes none, and
/// a hedge or a retry costs nothing besides.
#[tokio::test(start_paused = true)]
async fn attempts_that_fail_take_the_tokens_of_grpc() {
    let (timer, policy) = (ManualTimer::new(), INSTANT.with_attempts(3));
    let upstream = paid(Budget::grpc(10, 0.5), &timer);
    let fail =
        || drive(retry(|_| async { Err::<(), _>(Down(1)) }, &policy, Never).on(&upstream), &timer);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let error = fail().unwrap_err();
        seen.push((error.attempts(), error.reason(), available(&upstream)));
    }
    let (attempts, budget) = (StopReason::Attempts, StopReason::Budget);
    // 9, 8, 7; then 6 and 5, which is half.
    assert_eq!(seen, [(3, attempts, 7), (2, budget, 5), (1, budget, 4), (1, budget, 3)]);

    let call = upstream.call(async { Err::<(), _>(Down(1)) }, |_: &Down| Verdict::fatal());
    drive(call, &timer).unwrap_err();
    assert_eq!(available(&upstream), 3, "the upstream is not ill");

    for _ in 0..5 {
        drive(upstream.call(async { Ok::<_, Down>(()) }, Always), &timer).unwrap();
    }
    assert_eq!(available(&upstream), 5);
    assert_eq!(fail().unwrap_err().attempts(), 1);
}
