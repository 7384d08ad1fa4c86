//! What the parts cost by themselves: a backoff's draw, a budget's deposit. `cargo bench --bench parts`.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use resile::{Backoff, Budget, Jitter};

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
                b.iter(|| backoff.delay(black_box(6), black_box(BASE), &mut rng));
            });
        }
    }
    group.finish();
}

/// `work` on that many threads at once; time per call of one thread.
fn together(threads: usize, calls: u64, work: impl Fn() + Sync) -> Duration {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..calls {
                        work();
                    }
                    began.elapsed()
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).max().unwrap_or_default()
    })
}

fn budgets(c: &mut Criterion) {
    let mut group = c.benchmark_group("budget");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for threads in [1, 2] {
        let full = Budget::new();
        group.bench_function(format!("deposit when full, {threads} threads"), |b| {
            b.iter_custom(|calls| together(threads, calls, || black_box(&full).deposit()));
        });
        let filling = Budget::new().with_capacity(u32::MAX);
        while let Some(retry) = filling.withdraw().filter(|_| filling.available() > u32::MAX / 2) {
            retry.spend();
            if filling.available() < u32::MAX - 1_000_000 {
                break;
            }
        }
        group.bench_function(format!("deposit while filling, {threads} threads"), |b| {
            b.iter_custom(|calls| together(threads, calls, || black_box(&filling).deposit()));
        });
        let busy = Budget::new().with_capacity(1_000_000);
        group.bench_function(format!("withdraw and give back, {threads} threads"), |b| {
            b.iter_custom(|calls| together(threads, calls, || drop(black_box(&busy).withdraw())));
        });
    }
    group.finish();
}

criterion_group!(benches, delays, budgets);
criterion_main!(benches);
