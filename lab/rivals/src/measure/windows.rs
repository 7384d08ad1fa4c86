//! Short windows of the contenders in turn, so other load on the machine hits all alike.

use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::{Table, run};
use crate::contender::Contender;
use crate::rows::{Clock, Row};

const WINDOW: Duration = Duration::from_micros(50);
const ROUNDS: usize = 160;

/// Makes one pass over a row: for each contender the median of the quickest quarter of its windows.
pub fn pass(row: &Row, table: &mut Table, runtime: &Runtime) {
    if row.threads == 2 {
        return pass_of_two(row, table, runtime);
    }
    let _inside = (row.clock != Clock::Moving).then(|| runtime.enter());
    let window = |contender: &Contender, calls: u64| {
        let began = Instant::now();
        black_box(run(contender, calls, row.clock, runtime));
        began.elapsed()
    };
    take(row, table, WINDOW, ROUNDS, &window);
}

/// Makes a pass on two threads at once: the slower thread's time, and the median of all windows.
fn pass_of_two(row: &Row, table: &mut Table, runtime: &Runtime) {
    // The task of the other thread: the contender and the number of calls. `usize::MAX` ends the
    // thread.
    let (turn, which, many) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicU64::new(0));
    let (ready, done, took) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let timed = |contender: &Contender, calls: u64| {
        let began = Instant::now();
        black_box(run(contender, calls, row.clock, runtime));
        began.elapsed()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _inside = runtime.enter();
            for next in 1.. {
                wait_for(&turn, next);
                let Some(contender) = row.contenders.get(which.load(Acquire)) else { return };
                ready.store(next, Release);
                let nanos = timed(contender, many.load(Acquire)).as_nanos();
                took.store(u64::try_from(nanos).unwrap_or(u64::MAX), Release);
                done.store(next, Release);
            }
        });
        let _inside = runtime.enter();
        let counter = std::cell::Cell::new(0);
        let window = |contender: &Contender, calls: u64| {
            let index = row
                .contenders
                .iter()
                .position(|other| std::ptr::eq(other, contender))
                .expect("of this row");
            let next = counter.get() + 1;
            counter.set(next);
            which.store(index, Release);
            many.store(calls, Release);
            turn.store(next, Release);
            wait_for(&ready, next);
            let mine = timed(contender, calls);
            wait_for(&done, next);
            mine.max(Duration::from_nanos(took.load(Acquire)))
        };
        take(row, table, 3 * WINDOW, ROUNDS / 2, &window);
        which.store(usize::MAX, Release);
        turn.store(counter.get() + 1, Release);
    });
}

fn wait_for(value: &AtomicU64, wanted: u64) {
    while value.load(Acquire) < wanted {
        std::hint::spin_loop();
    }
}

fn take(
    row: &Row,
    table: &mut Table,
    length: Duration,
    rounds: usize,
    window: &dyn Fn(&Contender, u64) -> Duration,
) {
    let calls: Vec<_> =
        row.contenders.iter().map(|contender| calibrate(contender, length, window)).collect();
    let mut seen = vec![Vec::with_capacity(rounds); calls.len()];
    for round in 0..rounds {
        for step in 0..calls.len() {
            // Another contender goes first in each round.
            let index = (step + round) % calls.len();
            let took = window(&row.contenders[index], calls[index]);
            #[allow(clippy::cast_precision_loss)]
            seen[index].push(took.as_nanos() as f64 / calls[index] as f64);
        }
    }
    for (line, mut windows) in table.lines.iter_mut().zip(seen) {
        windows.sort_by(f64::total_cmp);
        // On one thread the quick windows are the undisturbed ones. On two threads they would be
        // those in which the threads did not meet, and the row measures the meeting.
        line.passes.push(windows[if row.threads == 1 { rounds / 8 } else { rounds / 2 }]);
    }
}

/// Returns how many calls fill a window.
fn calibrate(
    contender: &Contender,
    length: Duration,
    window: &dyn Fn(&Contender, u64) -> Duration,
) -> u64 {
    let mut calls = 16;
    loop {
        let took = (0..3).map(|_| window(contender, calls)).min().unwrap_or_default();
        if took >= length / 4 || calls > 1 << 20 {
            let scaled = u128::from(calls) * length.as_nanos() / took.as_nanos().max(1);
            return u64::try_from(scaled).unwrap_or(u64::MAX).clamp(8, 1 << 20);
        }
        calls *= 2;
    }
}
