//! Checks the lease protocol of `resile-redis` in every order of events, that its script on a server
//! answers as the model does, and that the checks see broken rules. Prints one line a scenario. Exits
//! with 1 if something is not as it should be.

#![allow(
    dead_code,
    unused_imports,
    reason = "the files of the crate have more than the model needs"
)]
// The crate is linted by its own rules, for an older Rust.
#![allow(clippy::collapsible_if, clippy::manual_midpoint, clippy::unchecked_time_subtraction)]

#[path = "../../../crates/resile-redis/src/demand.rs"]
mod demand;
#[path = "../../../crates/resile-redis/src/keys.rs"]
mod keys;
#[path = "../../../crates/resile-redis/src/lease/mod.rs"]
mod lease;
#[path = "../../../crates/resile-redis/src/mode.rs"]
mod mode;
#[path = "../../../crates/resile-redis/src/one_line.rs"]
mod one_line;
#[path = "../../../crates/resile-redis/src/scale.rs"]
mod scale;
#[path = "../../../crates/resile-redis/src/scripts/mod.rs"]
mod scripts;
#[path = "../../../crates/resile-redis/tests/support/server.rs"]
mod server;

mod event;
mod scenario;
mod walk;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use lexopt::{Arg, ValueExt as _};
use scenario::{SCENARIOS, Scenario, TWINS};
use server::Server;
use stateright::{Checker as _, Model as _};
use walk::{BROKEN, Walk};

const HELP: &str = "\
Checks the lease protocol of `resile-redis`.

  lease_model             every order of events
  lease_model --quick     the same for at most three ticks
  lease_model --walks N   N random walks, whose exchanges also run on a Redis server
  lease_model --seed N    walks from seed N
";

struct Settings {
    ticks: i64,
    walks: Option<u64>,
    seed: u64,
}

fn main() -> ExitCode {
    let is_right = match settings() {
        Ok(None) => {
            print!("{HELP}");
            true
        }
        Ok(Some(Settings { walks: Some(walks), seed, .. })) => walk(walks, seed),
        Ok(Some(Settings { ticks, .. })) => {
            let all = SCENARIOS.iter().map(|it| check(it, ticks));
            let all: Vec<_> = all.chain(TWINS.iter().map(|it| check(it, i64::MAX))).collect();
            !all.contains(&false)
        }
        Err(error) => {
            eprintln!("lease_model: {error}");
            return ExitCode::from(2);
        }
    };
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the settings, or `None` for the help.
fn settings() -> Result<Option<Settings>, lexopt::Error> {
    let mut settings = Settings { ticks: i64::MAX, walks: None, seed: 1 };
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("quick") => settings.ticks = 3,
            Arg::Long("walks") => settings.walks = Some(args.value()?.parse()?),
            Arg::Long("seed") => settings.seed = args.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(settings))
}

/// Checks one scenario. Returns whether the result is the expected one.
fn check(scenario: &Scenario, ticks: i64) -> bool {
    let began = Instant::now();
    // A run of greedy calls visits few states.
    let ticks = if scenario.is_greedy { ticks.saturating_mul(2) } else { ticks };
    let scenario = Scenario { ticks: scenario.ticks.min(ticks), ..*scenario };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = scenario.checker().threads(threads).spawn_bfs().join();
    let found = checker.discoveries();
    let wrong = found.iter().find(|(name, _)| **name != scenario::REACHED);
    let is_reached = found.contains_key(scenario::REACHED);
    let is_right = wrong.is_some() == scenario.is_twin() && (is_reached || scenario.is_twin());
    println!(
        "{} {:<34} {:>9} states, {:>5.1} s: {}",
        if is_right { "ok    " } else { "WRONG " },
        scenario.name,
        checker.unique_state_count(),
        began.elapsed().as_secs_f64(),
        wrong.map_or("holds", |(name, _)| name),
    );
    if let Some((_, path)) = wrong {
        let end = path.last_state();
        let steps: Vec<_> =
            path.clone().into_actions().iter().map(|it| format!("{it:?}")).collect();
        println!("       {}", steps.join(", "));
        println!("       {} units beyond the limit", end.excess());
    }
    if !is_reached && !scenario.is_twin() {
        println!("       the whole limit is never used, so the scenario shows nothing");
    }
    is_right
}

/// Walks on a server of its own, and then over each broken script. Returns whether the script
/// answered as its model, and no broken script did.
fn walk(walks: u64, seed: u64) -> bool {
    let Some(server) = Server::start(&[]) else { return true };
    let client = redis::Client::open(server.url()).expect("the address of the server");
    let mut connection = client.get_connection().expect("a server that answers");
    let began = Instant::now();
    let mut walker = Walk::new(&mut connection);
    let run: Result<u64, _> = (seed..seed + walks).map(|seed| walker.run(seed)).sum();
    let mut is_right = run.is_ok();
    let seconds = began.elapsed().as_secs_f64();
    match run {
        Ok(exchanges) => println!("ok     {walks} walks, {exchanges} exchanges, {seconds:.1} s"),
        Err(why) => println!("WRONG  {why}"),
    }
    for (name, part, change) in BROKEN {
        let mut walker = Walk::broken(&mut connection, part, change);
        let found = (seed..seed + walks).find_map(|seed| Some(seed).zip(walker.run(seed).err()));
        match &found {
            Some((at, _)) => println!("ok     broken: {name}: found by walk {}", at - seed + 1),
            None => println!("WRONG  broken: {name}: not found"),
        }
        is_right &= found.is_some();
    }
    is_right
}
