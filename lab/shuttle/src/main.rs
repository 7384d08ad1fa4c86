//! Makes whole calls from threads on one upstream under random schedules, and looks for what is lost.
//! Exits with 1 if something is, or if a careless twin is not found.

mod twin;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use lexopt::{Arg, ValueExt as _};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

const HELP: &str = "\
Makes whole calls from threads under random schedules.

  schedules              20,000 schedules of each kind
  schedules --runs N     N schedules of each
  schedules --seed N     from seed N
";

/// The stack of a thread: a call with all its parts is larger than the default of shuttle.
const STACK: usize = 1024 * 1024;
/// The points at which a schedule of the second kind lets a thread of lower priority go on.
const CHANGES: usize = 4;

fn main() -> ExitCode {
    match settings() {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some((runs, seed))) if check(runs, seed) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("schedules: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the number of runs and the seed, or `None` for the help.
fn settings() -> Result<Option<(usize, u64)>, lexopt::Error> {
    let (mut runs, mut seed) = (20_000, 1);
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("runs") => runs = args.value()?.parse()?,
            Arg::Long("seed") => seed = args.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some((runs, seed)))
}

/// Runs the calls and the twins. Returns whether each is as it should be.
fn check(runs: usize, seed: u64) -> bool {
    let mut all = true;
    for threads in [2, 3] {
        let name = format!("calls of {threads} threads");
        all &= is_right(&name, runs, seed, false, move || work::run(threads));
    }
    all &= is_right("twin: a queue that looks and then waits", runs, seed, true, twin::queue);
    all &= is_right("twin: a token that is not given back", runs, seed, true, twin::token);
    all
}

/// Runs something under schedules of both kinds. Returns whether a fault was found as it should be.
fn is_right(
    name: &str,
    runs: usize,
    seed: u64,
    is_twin: bool,
    body: impl Fn() + Clone + Send + Sync + 'static,
) -> bool {
    let began = Instant::now();
    let random = RandomScheduler::new_from_seed(seed, runs);
    let priorities = PctScheduler::new_from_seed(seed, CHANGES, runs);
    let found = fault(random, is_twin, body.clone()).or_else(|| fault(priorities, is_twin, body));
    let is_right = found.is_some() == is_twin;
    let (verdict, seconds) =
        (if is_right { "ok   " } else { "WRONG" }, began.elapsed().as_secs_f64());
    let found = found.map_or("nothing is lost", |_| "found");
    println!("{verdict} {name}: twice {runs} schedules, {seconds:.1} s: {found}");
    is_right
}

/// Runs something under many schedules. Returns the fault of the first one that has one.
fn fault(
    scheduler: impl Scheduler + 'static,
    is_twin: bool,
    body: impl Fn() + Send + Sync + 'static,
) -> Option<()> {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.silence_warnings = true;
    // A schedule that finds a fault is printed, so that it can be run again.
    config.failure_persistence =
        if is_twin { FailurePersistence::None } else { FailurePersistence::Print };
    if is_twin {
        std::panic::set_hook(Box::new(|_| {})); // a twin should fail
    }
    let run = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(body)));
    if is_twin {
        drop(std::panic::take_hook());
    }
    run.err().map(drop)
}
