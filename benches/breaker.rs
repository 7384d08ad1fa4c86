//! The cost of a closed breaker over the bare call, at one and at two threads.
//! `cargo bench --bench breaker`.

#![allow(missing_docs)] // `criterion_group!` writes a function without them.

mod together;

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use resile::classify::Always;
use resile::time::{Timer, TokioTimer};
use resile::{Backoff, Breaker, Never, RetryPolicy, Upstream, retry};
use together::together;

static STREAKS: Upstream =
    Upstream::new("streaks").with_breaker(Breaker::new().without_failure_rate());
static RATES: Upstream = Upstream::new("rates").with_breaker(Breaker::new());
static POLICY: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

#[allow(clippy::unused_async)]
#[inline(never)]
async fn ok() -> Result<u64, u32> {
    Ok(black_box(1))
}

/// Polls once through a pointer, as an executor does. So the compiler folds away neither the bare
/// call nor a guarded one.
#[allow(clippy::inline_always)]
#[inline(always)]
fn once<F: Future>(future: F) {
    let future = pin!(future);
    let future: Pin<&mut dyn Future<Output = F::Output>> = black_box(future);
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready());
}

fn breakers(c: &mut Criterion) {
    let mut group = c.benchmark_group("breaker");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for threads in [1, 2] {
        let mut bench = |name: &str, work: &(dyn Fn() + Sync)| {
            group.bench_function(format!("{name}, {threads} threads"), |b| {
                b.iter_custom(|calls| together(threads, calls, work));
            });
        };
        bench("the clock alone", &|| assert!(!black_box(TokioTimer::new().now()).is_zero()));
        bench("bare", &|| once(ok()));
        bench("admission, streaks only", &|| STREAKS.try_admit().expect("closed").succeeded());
        bench("call, streaks only", &|| once(STREAKS.call(ok(), Always)));
        bench("call, rate window", &|| once(RATES.call(ok(), Always)));
        bench("retry", &|| once(retry(|_| ok(), &POLICY, Never)));
        bench("retry, streaks only", &|| once(retry(|_| ok(), &POLICY, Never).on(&STREAKS)));
        bench("retry, rate window", &|| once(retry(|_| ok(), &POLICY, Never).on(&RATES)));
    }
    group.finish();
    let allocations = allocation_counter::measure(|| {
        for _ in 0..1000 {
            once(RATES.call(ok(), Always));
        }
    });
    println!("allocations of 1,000 calls: {}", allocations.count_total);
}

criterion_group!(benches, breakers);
criterion_main!(benches);
