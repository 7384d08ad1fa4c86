//! What a call allocates: nothing. A binary of its own, as the counter is the allocator of the whole program.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use resile::{Backoff, Budget, Never, ResilienceExt, RetryPolicy, retry};
use tokio_util::sync::CancellationToken;

static POLICY: RetryPolicy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none());
static SLOWLY: RetryPolicy = POLICY.with_deadline(Duration::from_secs(3600));

/// Polls to the end, as often as it takes.
fn drive<F: Future>(future: F) -> F::Output {
    let (mut future, mut cx) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Allocations of `work`, which was warm once.
fn allocations(work: impl Fn()) -> u64 {
    work();
    measure(work).count_total
}

/// Fails that often, then succeeds.
fn after(failures: u32, attempt: resile::Attempt) -> std::future::Ready<Result<u32, u32>> {
    let number = black_box(attempt.number());
    std::future::ready(if number > failures { Ok(number) } else { Err(number) })
}

/// Is pending once, then succeeds.
async fn pends() -> std::io::Result<u32> {
    let mut polled = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(Ok(1)) } else { Poll::Pending })
        .await
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
}

#[test]
fn success_and_three_failures_allocate_nothing() {
    let (token, budget) = (CancellationToken::new(), Budget::new().with_deposit(10.0));
    for failures in [0, 3] {
        assert_eq!(allocations(|| assert!(drive(retry(|n| after(failures, n), &POLICY, Never)).is_ok())), 0);
        let all = || retry(|n| after(failures, n), &SLOWLY, &token).with_budget(&budget);
        assert_eq!(allocations(|| assert!(drive(all()).is_ok())), 0, "with token, deadline and budget");
        let by_hand = || async {
            let mut run = SLOWLY.start(&token).with_budget(&budget);
            for number in 1.. {
                if let Some(value) = run.attempt(after(failures, resile::Attempt::new(number))).await? {
                    return Ok::<_, resile::GaveUp<_>>(value);
                }
            }
            unreachable!("u32::MAX attempts")
        };
        assert_eq!(allocations(|| assert!(drive(by_hand()).is_ok())), 0, "by hand");
    }
    let given_up = || assert!(drive(retry(|n| after(9, n), &POLICY, &token)).is_err());
    assert_eq!(allocations(given_up), 0, "given up");
}

/// The runtime's own timer entries are part of the future.
#[test]
fn a_call_that_waits_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let (token, budget) = (CancellationToken::new(), Budget::new());
    let call = || retry(|_| pends(), &SLOWLY, &token).with_budget(&budget);
    assert_eq!(allocations(|| assert!(drive(call()).is_ok())), 0);
    let limited = || retry(|_| pends().timeout(Duration::from_secs(9)), &SLOWLY, &token);
    assert_eq!(allocations(|| assert!(drive(limited()).is_ok())), 0);
    let by_hand = || async { SLOWLY.start(&token).with_budget(&budget).attempt(pends()).await };
    assert_eq!(allocations(|| assert!(drive(by_hand()).is_ok())), 0);
}

/// A clock of which each sleep is pending once.
struct Blink;

impl resile::Timer for Blink {
    type Sleep = BlinkSleep;

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BlinkSleep {
        BlinkSleep(false)
    }
}

struct BlinkSleep(bool);

impl Future for BlinkSleep {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Nor does a delay, but for what a caller's own timer does.
#[test]
fn delays_allocate_nothing() {
    let (token, budget) = (CancellationToken::new(), Budget::new().with_deposit(10.0));
    let policy = SLOWLY.with_backoff(Backoff::exponential(Duration::from_secs(1)));
    let call = || retry(|n| after(3, n), &policy, &token).with_timer(Blink).with_budget(&budget);
    assert_eq!(allocations(|| assert!(drive(call()).is_ok())), 0);
    let by_hand = || async {
        let mut run = policy.start(&token).with_timer(Blink).with_budget(&budget);
        for number in 1..4 {
            let error = after(3, resile::Attempt::new(number)).await.unwrap_err();
            run.again(error).await.unwrap();
        }
        run.success(true)
    };
    assert_eq!(allocations(|| assert!(drive(by_hand()))), 0);
}
