//! Checks the lease protocol of `resile-redis` in every order of events, and that the checks see
//! broken rules. Prints one line a scenario. Exits with 1 if something is not as it should be.

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
#[path = "../../../crates/resile-redis/src/scale.rs"]
mod scale;
#[path = "../../../crates/resile-redis/src/scripts/mod.rs"]
mod scripts;

mod scenario;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use scenario::{SCENARIOS, Scenario, TWINS};
use stateright::{Checker as _, Model as _};

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

fn main() -> ExitCode {
    let mut ticks = i64::MAX;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => ticks = 3,
            "--help" => {
                println!("usage: lease_model [--quick]");
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("unknown argument `{argument}`: use --quick or nothing");
                return ExitCode::from(2);
            }
        }
    }
    let all = SCENARIOS.iter().map(|it| check(it, ticks));
    let all: Vec<_> = all.chain(TWINS.iter().map(|it| check(it, i64::MAX))).collect();
    if all.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
