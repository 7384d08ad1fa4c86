//! The cost of a `retry` beside the same loop written by hand, in one run.
//!
//! Read the rows as ratios to the `hand` line of their group. Nanoseconds depend on the machine and
//! on addresses in memory. So the closest rows are measured in turn and printed once more at the
//! end. The hand-written loops are fair: each checks, waits and counts like the retry beside it.
//! `cargo bench --bench retry`.

#![allow(missing_docs)] // `criterion_group!` writes a function without them.

mod ratio;

use std::future::{Future, Ready, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use ratio::ratio;
use resile::{Backoff, Budget, Never, RetryPolicy, Upstream, retry};
use tokio_util::sync::CancellationToken;

static POLICY: RetryPolicy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none());
static SLOWLY: RetryPolicy = POLICY.with_total_timeout(Duration::from_secs(3600));
/// The policy of a program that sets all limits.
static LIMITED: RetryPolicy = SLOWLY.with_attempt_timeout(Duration::from_secs(60));
/// Each success pays for all retries of a call, so none is denied.
static PAID: Upstream = Upstream::new("paid").with_budget(Budget::new().with_deposit(10.0));

/// Is pending once, then succeeds.
async fn pends() -> Result<u64, u32> {
    let mut polled = false;
    poll_fn(|_| {
        if std::mem::replace(&mut polled, true) {
            Poll::Ready(Ok(black_box(1)))
        } else {
            Poll::Pending
        }
    })
    .await
}

/// The usual loop: attempts, a delay, a sleep if there is a delay.
async fn by_hand<F: Future<Output = Result<u64, u32>>>(
    mut op: impl FnMut() -> F,
) -> Result<u64, u32> {
    let mut attempt = 1;
    loop {
        match op().await {
            Ok(value) => return Ok(value),
            Err(error) if attempt >= black_box(5) => return Err(error),
            Err(_) => {
                let delay = black_box(Duration::ZERO);
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                attempt += 1;
            }
        }
    }
}

/// The loop with a token. It checks the token before each attempt and races it against attempts and
/// sleeps.
async fn by_hand_token<F: Future<Output = Result<u64, u32>>>(
    mut op: impl FnMut() -> F,
    token: &CancellationToken,
) -> Result<u64, Option<u32>> {
    let (mut attempt, mut last) = (1, None);
    loop {
        if token.is_cancelled() {
            return Err(last);
        }
        let outcome = {
            let mut work = pin!(op());
            let mut cancelled = pin!(None);
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                if cancelled.is_none() {
                    cancelled.set(Some(token.cancelled()));
                }
                cancelled
                    .as_mut()
                    .as_pin_mut()
                    .map_or(Poll::Pending, |stop| stop.poll(cx))
                    .map(|()| None)
            })
            .await
        };
        match outcome {
            None => return Err(last),
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) if attempt >= black_box(5) => return Err(Some(error)),
            Some(Err(error)) => {
                last = Some(error);
                let delay = black_box(Duration::ZERO);
                if !delay.is_zero() {
                    tokio::select! { biased; () = tokio::time::sleep(delay) => (), () = token.cancelled() => return Err(last) }
                }
                attempt += 1;
            }
        }
    }
}

/// The first loop inside tokio's own timeout.
async fn by_hand_deadline<F: Future<Output = Result<u64, u32>>>(
    op: impl FnMut() -> F,
) -> Result<u64, Option<u32>> {
    match tokio::time::timeout(Duration::from_secs(3600), by_hand(op)).await {
        Ok(outcome) => outcome.map_err(Some),
        Err(_) => Err(None),
    }
}

/// Polls to the end on this thread, through a pointer as an executor does. So no runtime adds its
/// cost, and the loop is not folded into the caller. It is inlined, so futures are made where they
/// are polled, as with `.await`.
#[allow(clippy::inline_always)]
#[inline(always)]
fn drive<F: Future>(future: F) -> F::Output {
    let future = pin!(future);
    let mut future: Pin<&mut dyn Future<Output = F::Output>> = black_box(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// Benchmarks one group: `$op` by the hand-written loops and by `retry`.
macro_rules! group {
    ($c:expr, $name:literal, $op:expr) => {{
        let token = CancellationToken::new();
        let mut group = $c.benchmark_group($name);
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
        group.bench_function("hand", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(by_hand(|| op(())))
            })
        });
        group.bench_function("retry", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(retry(|_| op(()), &POLICY, Never))
            })
        });
        group.bench_function("retry+budget", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(retry(|_| op(()), &POLICY, Never).on(&PAID))
            })
        });
        group.bench_function("hand+token", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(by_hand_token(|| op(()), &token))
            })
        });
        group.bench_function("retry+token", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(retry(|_| op(()), &POLICY, &token))
            })
        });
        group.bench_function("hand+deadline", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(by_hand_deadline(|| op(())))
            })
        });
        group.bench_function("retry+deadline", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(retry(|_| op(()), &SLOWLY, Never))
            })
        });
        group.bench_function("retry+token+deadline+budget", |b| {
            b.iter(|| {
                #[allow(unused_mut)]
                let mut op = $op;
                drive(retry(|_| op(()), &SLOWLY, &token).on(&PAID))
            })
        });
        group.finish();
    }};
}

