//! `Budget`: tokens are conserved, and retries die out with the successes that pay for them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use resile::{
    Always, Backoff, Budget, ManualTimer, Never, RetryPolicy, StopReason, Timer, Upstream, Verdict,
    Withdrawal, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const INSTANT: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

/// An upstream with that budget and that clock.
fn paid(budget: Budget, timer: &ManualTimer) -> Upstream<ManualTimer> {
    Upstream::new("down").with_budget(budget).with_timer(timer.clone())
}

fn available<M: Timer>(upstream: &Upstream<M>) -> u32 {
    upstream.budget().unwrap().available()
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Withdraw,
    /// Gives the oldest withdrawal back.
    Drop,
    /// Spends the oldest withdrawal.
    Spend,
    Deposit,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![4 => Just(Act::Withdraw), 1 => Just(Act::Drop), 2 => Just(Act::Spend), 6 => Just(Act::Deposit)];
    prop::collection::vec(act, 0..200)
}

proptest! {
    /// Against a model: one number, never below zero nor above the capacity.
    #[test]
    fn tokens_are_conserved(capacity in prop_oneof![0_u32..8, Just(u32::MAX)], part in 0_u32..3_000_000, acts in acts()) {
        const TOKEN: u64 = 1_000_000;
        let budget = Budget::new().with_capacity(capacity).with_deposit(f64::from(part) / 1e6);
        let full = u64::from(capacity) * TOKEN;
        let (mut left, mut held) = (full, std::collections::VecDeque::new());
        for act in acts {
            match act {
                Act::Withdraw => {
                    let withdrawal = budget.withdraw();
                    prop_assert_eq!(withdrawal.is_some(), left >= TOKEN);
                    left -= if withdrawal.is_some() { TOKEN } else { 0 };
                    held.extend(withdrawal);
                }
                Act::Drop => left = if held.pop_front().is_some() { full.min(left + TOKEN) } else { left },
                Act::Spend => held.pop_front().map(Withdrawal::spend).unwrap_or_default(),
                Act::Deposit => {
                    budget.deposit();
                    left = full.min(left + u64::from(part));
                }
            }
            prop_assert_eq!(u64::from(budget.available()), left / TOKEN);
            prop_assert!(budget.available() <= budget.capacity());
        }
    }

    /// What was withdrawn and dropped leaves no trace, whatever the settings.
    #[test]
    fn a_dropped_withdrawal_is_no_withdrawal(capacity in 0_u32..100, deposit in any::<f64>()) {
        let budget = Budget::new().with_capacity(capacity).with_deposit(deposit);
        let held: Vec<_> = std::iter::from_fn(|| budget.withdraw()).collect();
        prop_assert_eq!((held.len(), budget.available()), (capacity as usize, 0));
        drop(held);
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
    // Below half-full throughout, so that no deposit is lost at the brim.
    let held: Vec<_> = (0..900).map(|_| budget.withdraw().unwrap()).collect();
    held.into_iter().for_each(Withdrawal::spend);
    eight(|thread| {
        for turn in 0..400 {
            match budget.withdraw() {
                Some(retry) if (turn + thread) % 3 == 0 => {
                    retry.spend();
                    spent.fetch_add(1, SeqCst);
                }
                given_back => drop(given_back),
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
fn eight_threads_share_c_tokens_and_not_one_more() {
    let (budget, got) = (Budget::new().with_capacity(777), AtomicU32::new(0));
    eight(|_| {
        for _ in 0..1000 {
            if let Some(retry) = budget.withdraw() {
                retry.spend();
                got.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!((got.into_inner(), budget.available()), (777, 0));
}

/// A thousand calls fail at once: as many retries as there are tokens, and none without.
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
                "the operation's own error"
            );
        }
    }
}

/// Attempts do not refill it: in a storm of any length there are no more retries than it held.
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

/// It is decided before the sleep, and the error is the operation's.
#[test]
fn trap_05_no_budget_no_sleep() {
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

/// A call that recovers pays for its retries and brings its deposit; the first attempt is free.
#[test]
fn success_refills() {
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

/// The last budget given counts, and only that one pays.
#[test]
fn the_last_budget_counts() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream =
        paid(Budget::new().with_capacity(0), &timer).with_budget(Budget::new().with_capacity(100));
    drive(retry(|_| script.play(), &INSTANT, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!((script.starts(), available(&upstream)), (3, 98));
}

/// Attempts by hand, and calls without a retry, take nothing; their successes bring their deposits.
#[test]
fn what_is_not_retried_is_free() {
    let timer = ManualTimer::new();
    let upstream = paid(Budget::new().with_capacity(2).with_deposit(0.5), &timer);
    let budget = upstream.budget().unwrap();
    (0..2).for_each(|_| budget.withdraw().unwrap().spend());
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    drop(upstream.try_admit().unwrap());
    drive(upstream.call(Script::new(&[Step::Fail]).play(), Always), &timer).unwrap_err();
    assert_eq!(budget.available(), 0);
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(budget.available(), 0);
    drive(upstream.call(Script::new(&[Step::Succeed]).play(), Always), &timer).unwrap();
    assert_eq!(budget.available(), 1);
}

/// A call that is dropped, cut or refused in its delay gives back the token of the retry that did not begin.
#[test]
fn a_retry_that_does_not_begin_gives_its_token_back() {
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

/// `tests/claims` says why it is no more than that: a ramp must not collapse.
#[test]
fn the_defaults_are_those_of_the_table() {
    let budget = Budget::new();
    assert_eq!((budget.capacity(), budget.available(), Budget::default().capacity()), (8, 8, 8));
    (0..8).for_each(|_| budget.withdraw().unwrap().spend());
    (0..79).for_each(|_| budget.deposit());
    assert_eq!(budget.available(), 7);
    budget.deposit();
    assert_eq!(budget.available(), 8);
}
