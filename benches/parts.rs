//! The cost of single parts: a backoff's draw, a budget's deposit, a quota's settlement, a timeout.
//! `cargo bench --bench parts`.

#![allow(missing_docs)] // `criterion_group!` writes a function without them.

mod together;

use std::cell::Cell;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::classify::Always;
use resile::quota::{Cost, Dimension, Rate, Usage};
use resile::time::Timer;
use resile::timeout::Elapsed;
use resile::upstream::Resource;
use resile::{AdaptiveTimeout, Backoff, Budget, Bulkhead, Jitter, Quota, ResilienceExt, Throttle};
use resile::{Upstream, Verdict};
use together::together;

fn delays(c: &mut Criterion) {
    const BASE: Duration = Duration::from_millis(100);
    const STEPS: &[Duration] = &[BASE, BASE, BASE];
    let curves = [
        ("none", Backoff::none()),
        ("fixed", Backoff::fixed(BASE)),
        ("linear", Backoff::linear(BASE)),
        ("exponential", Backoff::exponential(BASE)),
        ("fibonacci", Backoff::fibonacci(BASE)),
        ("steps", Backoff::steps(STEPS)),
        ("custom", Backoff::custom(|n| BASE * n.min(100))),
    ];
    let jitters = [
        ("none", Jitter::None),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("proportional", Jitter::Proportional(0.5)),
        ("decorrelated", Jitter::Decorrelated),
    ];
    let mut group = c.benchmark_group("delay");
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800));
    for (curve, backoff) in curves {
        for (jitter, kind) in jitters {
            let backoff = backoff.with_jitter(kind);
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            group.bench_function(format!("{curve}, jitter {jitter}"), |b| {
                b.iter(|| {
                    backoff.delay(black_box(6), black_box(BASE), |range| rng.random_range(range))
                });
            });
        }
    }
    group.finish();
}

fn budgets(c: &mut Criterion) {
    let mut group = c.benchmark_group("budget");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for threads in [1, 2] {
        let full = Budget::new();
        group.bench_function(format!("deposit when full, {threads} threads"), |b| {
            b.iter_custom(|calls| together(threads, calls, || black_box(&full).deposit()));
        });
        // Each deposit is a millionth of a token, so no run fills it.
        let filling = Budget::new().with_capacity(1_000_000).with_deposit(0.000_001);
        for _ in 0..100_000 {
            assert!(filling.withdraw(), "one of a million");
        }
        group.bench_function(format!("deposit while filling, {threads} threads"), |b| {
            b.iter_custom(|calls| together(threads, calls, || black_box(&filling).deposit()));
        });
        let busy = Budget::new().with_capacity(1_000_000);
        group.bench_function(format!("withdraw and give back, {threads} threads"), |b| {
            b.iter_custom(|calls| {
                together(threads, calls, || {
                    if black_box(&busy).withdraw() {
                        busy.refund();
                    }
                })
            });
        });
    }
    group.finish();
}

/// Measures a timeout around a future that is pending once, and an attempt on an upstream with a
/// learned limit. The latter adds two readings of the clock (the group's own yardstick) and the
/// counting.
fn limits(c: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let mut group = c.benchmark_group("limit");
    let timer = resile::time::TokioTimer::new();
    group.bench_function("two readings of the clock", |b| {
        b.iter(|| (black_box(timer.now()), black_box(timer.now())));
    });
    for threads in [1, 2] {
        let limit = AdaptiveTimeout::new();
        group.bench_function(format!("record, {threads} threads"), |b| {
            b.iter_custom(|calls| {
                together(threads, calls, || {
                    limit.record(Duration::from_secs(1), black_box(Duration::from_millis(120)));
                })
            });
        });
    }
    let upstream = Upstream::new("learns").with_adaptive_timeout(AdaptiveTimeout::new());
    group.bench_function("timeout(Duration)", |b| {
        b.iter(|| drive(pends().timeout(Duration::from_secs(30))));
    });
    group.bench_function("call on an upstream that learns", |b| {
        b.iter(|| drive(upstream.call(pends(), Always)));
    });
    group.finish();
}

/// A timer whose clock costs next to nothing: a microsecond for each reading of a thread.
struct Ticking;

impl Timer for Ticking {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        thread_local!(static NOW: Cell<u64> = const { Cell::new(1) });
        NOW.set(NOW.get() + 1_000);
        Duration::from_nanos(NOW.get())
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
}

/// Compares an attempt on an upstream without parts with one on a bulkhead and on a throttle: the
/// difference is the cost to acquire and to release. The clock is not in it.
fn admissions(c: &mut Criterion) {
    let mut group = c.benchmark_group("admit and release");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    let plain = || Upstream::new("plain").with_timer(Ticking);
    let refused = plain().with_throttle(Throttle::new());
    (0..1_000).for_each(|_| refused.try_admit().expect("no refusal").succeeded());
    refused.try_admit().expect("no refusal").settle(&Verdict::throttled());
    let upstreams = [
        ("no part", plain()),
        ("a fixed bulkhead", plain().with_bulkhead(Bulkhead::new(1_000))),
        ("a learned bulkhead", plain().with_bulkhead(Bulkhead::learned(1_000))),
        ("a throttle", plain().with_throttle(Throttle::new())),
        ("a throttle after a refusal", refused),
    ];
    for threads in [1, 2] {
        for (name, upstream) in &upstreams {
            group.bench_function(format!("{name}, {threads} threads"), |b| {
                b.iter_custom(|calls| {
                    together(threads, calls, || {
                        black_box(upstream).try_admit().expect("there is room").succeeded();
                    })
                });
            });
        }
    }
    group.finish();
}

/// Compares a reservation and its settlement on a process's own quota and under a lease. The usage
/// is zero, so each settlement gives everything back and no run uses the units up.
fn quotas(c: &mut Criterion) {
    const RATE: Rate = Rate::per_second(1_000_000);
    let mut group = c.benchmark_group("quota");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    let cost = Cost::input(10).with_max_output(5);
    for threads in [1, 2] {
        for name in ["own", "leased"] {
            let quota = Quota::new().with_input(RATE).with_tokens(RATE);
            let upstream = Upstream::new("limited").with_quota(quota);
            let shared = (name == "leased").then(|| upstream.share()).flatten();
            for dimension in [Dimension::Input, Dimension::Tokens] {
                if let Some(shared) = &shared {
                    shared.adjust(Resource::Quota(dimension), 1_000_000);
                    shared.extend(Resource::Quota(dimension), Duration::MAX);
                }
            }
            let settle = || {
                let mut admission =
                    black_box(&upstream).at_cost(cost).try_admit().expect("it fits");
                admission.record(Usage::new().with_input(0).with_output(0));
                admission.succeeded();
            };
            group.bench_function(format!("reserve and settle, {name}, {threads} threads"), |b| {
                b.iter_custom(|calls| together(threads, calls, settle));
            });
        }
    }
    group.finish();
}

async fn pends() -> Result<(), Elapsed> {
    let mut polled = false;
    poll_fn(
        |_| if std::mem::replace(&mut polled, true) { Poll::Ready(Ok(())) } else { Poll::Pending },
    )
    .await
}

fn drive<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

criterion_group!(benches, delays, budgets, admissions, quotas, limits);
criterion_main!(benches);
