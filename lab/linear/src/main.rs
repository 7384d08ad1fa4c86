//! Lets threads work on the shared parts, and looks for an order of single steps that explains what
//! each of them was told. Exits with 1 if there is none, or if a careless twin is not found.

mod history;
mod model;
mod subject;

use std::process::ExitCode;

use history::History;
use lexopt::Arg;
use resile::time::ManualTimer;
use subject::{NAMES, Subject, TWIN};

const HELP: &str = "\
Checks that the shared parts are linearisable.

  linear              5,000 histories of each part
  linear --runs N     N histories of each
  linear --seed N     from seed N
";

fn main() -> ExitCode {
    match settings() {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some((runs, seed))) if check(runs, seed) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("linear: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the number of runs and the seed, or `None` for the help.
fn settings() -> Result<Option<(u64, u64)>, lexopt::Error> {
    let (mut runs, mut seed) = (5_000, 1);
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("runs") => runs = number(&mut args)?,
            Arg::Long("seed") => seed = number(&mut args)?,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some((runs, seed)))
}

fn number(args: &mut lexopt::Parser) -> Result<u64, lexopt::Error> {
    use lexopt::ValueExt;
    args.value()?.parse()
}

/// Checks all subjects. Returns whether each is as it should be.
fn check(runs: u64, seed: u64) -> bool {
    let mut all = true;
    for (nth, name) in NAMES.iter().enumerate() {
        let draw = ManualTimer::with_seed(seed);
        let (mut overlaps, mut unexplained) = (0_u64, 0_u64);
        for _ in 0..runs {
            let (subject, model) = Subject::new(nth, &draw);
            let history = History::record(&subject, &draw);
            overlaps += u64::from(history.overlaps());
            if !history.is_explained(model) {
                if unexplained == 0 {
                    println!("{name}: no order explains");
                    history.print();
                }
                unexplained += 1;
            }
        }
        let is_right = (unexplained > 0) == (nth == TWIN);
        let verdict = if is_right { "as it should be" } else { "WRONG" };
        println!(
            "{name}: {runs} histories, {overlaps} with steps at once, {unexplained} without an order: {verdict}"
        );
        all &= is_right;
    }
    all
}
