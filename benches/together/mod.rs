//! Runs the same work on several threads at once.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs `work` on a number of threads at once. Returns the slowest thread's time.
pub(crate) fn together(threads: usize, calls: u64, work: impl Fn() + Sync) -> Duration {
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
