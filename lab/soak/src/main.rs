//! Makes millions of calls with random faults on shared upstreams, and says what was conserved. Run
//! it with:
//!
//! ```text
//! cargo run --release --manifest-path lab/Cargo.toml --bin soak -- --calls 10000000
//! ```

mod call;
mod cli;
mod dice;
mod fuse;
mod host;
mod laws;
mod ledger;
mod memory;
mod operation;
mod panel;
mod tally;
mod worker;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};

use cli::Options;
use host::Book;
use panel::Panel;
use tally::Tally;
use worker::{Loss, Worker};
use world::World;

const LOST: u8 = 1;
const USAGE: u8 = 2;
/// The checks at rest between two checks that each breaker recovers.
const RECOVERS_EACH: u64 = 16;
/// The blocks of memory and the bytes that may be added after the first tenth.
const MOST_BLOCKS: i64 = 64;
const MOST_BYTES: u64 = 4 << 20;

fn main() -> ExitCode {
    match Options::read(std::env::args_os().skip(1)) {
        Ok(options) if options.shows_help => panel::print(cli::HELP),
        Ok(options) => return soak(options),
        Err(wrong) => {
            eprintln!("soak: {wrong}");
            return ExitCode::from(USAGE);
        }
    }
    ExitCode::SUCCESS
}

/// A run of the program.
struct Soak<'w> {
    world: &'w World,
    options: Options,
    next: AtomicU64,
    checks: AtomicU64,
    loss: Mutex<Option<Loss>>,
    panel: Mutex<Panel>,
    tally: Mutex<Tally>,
}

fn soak(options: Options) -> ExitCode {
    let world = World::new(options.seed, options.threads == 1);
    let soak = Soak {
        world: &world,
        options,
        next: AtomicU64::new(0),
        checks: AtomicU64::new(0),
        loss: Mutex::new(None),
        panel: Mutex::new(Panel::new(options.calls)),
        tally: Mutex::new(Tally::default()),
    };
    soak.run_to(options.calls / 10);
    let early = memory::resident();
    let mut blocks = None;
    if options.threads == 1 {
        // Only what this thread allocates is counted.
        let info = allocation_counter::measure(|| soak.run_to(options.calls));
        blocks = Some((info.count_current, info.count_total));
    } else {
        soak.run_to(options.calls);
    }
    soak.report(early, memory::resident(), blocks)
}

impl Soak<'_> {
    /// Makes calls on all threads up to this number.
    fn run_to(&self, calls: u64) {
        let barrier = Barrier::new(usize::try_from(self.options.threads).unwrap_or(1));
        if self.options.threads == 1 {
            return self.work(0, calls, &barrier);
        }
        std::thread::scope(|scope| {
            for thread in 0..self.options.threads {
                let barrier = &barrier;
                scope.spawn(move || self.work(thread, calls, barrier));
            }
        });
    }

    /// Makes calls in rounds. After each round all threads are at rest, and one of them checks.
    fn work(&self, thread: u64, calls: u64, barrier: &Barrier) {
        let mut worker = Worker::new(self.world, thread);
        loop {
            let done = self.next.load(Relaxed);
            barrier.wait();
            let end = (done + self.options.every).min(calls);
            if done >= calls || locked(&self.loss).is_some() {
                break;
            }
            if let Err(loss) = worker.run(&self.next, end) {
                locked(&self.loss).get_or_insert(loss);
            }
            if barrier.wait().is_leader() && locked(&self.loss).is_none() {
                if let Err(words) = self.check() {
                    *locked(&self.loss) = Some(Loss { call: end, words });
                }
                locked(&self.panel).show(end);
            }
            barrier.wait();
        }
        locked(&self.tally).merge(&worker.tally);
    }

    fn check(&self) -> Result<(), laws::Broken> {
        let checks = self.checks.fetch_add(1, Relaxed);
        laws::at_rest(self.world)?;
        if checks.is_multiple_of(RECOVERS_EACH) { laws::recovers(self.world) } else { Ok(()) }
    }

    fn report(
        &self,
        early: Option<u64>,
        late: Option<u64>,
        blocks: Option<(i64, u64)>,
    ) -> ExitCode {
        let panel = locked(&self.panel);
        panel.end();
        let Options { seed, threads, every, .. } = self.options;
        let tally = locked(&self.tally);
        let mut lost = locked(&self.loss).take().map(|loss| {
            format!("LOST at call {} with --seed {seed} --every {every}: {}", loss.call, loss.words)
        });
        if lost.is_none() && tally.started != tally.ended() {
            lost = Some(format!("LOST: {} calls started, {} ended", tally.started, tally.ended()));
        }
        let took = panel.took().as_secs_f64();
        panel::print(&format!("seed {seed}, {threads} threads, {took:.1} s\n{tally}"));
        self.print_hosts();
        let clock = self.world.now().as_secs() / 86_400;
        let jumps = self.world.jumps.load(Relaxed);
        panel::print(&format!("clock      {clock} days in {jumps} steps"));
        let megabytes = |bytes: u64| format!("{}.{} MB", bytes >> 20, (bytes >> 10) % 1024 / 103);
        if let (Some(early), Some(late)) = (early, late) {
            let (from, to) = (megabytes(early), megabytes(late));
            panel::print(&format!("resident   {from} at 10 %, {to} at 100 %"));
            if late > early + MOST_BYTES {
                lost.get_or_insert(format!("LOST: memory grew from {from} to {to}"));
            }
        }
        if let Some((left, all)) = blocks {
            panel::print(&format!("blocks     {left:+} after 10 %, of {all} allocated"));
            if left > MOST_BLOCKS {
                lost.get_or_insert(format!("LOST: {left} blocks of memory are left"));
            }
        }
        let checks = self.checks.load(Relaxed);
        match lost {
            None => panel::print(&format!(
                "conserved at {checks} checks: permits, tokens, reservations, levels, probes, \
                 waiters, sleeps"
            )),
            Some(lost) => {
                panel::print(&lost);
                return ExitCode::from(LOST);
            }
        }
        ExitCode::SUCCESS
    }

    fn print_hosts(&self) {
        for host in &self.world.hosts {
            let Book { begun, paid, operations, dropped_operations, transitions, .. } = &*host.book;
            let [begun, paid, operations, dropped, transitions] =
                [begun, paid, operations, dropped_operations, transitions]
                    .map(|it| it.load(Relaxed));
            panel::print(&format!(
                "{:<10} {begun} attempts, {paid} of them retries or hedges; {operations} operations \
                 began, {dropped} ended; {transitions} transitions",
                host.upstream.name(),
            ));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