fn paths(c: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();

    c.bench_function("bare future", |b| b.iter(|| drive(ok())));
    group!(c, "happy", |()| ok());
    group!(c, "pending once", |()| pends());
    group!(c, "three failures", fails_thrice());
    c.bench_function("clock", |b| b.iter(Instant::now));
    ratios();
    allocations();
}

#[allow(clippy::unused_async)]
#[inline(never)]
async fn ok() -> Result<u64, u32> {
    Ok(black_box(1))
}

/// Prints `retry` beside the loop by hand. These ratios are steadier than two rows of a table.
fn ratios() {
    let token = CancellationToken::new();
    macro_rules! print {
        ($name:literal, $op:expr) => {{
            let hand: ratio::Calls<'_> = &mut |calls| {
                for _ in 0..calls {
                    #[allow(unused_mut)]
                    let mut op = $op;
                    let _ = black_box(drive(by_hand(|| op(()))));
                }
            };
            let ours: ratio::Calls<'_> = &mut |calls| {
                for _ in 0..calls {
                    #[allow(unused_mut)]
                    let mut op = $op;
                    let _ = black_box(drive(retry(|_| op(()), &POLICY, Never)));
                }
            };
            println!("ratio to the loop by hand, {}: {:.2}", $name, ratio(hand, ours));
            let hand: ratio::Calls<'_> = &mut |calls| {
                for _ in 0..calls {
                    #[allow(unused_mut)]
                    let mut op = $op;
                    let _ = black_box(drive(by_hand_token(|| op(()), &token)));
                }
            };
            let ours: ratio::Calls<'_> = &mut |calls| {
                for _ in 0..calls {
                    #[allow(unused_mut)]
                    let mut op = $op;
                    let _ = black_box(drive(retry(|_| op(()), &POLICY, &token)));
                }
            };
            println!("ratio to the loop by hand, {}, token: {:.2}", $name, ratio(hand, ours));
        }};
    }
    print!("happy", |()| ok());
    print!("pending once", |()| pends());
    print!("three failures", fails_thrice());
}

/// Makes an operation with three errors and then a success. None of them is pending.
fn fails_thrice() -> impl FnMut(()) -> Ready<Result<u64, u32>> {
    let mut left = 3;
    move |()| {
        if left == 0 {
            return ready(Ok(black_box(1)));
        }
        left -= 1;
        ready(Err(black_box(left)))
    }
}

/// Prints the allocations, which are no timing. A test checks the zeros.
fn allocations() {
    let token = CancellationToken::new();
    let count = |name: &str, run: &dyn Fn()| {
        run();
        println!("allocations, {name}: {}", allocation_counter::measure(run).count_total);
    };
    count("happy", &|| drop(drive(retry(|_| ok(), &POLICY, Never))));
    count("happy, token, deadline, budget", &|| {
        drop(drive(retry(|_| ok(), &SLOWLY, &token).on(&PAID)));
    });
    count("three failures, token, deadline, budget", &|| {
        let mut left = 3;
        drop(drive(
            retry(
                |_| {
                    let e = left > 0;
                    left -= i32::from(e);
                    async move { if e { Err(1_u32) } else { Ok(1) } }
                },
                &SLOWLY,
                &token,
            )
            .on(&PAID),
        ));
    });
    count("pending once, token, deadline", &|| drop(drive(retry(|_| pends(), &SLOWLY, &token))));
    count("happy, token, deadline, attempt timeout", &|| {
        drop(drive(retry(|_| ok(), &LIMITED, &token)));
    });
    count("happy, token, deadline, attempt timeout, budget", &|| {
        drop(drive(retry(|_| ok(), &LIMITED, &token).on(&PAID)));
    });
    let (alone, paid) =
        (retry(|_| ok(), &LIMITED, &token), retry(|_| ok(), &LIMITED, &token).on(&PAID));
    println!(
        "bytes of the future with a token, a deadline and an attempt timeout: {}",
        size_of_val(&alone)
    );
    println!("the same on an upstream: {}", size_of_val(&paid));
}

criterion_group!(benches, paths);
criterion_main!(benches);
